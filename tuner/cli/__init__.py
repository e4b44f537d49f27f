"""The command line: thin commands, one error handler, exit codes as in ``tuner.errors``.

This module imports almost nothing, so that Ctrl-C during an import is answered like any other.
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
        # During an import, or again while the first one was answered.
        code = interrupted
    if code == interrupted:
        # Once more while Python shuts down: end quietly.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)
