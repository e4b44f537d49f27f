"""Ansible's own files on a host: in a folder of tuner's, and removed after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.bed import Bed
from tuner.hosts.inventory import read_inventory
from tuner.hosts.playbooks import Playbooks
from tuner.hosts.remote import Connections

SITE = "/var/lib/tuner-site"
pytestmark = [pytest.mark.integration, pytest.mark.fleet]


def test_what_a_killed_playbook_left_is_removed_by_a_later_command(
    pair: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible is asked to leave its files, as if it were killed; the agent removes old ones."""
    monkeypatch.setenv("ANSIBLE_KEEP_REMOTE_FILES", "1")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("here\n")
    web, inventory = pair["web"], read_inventory(str(pair.inventory))
    left, usual = web.root / "root/.ansible/tuner", web.root / "root/.ansible/tmp"
    before = list(usual.glob("*"))
    connections = Connections(inventory)
    try:
        Playbooks(tmp_path / "work", inventory.path, connections.settings).run(
            "site.yml",
            {
                "tuner_hosts": "web",
                "tuner_site": SITE,
                "tuner_site_source": str(tmp_path / "site"),
            },
        )
        found = list(left.glob("ansible-tmp-*"))
        assert found
        assert list(usual.glob("*")) == before
        connections.agent(inventory.target).clocks()
        assert list(left.glob("*")) == found
        web.run("sh", "-c", "touch -d @0 /root/.ansible/tuner/*")
        connections.agent(inventory.target).close()
        connections.agent(inventory.target).clocks()
        assert list(left.glob("*")) == []
    finally:
        connections.close()
        web.run("rm", "-rf", SITE)
