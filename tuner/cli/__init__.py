"""The command line: thin commands, one error handler, exit codes as in ``tuner.errors``.

This module imports almost nothing, so that it handles Ctrl-C during the imports too.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and end the process."""
    interrupted = 130
    # For NumPy's OpenBLAS, which reads it while it is imported. The matrices here are small: its
    # threads gain nothing and spin on the cores that are measured.
    # https://github.com/OpenMathLib/OpenBLAS#setting-the-number-of-threads-at-runtime
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from tuner.cli.ending import run

        code = run()
    except KeyboardInterrupt:
        # Ctrl-C during an import, or a second one while the first is handled.
        code = interrupted
    if code == interrupted:
        # Another Ctrl-C while Python shuts down ends the process quietly.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)
