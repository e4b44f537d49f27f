"""Configurations of Caddy as people have them: taken over, equal in the lab, tuned, and patched."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.own import real
from tests.own.caddyfiles import CASES, Case, here
from tests.own.real import answers, patched, running, taken_over, the_lab_answers_as
from tuner.own.caddy.origin import adapted, change_config
from tuner.own.caddy.server import OwnCaddy, read
from tuner.own.caddy.table import changes
from tuner.own.home import LocalHome

Taken: TypeAlias = real.Taken[OwnCaddy, Case]


@pytest.fixture(scope="module", params=CASES)
def taken(request: pytest.FixtureRequest, back: int) -> Iterator[Taken]:
    """Each configuration."""
    server = here()
    home = LocalHome(server.binary)
    with taken_over(
        CASES[request.param],
        back,
        server,
        lambda wishes, workload: read(wishes, workload, home),
        OwnCaddy,
    ) as made:
        yield made


def test_caddy_reads_the_same_in_the_files_and_in_what_they_are_rebuilt_to(taken: Taken) -> None:
    """``caddy adapt`` of the copy says what it says of the user's own; no change is none."""
    origin, bound = taken.own.own.origin, taken.own.bound
    assert origin.opaque == ""
    assert list(changes(bound, origin, taken.own.own.serving, bound.baseline)) == []
    assert change_config(origin, []) == origin.config
    if not origin.is_json:
        said = subprocess.run(
            [here().binary, "adapt", "--config", str(taken.main), "--adapter", "caddyfile"],
            capture_output=True,
            check=True,
        )
        assert json.loads(said.stdout) == origin.config
        assert adapted(origin.texts, origin.file, origin.home) == origin.config
    assert taken.own.unsaid() == ""


def test_the_lab_answers_as_the_user_does(taken: Taken) -> None:
    """Status, headers and body of every path, plain and compressed; the baseline, and tuned."""
    adapter = [] if taken.own.own.origin.is_json else ["--adapter", "caddyfile"]
    pid_file = taken.folder / "run" / "own.pid"
    command = [taken.ground.binary, "start", "--config", str(taken.main), *adapter]
    with running([*command, "--pidfile", str(pid_file)], pid_file):
        user = answers(taken.case, taken.port)
    the_lab_answers_as(user, taken)


def test_what_can_be_tuned_is_known_and_the_rest_has_a_reason(taken: Taken) -> None:
    """Only the expected parameters are left out, and notes name the lab's differences."""
    assert taken.left_out == taken.case.left_out
    assert taken.notes[0].startswith("own configuration:")
    assert taken.case.tls == any("the lab's own certificate" in note for note in taken.notes)


def test_the_patch_makes_the_tuned_configuration_of_the_users_files(taken: Taken) -> None:
    """``patch -p0``, then ``caddy adapt``, then the tuned JSON; the user's own files stay."""
    origin, bound = taken.own.own.origin, taken.own.bound
    before = {file: Path(file).read_bytes() for file in origin.texts}
    # The parameters that it has: the static space has one in the file.
    values = {"idle_timeout": 75} | (
        {
            "upstream_keepalive_connections": 200,
            "upstream_keepalive_timeout": 45,
            "upstream_read_buffer": 16384,
            "upstream_connections": 512,
            "upstream_compression": False,
            "gogc": 400,
        }
        if taken.case.proxied
        else {}
    )
    tuned = bound.space.complete(values, bound.baseline)
    files = taken.own.export_files(tuned, bound.space, here())
    with patched(taken, files) as copy:
        texts = {
            file: (copy / Path(file).relative_to(taken.folder)).read_text() for file in origin.texts
        }
        wanted = change_config(
            origin, changes(bound, origin, taken.own.own.serving, tuned, reference=bound.baseline)
        )
        assert wanted != origin.config
        if origin.is_json:
            assert json.loads(texts[origin.file]) == wanted
        else:
            assert adapted(texts, origin.file, origin.home) == wanted
    assert {file: Path(file).read_bytes() for file in before} == before
    assert ("caddy.env" in files) == taken.case.proxied
