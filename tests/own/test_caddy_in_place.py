"""The user's own Caddy in place: its files with other values, and nothing else about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.own.caddyfiles import here
from tests.own.test_in_place import ground
from tuner.errors import DefinitionError
from tuner.own.caddy.in_place import InPlaceCaddy, read
from tuner.own.home import LocalHome
from tuner.own.server import OwnOptions
from tuner.space.space import SpaceFacts, bind_space
from tuner.workload.workload import load_workload

SITE = "http://shop.test:8080 {\n\tencode gzip\n\troot /srv/shop\n\tfile_server\n}\n"
WRAPPED = "{\n\tservers {\n\t\tlistener_wrappers {\n\t\t\tproxy_protocol\n\t\t}\n\t}\n}\n"
PROXY = "http://shop.test:8080 {\n\treverse_proxy 127.0.0.1:3000  # the shop\n}\n"


def in_place(text: str, folder: Path, kind: str = "caddy/static") -> InPlaceCaddy:
    """Return the server behind the port."""
    (folder / "Caddyfile").write_text(text)
    (folder / "shop.yaml").write_text("workload: shop\nsite: own\nrequests: [{path: /a}]\n")
    server, workload = here(), load_workload(str(folder / "shop.yaml"))
    own = read(OwnOptions(str(folder / "Caddyfile")), workload, LocalHome(server.binary))
    assert own.workload.requests[0].headers == (("Host", "shop.test"),)
    facts = SpaceFacts(2, workload.connections, 1 << 30, server.version_tuple, server.modules)
    return own.adapt(bind_space(kind, facts), server)[0]


def test_the_baseline_is_the_hosts_files_and_nothing_more(tmp_path: Path) -> None:
    """The baseline runs the host's Caddyfile unchanged; Caddy's admin endpoint proves it live."""
    made = in_place(SITE, tmp_path)
    spec = made.instance("baseline", made.bound.baseline, made.bound.space, ground(), 8080)
    assert spec.files == {}
    file = str(tmp_path / "Caddyfile")
    reads = ("--config", file, "--adapter", "caddyfile")
    assert spec.validate == (here().binary, "validate", *reads)
    assert spec.live_adapted == (here().binary, "adapt", *reads)
    assert spec.program == here().binary
    assert made.socket.port == 8080
    assert not {"gogc", "gomemlimit", "gomaxprocs"} & {p.name for p in made.bound.space.parameters}


def test_a_service_that_hands_on_is_tuned_by_its_proxy(tmp_path: Path) -> None:
    """A service in place is tuned with the proxy's space, without a backend of the lab."""
    made = in_place(PROXY, tmp_path, "caddy/proxy")
    tuned = made.bound.space.complete({"upstream_read_buffer": 65536}, made.bound.baseline)
    (text,) = made.files(tuned).values()
    assert "# the shop" in text
    assert "read_buffer 64KiB" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("http://", "{\n\tadmin off\n}\nhttp://", "admin off: in place"),
        ("\tencode", "\tbind 127.0.0.1\n\tencode", "this is the loopback"),
        ("\tencode", "\tbind unix//run/shop.sock\n\tencode", "asked over TCP and IPv4"),
        ("http://", f"{WRAPPED}http://", "does not speak proxy_protocol"),
    ],
)
def test_what_cannot_be_asked_in_place_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    """Before anything is changed on the host."""
    with pytest.raises(DefinitionError) as refused:
        in_place(SITE.replace(old, new, 1), tmp_path)
    assert words in str(refused.value)
