"""The user's Nginx in the lab: replaced settings, and omitted ones.

Settings that would touch the user's host, files, ports or upstreams are replaced, and settings that
would block the workload are left out. Everything else stays. Both arms of a comparison change
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tuner.own.nginx.locations import PASSES, PROTOCOLS, Location, target_of
from tuner.own.nginx.places import socket_options
from tuner.own.nginx.serving import NginxServing
from tuner.own.nginx.slot import NginxLabSlot
from tuner.own.nginx.tree import Directive, walk, words_of

NOBODY = "127.0.0.1:9"
"""The port of the discard protocol (RFC 863), without a listener: the substitute for upstreams that
the lab does not have."""


@dataclass(frozen=True, slots=True)
class NginxLabConfiguration:
    """A configuration adapted to the lab."""

    directives: tuple[Directive, ...]
    notes: tuple[str, ...]
    """Differences from the user's configuration, in words."""


def carry(
    serving: NginxServing, directives: Sequence[Directive], stand: NginxLabSlot
) -> NginxLabConfiguration:
    """Return a configuration adapted to an instance of the lab.

    Args:
        serving: the part of the user's configuration that the workload reaches.
        directives: the configuration with the values of one candidate.
        stand: environment of the instance.
    """
    carrier = _NginxLabBuilder(serving, directives, stand)
    made = tuple(carrier.main(directives))
    return NginxLabConfiguration(made, tuple(dict.fromkeys(carrier.notes)))


# Without notes: the lab always sets these itself.
_PLACED = {
    *("pid", "lock_file", "user", "daemon", "master_process", "working_directory"),
    # A server over TLS has the lab's certificate, and others need none.
    *("ssl_certificate", "ssl_certificate_key"),
}
_GONE = {
    "worker_priority": "the lab gives every instance the same priority",
    "stream": "the workload speaks HTTP",
    "mail": "the workload speaks HTTP",
    "limit_req": "it would refuse the load",
    "limit_conn": "it would refuse the load",
    "auth_request": "the lab has no server that it could ask",
    "auth_basic": "the workload has no password",
    "auth_basic_user_file": "the workload has no password",
    "allow": "the workload comes from another address",
    "deny": "the workload comes from another address",
    "ssl_verify_client": "the workload has no certificate",
    "ssl_client_certificate": "the workload has no certificate",
    "ssl_ocsp": "the lab reaches no responder",
    "ssl_stapling": "no responder vouches for the lab's certificate",
    "ssl_stapling_verify": "no responder vouches for the lab's certificate",
    "ssl_stapling_file": "no responder vouches for the lab's certificate",
    "ssl_trusted_certificate": "the lab's certificate is its own",
    "resolver": "the lab resolves no names",
    "resolver_timeout": "the lab resolves no names",
    **dict.fromkeys(
        (f"{protocol}_bind" for protocol in ("proxy", "fastcgi", "uwsgi", "scgi", "grpc")),
        "the lab's backend is on the loopback",
    ),
}
_TEMPORARY = tuple(
    f"{name}_temp_path" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
)
_CACHES = ("proxy_cache_path", "fastcgi_cache_path", "uwsgi_cache_path", "scgi_cache_path")
_FILES = (
    *("ssl_dhparam", "ssl_crl", "ssl_password_file", "ssl_session_ticket_key", "quic_host_key"),
    *("proxy_ssl_certificate", "proxy_ssl_certificate_key", "proxy_ssl_trusted_certificate"),
    *("proxy_ssl_crl", "grpc_ssl_trusted_certificate", "xslt_stylesheet"),
)
_DROPPED_OPTIONS = ("proxy_protocol",)
_SCHEMES = {
    "proxy_pass": ("https://", "http://"),
    "grpc_pass": ("grpcs://", "grpc://"),
    "uwsgi_pass": ("suwsgi://", "uwsgi://"),
}
"""Schemes over TLS and in cleartext, of the directives that name one."""
_URI_VARIABLES = ("$request_uri", "$uri", "$is_args", "$args", "$query_string")


class _NginxLabBuilder:
    def __init__(
        self, serving: NginxServing, directives: Sequence[Directive], stand: NginxLabSlot
    ) -> None:
        self.serving = serving
        self.stand = stand
        self.notes: list[str] = []
        self._caches = 0
        # By key, because a candidate's directives differ from the user's only in their values.
        self._server = serving.server.key
        self._blocks = {block.key for chain in serving.chains for block in chain[1:]}
        # From the candidate, which may have an upstream that the user's files lack.
        self._proxied = {
            _name_of(found): found.name
            for server in walk(directives)
            if server.key == self._server
            for found in walk((server,))
            if found.name in PROTOCOLS
        }
        self._upstreams = {found.args[0] for found in walk(directives) if found.name == "upstream"}

    # --- levels -----------------------------------------------------------------------------

    def main(self, directives: Sequence[Directive]) -> Iterator[Directive]:
        run = self.stand.run_dir
        yield _made("pid", f"{run}/nginx.pid")
        yield _made("lock_file", f"{run}/nginx.lock")
        if not any(found.name == "error_log" for found in directives):
            yield _made("error_log", f"{self.stand.log_dir}/error.log")
        for found in directives:
            if found.name == "http":
                yield replace(found, block=tuple(self.http(found)))
            else:
                yield from self.one(found)

    def http(self, http: Directive) -> Iterator[Directive]:
        said = {found.name for found in http.block or ()}
        for name in _TEMPORARY:
            if name not in said:
                yield _made(name, f"{self.stand.run_dir}/{name.removesuffix('_temp_path')}")
        if "access_log" not in said:
            yield _made("access_log", f"{self.stand.log_dir}/access.log", "combined")
        for name in sorted(self.stand.gaps.variables):
            # A variable that is set by a module which found nothing is empty too.
            empty = _made("default", '""')
            yield replace(_made("map", '""', f"${name}"), block=(empty,))
            self.notes.append(
                f"${name} is empty in the lab: nothing that this build of Nginx knows sets it"
            )
        left = 0
        for found in http.block or ():
            if found.name != "server":
                yield from self.one(found)
            elif found.key == self._server:
                yield replace(found, block=tuple(self.server(found, http)))
            else:
                left += 1
        if left:
            others = f"{left} others are not" if left > 1 else "another one is not"
            self.notes.append(f"the server at {self.serving.server.where} is served; {others}")

    def server(self, server: Directive, http: Directive) -> Iterator[Directive]:
        yield self._listen(server, http)
        if self.stand.protocol == "http3":
            # Without reuseport, packets of a connection reach any worker.
            yield _made("listen", self.stand.address, "quic", "reuseport")
        chosen = self.serving.listen.key if self.serving.listen else None
        others = [found for found in server.children("listen") if found.key != chosen]
        if others:
            words = ", ".join(found.args[0] for found in others)
            self.notes.append(f"{server.where}: the lab does not listen on {words}")
        yield from self._root(server)
        certificates = 0
        for found in server.block or ():
            if found.name == "listen" or (found.name == "root" and self._replaces_root):
                continue
            if found.name in ("ssl_certificate", "ssl_certificate_key") and self.stand.tls_dir:
                certificates += 1
                continue
            yield from self.one(found)
        if self.stand.tls_dir:
            yield _made("ssl_certificate", f"{self.stand.tls_dir}/cert.pem")
            yield _made("ssl_certificate_key", f"{self.stand.tls_dir}/key.pem")
        if certificates:
            self.notes.append(
                f"{server.where}: the lab's own certificate (ECDSA P-256) is shown instead of yours"
            )
        yield Directive(
            name="location",
            args=("=", self.stand.live_path),
            file=server.file,
            line=server.line,
            block=(
                _made("access_log", "off"),
                _made("default_type", "text/plain"),
                _made("return", "200", self.stand.token),
            ),
        )

    def one(self, found: Directive) -> Iterator[Directive]:
        """Yield a directive adapted to the lab; nothing if it is left out."""
        name = found.name
        if name in _PLACED:
            return
        if name in self.stand.gaps.directives:
            self._say(found, "this build of Nginx does not know it")
            return
        if found.key in self.stand.gaps.places and found.place is not None:
            self._say(found, self.stand.gaps.places[found.key])
            return
        if name in _GONE and not self._is_kept(found):
            self._say(found, _GONE[name])
            return
        found = self._known(found)
        handler = self._handlers().get(name)
        if handler is not None:
            yield from handler(found)
        elif found.block is None:
            yield found
        else:
            yield replace(found, block=tuple(self._inside(found)))

    # --- directives -------------------------------------------------------------------------

    def _handlers(self) -> Mapping[str, Callable[[Directive], Iterable[Directive]]]:
        return {
            "worker_processes": self._workers,
            "worker_cpu_affinity": self._affinity,
            "load_module": self._module,
            "access_log": self._log,
            "error_log": self._error_log,
            "upstream": self._upstream,
            "alias": self._alias,
            "root": self._checked_root,
            **dict.fromkeys(PASSES, self._pass),
            **dict.fromkeys(_TEMPORARY, self._temporary),
            **dict.fromkeys(_CACHES, self._cache),
            **dict.fromkeys(_FILES, self._file),
        }

    def _inside(self, block: Directive) -> Iterator[Directive]:
        """Return the content of a block, with the workload's files where a location has a root."""
        for found in block.block or ():
            if found.name == "root" and block.key in self._blocks and self._replaces_root:
                continue
            yield from self.one(found)

    def _workers(self, found: Directive) -> Iterator[Directive]:
        auto = found.args == ("auto",)
        yield self._with(found, str(self.stand.workers)) if auto else found

    def _affinity(self, found: Directive) -> Iterator[Directive]:
        # `auto` alone would reset the affinity and include the load generator's CPUs.
        yield self._with(found, "auto", self.stand.cpu_mask)
        if found.args[:1] != ("auto",):
            self._changed(found, "workers are bound to the server's CPUs in turn")

    def _module(self, found: Directive) -> Iterator[Directive]:
        path = str(Path(self.stand.modules_dir) / found.args[0])
        if self.stand.readable(path):
            yield self._with(found, path)
        else:
            self._say(found, f"there is no module {path}")

    def _log(self, found: Directive) -> Iterator[Directive]:
        path = found.args[0]
        if path == "off":
            yield found
            return
        name = PurePath(path).name if not path.startswith(("syslog:", "memory:")) else "other.log"
        if path.startswith(("syslog:", "/dev/", "stderr")):
            self._changed(found, "a file is written")
            name = "other.log"
        yield self._with(found, f"{self.stand.log_dir}/{name}", *found.words[2:])

    def _error_log(self, found: Directive) -> Iterator[Directive]:
        # One file for all, where the lab reads why requests failed.
        for moved in self._log(found):
            yield self._with(moved, f"{self.stand.log_dir}/error.log", *found.words[2:])

    def _temporary(self, found: Directive) -> Iterator[Directive]:
        path = f"{self.stand.run_dir}/{found.name.removesuffix('_temp_path')}"
        yield self._with(found, path, *found.words[2:])

    def _cache(self, found: Directive) -> Iterator[Directive]:
        self._caches += 1
        yield self._with(found, f"{self.stand.run_dir}/cache{self._caches}", *found.words[2:])

    def _file(self, found: Directive) -> Iterator[Directive]:
        path = self._absolute(found.args[0])
        if self.stand.readable(path):
            yield self._with(found, path)
        else:
            self._say(found, f"{path} cannot be read")

    def _pass(self, found: Directive) -> Iterator[Directive]:
        if self.stand.keep_upstreams:
            yield found
            return
        target, name = self._stand_in(found.name), _name_of(found)
        secure, scheme = _SCHEMES.get(found.name, ("", ""))
        if name in self._upstreams:
            # The block's servers are replaced; its name and kept connections stay.
            given, rest = target_of(found)
            yield self._with(found, f"{scheme if given else ''}{rest}")
        else:
            path = _path_of(found.args[0]) if found.name == "proxy_pass" else ""
            yield self._with(found, f"{scheme}{target or NOBODY}{path}")
        if not target:
            self._changed(found, "it has no upstream in the lab, and requests to it fail")
            return
        if secure and found.args[0].startswith(secure):
            self._changed(found, "the lab's backend is asked in cleartext")
        self.notes.append(f"{found.where}: the workload's backend stands behind {name}")

    def _stand_in(self, name: str) -> str:
        """Return the address of the lab's backend behind a directive; empty without."""
        if name not in PROTOCOLS:
            return ""
        return self.stand.backend if name == "proxy_pass" else self.stand.native_backend

    def _upstream(self, found: Directive) -> Iterator[Directive]:
        if self.stand.keep_upstreams:
            yield found
            return
        address = self._stand_in(self._proxied.get(found.args[0], "")) or NOBODY
        block = []
        for child in found.block or ():
            if child.name == "server":
                # Options for names that are resolved again are removed with the names.
                words = self._known(child).words[2:]
                rest = (word for word in words if word != "resolve" and "service=" not in word)
                block.append(self._with(child, address, *rest))
            elif child.name == "resolver":
                self._say(child, "the lab resolves no names")
            elif child.name == "state":
                self._say(child, "the lab has no servers that are set while it runs")
            elif child.name.startswith("balancer_by_lua"):
                self._say(child, "it would choose servers that the lab does not have")
            else:
                block += self.one(child)
        if not any(child.name == "server" for child in block):
            # Its servers are set while it runs, or by a script that writes this file.
            block.append(_made("server", address))
        yield replace(found, block=tuple(block))

    def _alias(self, found: Directive) -> Iterator[Directive]:
        for chain in self.serving.chains:
            inside = any(child.key == found.key for child in chain[-1].block or ())
            if inside and not self.stand.own_site:
                self._changed(found, "the workload's own files are served")
                if Location.of(chain[-1]).is_regex:
                    # The alias has parts of the path; the workload's files have the whole one.
                    yield _made("root", self.stand.root)
                else:
                    yield self._with(found, f"{self.stand.root}{chain[-1].args[-1]}")
                return
        yield found

    def _checked_root(self, found: Directive) -> Iterator[Directive]:
        yield self._with(found, self._absolute(found.args[0]))

    # --- the server -------------------------------------------------------------------------

    @property
    def _replaces_root(self) -> bool:
        return bool(self.stand.root)

    def _root(self, server: Directive) -> Iterator[Directive]:
        """Yield the workload's files below the chosen server's root."""
        if not self._replaces_root:
            return
        yield _made("root", self.stand.root)
        roots = [f for block in (server, *self.serving.blocks) for f in block.children("root")]
        files = f"{self.stand.root} is" if self.stand.own_site else "the workload's own files are"
        for found in roots:
            self._say(found, f"{files} served")

    def _listen(self, server: Directive, http: Directive) -> Directive:
        chosen = self.serving.listen
        if chosen is None:
            return _made("listen", self.stand.address)
        # From the changed tree, because a candidate may have other listen options.
        listen = next(found for found in server.children("listen") if found.key == chosen.key)
        own = [w for w in self._known(listen).words[2:] if not w.startswith("ipv6only")]
        shared = [w for w in socket_options(http, listen) if w not in own and "ipv6only" not in w]
        words = [word for word in (*own, *shared) if word not in _DROPPED_OPTIONS]
        for word in own:
            if word in _DROPPED_OPTIONS:
                self._changed(listen, f"without {word}, which the load generator does not speak")
        return self._with(listen, self.stand.address, *words)

    # --- help -------------------------------------------------------------------------------

    def _is_kept(self, found: Directive) -> bool:
        """Return whether a directive that the lab drops may stay."""
        if found.name.startswith("resolver") or found.name.endswith("_bind"):
            return self.stand.keep_upstreams
        if found.name == "auth_request":
            return self.stand.keep_upstreams or found.args == ("off",)
        if found.name in ("allow", "deny"):
            # In other locations they do not affect the workload.
            reached = (self.serving.http, *(b for chain in self.serving.chains for b in chain))
            return all(found.key not in {c.key for c in b.block or ()} for b in reached)
        return False

    def _known(self, found: Directive) -> Directive:
        """Return a directive without the arguments that this build of Nginx does not know."""
        unknown = [word for word in found.args if (found.key, word) in self.stand.gaps.words]
        if not unknown or found.place is None:
            return found
        self._changed(found, f"this build of Nginx does not know {', '.join(unknown)}")
        return self._with(found, *(word for word in found.words[1:] if word not in unknown))

    def _absolute(self, path: str) -> str:
        # Relative paths start at the configuration's folder, which differs in the lab.
        return path if "$" in path else self.serving.tree.located(path)

    def _with(self, found: Directive, *args: str) -> Directive:
        quoted = tuple(args)
        return replace(found, args=quoted, written=(found.words[0], *quoted))

    def _say(self, found: Directive, why: str) -> None:
        words = words_of(found)
        self.notes.append(f"{found.where}: {words[:80]} is not carried over: {why}")

    def _changed(self, found: Directive, how: str) -> None:
        words = words_of(found)
        self.notes.append(f"{found.where}: {words[:80]} is changed in the lab: {how}")


def _made(name: str, *args: str) -> Directive:
    return Directive(name, args, "tuner", 1)


def _name_of(found: Directive) -> str:
    """Return the upstream or the address of a directive that passes requests on."""
    _, target = target_of(found)
    # The path of a socket ends before that of the request.
    socket = target.startswith("unix:")
    return ":".join(target.split(":")[:2]) if socket else target.partition("/")[0]


def _path_of(target: str) -> str:
    """Return the path of a ``proxy_pass``, which is part of requests to the backend."""
    rest = target.partition("://")[2] or target
    if rest.startswith("unix:"):
        return rest.removeprefix("unix:").partition(":")[2]
    for variable in _URI_VARIABLES:
        before, found, after = rest.partition(variable)
        if found and "/" not in before:
            return found + after
    return f"/{rest.partition('/')[2]}" if "/" in rest else ""
