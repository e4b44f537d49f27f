"""``--server-binary``: another program of a server, and two of them in one comparison."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.conftest import Tuner
from tests.hosts.nginxes import needs_nginx
from tests.servers.test_nginx import DEBIAN
from tuner.app import server_binary
from tuner.app.contests import look
from tuner.app.matches import Match, entries_of, with_program
from tuner.app.progress import TerminalProgress
from tuner.app.session import create_store, open_bench
from tuner.cli import doctor, space
from tuner.cli.lint import findings
from tuner.definition.study import load_study
from tuner.errors import DefinitionError, HostError
from tuner.hosts.deployer import Deployer, InstanceSpec, InstanceState
from tuner.judge.plan import BlockPlan
from tuner.machine.facts import ServerFacts
from tuner.own.server import OwnOptions
from tuner.phases import contest
from tuner.phases.block import Arm
from tuner.record.contenders import Contender, server_keys, server_words
from tuner.servers import caddy, nginx
from tuner.servers.program import named_program
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import SimulatedGenerator, SimulatedHost
from tuner.testing.sample_record import sample_record
from tuner.workload.workload import load_workload

OPTION = server_binary.OPTION
DUEL = ("compare", "nginx:stock", "nginx:stock")


def test_a_study_names_its_program(tmp_path: Path) -> None:
    """As an option, and in a study file relative to its folder; it survives in the record."""
    given = load_study("static", {"server_binary": ["/opt/nginx"]})
    assert given.server_binary == "/opt/nginx"
    assert load_study("static", given.as_dict()).server_binary == "/opt/nginx"
    file = tmp_path / "mine.yaml"
    file.write_text("server_binary: sbin/nginx\n")
    assert load_study(str(file)).server_binary == str(tmp_path / "sbin/nginx")


def test_a_study_has_one_program() -> None:
    """Two are for a comparison of servers, and the message says how."""
    with pytest.raises(DefinitionError, match="compare nginx:stock nginx:stock"):
        load_study("static", {"server_binary": ["/a", "/b"]})


def test_a_service_in_place_runs_its_own_program() -> None:
    """Both options together are refused."""
    both = {"server_binary": ["/a"], "in_place": "restarts-my-service", "inventory": "h.yml"}
    with pytest.raises(DefinitionError, match="runs its own program"):
        load_study("static", both)


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("gone", None, "No such file or directory"),
        ("plain", 0o644, "is not executable"),
        ("folder", 0o755, "is not a file"),
        ("a\nb", None, "is not the path of a program"),
    ],
)
def test_a_wrong_path_is_refused(tmp_path: Path, name: str, mode: int | None, said: str) -> None:
    """A path that is not an executable regular file gives one line with the option."""
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif mode is not None:
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    with pytest.raises(DefinitionError, match=said) as error:
        named_program(str(path), OPTION)
    assert error.value.path == OPTION
    assert "\n" not in str(error.value)


def test_another_program_is_not_taken_for_the_server(tmp_path: Path) -> None:
    """Its first line of output is quoted."""
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    with pytest.raises(DefinitionError, match=r"does not print a version.*; name a program of"):
        server_binary.detect(nginx, str(other))


@needs_nginx[0]
@needs_nginx[1]
def test_a_named_program_is_the_one_that_is_detected(tmp_path: Path) -> None:
    """A copy at another path has the same version."""
    copy = tmp_path / "nginx"
    shutil.copy(nginx.detect().binary, copy)
    found = server_binary.detect(nginx, str(copy))
    assert (found.binary, found.version) == (str(copy), nginx.detect().version)


def test_a_record_of_others_names_no_program() -> None:
    """Only the user's own record may say what runs on this machine."""
    record = sample_record()
    foreign = replace(record, definition={**record.definition, server_binary.KEY: "/opt/evil"})
    assert server_binary.KEY not in server_binary.own_definition(foreign)


def test_each_arm_has_its_program() -> None:
    """Arms that differ only in it have letters; one program is that of all arms."""
    old, new = entries_of(("nginx:stock", "nginx:stock"), ("/old", "/new"))
    assert (old.label, old.program) == ("nginx-stock-a", "/old")
    assert (new.label, new.program) == ("nginx-stock-b", "/new")
    stock, hand = entries_of(("nginx:stock", "nginx:hand"), ("/new",))
    assert (stock.label, hand.label) == ("nginx-stock", "nginx-hand")
    assert {stock.program, hand.program} == {"/new"}


@pytest.mark.parametrize(
    ("arms", "programs", "said"),
    [
        (("nginx:stock", "caddy:stock"), ("/a",), "once for each arm"),
        (("nginx:stock", "nginx:hand"), ("/a", "/b", "/c"), "3 programs for 2 arms"),
        (("nginx:stock", "nginx:stock"), (), "is named twice; two programs"),
        (("nginx:stock", "nginx:stock"), ("/a", "/a"), "is named twice; two programs"),
    ],
)
def test_programs_that_do_not_fit_the_arms_are_refused(
    arms: tuple[str, ...], programs: tuple[str, ...], said: str
) -> None:
    """The message says which one is missing."""
    with pytest.raises(DefinitionError, match=said):
        entries_of(arms, programs)


def test_a_study_file_names_the_program_of_a_comparison() -> None:
    """Its program serves all arms of one server, unless the option names others."""
    base = load_study("static", {server_binary.KEY: "/new"})
    match = Match.of(("nginx:stock", "nginx:hand"), {}, "mine.yaml", limit=None, ladder=False)
    assert {arm.program for arm in with_program(match, base)[1]} == {"/new"}
    chosen = replace(match, server_binary=("/a", "/b"))
    assert [arm.program for arm in with_program(chosen, base)[1]] == ["/a", "/b"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: SimulatedHost) -> list[str]:  # noqa: ARG001 - its own detection is replaced
    """Two programs on a simulated host; each reports Debian's build."""

    def detect(binary: str | None = None) -> ServerFacts:
        return nginx.parse_build(DEBIAN, binary or "/usr/sbin/nginx")

    monkeypatch.setattr(nginx, "detect", detect)
    made = [tmp_path / "old" / "nginx", tmp_path / "new" / "nginx"]
    for path in made:
        path.parent.mkdir()
        path.touch(mode=0o755)
    return [str(path) for path in made]


def contenders() -> Sequence[Contender]:
    """Return the arms in the record of ``duel``."""
    found = Store.open(sqlite_url(Path("studies/duel")), "duel.contest").record().contest
    assert found is not None
    return found.contenders


def test_a_comparison_from_elsewhere_resumes_with_its_programs(
    tuner: Tuner, host: SimulatedHost, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user names them again; they are never started only because the record names them."""
    old, new = programs
    named = (OPTION, old, OPTION, new)
    host.faults = replace(host.faults, interrupted={12})
    assert tuner(*DUEL, *named, "--time", "10s", "--name", "duel").code == 130
    host.faults = replace(host.faults, interrupted=set())
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("theirs").absolute()))
    deployed = host.deployments
    resumed = (*DUEL, "--resume", "--name", "duel", "--foreign")
    for wrong, said in (
        ((), f"if you trust them, add: {OPTION} {old} {OPTION} {new}"),
        ((OPTION, new, OPTION, old), f"the run began with {OPTION} {old}"),
    ):
        refused = tuner(*resumed, *wrong)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    assert host.deployments == deployed
    done = tuner(*resumed, *named)
    assert done.code == 0, done.err
    assert [arm.program for arm in contenders()] == programs


def test_a_comparison_from_here_keeps_its_programs() -> None:
    """The comparison resumes without naming its programs, and refuses other programs."""
    server_binary.confirm_programs(["/old", "/new"], (), elsewhere=False)
    server_binary.confirm_programs(None, (), elsewhere=True)
    with pytest.raises(DefinitionError, match="began with the installed servers"):
        server_binary.confirm_programs([], ("/new",), elsewhere=False)


class Watched:
    """A deployer that keeps the last bytes of each instance's program."""

    def __init__(self, deployer: Deployer) -> None:
        self._deployer = deployer
        self.ends: dict[str, set[bytes]] = {}

    def deploy(self, instances: Sequence[InstanceSpec]) -> Mapping[str, InstanceState]:
        """Implement ``Deployer.deploy``."""
        states = self._deployer.deploy(instances)
        for label, state in states.items():
            exes = [Path(f"/proc/{pid}/exe") for pid in state.pids]
            self.ends[label] = {exe.read_bytes()[-3:] for exe in exes}
        return states

    def switch(self, instance: InstanceSpec) -> InstanceState:
        """Implement ``Deployer.switch``."""
        return self._deployer.switch(instance)

    def stop(self) -> None:
        """Implement ``Deployer.stop``."""
        self._deployer.stop()


@needs_nginx[0]
@needs_nginx[1]
def test_each_arm_is_served_by_its_own_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process of an arm runs the program of that arm, by its own /proc/PID/exe."""
    monkeypatch.chdir(tmp_path)
    short = BlockPlan(rounds=1, window_s=0.2, first_warmup_s=0.1, warmup_s=0.1)
    monkeypatch.setattr(contest, "CAPACITY", short)
    copies = {"old": tmp_path / "old" / "nginx", "new": tmp_path / "new" / "nginx"}
    for name, copy in copies.items():
        copy.parent.mkdir()
        shutil.copy(nginx.detect().binary, copy)
        with copy.open("ab") as file:  # Bytes after the last section change nothing.
            file.write(name.encode())
    found = [
        look(
            *("nginx", load_workload("static"), {"seed": 1}),
            space=None,
            name="duel",
            watch=False,
            program=str(copy),
        )
        for copy in copies.values()
    ]
    folder, quiet = Path("studies/duel"), TerminalProgress(quiet=True)
    store = create_store(found[0], folder)
    with open_bench(found[0], folder, quiet, store, found[1:]) as (bench, _):
        watched = Watched(bench.deployer)
        arms = [Arm(name, bench.baseline, program=str(copies[name])) for name in copies]
        seen = contest.measure_capacities(replace(bench, deployer=watched), arms)
    assert watched.ends == {"old": {b"old"}, "new": {b"new"}}
    assert all(seen.per_s[name] > 0 for name in copies)


def test_a_space_is_bound_to_the_named_program(tmp_path: Path) -> None:
    """Its version counts; an assumed one contradicts it."""
    newer = tmp_path / "nginx"
    newer.write_text("#!/bin/sh\necho nginx version: nginx/1.29.7 >&2\n")
    newer.chmod(0o755)
    run = CliRunner().invoke
    shown = run(space.command, ["show", "nginx/static", OPTION, str(newer), "--json"])
    assert json.loads(shown.output)["server"]["version"] == "1.29.7"
    for more, said in (
        (("show", "nginx/static", "--assume", "1.29.7"), "leave out --assume"),
        (("explain", "sendfile"), "name its space: --space"),
    ):
        error = run(space.command, [*more, OPTION, str(newer)]).exception
        assert isinstance(error, DefinitionError)
        assert said in str(error)


def test_the_doctor_checks_and_measures_the_named_program(
    tuner: Tuner, host: SimulatedHost, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The named program replaces the installed server, also when the noise is measured."""
    asked: list[str] = []

    def measure_here(_server: str, *, program: str, **_: object) -> None:
        asked.append(program)
        raise HostError("enough")

    monkeypatch.setattr(doctor, "measure_here", measure_here)
    monkeypatch.setattr(doctor, "watched_stalls", lambda _: ())
    monkeypatch.setattr(doctor, "_native", lambda *_: SimulatedGenerator(host))
    monkeypatch.setattr(doctor, "_self_test", list)
    done = tuner("doctor", "--json", OPTION, programs[1])
    rows = {row["what"]: row["text"] for row in json.loads(done.out)}
    assert rows["nginx"] == f"nginx 1.22.1 at {programs[1]}"
    assert "caddy" not in rows
    assert asked == [programs[1]]
    wrong = tuner("doctor", OPTION, "/nowhere/nginx")
    assert (wrong.code, "No such file" in wrong.err) == (2, True)


def test_the_doctor_checks_the_named_server_alone(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing one is missing, although others are installed."""
    for name in ("_self_test", "_generator", "_expected_noise"):
        monkeypatch.setattr(doctor, name, list)

    def absent() -> ServerFacts:
        raise HostError("no caddy here")

    monkeypatch.setattr(caddy, "detect", absent)
    done = tuner("doctor", "--quick", "--json", "--server", "caddy")
    assert done.code == 3
    rows = {row["what"]: row for row in json.loads(done.out)}
    assert (rows["caddy"]["state"], rows["caddy"]["text"]) == ("missing", "no caddy here")
    assert "nginx" not in rows
    wrong = tuner("doctor", "--server", "nope")
    assert (wrong.code, "unknown server 'nope'" in wrong.err) == (2, True)


def test_a_configuration_is_linted_for_the_named_program(
    programs: list[str], tmp_path: Path
) -> None:
    """The command that measures a finding names it as well."""
    path = tmp_path / "nginx.conf"
    path.write_text("events {}\nhttp {\n    sendfile off;\n}\n")
    found = findings(OwnOptions(str(path)), None, programs[0])
    assert any(f"{OPTION} {programs[0]} --config" in finding.measure for finding in found)


def test_two_programs_of_one_server_have_different_names() -> None:
    """By version, and by path where versions repeat; different servers keep their names."""
    one = nginx.parse_build("nginx version: nginx/1.22.1", "/old")
    newer = nginx.parse_build("nginx version: nginx/1.28.0", "/new")
    copy = replace(one, binary="/copy")
    assert server_words((one, newer)) == ("nginx 1.22.1", "nginx 1.28.0")
    assert server_words((one, copy)) == ("nginx 1.22.1 (/old)", "nginx 1.22.1 (/copy)")
    assert server_keys((one, newer)) == ("nginx 1.22.1", "nginx 1.28.0")
    assert server_keys((one, replace(newer, name="caddy"))) == ("nginx", "caddy")
