"""Two tuners at a time: on one study, on the same cores, and behind a dead one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import SHORT, STUDY, Tuner, written
from tuner.hosts import host_locks, local
from tuner.testing.lab import Faults, SimulatedHost

HOLD = """
import os, sys
from pathlib import Path
from tuner.hosts.host_locks import HostLocks
turn = HostLocks(Path(sys.argv[1]), wait=False, say=print)
turn.take_study()
turn.take_here(os.sched_getaffinity(0))
print("measuring", flush=True)
sys.stdin.read()
"""


@contextmanager
def another(folder: Path, study: str) -> Iterator[subprocess.Popen[str]]:
    """Another tuner, which measures for a study in this folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, f"studies/{study}"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "measuring\n"
        yield process
        process.kill()


def test_a_second_tuner_on_a_study_is_refused_before_anything(
    unended: Tuner, host: SimulatedHost, tmp_path: Path
) -> None:
    """A second tuner on a study is refused with the holder; reading commands work."""
    before = written()
    with another(tmp_path, "mine") as process:
        refused = unended("optimize", "--resume", "--name", "mine")
        assert refused.code == 3
        said = " ".join(refused.err.split())
        assert f"studies/mine is being run by process {process.pid} since 2" in said
        assert "--wait" in said
        assert len(said.split("tuner: ")) == 2
        assert (host.windows, host.deployments) == (0, 0)
        assert {k: v for k, v in written().items() if k != host_locks.LOCK} == before
        for words in (
            ("studies",),
            ("report", "mine", "--quiet"),
            ("export", "mine", "--output", str(tmp_path / "out")),
        ):
            assert unended(*words).code == 0, words
    assert unended("optimize", "--resume", "--name", "mine").code == 0
    assert not (STUDY / host_locks.LOCK).exists()


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", *SHORT, "--name", "second"),
        ("measure", "stock"),
        ("compare", "stock", "hand"),
        ("compare", "nginx:stock", "nginx:hand"),
        ("ladder", "nginx:stock", "nginx:hand"),
        ("run", "https-proxy-500"),
        ("ablate", "mine"),
        ("replicate", "mine"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_study_on_the_same_cores_is_refused(
    finished: Tuner, host: SimulatedHost, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """The other one is named, with its folder and process, and the way to queue."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with another(elsewhere, "first") as process:
        refused = finished(*words)
    assert refused.code == 3, refused.err
    said = " ".join(refused.err.split())
    assert "is in use by the study first in" in said
    squeezed = "".join(refused.err.split())
    assert f"{elsewhere}/studies/first(process{process.pid})" in squeezed
    assert "--wait" in said
    assert (host.windows, host.deployments) == (0, 0)
    assert [path.name for path in Path("studies").iterdir()] == ["mine"], "nothing is left of it"


def test_a_doctor_measures_no_noise_of_another_study(
    tuner: Tuner, host: SimulatedHost, tmp_path: Path
) -> None:
    """A doctor names the study that measures, and checks everything else."""
    assert host.windows == 0
    with another(tmp_path, "first"):
        said = tuner("doctor", "--quick").out
    assert "is in use by the study first" in said
    assert "nothing was measured" in said
    assert not any(row.startswith("generator ") for row in said.splitlines())
    assert "ansible" in said


def during_wait(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Let something happen while a tuner waits."""
    monkeypatch.setattr("tuner.hosts.host_locks.time.sleep", lambda _: what())


def test_a_tuner_queues_behind_another(
    tuner: Tuner, host: SimulatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting tuner names the other, and begins when the other ends or is killed."""
    with another(tmp_path, "first") as process:

        def killed() -> None:
            process.kill()
            process.wait()

        during_wait(monkeypatch, killed)
        words = [word for word in SHORT if word != "--quiet"]
        done = tuner("optimize", *words, "--name", "mine", "--wait")
    assert done.code == 0, done.err
    said = " ".join(done.err.split())
    assert "waiting: core" in said
    assert "is in use by the study first" in said
    assert said.index("waiting is over") < said.index("nginx 1.22.1")
    assert host.windows > 0


def test_a_tuner_that_waits_can_be_interrupted(
    tuner: Tuner, host: SimulatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 130, and nothing is left of it."""

    def ctrl_c() -> None:
        raise KeyboardInterrupt

    during_wait(monkeypatch, ctrl_c)
    with another(tmp_path, "first"):
        done = tuner("optimize", *SHORT, "--name", "mine", "--wait")
    assert done.code == 130
    assert "Traceback" not in done.err
    assert host.windows == 0
    assert not STUDY.exists()


def test_what_ends_gives_its_turn_back(tuner: Tuner, host: SimulatedHost) -> None:
    """After an interruption or an error, the next command of the same process gets the cores."""
    host.faults = Faults(interrupted={3})
    assert tuner("optimize", *SHORT, "--name", "mine").code == 130
    assert tuner("optimize", "--space", "nginx/nowhere", "--name", "other").code == 2
    assert not Path("studies/other").exists()
    assert tuner("optimize", "--resume", "--name", "mine", "--quiet").code == 0


def test_a_wrong_command_sweeps_nothing(tuner: Tuner, tmp_path: Path) -> None:
    """A reading or refused command does not touch the leftovers of a dead study."""
    made = local.claim(tmp_path / "dead", tmp_path / "lab", tmp_path / "work")
    local.keep(replace(made, started=made.started + 1))
    for words in (
        ("studies",),
        ("report", "nothing"),
        ("optimize", "--time", "soon"),
        ("optimize", "--resume", "--name", "nothing"),
        ("measure", "--rate", "fast"),
    ):
        tuner(*words)
        assert local.strays(), words
    assert "cleared up the dead study" in tuner("doctor", "--quick").out
    assert local.strays() == []


def test_two_tuners_behind_a_dead_one(tmp_path: Path) -> None:
    """One clears up, both come to the same end: no traceback, no endless wait."""
    program = shutil.copy2(shutil.which("sleep") or "", tmp_path / "server")
    lab = tmp_path / "studies" / "dead" / "lab"
    lab.mkdir(parents=True)
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    with subprocess.Popen([program, "1000"], cwd=lab) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
            made = local.claim(lab.parent, lab, lab.parent / "work")
            made = local.with_started(made, [str(program)], [server.pid])
            local.keep(replace(made, started=made.started + 1))
        both = [
            subprocess.Popen(
                [sys.executable, "-m", "tuner", "compare", "stock", "stock", "--wait"],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        try:
            said = [process.communicate(timeout=240)[1] for process in both]
        finally:
            for process in both:
                process.kill()
        assert server.wait() == -signal.SIGTERM
    assert [process.returncode for process in both] == [2, 2], said
    assert sorted("stopped processes that the dead study" in words for words in said) == [
        False,
        True,
    ]
    assert all("are the same configuration" in words for words in said)
    assert not lab.exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_a_folder_that_cannot_be_written_is_found_before_anything(
    tuner: Tuner, host: SimulatedHost, tmp_path: Path
) -> None:
    """One line, exit code 3, nothing measured and no claim: a file system without writing."""
    studies = tmp_path / "studies"
    studies.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tuner-test", studies], check=True)
    try:
        done = tuner("optimize", *SHORT, "--name", "mine")
    finally:
        subprocess.run(["umount", studies], check=True)
    assert done.code == 3
    said = " ".join(done.err.split())
    assert said.startswith("tuner: studies/mine: cannot be written: Read-only file system")
    assert "Traceback" not in done.err
    assert (host.windows, host.deployments) == (0, 0)
    assert local.claims() == []


def test_a_file_in_the_place_of_the_folder_is_reported(tuner: Tuner, host: SimulatedHost) -> None:
    """The same way."""
    Path("studies").write_text("")
    done = tuner("optimize", *SHORT, "--name", "mine")
    assert done.code == 3
    assert "studies/mine: cannot be written: Not a directory" in " ".join(done.err.split())
    assert host.deployments == 0
