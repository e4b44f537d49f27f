"""nghttpx, the proxy of nghttp2, which terminates TLS and HTTP/2 in front of HTTP/1.1.

It has no dry run, so validation starts it briefly on a socket in the instance's folder. It has no
endpoint of its own, so the proof of a live instance is its ``server`` header.
https://nghttp2.org/documentation/nghttpx.1.html
"""

from __future__ import annotations

from dataclasses import replace

from tuner.errors import DefinitionError
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.reading.statement import options
from tuner.render.render import EXPORT, Placement, render
from tuner.render.syntax import Syntax, plain_text
from tuner.servers.ground import TargetGround
from tuner.servers.program import ask, find, version
from tuner.servers.usual_place import UsualPlace
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import Parameter
from tuner.space.space import Space
from tuner.workload.wire import Wire

name = "nghttpx"
usual_place = UsualPlace("/etc/nghttpx/nghttpx.conf", "", "nghttpx", "")
file_name = usual_place.file

_CANDIDATES = ("nghttpx", "/usr/sbin/nghttpx", "/usr/local/bin/nghttpx")
_CHECKED = "check.conf"
_CHECK_SOCKET = "run/check.sock"
# It accepts connections before it reads the certificate, so the check waits a moment longer.
_CHECK = """
"$1" --conf="$2" & pid=$!
tries=150
while [ $tries -gt 0 ] && kill -0 $pid 2>/dev/null; do
    if [ -S "$3" ]; then
        sleep 0.2
        kill $pid 2>/dev/null && { wait $pid; exit 0; }
    fi
    tries=$((tries - 1))
    sleep 0.02
done
kill $pid 2>/dev/null && echo "does not listen within 3 s"
wait $pid
exit 1
"""


def quote_nghttpx(value: object) -> str:
    """Write one value; a line holds one value without quotes.

    Raises:
        DefinitionError: the value has ``,`` or ``;``, which begin another part, spaces at its ends,
            which would be lost, or a control character, which might begin another line.
    """
    text = plain_text(value, on="yes", off="no")
    if any(char in text for char in ",;") or text != text.strip():
        raise DefinitionError(f"{value!r} cannot be written: nghttpx has no quotes")
    return text


def write_nghttpx(parameter: Parameter, value: Value) -> str:
    """Format sizes as ``64K``, times as ``75s``, switches as ``yes`` and ``no``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = parameter.format(value)
    return text.upper() if parameter.unit == "bytes" else text


syntax = Syntax(server=name, suffix="conf", quote=quote_nghttpx, write=write_nghttpx, read=options)


def detect(binary: str | None = None) -> ServerFacts:
    """Find nghttpx, and return its version.

    Raises:
        HostError: it is missing or does not answer; the message names the package.
    """
    found = find(
        (binary,) if binary else _CANDIDATES,
        "no nghttpx found on this machine; install it (Debian, Ubuntu: apt-get install"
        " nghttp2-proxy; Fedora: dnf install nghttp2)",
    )
    said, _ = ask(found, "--version")
    return parse_build(said, found)


def parse_build(text: str, binary: str) -> ServerFacts:
    """Parse the output of ``nghttpx --version``."""
    found = version(r"nghttp2/([0-9]+(?:\.[0-9]+)+)", text, f"{binary} --version")
    return ServerFacts(name, binary, found, (), text.strip())


def refuses(server: ServerFacts, wire: Wire) -> str:
    """Implement ``Server.refuses``."""
    if wire.protocol == "http3":
        return f"{server.binary} is used without HTTP/3 here, which {wire.words} needs"
    return ""


def instance(
    label: str, configuration: Configuration, space: Space, ground: TargetGround, port: int
) -> InstanceSpec:
    """Implement ``Server.instance``."""
    directory = ground.instances_dir / label
    placement = ground.place(directory, port, configuration.digest)
    # The same on a socket, with errors on standard error.
    check = replace(
        placement, listen=f"unix:{_CHECK_SOCKET}", run_dir=f"{placement.run_dir}/check", log_dir=""
    )
    conf, checked = str(directory / file_name), str(directory / _CHECKED)
    return InstanceSpec(
        instance=label,
        directory=str(directory),
        files={
            file_name: render(space.template, configuration, space, placement, syntax),
            _CHECKED: render(space.template, configuration, space, check, syntax),
            **ground.tls_files,
        },
        folders=("run", "run/check", "logs"),
        validate=("sh", "-c", _CHECK, name, ground.binary, checked, _CHECK_SOCKET),
        start=(ground.binary, f"--conf={conf}", "--daemon"),
        pid_file=f"{placement.run_dir}/nghttpx.pid",
        live_url=ground.live_url(port, "/"),
        live_token=configuration.digest,
        live_header="server",
        environment={},
        cpus=ground.cpus,
        error_log=f"{placement.log_dir}/error.log",
    )


def export_text(configuration: Configuration, space: Space, placement: Placement = EXPORT) -> str:
    """Implement ``Server.export_text``."""
    placement = replace(placement, log_dir="/var/log/nghttpx")
    return render(space.template, configuration, space, placement, syntax)
