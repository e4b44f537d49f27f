"""Web servers as the own service of a host, as Debian's packages or their own set them up.

The bed has no package of Caddy and of Envoy, so the fixture installs their programs, files and
units (for Caddy an init script without systemd).
"""

from __future__ import annotations

import http.client
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.bed import BedHost, until
from tuner.servers import caddy, envoy
from tuner.servers.ground import LIVE_PATH

GUARD = "var/lib/tuner"
"""Where a host keeps its own files while they are another's, below its root."""
OF_SERVICES = (GUARD, "var/lib/nginx", "var/lib/caddy", "var/lib/apache2", "var/lib/haproxy")
"""Below these, files are the guard's or of a running service."""
PAGE = "/page.html"
PATIENCE_S = 120.0

CADDYFILE = "/etc/caddy/Caddyfile"
SITE = "/etc/caddy/sites/shop.caddy"
PROGRAM = "/usr/bin/caddy"
PORT = 8080
ACCOUNT = "www-data"
RUN = f"{PROGRAM} run --config {CADDYFILE}"
RELOAD = f"{PROGRAM} reload --config {CADDYFILE} --force"
VARIABLES = {
    "SHOP_ROOT": "/srv/shop",
    "XDG_DATA_HOME": "/var/lib/caddy",
    "XDG_CONFIG_HOME": "/var/lib/caddy",
}
TEXTS = {
    CADDYFILE: """\
# Kept as it is.
import sites/*.caddy
""",
    SITE: f"""\
http://shop.test:{PORT} {{
	root * {{$SHOP_ROOT}}   # known to the service alone
	encode gzip
	log {{
		output file /var/log/caddy/access.log
	}}
	file_server
}}
""",
}
SCRIPT = f"""\
#!/bin/sh
### BEGIN INIT INFO
# Provides: caddy
# Required-Start:
# Required-Stop:
# Default-Start: 2
# Default-Stop:
# Short-Description: Caddy
### END INIT INFO
export {" ".join(f"{name}={value}" for name, value in VARIABLES.items())}
on="--pidfile /run/caddy.pid"
case "$1" in
    start) start-stop-daemon --start --oknodo --background --make-pidfile $on \\
        --chuid {ACCOUNT} --exec {PROGRAM} -- {RUN.partition(" ")[2]} ;;
    stop) start-stop-daemon --stop --oknodo --retry 5 --remove-pidfile $on ;;
    restart) "$0" stop; "$0" start ;;
    reload) {RELOAD} ;;
    status) start-stop-daemon --status $on ;;
esac
"""
# That of the package (github.com/caddyserver/dist, init/caddy.service), with an account that Debian
# has, and the variables.
UNIT = f"""\
[Unit]
Description=Caddy
After=network.target

[Service]
Type=notify
User={ACCOUNT}
Group={ACCOUNT}
{"".join(f"Environment={name}={value}{chr(10)}" for name, value in VARIABLES.items())}\
ExecStart={RUN}
ExecReload={RELOAD}
TimeoutStopSec=5s
LimitNOFILE=1048576
ProtectSystem=full
AmbientCapabilities=CAP_NET_ADMIN CAP_NET_BIND_SERVICE

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Service:
    """One of them: where its files lie, what it serves, and as what it runs."""

    server: str
    """As tuner and its host call it."""
    main: str
    """Its main file."""
    port: int
    name: str
    """Name of its site."""
    own: str
    """Words of its own files, which every configuration keeps."""
    serve: Callable[[BedHost], None]
    """Puts it on a host, and has it run there."""
    tells: Callable[[BedHost], str]
    """With which configuration it runs, in its own words."""

    def ask(self, host: BedHost, path: str) -> str:
        """Status and body of an answer; empty while there is none."""
        status, _, body = self.answer(host, path)
        return f"{status} {body}".strip()

    def answer(self, host: BedHost, path: str) -> tuple[str, str, str]:
        """Status, headers and body; empty while there is none."""
        connection = http.client.HTTPConnection(host.address, self.port, timeout=5)
        try:
            connection.request("GET", path, headers={"Host": self.name})
            reported = connection.getresponse()
            return str(reported.status), str(reported.headers), reported.read().decode()
        except (OSError, http.client.HTTPException):
            return "", "", ""
        finally:
            connection.close()

    def state(self, host: BedHost) -> Mapping[str, object]:
        """The host's files byte for byte, when they were written, and what its service answers."""
        folder = (host.root / self.main.lstrip("/")).parent
        files = [path for path in sorted(folder.rglob("*")) if not path.is_dir()]
        return {
            "files": own_files(host),
            "times": {str(path): path.lstat().st_mtime_ns for path in files},
            "page": self.ask(host, PAGE),
            "runs": self.tells(host),
        }

    def awaited(self, host: BedHost) -> None:
        """Wait until it serves its page: a start may be over before that."""
        until(f"{PAGE} of {host.name}", lambda: self.ask(host, PAGE).startswith("200"), PATIENCE_S)


def own_files(host: BedHost) -> dict[str, str]:
    """Return the host's own files, without the guard's."""
    return {
        path: seen
        for path, seen in host.files().items()
        if not path.startswith(OF_SERVICES) and Path(path).name != "nginx"
    }


def restored(host: BedHost) -> None:
    """Wait until nothing of the host is lent any more."""
    until("the restoration", lambda: not (host.root / GUARD / "saved.json").exists(), PATIENCE_S)


def _nginx(host: BedHost) -> None:
    """Debian's, which the host starts by itself."""
    page = host.root / "var/www/html" / PAGE.lstrip("/")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("a page\n" * 100)


def _caddy(host: BedHost) -> None:
    shutil.copy(caddy.detect().binary, host.root / PROGRAM.lstrip("/"))
    unit, script = "/etc/systemd/system/caddy.service", "/etc/init.d/caddy"
    starts = {unit: UNIT} if host.systemd else {script: SCRIPT}
    for path, text in {**TEXTS, **starts}.items():
        file = host.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    page = host.root / f"srv/shop{PAGE}"
    page.parent.mkdir(parents=True)
    page.write_text("a page\n" * 100)
    for folder in ("/var/log/caddy", "/var/lib/caddy"):
        host.run("install", "-d", "-o", ACCOUNT, folder)
    if host.systemd:
        host.run("systemctl", "disable", "--now", "nginx")
        host.run("systemctl", "daemon-reload")
        host.run("systemctl", "enable", "--now", "caddy")
    else:
        host.run("chmod", "755", script)
        host.run("service", "caddy", "start")


def _marks(host: BedHost) -> str:
    """Return Nginx's answer at the path that identifies its configuration; empty without one."""
    status, headers, body = NGINX.answer(host, LIVE_PATH)
    rows = [row for row in headers.splitlines() if not row.startswith("Date:")]
    return "\n".join([status, *rows, body]).strip()


def _running(host: BedHost) -> str:
    """Return the configuration that Caddy's administration reports; empty while it is silent."""
    asked = (
        "import contextlib, urllib.request\n"
        "with contextlib.suppress(OSError):\n"
        "    print(urllib.request.urlopen('http://localhost:2019/config/', timeout=5).read())\n"
    )
    return host.run("python3", "-c", asked)


NGINX = Service(
    "nginx",
    "/etc/nginx/nginx.conf",
    80,
    "localhost",
    "try_files $uri $uri/ =404",
    _nginx,
    _marks,
)
CADDY = Service(
    "caddy", CADDYFILE, PORT, "shop.test", "# known to the service alone", _caddy, _running
)


APPLICATION = 8080
"""Port of what a proxy passes requests on to: that of an export."""
HAPROXY_CFG = f"""\
# Kept as it is.
global
	stats socket /run/haproxy/admin.sock mode 660 level admin
	user haproxy
	group haproxy

defaults
	mode http
	timeout connect 5s
	timeout client 50s   # ours
	timeout server 50s

frontend www
	bind *:80
	default_backend application

backend application
	server one 127.0.0.1:{APPLICATION}
"""
ENVOY_YAML = f"""\
# Kept as it is.
static_resources:
  listeners:
    - address: {{socket_address: {{address: 0.0.0.0, port_value: 80}}}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.\
http_connection_manager.v3.HttpConnectionManager
                stat_prefix: www
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes: [{{match: {{prefix: /}}, route: {{cluster: application}}}}]
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
    - name: application
      type: STATIC
      load_assignment:
        cluster_name: application
        endpoints:
          - lb_endpoints:
              - endpoint:
                  address:
                    socket_address: {{address: 127.0.0.1, port_value: {APPLICATION}}}
"""
# Envoy's project has no unit; this is what the comment in its export asks for. The memory of a hot
# restart would be this machine's.
ENVOY_UNIT = """\
[Unit]
Description=Envoy
After=network.target

[Service]
Environment=CONCURRENCY=1
ExecStart=/usr/bin/envoy --disable-hot-restart -c /etc/envoy/envoy.yaml --concurrency ${CONCURRENCY}

[Install]
WantedBy=multi-user.target
"""


def _application(host: BedHost) -> None:
    """Put an application behind a proxy."""
    page = host.root / f"srv/application{PAGE}"
    page.parent.mkdir(parents=True)
    page.write_text("a page\n" * 100)
    started = ("systemd-run", "--unit=application", "python3", "-m", "http.server")
    host.run(*started, str(APPLICATION), "--directory=/srv/application", "--protocol=HTTP/1.1")


def _only(host: BedHost, service: str) -> None:
    """Let one of the installed servers have the port."""
    others = [name for name in ("apache2", "haproxy") if name != service]
    host.run("systemctl", "disable", "--now", *others)
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "reset-failed")
    host.run("systemctl", "enable", service)
    host.run("systemctl", "restart", service)


def _apache(host: BedHost) -> None:
    """Debian's."""
    (host.root / f"var/www/html{PAGE}").write_text("a page\n" * 100)
    _only(host, "apache2")


def _haproxy(host: BedHost) -> None:
    """Debian's, with a file of its own."""
    (host.root / "etc/haproxy/haproxy.cfg").write_text(HAPROXY_CFG)
    _application(host)
    _only(host, "haproxy")


def _envoy(host: BedHost) -> None:
    shutil.copy(envoy.detect().binary, host.root / "usr/bin/envoy")
    (host.root / "etc/envoy").mkdir()
    (host.root / "etc/envoy/envoy.yaml").write_text(ENVOY_YAML)
    (host.root / "etc/systemd/system/envoy.service").write_text(ENVOY_UNIT)
    _application(host)
    _only(host, "envoy")


def _threads(host: BedHost) -> str:
    """Return the number of threads of Apache's processes, once they have all started.

    The first process has one, and serves nothing.
    """
    counts: list[set[str]] = [set()]

    def are_there() -> bool:
        counts.append({*host.run("ps", "-C", "apache2", "-o", "nlwp=").split()} - {"1"})
        return len(counts[-1]) == 1 and counts[-1] == counts[-2]

    until("Apache's threads", are_there, PATIENCE_S)
    return counts[-1].pop()


def haproxy_pid(host: BedHost) -> str:
    """Return the process of HAProxy that serves: each configuration has one of its own."""
    asked = (
        "import socket\n"
        "with socket.socket(socket.AF_UNIX) as found:\n"
        "    found.connect('/run/haproxy/admin.sock')\n"
        "    found.sendall(b'show info\\n')\n"
        "    print(found.makefile().read())\n"
    )
    rows = host.run("python3", "-c", asked).splitlines()
    return next(row for row in rows if row.startswith("Pid: "))


def _shown(host: BedHost) -> str:
    """Return HAProxy's main process, which a reload keeps and a restart replaces by its like."""
    return host.run("ps", "-C", "haproxy", "-o", "args=").splitlines()[0]


def _started(host: BedHost) -> str:
    """Return the command line of Envoy's process."""
    return host.run("ps", "-C", "envoy", "-o", "args=").strip()


APACHE = Service(
    "apache", "/etc/apache2/apache2.conf", 80, "localhost", "AccessFileName", _apache, _threads
)
HAPROXY = Service(
    "haproxy", "/etc/haproxy/haproxy.cfg", 80, "localhost", "# ours", _haproxy, _shown
)
ENVOY = Service(
    "envoy", "/etc/envoy/envoy.yaml", 80, "localhost", "# Kept as it is.", _envoy, _started
)
