"""Changes outside the service are refused, here and on the host, before it is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.hostile import payloads, touched
from tests.hosts.modules import functions_of
from tuner.errors import HostError, StoreError
from tuner.hosts.inventory import Host
from tuner.hosts.playbooks import Playbooks
from tuner.hosts.service import ServiceChange, Services

OUTSIDE = (
    "/etc/cron.d/evil",
    "/etc/nginx/../cron.d/evil",
    "/etc/nginx//evil",
    "//etc/nginx/evil",
    "/etc/nginx-evil",
    "etc/nginx/evil",
    "/etc/nginx/evil\n",
    "",
)


def asked(**more: object) -> dict[str, object]:
    """Return the arguments of a task, of which one may be wrong."""
    return {"service": "nginx", "files": {}, "unit": {}, "below": "/etc/nginx", **more}


@pytest.mark.parametrize("path", [*OUTSIDE, "/etc/nginx"])
def test_a_file_outside_the_configuration_is_refused(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host itself refuses a path outside the configuration, and quotes it."""
    module = functions_of("tuner_service", monkeypatch)
    with pytest.raises(ValueError, match=r"not the plain path of a file|is not below /etc/nginx"):
        module["refuse"](asked(files={path: "text"}))
    module["refuse"](asked(files={"/etc/nginx/nginx.conf": "", "/etc/nginx/conf.d/a.conf": ""}))


@pytest.mark.parametrize("path", ["/etc/systemd/system/ssh.service.d/x.conf", "/etc/nginx/x"])
def test_a_drop_in_of_another_unit_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of the service that is changed."""
    module = functions_of("tuner_service", monkeypatch)
    with pytest.raises(ValueError, match=r"is not below /etc/systemd/system/nginx\.service\.d"):
        module["refuse"](asked(unit={"files": {path: "text"}, "variables": {}}))
    own = "/etc/systemd/system/nginx.service.d/tuner.conf"
    module["refuse"](asked(unit={"files": {own: ""}}, service="nginx.service"))


@pytest.mark.parametrize("service", ["--now", "../../x", "a b", "nginx\n", ""])
def test_a_service_is_called_like_one(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No option of systemctl's, and no path."""
    module = functions_of("tuner_service", monkeypatch)
    with pytest.raises(ValueError, match="is not the name of a service"):
        module["refuse"](asked(service=service))


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_such_change_is_sent(path: str) -> None:
    """A path outside the configuration is refused here; the message names ``tuner export``."""
    with pytest.raises(StoreError, match=r"is not below /etc/nginx.*tuner export"):
        ServiceChange("mine", "nginx", {path: "text"}, ("nginx", "-t"), below="/etc/nginx")


def test_a_change_runs_nothing_here_though_the_host_cannot_be_reached(tmp_path: Path) -> None:
    """Ansible evaluates variables before it connects: the paths and commands of a record."""
    inventory = {"targets": {"hosts": {"web": {"ansible_host": "127.0.0.1", "ansible_port": 1}}}}
    services = Services(Playbooks(tmp_path / "work", inventory), tmp_path)
    bad = payloads(tmp_path)[0]
    file = f"/etc/caddy/{bad}/Caddyfile"
    change = ServiceChange(
        bad, bad, {file: bad}, ("caddy", "validate", "--config", file), program=bad
    )
    with pytest.raises(HostError, match="Connection refused"):
        services.change(Host("web", {}), change)
    assert touched(tmp_path, tmp_path / "work" / "ansible") == []
