"""Apache httpd with the event MPM, as a server of files and as a reverse proxy.

``httpd -t`` checks a file. An instance is live when it answers with the configuration's digest. It
loads the modules of the installation that its program belongs to, and only those that it needs.
https://httpd.apache.org/docs/2.4/programs/httpd.html, https://httpd.apache.org/docs/2.4/mod/event.html
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tuner.errors import DefinitionError
from tuner.hosts.deployer import InstanceSpec
from tuner.machine.facts import ServerFacts
from tuner.reading.apache_text import statements
from tuner.render.render import EXPORT, Placement, render
from tuner.render.syntax import Syntax, plain_text
from tuner.servers.ground import TargetGround
from tuner.servers.program import ask, find, version
from tuner.servers.usual_place import UsualPlace
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import Parameter
from tuner.space.space import Space
from tuner.workload.wire import Wire

name = "apache"
usual_place = UsualPlace(
    "/etc/apache2/apache2.conf",
    "apache2 -t -f %s",
    "apache2",
    # https://github.com/docker-library/docs/tree/master/httpd
    "httpd",
    "/usr/local/apache2/conf/httpd.conf",
    # A reload keeps ThreadLimit, ServerLimit and the sockets
    # (https://httpd.apache.org/docs/2.4/mod/mpm_common.html).
    reloads=False,
    named=("apache2*.conf", "httpd*.conf"),
)
file_name = usual_place.file

_CANDIDATES = (
    *("apache2", "/usr/sbin/apache2", "httpd", "/usr/sbin/httpd"),
    *("/usr/local/apache2/bin/httpd", "/usr/local/sbin/httpd"),
)
_MISSING = (
    "no Apache httpd found on this machine; install it (Debian, Ubuntu: apt-get install"
    " apache2-bin, which has no service of its own; Fedora: dnf install httpd)"
)
_OLDEST = (2, 4, 34)
"""The oldest version with all that the template writes (``IfFile``)."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@+=-]+")
_UNWRITABLE = (("${", "a variable"), ("%{", "an expression"), ("*", "a pattern"),
               ("?", "a pattern"), ("[", "a pattern"))  # fmt: skip
"""Characters that mean something else even between quotes, and what."""
# The folder next to the program's (as upstream installs it), or that of Debian, Fedora, openSUSE,
# Arch or Alpine: the first with a module that is in such a folder everywhere.
FIND_MODULES = (
    'case "$1" in */bin/*|*/sbin/*) own="${1%/*}/../modules" ;; *) own= ;; esac;'
    ' for MODULES in "$own" /usr/lib/apache2/modules /usr/lib64/httpd/modules'
    " /usr/lib64/apache2 /usr/lib/httpd/modules /usr/lib/apache2;"
    ' do [ -e "$MODULES/mod_mime.so" ] && break; done'
)
"""Shell text that sets ``MODULES`` for the program ``$1``; any folder without such a module."""
_DETECT = (
    f'{FIND_MODULES}; "$1" -v; "$1" -l; for each in "$MODULES"/mod_*.so; do echo "${{each##*/}}";'
    " done"
)
# Apache prints a warning and uses another value; what is measured must be what is written.
_RUN = (
    f'{FIND_MODULES}; said=$("$@" -C "Define MODULES \\"$MODULES\\"" 2>&1); code=$?;'
    ' case "$code$said" in 0*WARNING:*) code=1 ;; esac;'
    ' [ $code = 0 ] || { printf "%s\\n" "$said"; exit $code; }'
)
# The first process answers before the last one is there, and the lab looks for all of them then.
_START = f"""{_RUN}
[ -e "/proc/$$/task/$$/children" ] || exit 0
wanted=$(sed -n 's/^StartServers //p' {file_name})
tries=250
while [ $tries -gt 0 ]; do
    main=$(cat run/apache2.pid 2>/dev/null)
    set -- $(cat "/proc/$main/task/$main/children" 2>/dev/null)
    [ $# -ge "$wanted" ] && exit 0
    tries=$((tries - 1))
    sleep 0.02
done
echo "$# of $wanted processes are there after 5 s"
exit 1
"""


def quote_apache(value: object) -> str:
    r"""Write one value as one word.

    Plain characters need no quotes. Between double quotes, ``\"`` and ``\\`` are the only escapes
    (``substring_conf`` in ``server/util.c``).

    Raises:
        DefinitionError: the value has a control character, would be a variable (``${``), an
            expression (``%{``), a pattern (``*``, ``?``, ``[``, which ``<Directory>`` reads) or a
            command (``|`` at its beginning, in a log's place).
    """
    text = plain_text(value)
    if _PLAIN.fullmatch(text):
        return text
    for sign, meaning in _UNWRITABLE:
        if sign in text:
            raise DefinitionError(
                f"{value!r} holds {sign!r}, which Apache would take for {meaning}"
            )
    if text.startswith(("|", "~")):
        meaning = "a command" if text.startswith("|") else "a regular expression"
        raise DefinitionError(f"{value!r} begins like {meaning} in Apache's configuration")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_apache(parameter: Parameter, value: Value) -> str:
    """Format sizes and times as plain numbers, which every directive takes; switches as words."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return f"{value:g}" if isinstance(value, float) else parameter.format(value)


syntax = Syntax(server=name, suffix="conf", quote=quote_apache, write=write_apache, read=statements)


def detect(binary: str | None = None) -> ServerFacts:
    """Find Apache, and return its version and modules.

    Raises:
        HostError: it is missing or does not answer; the message names the package.
    """
    found = find((binary,) if binary else _CANDIDATES, _MISSING)
    # None of these options reads the configuration.
    said, _ = ask("sh", "-c", _DETECT, name, found)
    return parse_build(said, found)


def parse_build(text: str, binary: str) -> ServerFacts:
    """Parse the output of ``httpd -v`` and ``httpd -l``, and the names of modules' files."""
    found = version(r"Server version: Apache/([0-9]+(?:\.[0-9]+)+)", text, f"{binary} -v")
    compiled_in = re.findall(r"^ +(?:mod_)?([a-z0-9_]+)\.c$", text, re.MULTILINE)
    loadable = re.findall(r"^mod_([a-z0-9_]+)\.so$", text, re.MULTILINE)
    return ServerFacts(name, binary, found, tuple(sorted({*compiled_in, *loadable})), text.strip())


def refuses(server: ServerFacts, wire: Wire) -> str:
    """Implement ``Server.refuses``."""
    if server.version_tuple < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        return f"Apache {server.version} is too old; tuner supports {oldest} and later"
    if wire.protocol == "http3":
        return f"Apache {server.version} does not speak HTTP/3"
    needs = {"mpm_event": True, "ssl": wire.tls is not None, "http2": wire.protocol == "http2"}
    for module, needed in needs.items():
        if needed and module not in server.modules:
            return f"{server.binary} has no mod_{module}, which {wire.words} needs with tuner"
    return ""


def instance(
    label: str, configuration: Configuration, space: Space, ground: TargetGround, port: int
) -> InstanceSpec:
    """Implement ``Server.instance``."""
    directory = ground.instances_dir / label
    placement = ground.place(directory, port, configuration.digest)
    text = render(space.template, configuration, space, placement, syntax)
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
    reads = ("-d", str(directory), "-f", str(directory / file_name))
    program = (name, ground.binary, *reads)
    return InstanceSpec(
        instance=label,
        directory=str(directory),
        files={file_name: text, **ground.tls_files},
        folders=("run", "logs"),
        # -T: the site's folder need not be there yet.
        validate=("sh", "-c", _RUN, *program, "-T", "-t"),
        start=("sh", "-c", _START, *program, "-k", "start"),
        pid_file=str(directory / "run" / "apache2.pid"),
        live_url=ground.live_url(port),
        live_token=live,
        environment={},
        cpus=ground.cpus,
        error_log=str(directory / "logs" / "error.log"),
    )


def export_text(configuration: Configuration, space: Space, placement: Placement = EXPORT) -> str:
    """Implement ``Server.export_text``."""
    if placement.server_name == EXPORT.server_name:
        # It matches any name only for Nginx. Apache answers every name in any case.
        placement = replace(placement, server_name="localhost")
    return render(space.template, configuration, space, placement, syntax)
