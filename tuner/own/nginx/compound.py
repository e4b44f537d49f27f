"""Parameters that are more than one directive of one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.own.bound import UnplaceableError
from tuner.own.nginx.edits import Edit, Set
from tuner.own.nginx.places import ContextLevel, NginxScope, Pair, Plain, agreed, removed, spots
from tuner.own.nginx.serving import NginxServing
from tuner.own.nginx.tree import Directive
from tuner.reading.located import format_size, parse_integer, parse_size


@dataclass(frozen=True, slots=True)
class WorkerProcesses:
    """``auto`` counts the CPUs that are online, which is how many the server has to itself."""

    names: tuple[str, ...] = ("worker_processes",)

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        found = Plain("worker_processes", "main").read(scope)["worker_processes"]
        return {"worker_processes": str(scope.facts.server_cores) if found == "auto" else found}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        return Plain("worker_processes", "main").edits(scope, wanted)


@dataclass(frozen=True, slots=True)
class WorkerAffinity:
    """``auto``, or no directive."""

    names: tuple[str, ...] = ("worker_cpu_affinity",)

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        (spot,) = spots(scope.serving, "main")
        found = spot.found("worker_cpu_affinity")
        if not found:
            return {"worker_cpu_affinity": "none"}
        if found[-1].args[0] != "auto":
            raise UnplaceableError(f"{found[-1].where} binds workers to CPUs by masks of your own")
        return {"worker_cpu_affinity": "auto"}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        (spot,) = spots(scope.serving, "main")
        if wanted.get("worker_cpu_affinity") == "auto":
            yield spot.put("worker_cpu_affinity", "auto")
        elif "worker_cpu_affinity" in wanted:
            yield from removed(spot.found("worker_cpu_affinity"))


@dataclass(frozen=True, slots=True)
class WorkerConnections:
    """``worker_connections``, with the limit of open files that it needs."""

    names: tuple[str, ...] = ("worker_connections",)

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        return Plain("worker_connections", "events").read(scope)

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        yield from Plain("worker_connections", "events").edits(scope, wanted)
        count = int(wanted.get("worker_connections", "0"))
        (spot,) = spots(scope.serving, "main")
        limits = [int(found.args[0]) for found in spot.found("worker_rlimit_nofile")]
        # The usual limit is 1024; a connection may need a second file for what it sends.
        if count > 1024 and (not limits or limits[-1] < 2 * count):
            yield spot.put("worker_rlimit_nofile", str(2 * count))


@dataclass(frozen=True, slots=True)
class AccessLog:
    """The buffer of the logs that the workload's requests are written to."""

    names: tuple[str, ...] = ("access_log_buffer", "access_log_flush")

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        buffers: dict[Directive | None, str | None] = {}
        flushes: dict[Directive | None, str | None] = {}
        for log in _logs(scope.serving):
            words = _options(log.args[2:])
            buffers[log] = words.get("buffer", "64k" if "gzip" in words else "0")
            flushes[log] = words.get("flush")
        return {"access_log_buffer": agreed(buffers), "access_log_flush": agreed(flushes)}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        size, flush = (wanted.get(name) for name in self.names)
        if size is None:
            return
        for log in _logs(scope.serving):
            path, *rest = log.words[1:]
            # The second word is the name of the format.
            form, others = (rest[0], rest[1:]) if rest else ("combined", [])
            kept = [w for w in others if w.partition("=")[0] not in ("buffer", "flush", "gzip")]
            packed = [w for w in others if w.partition("=")[0] == "gzip" and size != "0"]
            new = [] if size == "0" else [f"buffer={size}", *([f"flush={flush}"] if flush else [])]
            short = not rest and not new
            yield Set(log, (path,) if short else (path, form, *packed, *new, *kept))


def _logs(serving: NginxServing) -> list[Directive]:
    """Return the access logs that can be buffered.

    Raises:
        UnplacedError: there is none.
    """
    found = {log.key: log for spot in spots(serving, "request") for log in spot.found("access_log")}
    if not found:
        raise UnplaceableError("no access_log directive says where the log goes")
    # Nginx cannot buffer what goes to syslog, nor a path that is put together for each request.
    logs = [
        log
        for log in found.values()
        if log.args[0] != "off" and not log.args[0].startswith("syslog:") and "$" not in log.args[0]
    ]
    if not logs:
        first = next(iter(found.values()))
        raise UnplaceableError(f"{first.where} writes no log that could be buffered")
    return logs


def _options(words: tuple[str, ...]) -> dict[str, str]:
    """Return ``buffer=64k`` as ``{"buffer": "64k"}``."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


@dataclass(frozen=True, slots=True)
class OpenFileCache:
    """``open_file_cache max=1000 inactive=60s``, or ``off``."""

    names: tuple[str, ...] = ("open_file_cache", "open_file_cache_inactive")

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        most: dict[Directive | None, str | None] = {}
        idle: dict[Directive | None, str | None] = {}
        for spot in spots(scope.serving, "request"):
            found = spot.found("open_file_cache")
            at = found[-1] if found else None
            words = _options(at.args) if at else {}
            most[at] = "off" if "off" in words else words.get("max")
            idle[at] = words.get("inactive")
        return {"open_file_cache": agreed(most), "open_file_cache_inactive": agreed(idle)}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        most, idle = (wanted.get(name) for name in self.names)
        if most is None:
            return
        words = ["off"] if most == "off" else [f"max={most}"]
        if most != "off" and idle is not None:
            words.append(f"inactive={idle}")
        for spot in spots(scope.serving, "request"):
            yield spot.put("open_file_cache", *words)


@dataclass(frozen=True, slots=True)
class AnswerBuffers:
    """The buffers of an answer from behind, with the sizes that must fit them.

    Nginx refuses a ``proxy_busy_buffers_size`` below the largest buffer or above all of
    ``proxy_buffers`` but one, and a ``proxy_temp_file_write_size`` below the largest buffer
    (ngx_http_proxy_merge_loc_conf); both are changed only where they would be refused. The same
    holds for FastCGI, uwsgi and SCGI.
    """

    level: ContextLevel = "proxy"
    """Protocol, which begins the names of the directives."""

    @property
    def names(self) -> tuple[str, str, str]:
        """Implement ``BoundGroup``."""
        before = self.level
        return f"{before}_buffer_size", f"{before}_buffers_number", f"{before}_buffers_size"

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        return {**self._size.read(scope), **self._pair.read(scope)}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        if not all(name in wanted for name in self.names):
            return
        yield from self._size.edits(scope, wanted)
        yield from self._pair.edits(scope, wanted)
        first, each = parse_size(wanted[self.names[0]]), parse_size(wanted[self.names[2]])
        largest, most = max(first, each), (parse_integer(wanted[self.names[1]]) - 1) * each
        busy_size, write_size = (
            f"{self.level}_{name}" for name in ("busy_buffers_size", "temp_file_write_size")
        )
        for spot in spots(scope.serving, self.level):
            said = [parse_size(found.args[0]) for found in spot.found(busy_size)]
            busy = said[-1] if said else 2 * largest
            if not largest <= busy <= most:
                yield spot.put(busy_size, format_size(min(2 * largest, most)))
            written = spot.found(write_size)
            if written and parse_size(written[-1].args[0]) < largest:
                yield spot.put(write_size, format_size(2 * largest))

    @property
    def _size(self) -> Plain:
        return Plain(self.names[0], self.level)

    @property
    def _pair(self) -> Pair:
        return Pair((self.names[1], self.names[2]), f"{self.level}_buffers", self.level)
