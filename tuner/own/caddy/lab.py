"""The user's Caddy in the lab: replaced settings, and omitted ones.

Settings that would touch the user's host, files, ports, certificates or upstreams are replaced, and
settings that would block the workload are left out. Everything else stays. Both arms of a
comparison change alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from tuner.own.caddy.following import is_gate, protocol_of
from tuner.own.caddy.matching import covers
from tuner.own.caddy.origin import CaddyOrigin
from tuner.own.caddy.serving import CaddyServing
from tuner.own.caddy.tree import Json, JsonPath, look, written

NOBODY = "127.0.0.1:9"
"""The port of the discard protocol (RFC 863), without a listener: the substitute for upstreams that
the lab does not have."""
_GRACE_NS = 3_000_000_000
"""Grace period of an instance's shutdown, which is unlimited by default."""
_APPS = ("http", "tls")


@dataclass(frozen=True, slots=True)
class CaddyLabSlot:
    """The environment of an instance in the lab."""

    address: str
    """``127.0.0.1:18080``."""
    admin: str
    """Admin socket, relative to the instance's folder."""
    run_dir: str
    log_dir: str
    backends: Mapping[str, tuple[str, ...]]
    """Addresses such as ``127.0.0.1:18079`` by protocol; empty if the workload has no backend."""
    root: str
    """Document root instead of the site's; empty: the configuration's."""
    tls_dir: str
    """Folder of the lab's certificate; empty: cleartext."""
    keep_upstreams: bool
    live_path: str
    token: str


@dataclass(frozen=True, slots=True)
class CaddyLabConfiguration:
    """A configuration adapted to the lab."""

    config: Json
    notes: tuple[str, ...]
    """Differences from the user's configuration, in words."""


def carry(
    origin: CaddyOrigin, serving: CaddyServing, config: Json, stand: CaddyLabSlot
) -> CaddyLabConfiguration:
    """Return a configuration adapted to an instance of the lab.

    Args:
        origin: the user's configuration.
        serving: the part of it that the workload reaches.
        config: the configuration with the values of one candidate.
        stand: environment of the instance.
    """
    carrier = _CaddyLabBuilder(origin, serving, stand)
    made = carrier.whole(config)
    return CaddyLabConfiguration(made, tuple(dict.fromkeys(carrier.notes)))


_TRANSPORT_GONE = {
    "tls": "the lab's backend is asked in cleartext",
    "versions": "the lab's backend speaks HTTP/1.1",
    "proxy_protocol": "the lab's backend does not speak it",
    "resolver": "the lab resolves no names",
    "forward_proxy_url": "the lab's backend is asked directly",
    "network_proxy": "the lab's backend is asked directly",
    "local_address": "the lab's backend is on the loopback",
}
_SERVER_GONE = ("listen", "automatic_https", "tls_connection_policies", "strict_sni_host", "logs")
_POLICY_GONE = {
    "match": "",
    "certificate_selection": "",
    "default_sni": "",
    "fallback_sni": "",
    "client_authentication": "the workload has no certificate",
    "insecure_secrets_log": "the lab keeps no secrets",
}

_UNNAMED = {"default_sni": "localhost"}
"""Requests without a name, as for the proof, also get the lab's certificate."""


class _CaddyLabBuilder:
    def __init__(self, origin: CaddyOrigin, serving: CaddyServing, stand: CaddyLabSlot) -> None:
        self.origin = origin
        self.serving = serving
        self.stand = stand
        self.notes: list[str] = []
        self._passed = set(serving.passed.proxies)
        self._prefixes = {each.root: each.prefix for each in serving.passed.files if each.root}
        self._others = 0

    # --- levels -----------------------------------------------------------------------------

    def whole(self, config: Json) -> Json:
        """Return the whole configuration."""
        apps = config.get("apps") or {}
        for name in apps:
            if name not in _APPS:
                self._say(("apps", name), "the workload speaks HTTP")
        if look(config, ("apps", "tls", "automation")) or look(
            config, ("apps", "tls", "encrypted")
        ):
            self._say(("apps", "tls"), "the lab asks nobody for certificates")
        http = apps["http"]
        name = self.serving.server[-1]
        kept = {
            key: value
            for key, value in http.items()
            if key not in ("servers", "http_port", "https_port", "shutdown_delay")
        }
        server = self.server(http["servers"][name])
        others = len(http["servers"]) - 1
        if others or self._others:
            words = f"{others} other servers and {self._others} other sites are not"
            self.notes.append(f"{self.serving.words} is served; {words}")
        made: dict[str, Any] = {
            "admin": {"listen": f"unix/{self.stand.admin}", "config": {"persist": False}},
            "storage": {"module": "file_system", "root": f"{self.stand.run_dir}/storage"},
            "logging": self.logging(config.get("logging") or {}),
            "apps": {"http": {**kept, "grace_period": _GRACE_NS, "servers": {name: server}}},
        }
        if self.stand.tls_dir:
            made["apps"]["tls"] = self.tls(apps.get("tls") or {})
        return made

    def logging(self, logging: Mapping[str, Any]) -> Json:
        """Return the logs with files of the lab; loggers and formats stay."""
        logs = {}
        for name, log in {"default": {}, **(logging.get("logs") or {})}.items():
            writer = log.get("writer") or {}
            output = writer.get("output", "stderr")
            if output == "discard":
                logs[name] = log
                continue
            # The lab reads this log if an instance does not start.
            said = "error.log" if name == "default" else PurePath(f"{name}.log").name
            new = {"output": "file", "filename": f"{self.stand.log_dir}/{said}"}
            if output not in ("file", "stderr", "stdout"):
                self._changed(("logging", "logs", name), "a file is written")
            rolled = writer if output == "file" else {}
            logs[name] = {**log, "writer": {**rolled, **new}}
        return {"logs": logs}

    def server(self, server: Mapping[str, Any]) -> Json:
        """Return the chosen server at the lab's address, with only the chosen site."""
        place = self.serving.server
        made: dict[str, Any] = {
            key: value for key, value in server.items() if key not in _SERVER_GONE
        }
        made["listen"] = [self.stand.address]
        made["automatic_https"] = {"disable": True}
        wrappers = [each.get("wrapper") for each in server.get("listener_wrappers") or ()]
        if any(name != "tls" for name in wrappers):
            self._say((*place, "listener_wrappers"), "the load generator speaks to Caddy directly")
        made.pop("listener_wrappers", None)
        policies = server.get("tls_connection_policies") or []
        if self.stand.tls_dir:
            made["tls_connection_policies"] = [self.policy(policies)]
        elif policies:
            self._say((*place, "tls_connection_policies"), "the workload asks in cleartext")
        logs = self.logs(server)
        if logs is not None:
            made["logs"] = logs
        first: list[Json] = [_live(self.stand)]
        if self.stand.root and not any(each.root for each in self.serving.passed.files):
            first.append({"handle": [{"handler": "vars", "root": self.stand.root}]})
        made["routes"] = [*first, *self.routes((*place, "routes"), server.get("routes") or ())]
        named = server.get("named_routes")
        if named:
            here = (*place, "named_routes")
            made["named_routes"] = {
                name: {**route, "handle": self.handlers((*here, name, "handle"), route["handle"])}
                if "handle" in route
                else self._with_routes((*here, name), route)
                for name, route in named.items()
            }
        if look(server, ("errors", "routes")):
            routes = self.routes((*place, "errors", "routes"), server["errors"]["routes"])
            made["errors"] = {**server["errors"], "routes": routes}
        return made

    def policy(self, policies: Sequence[Mapping[str, Any]]) -> Json:
        """Return the TLS policy of the chosen site."""
        host = self.serving.host
        for index, policy in enumerate(policies):
            names = look(policy, ("match", "sni")) or []
            if names and not any(covers(name, host) for name in names):
                continue
            for key, why in _POLICY_GONE.items():
                if key in policy and why:
                    place = (*self.serving.server, "tls_connection_policies", index, key)
                    self._say(place, why)
            kept = {key: value for key, value in policy.items() if key not in _POLICY_GONE}
            return {**kept, **_UNNAMED}
        return _UNNAMED

    def tls(self, tls: Mapping[str, Any]) -> Json:
        """Return the lab's certificate with the user's settings for sessions."""
        folder = self.stand.tls_dir
        self.notes.append(
            f"{self.serving.words}: the lab's own certificate (ECDSA P-256) is shown instead of"
            " yours"
        )
        load = [{"certificate": f"{folder}/cert.pem", "key": f"{folder}/key.pem"}]
        kept = {"session_tickets": tls["session_tickets"]} if "session_tickets" in tls else {}
        return {**kept, "certificates": {"load_files": load}, "disable_ocsp_stapling": True}

    def logs(self, server: Mapping[str, Any]) -> Json:
        """Return the site's log for any host name; None without one."""
        logs = server.get("logs")
        if logs is None:
            return None
        host = self.serving.host
        named: Mapping[str, Any] = logs.get("logger_names") or {}
        mine = [found for name, found in named.items() if covers(name, host)]
        skipped = any(covers(name, host) for name in logs.get("skip_hosts") or ())
        if skipped or (not mine and logs.get("skip_unmapped_hosts")):
            return None
        gone = ("logger_names", "skip_hosts", "skip_unmapped_hosts")
        kept = {key: value for key, value in logs.items() if key not in gone}
        if mine:
            names = [mine[0]] if isinstance(mine[0], str) else list(mine[0])
            kept["default_logger_name"] = names[0] if names else ""
            if len(names) > 1:
                place = (*self.serving.server, "logs", "logger_names")
                self._changed(place, f"{names[0]} alone of several logs is written")
        return kept

    # --- routes -----------------------------------------------------------------------------

    def routes(self, place: JsonPath, routes: Sequence[Mapping[str, Any]]) -> list[Json]:
        """Return the routes that can match at the chosen site."""
        made = []
        for index, route in enumerate(routes):
            here = (*place, index)
            if here in self.serving.passed.walls:
                self._say(here, self.serving.passed.walls[here])
                continue
            match = self._match(route.get("match"))
            if match is None:
                self._others += 1
                continue
            kept = {key: value for key, value in route.items() if key not in ("match", "handle")}
            if match:
                kept["match"] = match
            if "handle" in route:
                kept["handle"] = self.handlers((*here, "handle"), route["handle"])
            made.append(kept)
        return made

    def handlers(self, place: JsonPath, handlers: Sequence[Mapping[str, Any]]) -> list[Json]:
        """Return the handlers of one route."""
        return [
            made
            for index, handler in enumerate(handlers)
            for made in self.handler((*place, index), handler)
        ]

    def handler(self, place: JsonPath, handler: Mapping[str, Any]) -> Iterator[Json]:
        """Yield a handler adapted to the lab; nothing if it is left out."""
        match handler.get("handler"):
            case "authentication":
                self._say(place, "the workload has no password")
            case "reverse_proxy" if is_gate(handler):
                self._say(place, "the lab has no service that authorises requests")
            case "rate_limit":
                self._say(place, "it would refuse the load")
            case "tracing":
                self._say(place, "nothing leaves the lab")
            case "acme_server":
                self._say(place, "the lab asks nobody for certificates")
            case "reverse_proxy":
                yield self._with_routes(place, self.proxy(place, handler))
            case "vars" if "root" in handler:
                yield {**handler, "root": self.root(place, str(handler["root"]))}
            case "file_server":
                yield self.files(place, handler)
            case _:
                yield self._with_routes(place, handler)

    def proxy(self, place: JsonPath, handler: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a proxy in front of the lab's backends."""
        if self.stand.keep_upstreams:
            return handler
        protocol = protocol_of(handler)
        backends = self.stand.backends.get(protocol, ()) if place in self._passed else ()
        made = {key: value for key, value in handler.items() if key != "dynamic_upstreams"}
        if "dynamic_upstreams" in handler:
            self._say((*place, "dynamic_upstreams"), "the lab resolves no names")
        old: Sequence[Mapping[str, Any]] = handler.get("upstreams") or [{}]
        made["upstreams"] = [
            {**old[min(index, len(old) - 1)], "dial": address}
            for index, address in enumerate(backends or (NOBODY,))
        ]
        names = ", ".join(str(each["dial"]) for each in old if "dial" in each) or "its upstreams"
        if backends:
            self.notes.append(f"{written(place)}: the workload's backend stands behind {names}")
        else:
            self.notes.append(f"{written(place)}: nothing stands behind {names} in the lab")
        if look(handler, ("health_checks", "active")):
            self._say((*place, "health_checks", "active"), "the lab's backend needs no checks")
            checks = {k: v for k, v in handler["health_checks"].items() if k != "active"}
            made["health_checks"] = checks
        transport = handler.get("transport") or {}
        for key, why in _TRANSPORT_GONE.items():
            if protocol == "http" and key in transport and transport[key] != ["1.1"]:
                self._say((*place, "transport", key), why)
                made["transport"] = {
                    name: value for name, value in made["transport"].items() if name != key
                }
        return made

    def root(self, place: JsonPath, root: str) -> str:
        """Return the document root: the workload's, or the user's as an absolute path."""
        if not self.stand.root:
            return self._absolute(root)
        self._changed(place, f"{self.stand.root} is served")
        return f"{self.stand.root}{self._prefixes.get(place, '')}"

    def files(self, place: JsonPath, handler: Mapping[str, Any]) -> Json:
        """Return a handler that serves files."""
        made = dict(handler)
        for key in ("fs", "file_system"):
            if key in made:
                self._say((*place, key), "the lab serves files of the disk")
                del made[key]
        if "root" in made:
            made["root"] = self.root(place, str(made["root"]))
        return made

    # --- help -------------------------------------------------------------------------------

    def _with_routes(self, place: JsonPath, holder: Mapping[str, Any]) -> Json:
        """Return a handler with the routes that are in it."""
        made = dict(holder)
        if "routes" in holder:
            made["routes"] = self.routes((*place, "routes"), holder["routes"] or ())
        if holder.get("handle_response"):
            made["handle_response"] = [
                self._with_routes((*place, "handle_response", index), each)
                for index, each in enumerate(holder["handle_response"])
            ]
        return made

    def _match(self, found: Sequence[Mapping[str, Any]] | None) -> list[Json] | None:
        """Return the matchers without the host, which is fixed in the lab; None for other sites."""
        if not found:
            return []
        made = []
        for one in found:
            hosts = one.get("host")
            if hosts is not None and not any(
                covers(each, self.serving.host) or "{" in each for each in hosts
            ):
                continue
            rest = {k: self._inner(k, v) for k, v in one.items() if k not in ("host", "not")}
            if "not" in one:
                other = self._match(one["not"])
                if other == []:
                    continue
                rest |= {} if other is None else {"not": other}
            if not rest:
                return []
            made.append(rest)
        return made or None

    def _inner(self, key: str, value: Json) -> Json:
        """Return a matcher that looks for files among the workload's."""
        if key == "file" and isinstance(value, Mapping) and "root" in value and self.stand.root:
            return {**value, "root": self.stand.root}
        return value

    def _absolute(self, root: str) -> str:
        # Caddy resolves paths from its working folder, usually that of its configuration.
        return root if "{" in root else str(Path(self.origin.file).parent / root)

    def _say(self, place: JsonPath, why: str) -> None:
        self.notes.append(f"{self.origin.file}: {written(place)} is not carried over: {why}")

    def _changed(self, place: JsonPath, how: str) -> None:
        self.notes.append(f"{self.origin.file}: {written(place)} is changed in the lab: {how}")


def _live(stand: CaddyLabSlot) -> Json:
    """Return the route that proves the running configuration."""
    answer = {"handler": "static_response", "body": stand.token, "status_code": 200}
    return {"match": [{"path": [stand.live_path]}], "handle": [answer], "terminal": True}
