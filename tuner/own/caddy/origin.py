"""The source of a Caddy configuration: the user's files, and their JSON.

Caddy itself turns a Caddyfile into JSON. To map lines to JSON, each relevant line of a copy gets a
unique mark, and the marks are searched for in the copy's JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType

from tuner.errors import DefinitionError
from tuner.own.caddy import caddyfile
from tuner.own.caddy.caddyfile import Setting, Spot
from tuner.own.caddy.tree import ABSENT, Json, JsonPath, look, put, walk
from tuner.own.home import Home
from tuner.reading.caddyfile_text import parse
from tuner.servers.caddy import adapting

_MARK = "X-Tuner-Place"
_FIRST = 900_000_000
"""First number that serves as a mark; larger than any real size."""
_ERROR = re.compile(r"^Error: (.*)$", re.MULTILINE)
_UNREGISTERED = re.compile(
    r"module not registered: ([\w.]+)|unrecognized (?:directive|global option): (\w+)"
)
_PLUGINS = {
    "rate_limit": "github.com/mholt/caddy-ratelimit",
    "cache": "github.com/caddyserver/cache-handler",
    "souin": "github.com/darkweak/souin/plugins/caddy",
    "crowdsec": "github.com/hslatman/caddy-crowdsec-bouncer",
    "appsec": "github.com/hslatman/caddy-crowdsec-bouncer/appsec",
    "authenticate": "github.com/greenpau/caddy-security",
    "authorize": "github.com/greenpau/caddy-security",
    "security": "github.com/greenpau/caddy-security",
    "webdav": "github.com/mholt/caddy-webdav",
    "layer4": "github.com/mholt/caddy-l4",
    "coraza_waf": "github.com/corazawaf/coraza-caddy/v2",
    "replace": "github.com/caddyserver/replace-response",
    "geoip": "github.com/porech/caddy-maxmind-geolocation",
    "br": "github.com/ueffel/caddy-brotli",
    "php_server": "github.com/dunglas/frankenphp/caddy",
    "frankenphp": "github.com/dunglas/frankenphp/caddy",
    "mercure": "github.com/dunglas/mercure/caddy",
    "docker_proxy": "github.com/lucaslorentz/caddy-docker-proxy/v2",
    "forward_proxy": "github.com/caddyserver/forwardproxy",
    "dynamic_dns": "github.com/mholt/caddy-dynamicdns",
}
"""Packages of widespread plugins, by their directive (https://caddyserver.com/download)."""
_OF_CADDY_1 = {
    "proxy": "reverse_proxy",
    "fastcgi": "php_fastcgi",
    "gzip": "encode gzip",
    "errors": "handle_errors",
    "ext": "try_files",
    "browse": "file_server browse",
    "status": "respond",
    "markdown": "templates",
    "limits": "request_body",
}
"""Directives of Caddy 1 with those of Caddy 2 (https://caddyserver.com/docs/v2-upgrade)."""
_STANDARD = ("reverse_proxy", "file_server", "respond", "redir", "root", "encode", "handle")
"""Caddy's own directives: in the wrong place, as where the address of a site is empty."""
_AT = re.compile(r"(?:, at|^)?\s*(/?[^\s:,]*Caddyfile[^\s:,]*|/[^\s:,]+):(\d+)(?:: | - |,|$)?")

Anchor = tuple[str, Spot]
"""A line of a Caddyfile: the file, and its position there."""


@dataclass(frozen=True, slots=True)
class JsonChange:
    """A change of one setting, in the JSON and in its line of the Caddyfile."""

    owners: tuple[JsonPath, ...]
    """Owners of the setting: handlers, or servers."""
    place: JsonPath
    """Path in an owner."""
    value: Json
    """New value; ``ABSENT`` removes the setting."""
    setting: Setting | None
    """Setting in the Caddyfile; None if another setting of the same owner includes it."""


@dataclass(frozen=True, slots=True)
class CaddyOrigin:
    """The user's configuration."""

    file: str
    """The main file, absolute."""
    texts: Mapping[str, str]
    """All files, unchanged, by path."""
    config: Json
    """The configuration as Caddy's JSON."""
    home: Home
    """The host of the files, with its Caddy."""
    anchors: Mapping[JsonPath, Anchor] = field(default_factory=lambda: MappingProxyType({}))
    """Lines of the Caddyfile by place in the JSON; empty for JSON."""
    opaque: str = ""
    """Reason why a Caddyfile cannot be patched; empty if it can."""

    @property
    def is_json(self) -> bool:
        """True if the user's configuration is JSON."""
        return PurePath(self.file).suffix == ".json"

    @property
    def patched(self) -> bool:
        """True if the user's files can be patched."""
        return not self.opaque

    def twins(self, place: JsonPath) -> tuple[JsonPath, ...]:
        """Return the places of the same line: a snippet may be imported several times."""
        anchor = self.anchors.get(place)
        if anchor is None:
            return (place,)
        return tuple(other for other, line in self.anchors.items() if line == anchor)


def read(file: str, home: Home) -> CaddyOrigin:
    """Read a Caddyfile with its imports, or Caddy's JSON.

    Args:
        file: absolute.
        home: the host of the file.

    Raises:
        DefinitionError: it cannot be read, or Caddy refuses it; with the line if known.
    """
    text = _text(file, home)
    config = _config(text, file, home)
    if PurePath(file).suffix == ".json":
        return CaddyOrigin(file, MappingProxyType({file: text}), config, home)
    try:
        texts = caddyfile.read(file, home)
        same = adapted(texts, file, home)
    except DefinitionError as error:
        texts, same = {file: text}, None
        why = str(error)
    else:
        why = "Caddy adapts its copy to other JSON"
    if same != config:
        return CaddyOrigin(file, MappingProxyType(texts), config, home, opaque=why)
    anchors = _anchors(texts, file, config, home)
    return CaddyOrigin(file, MappingProxyType(texts), config, home, MappingProxyType(anchors))


def adapted(texts: Mapping[str, str], main: str, home: Home) -> Json:
    """Return Caddy's JSON for texts in place of the user's files.

    Raises:
        DefinitionError: Caddy refuses them.
    """
    with home.folder() as folder:
        for file, text in texts.items():
            changed = caddyfile.with_imports(text, file, folder, home)
            home.write(f"{folder}{file}", changed.encode("utf-8", "surrogateescape"))
        try:
            said = _asked(f"{folder}{main}", home, cwd=str(PurePath(main).parent), shown=main)
        except DefinitionError as error:
            shown = (error.path or "").replace(folder, "")
            words = error.message.replace(folder, "")
            raise DefinitionError(words, path=shown, line=error.line) from None
        return json.loads(said.replace(folder, ""))


def change_config(origin: CaddyOrigin, changes: Iterable[JsonChange]) -> Json:
    """Return the JSON with changes, at all places of the same lines."""
    config = origin.config
    for change in changes:
        for owner in change.owners:
            for twin in origin.twins(owner):
                config = put(config, (*twin, *change.place), change.value)
    return config


def change_texts(origin: CaddyOrigin, changes: Iterable[JsonChange]) -> dict[str, str]:
    """Return the user's changed files.

    Raises:
        InexpressibleError: a Caddyfile cannot express the change; only JSON can.
    """
    wanted = list(changes)
    config = change_config(origin, wanted)
    if config == origin.config:
        return {}
    if origin.opaque:
        raise InexpressibleError(origin.opaque)
    if origin.is_json:
        return {origin.file: _like(origin.texts[origin.file], config)}
    texts = dict(origin.texts)
    fresh: dict[tuple[JsonPath, Setting], None] = {}
    for change in wanted:
        for owner in change.owners:
            if change.setting is None:
                continue
            anchor = origin.anchors.get(owner)
            if anchor is not None:
                file, spot = anchor
                texts[file] = caddyfile.change(texts[file], spot, change.setting)
            elif len(owner) == 4 and owner[:3] == SERVERS:
                # Last, because a new block moves the lines below it.
                fresh[owner, change.setting] = None
            else:
                raise InexpressibleError(f"no supported line defines {owner[-1]}")
    for owner, setting in fresh:
        words = _servers_words(origin, owner)
        texts[origin.file] = caddyfile.change_global(texts[origin.file], words, setting)
    try:
        made = adapted(texts, origin.file, origin.home)
    except DefinitionError as error:
        raise InexpressibleError(str(error)) from None
    if made != config:
        raise InexpressibleError("Caddy adapts the changed Caddyfile to other JSON")
    return {file: text for file, text in texts.items() if text != origin.texts[file]}


class InexpressibleError(Exception):
    """A change that a Caddyfile cannot express; the message is the reason."""


SERVERS: JsonPath = ("apps", "http", "servers")


def _servers_words(origin: CaddyOrigin, owner: JsonPath) -> tuple[str, ...]:
    """Return ``servers``, with the address if there are several."""
    servers = look(origin.config, SERVERS)
    if len(servers) == 1:
        return ("servers",)
    return ("servers", str(look(origin.config, (*owner, "listen", 0))))


def _like(text: str, config: Json) -> str:
    """Format JSON with the user's indentation."""
    found = re.search(r"\n([ \t]+)\S", text)
    indent = found[1] if found else "\t"
    end = "\n" if text.endswith("\n") else ""
    return json.dumps(config, indent=indent, ensure_ascii=False) + end


# --- marks -----------------------------------------------------------------------------------


def _anchors(
    texts: Mapping[str, str], main: str, config: Json, home: Home
) -> dict[JsonPath, Anchor]:
    """Map each place of a handler, log or server to its line."""
    marked = dict(texts)
    known: list[tuple[str, Anchor]] = []
    for file, text in texts.items():
        # From last to first, because a mark moves the lines below it.
        for spot, line in reversed(list(caddyfile.spots(parse(text, file)))):
            setting = _mark(line.name, spot, len(known))
            if setting is not None:
                known.append((_KINDS.get(line.name, line.name), (file, spot)))
                marked[file] = caddyfile.change(marked[file], spot, setting)
    try:
        there = adapted(marked, main, home)
    except DefinitionError:
        return {}
    found = {}
    for place, value in walk(there):
        for kind, number in _marks(place, value):
            if number < len(known) and known[number][0] == kind:
                found[place] = known[number][1]
    # A place with another value without marks is not the user's.
    return {
        place: line for place, line in found.items() if look(config, place, ABSENT) is not ABSENT
    }


_KINDS = MappingProxyType({"php_fastcgi": "reverse_proxy"})
"""Shortcuts by the directive that they hold, with its options."""


def _mark(name: str, spot: Spot, number: int) -> Setting | None:
    match _KINDS.get(name, name):
        case "reverse_proxy":
            return Setting("header_up", (_MARK, str(number)), repeated=True)
        case "encode":
            return Setting("minimum_length", (str(_FIRST + number),))
        case "servers" if len(spot) == 2:
            return Setting("max_header_size", (str(_FIRST + number),))
        case _:
            return None


def _marks(place: JsonPath, value: Json) -> Iterator[tuple[str, int]]:
    if not isinstance(value, Mapping):
        return
    if value.get("handler") == "reverse_proxy":
        found = look(value, ("headers", "request", "set", _MARK, 0))
        if found is not None:
            yield "reverse_proxy", int(found)
    if value.get("handler") == "encode":
        yield "encode", _number(value.get("minimum_length"))
    if len(place) == 4 and place[:3] == SERVERS:
        yield "servers", _number(value.get("max_header_bytes"))


def _number(value: Json) -> int:
    marked = isinstance(value, int) and value >= _FIRST
    return value - _FIRST if marked else _FIRST


def _config(text: str, file: str, home: Home) -> Json:
    if PurePath(file).suffix == ".json":
        try:
            config = json.loads(text)
        except ValueError as error:
            line = getattr(error, "lineno", None)
            raise DefinitionError(f"is not JSON: {error}", path=file, line=line) from None
        if not isinstance(config, dict):
            raise DefinitionError("is not a configuration of Caddy: not an object", path=file)
        return config
    unset = caddyfile.unset(text, home)
    try:
        if home.is_copy:
            return adapted(caddyfile.read(file, home), file, home)
        made: Json = json.loads(_asked(file, home))
    except DefinitionError as error:
        if not unset:
            raise
        verb = "is" if len(unset) == 1 else "are"
        raise DefinitionError(f"{error}; {', '.join(unset)} {verb} not set {home.remedy}") from None
    return made


# --- Caddy -----------------------------------------------------------------------------------


def _asked(file: str, home: Home, cwd: str = "", shown: str = "") -> str:
    try:
        code, said, wrong = home.run(*adapting(file), cwd=cwd or str(PurePath(file).parent))
    except OSError as error:
        raise DefinitionError(f"Caddy does not read it: {error}", path=shown or file) from None
    if code == 0:
        return said
    raise refused(wrong, shown or file)


def refused(said: str, file: str) -> DefinitionError:
    """Return Caddy's message with the file and line of its cause."""
    errors = _ERROR.findall(said) or said.strip().splitlines()[-1:] or ["no reason is given"]
    words = _sentence(errors[-1]).removeprefix("adapting config using caddyfile: ")
    words = words.partition(" import chain: ")[0]
    words = f"{words}{_missing_plugin(words)}"
    if "File to import not found" in words:
        words += "; put it there, next to the file that imports it"
    at = _AT.search(words)
    if at is None:
        return DefinitionError(f"Caddy refuses it: {words}", path=file)
    name = at[1] if at[1].startswith("/") else file
    rest = words[: at.start()] + words[at.end() :]
    return DefinitionError(
        f"Caddy refuses it: {rest.strip(' ,-:')}",
        path=file if PurePath(name).name == PurePath(file).name else name,
        line=int(at[2]),
    )


def _missing_plugin(words: str) -> str:
    """Return the remedy for a plugin that this Caddy lacks; empty for another mistake."""
    found = _UNREGISTERED.search(words)
    if found is None:
        return ""
    name = found[1] or found[2]
    kind, _, last = name.rpartition(".")
    if last in _STANDARD:
        return ""
    if last in _OF_CADDY_1:
        return (
            f"; {last} is of Caddy 1, and Caddy 2 has {_OF_CADDY_1[last]}:"
            " https://caddyserver.com/docs/v2-upgrade"
        )
    package = f"github.com/caddy-dns/{last}" if kind == "dns.providers" else _PLUGINS.get(last, "")
    made = "makes one that has it; put it first on the PATH"
    if package:
        return f"; this Caddy lacks the plugin {name}: xcaddy build --with {package} {made}"
    return (
        f"; if {name} is of a plugin, xcaddy build --with PACKAGE {made}"
        " (https://caddyserver.com/download has the packages)"
    )


def _sentence(words: str) -> str:
    """Return the message of a line of Caddy's log."""
    try:
        said = json.loads(words)
    except ValueError:
        return words
    if not isinstance(said, dict):
        return words
    return ": ".join(str(said[key]) for key in ("msg", "error") if said.get(key)) or words


def last_error(log: str) -> str:
    """Return the last reason in a log of errors; empty without one."""
    lines = [line for line in log.splitlines() if '"level":"error"' in line]
    return _sentence(lines[-1]) if lines else ""


def _text(path: str, home: Home) -> str:
    try:
        return home.read(path).decode("utf-8", "surrogateescape")
    except OSError as error:
        remedy = "; run as a user who may read it" if isinstance(error, PermissionError) else ""
        raise DefinitionError(f"cannot be read: {error.strerror}{remedy}", path=path) from None
