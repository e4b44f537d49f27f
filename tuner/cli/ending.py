"""The end of a command: one message at most, and the exit code."""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
from pathlib import Path
from types import FrameType

import click

from tuner.app.writing import cannot_write, is_hosts
from tuner.cli.commands import cli, resume_command
from tuner.cli.streams import Streams, prepare
from tuner.errors import EXIT_BUG, EXIT_OK, HostError, Interrupted, TunerError

_EXIT_USAGE = 2


def run() -> int:
    """Run the command of ``sys.argv`` and return its exit code."""
    streams = prepare()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Ignored under nohup, and it stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminated)
    code = _answered(streams)
    lost = streams.output_error()
    if isinstance(lost, BrokenPipeError):
        # The reader has seen enough (`| head`). Click replaces the stream and ends with 1.
        code = code if sys.stdout is streams.output else EXIT_OK
    elif lost is not None and code == EXIT_OK:
        code = _say(cannot_write(lost, "standard output"))
    streams.discard()
    return code


def _answered(streams: Streams) -> int:
    """Call the command, and turn its exceptions into messages and exit codes."""
    try:
        code = cli.main(standalone_mode=False)
    except SystemExit as done:
        code = done.code
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as wrong:
        with contextlib.suppress(OSError):
            wrong.show()
        code = _EXIT_USAGE
    except (KeyboardInterrupt, click.Abort, Interrupted) as stopped:
        words = str(stopped) or "interrupted"
        code = _say(Interrupted(words + resume_command(sys.argv[1:])))
    except TunerError as error:
        code = _say(error)
    except OSError as error:
        code = _of_the_host(error, streams)
    except Exception as error:  # noqa: BLE001 - the last handler
        code = _unforeseen(error)
    return code if isinstance(code, int) else EXIT_OK


def _of_the_host(error: OSError, streams: Streams) -> int:
    """Return answer what the operating system refuses, wherever it was asked."""
    if streams.output_error() is not None:
        return EXIT_OK
    if streams.messages_error() is not None:
        # Nobody would read a message.
        return EXIT_OK if isinstance(error, BrokenPipeError) else HostError.exit_code
    if isinstance(error, BrokenPipeError):
        return EXIT_OK
    if error.errno == errno.ENOENT and not _stands_somewhere():
        return _say(HostError("the current folder has been removed; change to another one"))
    if error.errno == errno.ENOENT and "usable temporary directory" in str(error):
        return _say(HostError(f"{error.strerror}; make room in one, or set TMPDIR"))
    if is_hosts(error):
        return _say(cannot_write(error, what="cannot be used"))
    return _unforeseen(error)


def _stands_somewhere() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _unforeseen(error: Exception) -> int:
    from tuner.cli.unforeseen import report

    _print(report(error, sys.argv[1:]))
    return EXIT_BUG


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted("terminated")


def _say(error: TunerError) -> int:
    """Print a message and return the exit code that goes with it."""
    _print(f"tuner: {error}")
    return error.exit_code


def _print(text: str) -> None:
    from tuner.words.terminal import wrapped

    lines = wrapped(text, 0, 2) if "\n" not in text else [text]
    with contextlib.suppress(OSError):
        click.echo("\n".join(lines), err=True)
