"""The end of a command: one message at most, and the exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import click

from tuner.app.writing import cannot_write, is_hosts
from tuner.cli.commands import cli, resume_command
from tuner.cli.streams import Streams, prepare
from tuner.errors import EXIT_BUG, EXIT_OK, HostError, Interrupted, StoreError, TunerError

_EXIT_USAGE = 2
_FEW_FILES = 16
"""Files that a command closes on its way to the last handler, at most."""
COMPLETION = "_TUNER_COMPLETE"
"""Environment variable with which shells ask for completion (click's protocol)."""
_FINALIZER_S = 0.01
"""Time after which a finalizer has probably ended."""
_UNMAPPED = "failed to map segment from shared object"
"""Words of the C library for a library without room in memory, or in a file system with noexec."""
_NO_THREAD = "can't start new thread"
"""CPython's words for a thread without room in memory, or beyond the limit of processes."""
_STOPPED_IMPORTS: list[str] = []
"""Words for the signals that came during an import.

An extension module may turn the handler's exception into one of its own, as NumPy's does, which
would look like a bug.
"""


def run() -> int:
    """Run the command of ``sys.argv`` and return its exit code."""
    if COMPLETION in os.environ:
        import tuner.cli.bash  # noqa: F401 - it registers itself
    streams = prepare()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup ignores SIGHUP, and so does tuner then.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    with _Finalizers():
        code = _called(streams)
    failure = streams.output_error()
    if isinstance(failure, BrokenPipeError):
        # The reader closed the pipe (`| head`). Click replaces the stream and exits with 1.
        code = code if sys.stdout is streams.output else EXIT_OK
    elif failure is not None and code == EXIT_OK:
        code = _say(cannot_write(failure, "standard output"))
    streams.discard()
    return code


def _called(streams: Streams) -> int:
    """Call the command, report an exception, and return the exit code."""
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
        code = _stopped(str(stopped))
    except TunerError as error:
        code = _say(error)
    except OSError as error:
        code = _os_error(error, streams)
    except Exception as error:  # noqa: BLE001 - the last handler
        code = _last_resort(error)
    return code if isinstance(code, int) else EXIT_OK


def _os_error(error: OSError, streams: Streams) -> int:
    """Report an error of the operating system and return the exit code."""
    if streams.output_error() is not None or isinstance(error, BrokenPipeError):
        return EXIT_OK
    if error.errno == errno.ENOENT and not _has_current_folder():
        return _say(HostError("the current folder has been removed; change to another one"))
    if error.errno == errno.ENOENT and (gone := _missing_folder(error)):
        words = f"{gone} has been removed while tuner used it; start the command again"
        return _say(HostError(words))
    if error.errno == errno.ENOENT and "usable temporary directory" in str(error):
        return _say(HostError(f"{error.strerror}; make room in one, or set TMPDIR"))
    if is_hosts(error):
        return _say(cannot_write(error, what="cannot be used"))
    return _unforeseen(error)


def _has_current_folder() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _missing_folder(error: OSError) -> Path | None:
    """Return the topmost folder that is missing of the file that an error names."""
    name = error.filename if isinstance(error.filename, str) else ""
    missing = [folder for folder in Path(name).parents if not folder.exists()]
    return missing[-1] if missing else None


def _last_resort(error: Exception) -> int:
    """Report an exception that no code expects, and return the exit code."""
    # First, because the other questions need memory.
    if words := _shortage(error):
        return _say_resumable(HostError, words)
    if _STOPPED_IMPORTS:
        return _stopped(_STOPPED_IMPORTS[-1])
    if _is_out_of_files():
        # A library may turn the error into one of its own, as Alembic does into an assertion.
        return _say_resumable(HostError, "too many open files; raise the limit (ulimit -n)")
    if isinstance(error, ImportError) and _UNMAPPED in str(error):
        return _say_resumable(
            HostError,
            f"{error}; if memory is short, end other programs or raise the limit (ulimit -v); a"
            " library cannot be on a file system with noexec",
        )
    if "sqlalchemy" in sys.modules:
        from tuner.store.storage import failed_file

        if words := failed_file(error):
            text = f"the record cannot be read or written: {words}; look at its disk (dmesg)"
            return _say_resumable(StoreError, text)
    return _unforeseen(error)


def _shortage(error: BaseException | None) -> str:
    """Return words for an error from a lack of memory or threads, empty for another error."""
    if isinstance(error, MemoryError):
        return "out of memory; end other programs, or raise the limit (ulimit -v)"
    if _NO_THREAD in str(error):
        limits = "the limits of memory and processes (ulimit -v, ulimit -u)"
        return f"no thread can be started; end other programs, or raise {limits}"
    return ""


def _is_out_of_files() -> bool:
    """Return whether the limit of open files is reached, or was before some were closed."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        count = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - pathlib may need an import
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return limit - count < _FEW_FILES


def _unforeseen(error: Exception) -> int:
    from tuner.cli.unforeseen import report

    _print(report(error, sys.argv[1:]))
    return EXIT_BUG


def _stop(number: int, frame: FrameType | None) -> None:
    """Handle a signal that ends the command.

    Raises:
        KeyboardInterrupt: by SIGINT.
        Interrupted: by another one.
    """
    words = "" if number == signal.SIGINT else "terminated"
    if _is_importing(frame):
        _STOPPED_IMPORTS.append(words)
    _raise(words, frame)


def _raise(words: str, frame: FrameType | None) -> None:
    """Raise the exception of a signal in a frame, or later if Python would drop it there."""
    if any(code is _Finalizers.__call__.__code__ for code in _stack(frame)):
        _raise_later(words)
    else:
        raise Interrupted(words) if words else KeyboardInterrupt


def _raise_later(words: str) -> None:
    """Raise the exception of a signal once a finalizer has probably ended.

    A timer of the kernel needs no thread, whose start another signal could interrupt.
    """
    signal.signal(signal.SIGALRM, lambda _, frame: _raise(words, frame))
    signal.setitimer(signal.ITIMER_REAL, _FINALIZER_S)


def _is_importing(frame: FrameType | None) -> bool:
    return any(code.co_filename.startswith("<frozen importlib") for code in _stack(frame))


def _stack(frame: FrameType | None) -> Iterator[CodeType]:
    """Yield the code of a frame and of its callers."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


class _Finalizers:
    """A hook for exceptions of finalizers that lets signals end the command nevertheless.

    Python prints exceptions of finalizers with a traceback and drops them, so the command would go
    on (https://docs.python.org/3/library/sys.html#sys.unraisablehook). So it does with exceptions
    of libraries in C, such as of gRPC where no thread can be started: a line is enough there.
    """

    def __enter__(self) -> None:
        self._others, sys.unraisablehook = sys.unraisablehook, self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._others

    def __call__(self, unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt | Interrupted):
            _raise_later(str(unraisable.exc_value))
        elif words := _shortage(unraisable.exc_value):
            _print(f"tuner: {words}")
        else:
            self._others(unraisable)


def _stopped(words: str) -> int:
    """Report the end by a signal and return the exit code."""
    return _say_resumable(Interrupted, words or "interrupted")


def _say_resumable(kind: type[TunerError], words: str) -> int:
    """Print the message of an error and how to resume, and return its exit code."""
    return _say(kind(words + resume_command(sys.argv[1:])))


def _say(error: TunerError) -> int:
    """Print the message of an error and return its exit code."""
    _print(f"tuner: {error}")
    return error.exit_code


def _print(text: str) -> None:
    from tuner.words.terminal import wrapped

    lines = wrapped(text, 0, 2) if "\n" not in text else [text]
    with contextlib.suppress(OSError):
        click.echo("\n".join(lines), err=True)
