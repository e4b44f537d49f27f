"""No value of a record becomes code in an export, and no name leads out of its folder."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.export.unsafe import read
from tests.hosts.hostile import CANARY, everything, payloads, touched
from tuner.cli.export import _FORMATS, _maker
from tuner.errors import StoreError, TunerError
from tuner.export.ansible import role, variables
from tuner.export.compose import compose
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import inside, write_files
from tuner.render.systemd import unit_of
from tuner.servers import caddy
from tuner.testing.sample_record import sample_record

ANSIBLE = str(Path(sys.executable).with_name("ansible-playbook"))
HUGE = {"blocks", "trials", "events"}
"""Fields that no export reads, and that hold thousands of texts."""

Step = tuple[str, Any]


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def study(request: pytest.FixtureRequest) -> StudyResult:
    """A study with a better configuration, of both servers."""
    found = evaluate(sample_record("better"))
    # Exports hand over one of these; the others would be tried for nothing.
    kept = {
        digest: found.record.configurations[digest]
        for digest in (found.record.baseline, found.candidate or "")
    }
    found = dataclasses.replace(
        found, record=dataclasses.replace(found.record, configurations=kept)
    )
    if request.param == "nginx":
        return found
    more = {"caddy.env": "GOGC=200\n"}
    known = found.record.configurations.items()
    record = dataclasses.replace(
        found.record,
        server=dataclasses.replace(found.record.server, name="caddy"),
        configurations={key: dataclasses.replace(each, more=more) for key, each in known},
    )
    return dataclasses.replace(found, record=record)


def texts(value: object, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield the path of every text in plain data: values, and keys of dictionaries."""
    if isinstance(value, str) and not isinstance(value, Enum):
        yield path
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in HUGE:
                yield from texts(getattr(value, field.name), (*path, ("field", field.name)))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from texts(each, (*path, ("key", key)))
        if value and all(isinstance(key, str) for key in value):
            yield (*path, ("new key", next(iter(value))))
    elif isinstance(value, tuple | list) and value:
        yield from texts(value[0], (*path, ("first", None)))


def replaced(value: Any, path: tuple[Step, ...], text: str) -> Any:
    """Return the data with this text at that path."""
    if not path:
        return text
    (kind, where), *rest = path
    if kind == "field":
        return dataclasses.replace(
            value, **{where: replaced(getattr(value, where), tuple(rest), text)}
        )
    if kind == "key":
        return {**value, where: replaced(value[where], tuple(rest), text)}
    if kind == "new key":
        return {**value, text: value[where]}
    return type(value)([replaced(value[0], tuple(rest), text), *value[1:]])


def hostile(study: StudyResult, text: str, export: Callable[[StudyResult], object]) -> StudyResult:
    """Return the study with the text in every place that the export takes it in."""
    found, taken = study, 0
    for path in texts(study):
        try:
            tried = replaced(found, path, text)
            export(tried)
        except Exception:  # noqa: BLE001, S112 - refused there: a place where it does no harm
            continue
        found, taken = tried, taken + 1
    assert taken > 10
    return found


@pytest.mark.integration
def test_a_role_and_its_variables_run_nothing(study: StudyResult, tmp_path: Path) -> None:
    """Ansible evaluates every variable and every task of them; the texts come out as they are."""
    text = everything(tmp_path)

    def exports(tried: StudyResult) -> None:
        for name in {**role(tried), **variables(tried)}:
            inside(tmp_path, name)

    bad = hostile(study, text, exports)
    folder = tmp_path / "roles"
    write_files(folder, {**role(bad), **variables(bad)})
    name = f"tuned_{bad.record.server.name}"
    everywhere = f"{{{{ {name}_provenance }}}} {{{{ {name}_parameters }}}}"
    said = {"ansible.builtin.debug": {"msg": everywhere}}
    plays = [
        {"hosts": "all", "gather_facts": False, "roles": [{"role": name}], "post_tasks": [said]},
        {
            "hosts": "all",
            "gather_facts": False,
            "vars_files": [f"{bad.record.server.name}.yml"],
            "tasks": [said],
        },
    ]
    (folder / "all.yml").write_text(yaml.safe_dump(plays))
    given = {
        f"{name}_path": str(tmp_path / "etc" / "server.conf"),
        f"{name}_owner": "",
        f"{name}_group": "",
        f"{name}_become": False,
        f"{name}_validate": "",
        f"{name}_service": "",
        f"{name}_drop_ins": str(tmp_path / "etc" / "drop-ins"),
        f"{name}_systemd": True,
    }
    (tmp_path / "etc").mkdir()
    done = subprocess.run(
        [
            *(ANSIBLE, "-i", "localhost,", "-c", "local", str(folder / "all.yml")),
            *("-e", json.dumps(given)),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        | {"ANSIBLE_PYTHON_INTERPRETER": sys.executable},
    )
    assert "failed=0" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count(f"touch {tmp_path}/{CANARY}") > 4, done.stdout
    assert touched(tmp_path, folder) == []


def test_compose_replaces_nothing_in_a_value(study: StudyResult, tmp_path: Path) -> None:
    """Each dollar of a record is doubled; one variable is tuner's own."""
    bad = hostile(study, "$HOME ${HOME} " + everything(tmp_path), compose)
    text = compose(bad)["compose.yaml"]
    assert isinstance(text, str)
    services = yaml.safe_load(text)["services"]
    left = yaml.safe_dump(services).replace("$$", "")
    assert "HOME" in left
    assert left.count("$") == left.count("${TUNER_LOADGEN:-") == 1


@pytest.mark.parametrize("kind", sorted(_FORMATS.keys() - {"compose"}))
def test_exports_are_of_data_alone(study: StudyResult, kind: str, tmp_path: Path) -> None:
    """Every YAML file is read by a reader that makes plain data only, tags of Ansible apart."""
    maker = _maker(kind)
    for text in (everything(tmp_path), *payloads(tmp_path)[8:11]):
        bad = hostile(study, text, maker)
        for name, content in maker(bad).items():
            if name.endswith((".yml", ".yaml")):
                read(str(content))


@pytest.mark.parametrize(
    "row",
    [
        "LD_PRELOAD=/tmp/x.so",
        "GOGC=200\\",
        'GOGC="a',
        "PATH=/tmp",
        "x",
        "GOGC=1 2",
        "=1",
        "GOGC=$X",
        # Envoy's alone.
        "CONCURRENCY=2",
    ],
)
def test_no_other_variable_of_the_process_is_set(row: str) -> None:
    """One that loads code, or a line that goes on in the next one, is refused by name."""
    with pytest.raises(StoreError, match="is not a variable that tuner sets for caddy"):
        unit_of("caddy", f"# Comment\nGOGC=200\n{row}\n", caddy.usual_place.variables)


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../x", "a/../../x", "own//etc/cron.d/x", "", ".", "a/", "a\nb", "\0"],
)
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    """Before any of the files is written; the message quotes it."""
    folder = tmp_path / "inner" / "export"
    with pytest.raises(StoreError, match="is not the name of a file in a folder"):
        write_files(folder, {"good": "text", name: "text"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "folder", "folder/deep", "folder/deep/file"])
def test_nothing_is_written_through_a_link(place: str, tmp_path: Path) -> None:
    """A link at the file or at a folder above it is refused before anything is written."""
    outside, folder = tmp_path / "outside", tmp_path / "export"
    outside.mkdir()
    (folder / place).parent.mkdir(parents=True)
    (folder / place).symlink_to(outside, target_is_directory=True)
    name = place if place.endswith("file") else f"{place}/file"
    with pytest.raises(StoreError, match="is a link"):
        write_files(folder, {"good": "text", name: "text"})
    assert list(outside.iterdir()) == []
    assert not (folder / "good").exists()


def test_a_folder_that_is_named_may_be_a_link(tmp_path: Path) -> None:
    """A folder that the user names may be a link."""
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "there")
    assert write_files(tmp_path / "here", {"a/b": "text"}) == [tmp_path / "here" / "a" / "b"]
    assert inside(tmp_path / "here", "c") == tmp_path / "here" / "c"


@pytest.mark.parametrize("field", ["file_name", "more"])
@pytest.mark.parametrize("name", ["../evil", "/etc/cron.d/tuner-evil", "own//etc/cron.d/evil"])
def test_no_export_writes_by_such_a_name(
    study: StudyResult, field: str, name: str, tmp_path: Path
) -> None:
    """Every form, from a record that names its files so."""
    value: Any = name if field == "file_name" else {name: "text"}
    record = dataclasses.replace(
        study.record,
        configurations={
            digest: dataclasses.replace(known, **{field: value})
            for digest, known in study.record.configurations.items()
        },
    )
    bad = dataclasses.replace(study, record=record)
    for kind in _FORMATS:
        folder = tmp_path / kind / "inner"
        try:
            files = _maker(kind)(bad, candidate=True)
            written = write_files(folder, files)
        except TunerError:
            continue
        assert all(path.resolve().is_relative_to(folder) for path in written)
    assert not list(tmp_path.glob("**/evil"))
    assert not Path("/etc/cron.d/tuner-evil").exists()
