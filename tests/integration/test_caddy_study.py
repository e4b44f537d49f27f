"""One short real study of Caddy, through the command line, from preflight to export.

It has a single core, as in a small container; the study of Nginx has two. As there, nothing is
asserted of its figures or its verdict: a machine that runs tests is busy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.nginxes import processes_in
from tests.servers.labs import here
from tests.spaces import load_space
from tuner.hosts import local
from tuner.record.model import Record
from tuner.servers import caddy
from tuner.store.store import Store, sqlite_url

pytestmark = [pytest.mark.study, pytest.mark.integration]

TOP = Path(__file__).resolve().parents[2]
NAME = "caddy"


def run_tuner(folder: Path, *arguments: str) -> str:
    """Run ``tuner ARGUMENTS`` in a folder on one core, and return its standard error."""
    core = max(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, "-m", "tuner", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TOP), "XDG_STATE_HOME": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a study of Caddy to its end; return its folder."""
    here("caddy")
    folder = tmp_path_factory.mktemp("caddy")
    load = ("--study", "static", "--rate", "3000")
    # The fewest blocks: p50 needs no further starts.
    options = (*load, "--objective", "p50", "--time", "20s", "--trials", "2")
    begin = ("optimize", "--server", "caddy", *options, "--name", NAME)
    assert "caddy" in run_tuner(folder, *begin)
    return folder / "studies" / NAME


@pytest.fixture(scope="module")
def record(study: Path) -> Record:
    """Return the record of the study."""
    return Store.open(sqlite_url(study), NAME).record()


def test_the_record_says_what_was_measured(record: Record) -> None:
    """Server, modules and build; windows with the processor time of its one process."""
    assert (record.server.name, record.server.version_tuple > (2,)) == ("caddy", True)
    assert "http.handlers.file_server" in record.server.modules
    windows = [window for block in record.blocks for window in block.windows if window.valid]
    assert windows
    for window in windows:
        assert (window.errors, window.protocol) == ({}, "http/1.1")
        assert window.server_cpu_s


def test_server_and_generator_share_the_core_and_the_report_says_so(
    study: Path, record: Record
) -> None:
    """Each would disturb the other; small differences deserve no trust there."""
    assert record.cores.shared
    assert len({*record.cores.generator, *record.cores.server}) == 1
    assert "one core only" in (study / "report.md").read_text()


def test_the_search_chose_variables_of_the_environment(record: Record) -> None:
    """They are parameters like the others."""
    digests = {trial.digest for trial in record.trials}
    chosen = [record.configurations[digest].values["gogc"] for digest in digests]
    assert len(set(chosen)) > 1


def test_what_is_exported_can_be_deployed(study: Path, record: Record) -> None:
    """A Caddyfile that Caddy takes, its JSON, the environment, and the values for a baseline."""
    tried = study / "tried"
    run_tuner(study.parents[1], "export", NAME, "--candidate", "--output", str(tried))
    text = (tried / "Caddyfile").read_text()
    assert "file_server" in text
    assert str(local.lab_folder(study)) not in text
    assert json.loads(caddy.adapt(text, record.server.binary)) == json.loads(
        (tried / "caddy.json").read_text()
    )
    assert "GOGC=" in (tried / "caddy.env").read_text()
    space = load_space(
        "caddy/static",
        server_cores=len(record.cores.server),
        memory_bytes=record.host.memory_bytes,
        server_version=record.server.version_tuple,
        modules=record.server.modules,
    )
    assert space.read_configuration(tried / "configuration.yaml").digest in record.configurations


def test_nothing_is_left_behind(study: Path, record: Record) -> None:
    """No process, and no lab."""
    assert record.ended_unix_s is not None
    assert processes_in(local.lab_folder(study)) == []
    assert not local.lab_folder(study).exists()
