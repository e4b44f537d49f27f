"""Parameters of TLS sessions, of the kernel's TLS, and of threads that read files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.own.bound import UnplaceableError
from tuner.own.nginx.edits import Edit, Insert, Set
from tuner.own.nginx.places import NginxScope, removed, spots
from tuner.own.nginx.serving import NginxServing
from tuner.own.nginx.tree import Directive

_ZONE = "tuner"
"""Name of a new zone, which the user's files do not use."""


@dataclass(frozen=True, slots=True)
class SessionCache:
    """``ssl_session_cache shared:NAME:10m``: the size of the zone at all of its uses."""

    names: tuple[str, ...] = ("ssl_session_cache",)

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        (spot,) = spots(scope.serving, "server")
        found = spot.found("ssl_session_cache")
        if not found:
            return {"ssl_session_cache": None}
        if found[-1].args[0] in ("none", "off"):
            return {"ssl_session_cache": "none"}
        if len(found[-1].args) > 1 or not found[-1].args[0].startswith("shared:"):
            raise UnplaceableError(f"{found[-1].where} keeps sessions in each worker")
        return {"ssl_session_cache": found[-1].args[0].split(":")[2]}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        size = wanted.get("ssl_session_cache")
        if size is None:
            return
        (spot,) = spots(scope.serving, "server")
        found = spot.found("ssl_session_cache")
        if size == "none":
            yield spot.put("ssl_session_cache", "none")
        elif not found or not found[-1].args[0].startswith("shared:"):
            yield spot.put("ssl_session_cache", f"shared:{_ZONE}:{size}")
        else:
            # A zone has one size, so it changes for all servers that share it.
            zone = found[-1].args[0].split(":")[1]
            for other in scope.serving.tree.walk():
                if other.name == "ssl_session_cache" and f"shared:{zone}:" in other.args[0]:
                    yield Set(other, (f"shared:{zone}:{size}",))


@dataclass(frozen=True, slots=True)
class KernelTls:
    """``ssl_conf_command Options KTLS``, in addition to the command's other options."""

    names: tuple[str, ...] = ("ktls",)

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        options = [word for found in _options(scope.serving) for word in _words(found)]
        return {"ktls": "on" if "KTLS" in options else "off"}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        value, found = wanted.get("ktls"), _options(scope.serving)
        if value is None:
            return
        if value == "on" and found:
            yield Set(found[-1], ("Options", ",".join([*_words(found[-1]), "KTLS"])))
        elif value == "on":
            # Commands are inherited together or not at all, so this one joins the others.
            blocks = (scope.serving.server, scope.serving.http)
            owner = next(
                (b for b in blocks if any(b.children("ssl_conf_command"))), scope.serving.server
            )
            yield Insert(owner, "ssl_conf_command", ("Options", "KTLS"))
        else:
            for directive in found:
                kept = [word for word in _words(directive) if word != "KTLS"]
                if kept:
                    yield Set(directive, ("Options", ",".join(kept)))
                else:
                    yield from removed((directive,))


def _options(serving: NginxServing) -> tuple[Directive, ...]:
    (spot,) = spots(serving, "server")
    return tuple(found for found in spot.found("ssl_conf_command") if found.args[0] == "Options")


def _words(command: Directive) -> list[str]:
    return command.args[-1].split(",")


@dataclass(frozen=True, slots=True)
class FileThreads:
    """``aio threads``, and the number of threads in its pool."""

    names: tuple[str, ...] = ("aio", "thread_pool_threads")

    def read(self, scope: NginxScope) -> Mapping[str, str | None]:
        """Implement ``BoundGroup``."""
        for spot in spots(scope.serving, "request"):
            for found in spot.found("aio"):
                if found.args[0] not in ("off", "threads"):
                    raise UnplaceableError(f"{found.where} has a choice of its own")
        modes = {f.args[0] for spot in spots(scope.serving, "request") for f in spot.found("aio")}
        if len(modes) > 1:
            raise UnplaceableError("the workload's requests meet different values of aio")
        (spot,) = spots(scope.serving, "main")
        pools = [found for found in spot.found("thread_pool") if found.args[0] == "default"]
        counts = [w.partition("=")[2] for f in pools for w in f.args if w.startswith("threads=")]
        return {"aio": next(iter(modes), None), "thread_pool_threads": next(iter(counts), None)}

    def edits(self, scope: NginxScope, wanted: Mapping[str, str]) -> Iterator[Edit]:
        """Implement ``BoundGroup``."""
        if "aio" in wanted:
            for spot in spots(scope.serving, "request"):
                yield spot.put("aio", wanted["aio"])
        count = wanted.get("thread_pool_threads")
        if count is None:
            return
        (main,) = spots(scope.serving, "main")
        for found in main.found("thread_pool"):
            if found.args[0] == "default":
                rest = (word for word in found.words[2:] if not word.startswith("threads="))
                yield Set(found, ("default", f"threads={count}", *rest))
                return
        yield Insert(None, "thread_pool", ("default", f"threads={count}"))
