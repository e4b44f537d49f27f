"""The public surface is what ``tests/cli/surface/`` lists: what users and their scripts rely on.

A difference is a change for users. If it is intended, add it to CHANGELOG.md, renew the lists, and
commit them::

    ACCEPT_GOLDEN=1 .venv/bin/pytest tests/cli -k "public_surface or taken_apart"
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.cli import surfaces
from tests.cli.conftest import Tuner
from tuner.record.model import Record
from tuner.testing.lab import SimulatedHost

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "studies" / "results"
BY_NAME = frozenset(
    {
        "contests[].alike[].by_server",
        "contests[].not_carried",
        "contests[].published[].figures",
        "left_out",
        "unused",
    }
)
"""Objects whose keys are names of servers, arms, figures or parameters."""
WRONG_NGINX = "events {}\nhttp {\n    tcp_nodelay off;\n    server { listen 80; }\n}\n"


def test_commands_and_options() -> None:
    """Every command with its arguments, options, choices, and environment variables."""
    surfaces.check("commands", surfaces.commands())


def test_exit_codes() -> None:
    """Every code with which a command may end; the index of the documentation explains each."""
    surfaces.check("exit-codes", surfaces.exit_codes())
    table = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == surfaces.exit_codes()


def test_the_help_names_every_exit_code(tuner: Tuner) -> None:
    """In its last part."""
    codes = tuner("--help").out.partition("Exit codes:")[2]
    assert {code for code in surfaces.exit_codes() if not re.search(rf"\b{code}\b", codes)} == set()


def test_keys_of_records() -> None:
    """Records of earlier versions can be read only as long as keys keep their names."""
    surfaces.check("record", surfaces.record_keys(Record))


def test_keys_of_a_report(tuner: Tuner) -> None:
    """The schema of reports has the recorded keys, for every command that prints a report.

    A report of several studies is a list of such objects.
    """
    surfaces.check("report-json", surfaces.schema_keys(json.loads(tuner("report", "--schema").out)))


def test_keys_of_a_contest(tuner: Tuner) -> None:
    """Keys of ``run``, ``ladder`` and a comparison of servers, with and without a ladder."""
    kept = (KEPT / "reverse-proxy-ladder" / "record.json.gz", *(KEPT.glob("https-*/*-4KB.json.gz")))
    keys = {
        key
        for path in kept
        for key in surfaces.json_keys(
            answer(tuner, "report", str(path), "--output", "new"), BY_NAME
        )
    }
    surfaces.check("contest-json", sorted(keys))


def test_keys_of_a_measurement(tuner: Tuner, host: SimulatedHost) -> None:
    """Keys of ``measure``."""
    found = answer(tuner, "measure", "hand", "--time", "10s", "--rate", "600", "--quiet")
    assert host.windows > 0
    surfaces.check("measure-json", surfaces.json_keys(found))


def test_keys_of_lists_and_definitions(tuner: Tuner, host: SimulatedHost, tmp_path: Path) -> None:
    """Keys of ``studies``, ``workload show``, ``space show`` and ``doctor --config``."""
    assert tuner("measure", "--time", "10s", "--rate", "600", "--quiet").code == 0
    assert host.windows > 0
    surfaces.check("studies-json", surfaces.json_keys(answer(tuner, "studies")))
    surfaces.check("workload-json", surfaces.json_keys(answer(tuner, "workload", "show", "https")))
    space = answer(tuner, "space", "show", "nginx/static", "--assume", "1.29.7")
    surfaces.check("space-json", surfaces.json_keys(space, BY_NAME))
    wrong = tmp_path / "nginx.conf"
    wrong.write_text(WRONG_NGINX, encoding="utf-8")
    surfaces.check(
        "lint-json", surfaces.json_keys(answer(tuner, "doctor", "--config", str(wrong), code=1))
    )


def test_keys_of_files(tuner: Tuner, tmp_path: Path) -> None:
    """Keys of studies, workloads, experiments (as a message lists them) and spaces."""
    keys = []
    for kind, command in (
        ("study", ("optimize", "--study")),
        ("workload", ("workload", "check")),
        ("experiment", ("run",)),
    ):
        file = tmp_path / f"{kind}.yaml"
        file.write_text("no_such_key: 1\n", encoding="utf-8")
        said = tuner(*command, str(file)).err
        allowed = re.search(r"allowed(?: keys)?: ([\w,\s]+)", said)
        assert allowed, said
        keys += [f"{kind}: {key}" for key in sorted(re.split(r",\s*", allowed[1].strip()))]
    surfaces.check("files", keys)
    surfaces.check("space-file", surfaces.schema_keys(json.loads(tuner("schema", "space").out)))


def answer(tuner: Tuner, *arguments: str, code: int = 0) -> Any:
    """Return what a command prints with ``--json``."""
    done = tuner(*arguments, "--json")
    assert done.code == code, done.err
    return json.loads(done.out)
