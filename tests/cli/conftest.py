"""The command line in this process, on a simulated lab where one is needed."""

from __future__ import annotations

import io
import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

# Charts are then drawn in this process. One of its own takes 0.7 s for each report
# (tests/report/test_apart.py has both ways).
import altair as alt  # noqa: F401
import pytest
import sqlalchemy

from tests.servers.test_nginx import DEBIAN
from tuner import cli
from tuner.app import notes, this_machine
from tuner.cli import run
from tuner.definition import study
from tuner.hosts import counters
from tuner.hosts.deployer import InstanceSpec, InstanceState
from tuner.machine import idle
from tuner.measurement.window import Measurement
from tuner.phases import repeat
from tuner.servers import nginx
from tuner.space.configuration import Value
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import (
    Effect,
    Faults,
    SimulatedDeployer,
    SimulatedGenerator,
    SimulatedHost,
)
from tuner.testing.simulate import Noise


@dataclass(frozen=True)
class Outcome:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    """Somebody at a terminal."""

    def isatty(self) -> bool:
        """Implement ``io.IOBase``."""
        return True


Tuner = Callable[..., Outcome]
SHORT = ("--study", "static", "--time", "10s", "--rate", "600", "--trials", "1", "--quiet")
STUDY = Path("studies/mine")


@pytest.fixture
def tuner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Tuner]:
    """``tuner("report", "x")``: a command in an empty folder, as the shell would run it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = run_main(monkeypatch, *arguments)
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    with kept_handlers():
        yield run


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Return the command in this process; its exit code."""
    monkeypatch.setattr(sys, "argv", ["tuner", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Give back the handlers that a command puts in place."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    kept = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, kept, strict=True):
        signal.signal(number, handler)


def sendfile_helps(values: Mapping[str, Value]) -> Effect:
    """``sendfile on`` takes 40 % away, independent of the rest of the file."""
    on = "sendfile on" in str(values["text"])
    return Effect(ln_latency=-0.5 * on, capacity_per_s=4_000.0)


class Deployer:
    """Stands where ``AnsibleDeployer`` does, on a simulated host that sees nginx.conf's text."""

    def __init__(self, host: SimulatedHost, lab: Path) -> None:
        self._deployer = SimulatedDeployer(host)
        self.instances_dir = lab / "instances"
        self.backends_dir = lab / "backends"
        self.site_dir = lab / "site"

    def publish(self, site: Mapping[str, bytes]) -> None:
        """Nothing to be done: the site is not looked at."""

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Implement ``Deployer.deploy``."""
        # The configuration is the first file; its name depends on the server.
        texts = [{"text": next(iter(i.files.values()))} for i in instances]
        return self._deployer.deploy(
            [
                replace(instance, files={"configuration.json": json.dumps(text)})
                for instance, text in zip(instances, texts, strict=True)
            ]
        )

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """Implement ``Deployer.switch``."""
        text = {"text": instance.files["nginx.conf"], "kernel": dict(instance.kernel)}
        files = {"configuration.json": json.dumps(text)}
        return self._deployer.switch(replace(instance, files=files))

    def deploy_backends(self, backends: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Nothing stands behind a simulated server; its backends are always live."""
        return {spec.instance: InstanceState(spec.instance, "live", "", ()) for spec in backends}

    def stop(self) -> None:
        """Implement ``Deployer.stop``."""
        self._deployer.stop()


def written(folder: Path = STUDY) -> dict[str, bytes]:
    """Return the files of a study by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".db"
    }


def windows_of(name: str = "mine") -> list[Measurement]:
    """Return the windows in the record of a study."""
    record = Store.open(sqlite_url(Path("studies") / name), name).record()
    return [window for block in record.blocks for window in block.windows]


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder ``studies/mine`` of a study that came to its end."""
    folder = tmp_path_factory.mktemp("done")
    with pytest.MonkeyPatch.context() as patch, kept_handlers():
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        simulate(patch)
        assert run_main(patch, "optimize", *SHORT, "--name", "mine") == 0
    return folder / STUDY


@pytest.fixture
def finished(done: Path, tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> Tuner:
    """The command line of the user who made that study, in a folder that holds it."""
    shutil.copytree(done, STUDY)
    shutil.copytree(done.parents[1] / "state", "state", dirs_exist_ok=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    return tuner


@pytest.fixture
def unended(finished: Tuner) -> Tuner:
    """The same with a study to which something is left to measure, as far as its record says."""
    url = sqlalchemy.create_engine(sqlite_url(STUDY))
    with url.begin() as connection:
        delete = "DELETE FROM study_user_attributes WHERE key = 'ended_unix_s'"
        assert connection.execute(sqlalchemy.text(delete)).rowcount
    return finished


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> SimulatedHost:
    """Return the host that the commands measure; tests may change its fields."""
    return simulate(monkeypatch)


def simulate(monkeypatch: pytest.MonkeyPatch) -> SimulatedHost:
    """Put a simulated host in the place of this machine."""
    made = SimulatedHost(
        truth=sendfile_helps,
        noise=Noise(ar_sd=0.01, restart_sd=0.005, burst_probability=0.0),
        tail_share=0.0,
        faults=Faults(),
    )
    quiet(monkeypatch)
    for module in (study, run):
        monkeypatch.setattr(module, "draw_seed", lambda: 1)
    monkeypatch.setattr(this_machine, "NativeGenerator", lambda *_: SimulatedGenerator(made))
    monkeypatch.setattr(
        this_machine, "AnsibleDeployer", lambda lab, _work, **_: Deployer(made, lab)
    )
    monkeypatch.setattr(repeat, "FIRST_PAUSE_S", 0.0)
    return made


def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preflight with a server and a generator that need not be installed, and no look at noise."""
    found = nginx.parse_build(DEBIAN, "/usr/sbin/nginx")
    monkeypatch.setattr(nginx, "detect", lambda: found)
    monkeypatch.setattr(this_machine, "loadgen_binary", lambda: Path("/usr/bin/tuner-loadgen"))
    monkeypatch.setattr(counters, "read", None)
    monkeypatch.setattr(notes, "noise_notes", lambda *_: [])
    monkeypatch.setattr(idle, "should_poll", lambda *_: False)
