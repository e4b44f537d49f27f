"""Configurations as people have them: taken over, equal in the lab, tuned, and patched."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.hosts.nginxes import needs_nginx
from tests.own import real
from tests.own.configurations import CASES, Case
from tests.own.real import answers, patched, running, taken_over, the_lab_answers_as
from tuner.errors import DefinitionError
from tuner.own.nginx.server import OwnNginx, adapt, read
from tuner.own.nginx.tree import equal, parse, write
from tuner.own.server import OwnOptions
from tuner.servers import nginx
from tuner.servers.ground import TargetGround
from tuner.space.space import SpaceFacts, bind_space
from tuner.workload.workload import load_workload

pytestmark = needs_nginx
SECTION = re.compile(r"^# configuration file (.+):$\n", re.MULTILINE)
Taken: TypeAlias = real.Taken[OwnNginx, Case]


@pytest.fixture(scope="module", params=CASES)
def taken(request: pytest.FixtureRequest, back: int) -> Iterator[Taken]:
    """Each configuration."""
    with taken_over(CASES[request.param], back, nginx.detect(), read, OwnNginx) as made:
        yield made


def test_nginx_reads_the_same_files_and_the_same_directives(taken: Taken) -> None:
    """``nginx -T`` of the user's files, and of the one file that they are rebuilt to."""
    tree = taken.own.own.tree
    shown = dump(taken.main)
    assert shown == {name: text.rstrip("\n") for name, text in tree.texts.items()}
    rebuilt = taken.folder / "rebuilt"
    rebuilt.write_text(write(tree.directives))
    (again,) = dump(rebuilt).values()
    (taken.folder / "again").write_text(again)
    assert equal(parse(taken.folder / "again").directives, tree.directives)


def test_the_lab_answers_as_the_user_does(taken: Taken) -> None:
    """Status, headers and body of every path, plain and compressed; the baseline, and tuned."""
    command = [taken.ground.binary, "-p", f"{taken.folder}/", "-c", str(taken.main)]
    with running(command, taken.folder / "run" / "nginx.pid"):
        user = answers(taken.case, taken.port)
    the_lab_answers_as(user, taken)


def test_what_can_be_tuned_is_known_and_the_rest_has_a_reason(taken: Taken) -> None:
    """Only the expected parameters are left out, and notes name the lab's differences."""
    assert taken.left_out == taken.case.left_out
    assert taken.notes[0].startswith("own configuration:")
    assert taken.case.tls == any("the lab's own certificate" in note for note in taken.notes)


def test_the_patch_makes_the_tuned_configuration_of_the_users_files(taken: Taken) -> None:
    """``patch -p0``, then ``nginx -T``, then the tuned tree; the user's own files stay."""
    before = {path: path.read_bytes() for path in taken.folder.glob("**/*.conf")}
    bound = taken.own.bound
    hand = bound.space.adopt(bound.space.baseline("hand"), bound.baseline)
    files = taken.own.export_files(hand, bound.space, nginx.detect())
    with patched(taken, files) as copy:
        dump(copy / "nginx.conf")
        (copy / "want.conf").write_text(taken.own.export_text(hand, bound.space))
        assert equal(parse(copy / "nginx.conf").directives, parse(copy / "want.conf").directives)
    assert {path: path.read_bytes() for path in before} == before


def test_a_workload_may_ask_for_the_users_own_files(tmp_path: Path) -> None:
    """A workload with `site: own` serves the user's root, or --root; a missing one is refused."""
    workload = tmp_path / "mine.yaml"
    workload.write_text(
        "workload: mine\nsite: own\nrequests: [{path: /index.html, expect: {status: 404}}]\n"
    )
    config = tmp_path / "nginx.conf"
    server = nginx.detect()
    space = bind_space(
        "nginx/static", SpaceFacts(1, 32, 8 << 30, server.version_tuple, server.modules)
    )

    def text(written: str, root: str = "") -> str:
        config.write_text(f"events {{}}\nhttp {{ server {{ listen 80; root {written}; }} }}\n")
        own = read(OwnOptions(str(config), root=root), load_workload(str(workload)))
        made, _ = adapt(own, space, server)
        ground = TargetGround(server.binary, tmp_path, tmp_path, tmp_path / "site", (0,), (), ())
        baseline = made.bound.baseline
        return made.instance("i", baseline, made.bound.space, ground, 18080).files["nginx.conf"]

    assert "root /usr/share;" in text("/usr/share")
    assert "root /usr/lib;" in text("/nowhere/at/all", root="/usr/lib")
    with pytest.raises(DefinitionError, match=r"nginx.conf:2: the folder /nowhere .*--root FOLDER"):
        text("/nowhere")


def test_what_this_build_lacks_is_left_out_and_said(tmp_path: Path) -> None:
    """A module's directives, and asynchronous reading; the rest is served."""
    config = tmp_path / "nginx.conf"
    config.write_text(
        "events {}\nhttp {\n upload_progress uploads 1m;\n"
        " server { listen 80; location / { aio on; root /usr; } }\n}\n"
    )
    server = nginx.detect()
    if "file-aio" in server.modules:
        pytest.skip("this Nginx reads asynchronously: that it may not was not tested")
    space = bind_space("nginx/static", SpaceFacts(1, 32, 8 << 30, server.version_tuple, ()))
    _, notes = adapt(read(OwnOptions(str(config)), load_workload("static")), space, server)
    for name, line in (("upload_progress uploads 1m", 3), ("aio on", 4)):
        reason = "this build of Nginx does not know it"
        assert f"{config}:{line}: {name} is not carried over: {reason}" in notes


def dump(main: Path) -> dict[str, str]:
    """Return the files that ``nginx -T`` prints, by name."""
    command = [nginx.detect().binary, "-T", "-q", "-p", f"{main.parent}/", "-c", str(main)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, *parts = SECTION.split(done.stdout)
    return {name: text.rstrip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}
