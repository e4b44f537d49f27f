"""The command line: thin commands, one error handler, exit codes as in ``tuner.errors``.

This module imports almost nothing, so that it handles Ctrl-C during the imports too.
"""

from __future__ import annotations

import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and end the process."""
    interrupted = 130
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
