"""A Caddy as the own service of a host: the program, an init script, a Caddyfile with an import."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.fleet.bed import BedHost
from tuner.servers import caddy

MAIN = "/etc/caddy/Caddyfile"
SITE = "/etc/caddy/sites/shop.caddy"
PROGRAM = "/usr/bin/caddy"
PORT = 8080
ACCOUNT = "www-data"
RELOAD = f"{PROGRAM} reload --config {MAIN} --force"
TEXTS = {
    MAIN: """\
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
export SHOP_ROOT=/srv/shop XDG_DATA_HOME=/var/lib/caddy XDG_CONFIG_HOME=/var/lib/caddy
on="--pidfile /run/caddy.pid"
case "$1" in
    start) start-stop-daemon --start --oknodo --background --make-pidfile $on \\
        --chuid {ACCOUNT} --exec {PROGRAM} -- run --config {MAIN} ;;
    stop) start-stop-daemon --stop --oknodo --retry 5 --remove-pidfile $on ;;
    restart) "$0" stop; "$0" start ;;
    reload) {RELOAD} ;;
    status) start-stop-daemon --status $on ;;
esac
"""


def serve(host: BedHost) -> None:
    """Put it on a host, and start it."""
    shutil.copy(caddy.detect().binary, host.root / PROGRAM.lstrip("/"))
    for path, text in {**TEXTS, "/etc/init.d/caddy": SCRIPT}.items():
        file = host.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (host.root / "etc/init.d/caddy").chmod(0o755)
    page = host.root / "srv/shop/page.html"
    page.parent.mkdir(parents=True)
    page.write_text("a page\n" * 100)
    for folder in ("/var/log/caddy", "/var/lib/caddy"):
        Path(host.root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        host.run("chown", ACCOUNT, folder)
    host.run("service", "caddy", "start")
