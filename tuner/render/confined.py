"""Rendering of the user's own templates in a process with limits of time and memory.

A template is a program: ``{{ 'a' * 10**10 }}`` takes all memory, and three nested loops never end.
One process serves all templates of a run. It ends with this one, or at a limit; then the next
template starts another.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import resource
import selectors
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

from tuner.errors import DefinitionError
from tuner.reading.inputs import DEFINITION_BYTES, read_input_text
from tuner.render.engine import Job, RenderedText, Source, write
from tuner.space.space import Space

MEMORY_BYTES = 256 << 20
"""Memory limit for rendering one configuration."""
CPU_S = 5
"""CPU time limit for rendering one configuration."""
TEXT_BYTES = 16 << 20
"""Size limit for the output of a template."""
_WALL_S = 120.0
"""Time after which the process is killed; much more than its CPU time on a busy host."""
_SIZE = struct.Struct("!Q")


def own_sources(template: str, space: Space) -> tuple[Source, ...]:
    """Read the template of a space, and its further templates.

    Raises:
        DefinitionError: one of them is missing, too large, or outside of the folder.
    """
    folder = space.path.parent
    return tuple(_source(name, folder) for name in dict.fromkeys((template, *space.templates)))


def _source(name: str, folder: Path) -> Source:
    path = folder / name
    # A link, or a path with .., could leave the folder of its owner.
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DefinitionError(
            f"{name!r} is outside of the folder {folder}; put it into that folder",
            path=f"template {name}",
        )
    if not path.exists():
        raise DefinitionError(f"there is no template {name!r}", path=f"template {name}")
    return Source(name, str(path), read_input_text(path, DEFINITION_BYTES))


def write_confined(job: Job) -> RenderedText:
    """Render a configuration in the process with limits.

    Raises:
        DefinitionError: the template is wrong, or exceeds a limit.
    """
    reply = _WRITER.ask(pickle.dumps((job, CPU_S)))
    if reply is None:
        raise DefinitionError(
            f"takes more than {CPU_S} s of CPU time, or ends its process; make it simpler",
            path=f"template {job.template}",
        )
    answer = json.loads(reply)
    if "message" in answer:
        raise DefinitionError(answer["message"], path=answer["path"], line=answer["line"])
    return RenderedText(answer["text"], frozenset(answer["used"]))


class _Writer:
    """The rendering process, which starts at its first use."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ask(self, request: bytes) -> bytes | None:
        """Return the process's answer; None if it reached a limit."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self.end()
            if self._process is None:
                self._process = _start()
            answer = None
            try:
                answer = _exchange(self._process, request)
            finally:
                if answer is None:
                    self.end()
            return answer

    def end(self) -> None:
        """End the process, if it is running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


_WRITER = _Writer()
atexit.register(_WRITER.end)


def _start() -> subprocess.Popen[bytes]:
    # The safe path prevents imports from the working directory. Its own session keeps Ctrl-C for
    # tuner.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tuner.render.confined"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes | None:
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    try:
        process.stdin.write(_SIZE.pack(len(request)) + request)
        process.stdin.flush()
    except BrokenPipeError:
        return None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(_WALL_S):
            return None
    head = process.stdout.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    body = process.stdout.read(size)
    return body if len(body) == size else None


def main() -> None:
    """Answer requests on standard input until it ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Any output that a template prints is not an answer.
    os.dup2(2, 1)
    while len(head := requests.read(_SIZE.size)) == _SIZE.size:
        job, cpu_s = pickle.loads(requests.read(_SIZE.unpack(head)[0]))  # noqa: S301 - the parent's
        _send(answers, json.dumps(_answer(job, cpu_s)).encode())


def _answer(job: Job, cpu_s: int) -> dict[str, Any]:
    where = f"template {job.template}"
    try:
        with _Limits(cpu_s):
            written = write(job)
    except DefinitionError as error:
        return {"message": error.message[:1000], "path": error.path, "line": error.line}
    except MemoryError:
        return {
            "message": f"takes more than {MEMORY_BYTES >> 20} MB of memory; make it simpler",
            "path": where,
            "line": None,
        }
    if len(written.text) > TEXT_BYTES:
        message = f"writes {len(written.text):,} characters; at most {TEXT_BYTES:,} are taken"
        return {"message": message, "path": where, "line": None}
    return {"text": written.text, "used": sorted(written.used)}


class _Limits:
    """Limits of memory and CPU time, in addition to the process's current use."""

    def __init__(self, cpu_s: int) -> None:
        self._cpu_s = cpu_s

    def __enter__(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        self._set(
            pages * resource.getpagesize() + MEMORY_BYTES,
            int(used.ru_utime + used.ru_stime) + 1 + self._cpu_s,
        )

    def __exit__(self, *_: object) -> None:
        self._set(resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    @staticmethod
    def _set(memory_bytes: int, cpu_s: int) -> None:
        for kind, wanted in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, cpu_s)):
            hard = resource.getrlimit(kind)[1]
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted % (1 << 63), hard)
            resource.setrlimit(kind, (soft, hard))


def _send(answers: IO[bytes], body: bytes) -> None:
    answers.write(_SIZE.pack(len(body)) + body)
    answers.flush()


if __name__ == "__main__":
    main()
