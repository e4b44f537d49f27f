"""HAProxy, which terminates TLS and HTTP/2 and balances between backends.

``haproxy -c`` checks a file. An instance is live when the site answers with the configuration's
digest, and the process describes itself with it on its stats socket (``show info``).
https://docs.haproxy.org/2.8/configuration.html, https://docs.haproxy.org/2.8/management.html#9.3
"""

from __future__ import annotations

import re
from pathlib import Path

from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.reading.haproxy_text import statements
from tuner.render.render import EXPORT, Placement, render
from tuner.render.syntax import Syntax, plain_text
from tuner.servers.ground import TLS_FOLDER, TargetGround
from tuner.servers.program import ask, find, version
from tuner.servers.usual_place import UsualPlace
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import Parameter
from tuner.space.space import Space
from tuner.workload.wire import Wire

name = "haproxy"
usual_place = UsualPlace(
    "/etc/haproxy/haproxy.cfg",
    "haproxy -c -f %s",
    "haproxy",
    "haproxy",
    # https://github.com/docker-library/docs/tree/master/haproxy
    "/usr/local/etc/haproxy/haproxy.cfg",
    named=("*haproxy*.cfg",),
)
file_name = usual_place.file

_CANDIDATES = ("haproxy", "/usr/sbin/haproxy", "/usr/local/sbin/haproxy")
_MISSING = (
    "no HAProxy found on this machine; install it (Debian, Ubuntu: apt-get install haproxy;"
    " Fedora: dnf install haproxy)"
)
_OLDEST = (2, 4)
"""The oldest version with the default values of the space."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%*+=-]+")
SITE = "site.pem"
"""Certificate and key in one file, as a ``bind`` line names them."""
SOCKET = "run/admin.sock"
# Its first alert is the reason; others follow from it, and notices are about itself.
_SENTENCE = r"""sed -n 's/^\[ALERT\] *([0-9]*) : *//p' | head -n 1 | grep ."""
_VALIDATE = (
    'said=$("$@" 2>&1) && exit 0;'
    f' printf "%s\\n" "$said" | {_SENTENCE} || printf "%s\\n" "$said" | tail -n 1; exit 1'
)
# HAProxy has no log files; it writes to descriptors, which it keeps as a daemon.
_START = f"exec 3>>logs/error.log 4>>logs/access.log; {_VALIDATE}"


def quote_haproxy(value: object) -> str:
    """Write one value as one word.

    Plain characters need no quotes. Between single quotes everything is literal; a value with a
    single quote gets double quotes, where a backslash takes the meaning from ``"``, ``$`` and
    itself (section 2.2 of the manual).

    Raises:
        DefinitionError: the value has a control character.
    """
    text = plain_text(value)
    if _PLAIN.fullmatch(text):
        return text
    if "'" not in text:
        return f"'{text}'"
    return '"' + re.sub(r'(["\\$])', r"\\\1", text) + '"'


def write_haproxy(parameter: Parameter, value: Value) -> str:
    """Format a size as a number of bytes (``64k`` is valid since 2.9 only), a time as ``75s``."""
    if parameter.unit == "bytes" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return parameter.format(value)


syntax = Syntax(
    server=name, suffix="cfg", quote=quote_haproxy, write=write_haproxy, read=statements
)


def detect(binary: str | None = None) -> ServerFacts:
    """Find HAProxy, and return its version and features.

    Raises:
        HostError: it is missing or does not answer; the message names the package.
    """
    found = find((binary,) if binary else _CANDIDATES, _MISSING)
    said, _ = ask(found, "-vv")
    return parse_build(said, found)


def parse_build(text: str, binary: str) -> ServerFacts:
    """Parse the output of ``haproxy -vv``; the modules are the features that it has."""
    found = version(r"HA-?Proxy version ([0-9]+(?:\.[0-9]+)+)", text, f"{binary} -vv")
    features = re.search(r"^Feature list : (.*)$", text, re.MULTILINE)
    words = features[1].split() if features else []
    modules = tuple(sorted(word.removeprefix("+") for word in words if word.startswith("+")))
    return ServerFacts(name, binary, found, modules, text.strip())


def refuses(server: ServerFacts, wire: Wire) -> str:
    """Implement ``Server.refuses``."""
    if server.version_tuple < _OLDEST:
        return f"HAProxy {server.version} is too old; tuner knows the default values since 2.4"
    if wire.tls and "OPENSSL" not in server.modules:
        return f"{server.binary} is built without USE_OPENSSL, which {wire.words} needs"
    if wire.protocol == "http3" and "QUIC" not in server.modules:
        return f"{server.binary} is built without USE_QUIC, which {wire.words} needs"
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
    return spec(label, text, ground, directory, port=port, live=configuration.digest)


def spec(
    label: str, text: str, ground: TargetGround, directory: Path, *, port: int, live: str
) -> InstanceSpec:
    """Return an instance with this configuration in its own folder.

    Args:
        label: unique in the block.
        text: text of the configuration.
        ground: layout of the target.
        directory: folder of the instance.
        port: port to listen on.
        live: expected answer as the proof.
    """
    config, pid_file = str(directory / file_name), str(directory / "run" / "haproxy.pid")
    certificate = ground.certificate
    bundle = certificate.chain + certificate.key if certificate else ""
    return InstanceSpec(
        instance=label,
        directory=str(directory),
        files={file_name: text, **({f"{TLS_FOLDER}/{SITE}": bundle} if bundle else {})},
        folders=("run", "logs"),
        validate=("sh", "-c", _VALIDATE, name, ground.binary, "-c", "-f", config),
        start=("sh", "-c", _START, name, ground.binary, "-D", "-f", config, "-p", pid_file),
        pid_file=pid_file,
        live_url=ground.live_url(port),
        live_token=live,
        live_socket=str(directory / SOCKET),
        live_request="show info",
        environment={},
        cpus=ground.cpus,
        error_log=str(directory / "logs" / "error.log"),
    )


def export_text(configuration: Configuration, space: Space, placement: Placement = EXPORT) -> str:
    """Implement ``Server.export_text``."""
    return render(space.template, configuration, space, placement, syntax)
