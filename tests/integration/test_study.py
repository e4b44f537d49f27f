"""A real study on this machine, through the command line, interrupted in every way on its way.

It is short, so nothing is asserted of its figures or its verdict: a machine that runs tests is
busy. What is asserted is what must hold on any machine: the record, the protocol, what is written,
and that nothing is lost or left behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import optuna
import pytest

from tests.hosts.nginxes import NGINX, processes_in
from tests.spaces import load_space
from tuner.errors import StoreError
from tuner.hosts import local
from tuner.judge.results import evaluate
from tuner.judge.scoring import BASELINE
from tuner.paths import LOADGEN_VARIABLE, loadgen_binary
from tuner.record.model import SCHEMA_VERSION, Phase, Record
from tuner.store.store import Store, sqlite_url

pytestmark = [
    pytest.mark.study,
    pytest.mark.integration,
    pytest.mark.skipif(NGINX is None, reason="no nginx on this machine: nothing real was tested"),
]

TOP = Path(__file__).resolve().parents[2]
NAME = "e2e"
OPTIONS = (
    "--study",
    "static",
    "--server",
    "nginx",
    "--objective",
    "p99",
    "--time",
    "20s",
    "--rate",
    "2000",
    "--trials",
    "3",
)
PATIENCE_S = 240.0
"""Until something that must happen has happened; far beyond what it takes on a busy machine."""

Windows = dict[tuple[int, str], float]
"""When each window began, by its block and its identity in it."""


@dataclass
class Lab:
    """The folder of one study, and everything that is started there."""

    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[str] | None = None

    @property
    def study(self) -> Path:
        """Return the folder of the results."""
        return self.folder / "studies" / NAME

    @property
    def instances(self) -> Path:
        """Return the folder of the instances."""
        return local.lab_folder(self.study)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Return ``tuner ARGUMENTS``, as a user would start it in the folder."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tuner", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.process

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Return the same, to its end: exit code and what was said."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=3 * PATIENCE_S)
        return process.returncode, out, err

    def record(self) -> Record:
        """Return the current record."""
        return Store.open(sqlite_url(self.study), NAME, writing=False).record()

    def windows(self) -> Windows:
        """Return the windows in the record now."""
        return {
            (block.number, window.window_id): window.started_unix_s
            for block in self.record().blocks
            for window in block.windows
        }

    def is_measuring(self, phase: Phase) -> bool:
        """Return whether the latest block is of this phase, runs and has a window."""
        if not (self.study / "record.db").exists():
            return False
        blocks = self.record().blocks
        latest = blocks[-1] if blocks else None
        return (
            latest is not None
            and (latest.phase, latest.state) == (phase, "running")
            and len(latest.windows) >= 1
        )

    def left(self) -> list[str]:
        """Return processes that live in the study's lab, or came from its copy of the generator."""
        return [*processes_in(self.instances), *processes_in(self.folder / "bin")]

    def outside(self) -> list[str]:
        """Return files in the folder for temporary files, and in the user's own."""
        return [str(path) for top in ("tmp", "home") for path in (self.folder / top).rglob("*")]

    def claims(self) -> list[Path]:
        """Return notes of studies that run, or died."""
        return list(self.folder.glob("state/tuner/running/*.json"))


@dataclass
class Story:
    """The observations of one study."""

    lab: Lab
    codes: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    kept: dict[str, Windows] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)
    outside: dict[str, list[str]] = field(default_factory=dict)
    """Files outside the study's folder, in the folders for temporary files and of the user."""
    out: str = ""


def until(what: Callable[[], bool], process: subprocess.Popen[str], name: str) -> None:
    """Wait for it; the test fails if the process ends before, or it never comes."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"tuner ended before {name}: {process.communicate()}")
        try:
            if what():
                return
        except StoreError:
            pass
        time.sleep(0.3)
    process.kill()
    pytest.fail(f"{name} did not come: {process.communicate()}")


def measuring(lab: Lab, phase: Phase, process: subprocess.Popen[str]) -> bool:
    """Return whether a block of this phase is being measured; if so, tuner is stopped there.

    A block that went on could end before a signal reaches it.
    """
    # A look without a stop says no nearly always, and takes no time from the study.
    if not lab.is_measuring(phase):
        return False
    process.send_signal(signal.SIGSTOP)
    try:
        found = lab.is_measuring(phase)
    except StoreError:
        found = False  # Stopped in a write.
    if not found:
        process.send_signal(signal.SIGCONT)
    return found


def stopped(story: Story, turn: str, phase: Phase, number: signal.Signals, *arguments: str) -> None:
    """Let the study go on until it measures in this phase, then send it the signal."""
    lab = story.lab
    process = lab.start(*arguments)
    until(lambda: measuring(lab, phase, process), process, f"a window of {phase}")
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=PATIENCE_S)
    story.codes[turn] = process.returncode
    story.said[turn] = said
    story.kept[turn] = lab.windows()
    story.left[turn] = lab.left()
    story.outside[turn] = lab.outside()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Ctrl-C in the A/A blocks, kill -9 in the search, SIGTERM in the confirmation, the end."""
    folder = tmp_path_factory.mktemp("study")
    for name in ("bin", "tmp", "home"):
        (folder / name).mkdir()
    generator = shutil.copy2(loadgen_binary(), folder / "bin")
    lab = Lab(
        folder,
        {
            **os.environ,
            "PYTHONPATH": str(TOP),
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder / "home"),
            LOADGEN_VARIABLE: str(generator),
        },
    )
    found = Story(lab)
    resume = ("optimize", "--resume", "--name", NAME)
    try:
        begin = ("optimize", *OPTIONS, "--name", NAME)
        stopped(found, "ctrl-c", "aa", signal.SIGINT, *begin)
        stopped(found, "kill", "search", signal.SIGKILL, *resume)
        stopped(found, "sigterm", "confirm", signal.SIGTERM, *resume)
        found.codes["end"], found.out, found.said["end"] = lab.run(*resume)
        found.left["end"] = lab.left()
        yield found
    finally:
        if lab.process is not None and lab.process.poll() is None:
            lab.process.kill()
            lab.process.wait()
        subprocess.run(
            [sys.executable, "-m", "tuner", "doctor", "--quick"],
            cwd=folder,
            env=lab.environment,
            capture_output=True,
            check=False,
        )


@pytest.fixture(scope="module")
def record(story: Story) -> Record:
    """The record at the end."""
    assert story.codes["end"] == 0, story.said["end"]
    return story.lab.record()


def test_the_study_comes_to_its_end(story: Story, record: Record) -> None:
    """Exit code 0, and an outcome on standard output."""
    assert record.ended_unix_s is not None
    assert story.out.startswith(evaluate(record).sentence)


def test_ctrl_c_and_sigterm_stop_everything_and_keep_everything(story: Story) -> None:
    """Both signals end a study with exit code 130, no process left, and no traceback."""
    for turn in ("ctrl-c", "sigterm"):
        assert story.codes[turn] == 130, story.said[turn]
        assert story.left[turn] == []
        assert "Traceback" not in story.said[turn]


def test_what_a_killed_study_leaves_is_found_and_stopped(story: Story) -> None:
    """The servers went on; the generator ended with tuner; the next command cleared up."""
    assert story.codes["kill"] == -signal.SIGKILL
    assert any("nginx" in words for words in story.left["kill"])
    assert not any("loadgen" in words for words in story.left["kill"])
    assert "stopped processes that the dead study" in story.said["sigterm"]


def test_a_killed_study_leaves_nothing_outside_its_folder(story: Story) -> None:
    """Neither samples of the window that ran, nor what Ansible had unpacked."""
    assert story.outside["kill"] == []


def test_no_window_is_lost(story: Story, record: Record) -> None:
    """Every window that had ended at any of the three turns is in the record at the end."""
    everything = story.lab.windows()
    for turn, kept in story.kept.items():
        assert kept, turn
        assert kept.items() <= everything.items(), turn
    assert record.blocks


def test_the_record_is_whole(record: Record) -> None:
    """Schema, definition, host and server; every block ended; every window has its figures."""
    assert record.schema_version == SCHEMA_VERSION
    assert (record.name, record.definition["rate"]) == (NAME, 2000)
    assert record.server.name == "nginx"
    assert record.calibration is not None
    assert record.calibration.rate_per_s == 2000
    phases = [block.phase for block in record.blocks]
    assert set(phases) >= {"capacity", "aa", "search", "confirm"}
    assert {block.state for block in record.blocks} <= {"complete", "invalid", "failed"}
    interrupted = [block for block in record.blocks if block.reason == "interrupted"]
    assert [block.phase for block in interrupted] == ["aa", "search", "confirm"]
    for block in record.blocks:
        for window in block.windows:
            assert window.offered > 0
            if window.valid:
                assert window.stall_free.p50_us > 0
                assert window.raw.count >= window.stall_free.count
                assert window.errors == {}
                assert window.protocol == "http/1.1"


def test_the_baseline_is_in_every_block(record: Record) -> None:
    """And every complete block measured all that it held."""
    for block in record.blocks:
        assert block.instances[0].instance == BASELINE
        assert block.instances[0].digest == record.baseline
        if block.state == "complete":
            live = {i.instance for i in block.instances if i.state == "live"}
            assert live <= {window.instance for window in block.windows}


def test_the_protocol_was_frozen_before_the_first_confirmation_block(record: Record) -> None:
    """And its blocks are the ones that were measured."""
    protocol = record.protocol
    if protocol is None:
        # A short search on a busy machine may leave nothing to confirm.
        assert evaluate(record).status == "nothing-better"
        return
    confirm = [block for block in record.blocks if block.phase == "confirm"]
    assert protocol.frozen_unix_s < min(block.started_unix_s for block in confirm)
    assert sum(block.state == "complete" for block in confirm) <= protocol.blocks
    assert {i.digest for b in confirm for i in b.instances} == {
        protocol.baseline,
        protocol.candidate,
    }


def test_optuna_opens_the_record_and_finds_no_zombie(story: Story, record: Record) -> None:
    """Two studies, every trial of both finished."""
    url = sqlite_url(story.lab.study)
    for name in (NAME, f"{NAME}/blocks"):
        study = optuna.load_study(study_name=name, storage=url)
        assert study.trials
        assert all(trial.state.is_finished() for trial in study.trials)
    search = optuna.load_study(study_name=NAME, storage=url)
    assert len(search.trials) == len(record.trials)
    assert search.trials[1].params
    assert {trial.state for trial in record.trials} <= {"complete", "dropped", "infeasible"}


def test_report_and_configuration_are_there(story: Story, record: Record) -> None:
    """One page that needs no network, one for pull requests, and what to deploy."""
    study = story.lab.study
    page = (study / "report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert evaluate(record).sentence.split(":")[0] in page
    assert 'src="http' not in page
    assert NAME in (study / "report.md").read_text()
    assert (study / "best").is_dir() == evaluate(record).has_recommendation
    tried = story.lab.folder / "tried"
    code, _, err = story.lab.run("export", NAME, "--candidate", "--output", str(tried))
    assert code == 0, err
    assert "server {" in (tried / "nginx.conf").read_text()
    space = load_space(
        str(record.definition["space"]),
        server_cores=len(record.cores.server),
        memory_bytes=record.host.memory_bytes,
        server_version=record.server.version_tuple,
        modules=record.server.modules,
    )
    assert space.read_configuration(tried / "configuration.yaml").digest in record.configurations


def test_the_report_comes_again_from_the_record_alone(story: Story, record: Record) -> None:
    """Byte by byte."""
    study = story.lab.study
    paths = [p for p in sorted(study.rglob("*")) if p.is_file() and p.suffix != ".db"]
    first = {path: path.read_bytes() for path in paths}
    assert len(first) == (4 if evaluate(record).has_recommendation else 2)
    for path in paths:
        path.unlink()
    code, out, err = story.lab.run("report", NAME, "--json")
    assert code == 0, err
    assert json.loads(out)["sentence"] == evaluate(record).sentence
    assert {path: path.read_bytes() for path in paths} == first


def test_nothing_is_left_behind(story: Story, record: Record) -> None:
    """No process, no lab, no work files, no claim: only the results."""
    assert record.ended_unix_s is not None
    assert story.left["end"] == []
    assert not story.lab.instances.exists()
    assert not (story.lab.study / "work").exists()
    assert not (story.lab.study / "lab").exists()
    assert story.lab.claims() == []


def test_a_finished_study_may_be_resumed_and_measures_nothing(story: Story, record: Record) -> None:
    """Resuming a finished study prints its outcome again and measures no window."""
    before = story.lab.windows()
    code, out, err = story.lab.run("optimize", "--resume", "--name", NAME, "--quiet")
    assert code == 0, err
    assert out.startswith(evaluate(record).sentence)
    assert story.lab.windows() == before
