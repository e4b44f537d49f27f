"""The Python interface: a study as data, its frames, and the names of ``tuner``."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tuner as package
from tests.cli.conftest import STUDY, Tuner
from tuner.cli.compare import command as compare_command
from tuner.cli.optimize import command as optimize_command
from tuner.errors import DefinitionError
from tuner.hosts.host_locks import LOCK
from tuner.report import tidy
from tuner.store.store import Store, sqlite_url
from tuner.testing.lab import SimulatedHost

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def study(finished: Tuner) -> package.Study:
    """The study ``mine`` of this folder."""
    assert callable(finished)
    return package.load("mine")


def test_a_study_has_its_verdict(study: package.Study) -> None:
    """Kind, ratio and interval are those of the report."""
    verdict = study.verdict
    assert verdict is not None
    assert verdict.kind == "better"
    assert verdict.low < verdict.ratio < verdict.high < 1.0
    assert verdict.sentence in study.sentence
    assert repr(study) == f"<Study mine: {study.sentence}>"
    assert study.status == "confirmed"
    assert study.definition["name"] == study.name == "mine"


def test_a_study_has_its_configurations(study: package.Study) -> None:
    """Text and values; the recommended one is the tuned one if it is better."""
    assert study.baseline is not None
    assert study.tuned is not None
    assert study.recommended == study.tuned != study.baseline
    assert study.tuned.file_name == "nginx.conf"
    assert "sendfile on;" in study.tuned.text
    assert study.tuned.values["sendfile"] is True


def test_frames_have_the_rows_of_the_tidy_tables(study: package.Study) -> None:
    """With their names, meanings and values."""
    record = Store.open(sqlite_url(STUDY), "mine", writing=False).record()
    table = tidy.windows(record)
    assert study.windows.columns == table.names
    assert [tuple(row.values()) for row in study.windows] == list(table.rows)
    assert len(study.trials) == len(record.trials)
    assert "percentile" in study.windows.meanings["p99_us"]
    assert len(study.blocks) > len(record.blocks)


def test_frames_become_data_frames(study: package.Study) -> None:
    """Pandas and Polars receive typed columns, with missing values where the record has none."""
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    for frame in (study.windows, study.blocks, study.trials):
        pandas, polars = frame.to_pandas(), frame.to_polars()
        assert pandas.shape == polars.shape == (len(frame), len(frame.columns))
        assert tuple(pandas.columns) == tuple(polars.columns) == frame.columns
    assert str(study.windows.to_pandas()["p99_us"].dtype) == "Float64"
    assert str(study.windows.to_polars()["round"].dtype) == "Int64"


def test_a_missing_library_is_named(study: package.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(DefinitionError, match=rf"pip install 'servertune\[{name}\]'"):
            getattr(study.trials, f"to_{name}")()


def test_an_exported_record_is_a_study() -> None:
    """By its path, without a folder of studies."""
    path = next((ROOT / "studies" / "results").rglob("*.json.gz"))
    assert package.load(path).name


def test_errors_are_raised_and_nothing_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A study that is not here, and a record that is none."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(package.TunerError, match="no study called 'mine'"):
        package.load("mine")
    (tmp_path / "record.json").write_text("{}", encoding="utf-8")
    with pytest.raises(package.TunerError):
        package.load("record.json")
    assert capfd.readouterr() == ("", "")


def test_a_study_is_run_interrupted_and_resumed(
    tuner: Tuner, host: SimulatedHost, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its lines go to the function alone, and its record is the command's."""
    assert callable(tuner)
    lines: list[str] = []
    host.faults = replace(host.faults, interrupted={12})
    with pytest.raises(KeyboardInterrupt, match="Ctrl-C"):
        package.optimize(study="static", time="10s", rate=600, trials=1, name="mine")
    assert package.load("mine").windows, "what was measured is kept"
    host.faults = replace(host.faults, interrupted=set())
    study = package.optimize(name="mine", resume=True, progress=lines.append)
    assert capfd.readouterr() == ("", "")
    assert any("search" in line for line in lines)
    assert "writing the report" in lines
    assert study.verdict == package.load("mine").verdict is not None
    command = "tuner optimize --study static --time 10s --rate 600 --trials 1 --name mine"
    assert Store.open(sqlite_url(STUDY), "mine", writing=False).record().command == command
    assert (STUDY / "report.html").is_file()
    assert not (STUDY / LOCK).exists()


def test_two_configurations_are_compared(tuner: Tuner, host: SimulatedHost) -> None:
    """``hand`` has sendfile, which takes 40 % away on this host."""
    assert callable(tuner)
    study = package.compare("stock", "hand", study="static", time="10s", rate=600, name="mine")
    assert study.verdict is not None
    assert study.verdict.kind == "better"
    assert not host.running


def test_two_servers_are_compared(tuner: Tuner, host: SimulatedHost) -> None:
    """The verdict is on B, for the objective."""
    assert callable(tuner)
    study = package.compare("nginx:hand", "nginx:stock", time=20, name="duel")
    assert (study.name, study.status) == ("duel.contest", "contest")
    assert study.verdict is not None
    assert package.load("duel").verdict == study.verdict
    assert study.verdict.kind == "worse"
    assert not host.running


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"time": "soon"}, "--time: .*'soon'"),
        ({"tyme": "5m"}, "unknown option 'tyme'; did you mean 'time'"),
        ({"name": "none", "resume": True}, "no study called 'none'"),
        ({"metrics": "here"}, "--metrics: 'here' is not an address"),
    ],
)
def test_wrong_options_raise(
    tuner: Tuner, host: SimulatedHost, options: dict[str, Any], said: str
) -> None:
    """An error of tuner, and nothing is deployed."""
    assert callable(tuner)
    with pytest.raises(package.TunerError, match=said):
        package.optimize(**options)
    assert host.deployments == 0


def test_the_functions_have_the_options_of_their_commands() -> None:
    """Every option of a study is there; those for a terminal's output are not."""
    output = {"as_json", "quiet", "junit", "dry", "fail_if"}
    arguments = {"baseline", "candidate"}
    for function, options, command, more in (
        (package.optimize, package.OptimizeOptions, optimize_command, set[str]()),
        (package.compare, package.CompareOptions, compare_command, arguments),
    ):
        named = set(inspect.signature(function).parameters) - {"progress", "options", "a", "b"}
        found = (named - {"study"}) | {"study_file"} | set(options.__annotations__)
        assert found == {p.name for p in command.params} - output - more


def test_the_examples_of_the_page(
    study: package.Study, host: SimulatedHost, capfd: pytest.CaptureFixture[str]
) -> None:
    """They run as printed, in their order; studies are shorter here."""
    assert not host.running
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, object] = {}
    for example in examples:
        short = re.sub(r'time="\d+m"', 'time="10s", rate=600', example)
        short = short.replace("optimize(", 'optimize(study="static", trials=1, ')
        exec(short, scope)  # noqa: S102 - the page's own code
    assert scope["changed"]
    out = capfd.readouterr().out
    assert study.sentence in out
    assert "sendfile on;" in out


def test_every_public_name_is_there() -> None:
    """``tuner.__all__`` lists them, and the page names them."""
    page = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("python", "sampler"))
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    for name in package.__all__:
        home = importlib.import_module(package._HOMES[name])
        assert getattr(package, name) is getattr(home, name)
        assert name in page
        # A loaded module would replace the name.
        assert name not in modules
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = package.no_such_name


def test_the_package_loads_no_library() -> None:
    """``import tuner`` is fast; a name loads what it needs."""
    program = (
        "import sys, tuner\n"
        "heavy = {'click', 'msgspec', 'numpy', 'optuna', 'pandas', 'polars', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
