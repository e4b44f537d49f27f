"""Configurations of HAProxy as people have them: taken over, equal in the lab, and patched."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.own import real
from tests.own.haproxies import CASES, SHORT, Case
from tests.own.real import answers, patched, running, taken_over, the_lab_answers_as
from tests.servers.labs import here
from tuner.errors import DefinitionError
from tuner.machine.facts import ServerFacts
from tuner.own.haproxy.server import OwnHaproxy, adapt, read
from tuner.own.haproxy.table import bind, changed
from tuner.own.server import OwnOptions
from tuner.space.configuration import Configuration
from tuner.space.space import SpaceFacts, bind_space
from tuner.testing.draw import draw_configuration
from tuner.workload.wire import Tls, Wire
from tuner.workload.workload import load_workload

pytestmark = pytest.mark.integration
Taken: TypeAlias = real.Taken[OwnHaproxy, Case]


@pytest.fixture(scope="module", params=CASES)
def taken(request: pytest.FixtureRequest, back: int) -> Iterator[Taken]:
    """Each configuration."""
    with taken_over(CASES[request.param], back, here("haproxy"), read, OwnHaproxy) as made:
        yield made


def drawn(taken: Taken, count: int) -> Iterator[Configuration]:
    """Yield configurations as a search may propose them, with every trade-off allowed."""
    rng, bound = random.Random(1), taken.own.bound
    trades = [parameter.name for parameter in bound.space.parameters if parameter.trades]
    for _ in range(count):
        yield draw_configuration(rng, bound.space, bound.baseline, trades)


def test_the_lab_answers_as_the_user_does(taken: Taken) -> None:
    """Status, headers and body of every path; the baseline, and tuned."""
    pid_file = taken.folder / "run" / "haproxy.pid"
    command = [taken.ground.binary, "-D", "-f", str(taken.main), "-p", str(pid_file)]
    with running(command, pid_file):
        user = answers(taken.case, taken.port)
    the_lab_answers_as(user, taken)


def test_what_can_be_tuned_is_known_and_the_rest_has_a_reason(taken: Taken) -> None:
    """Only the expected parameters are left out, and notes name the lab's differences."""
    assert taken.left_out == taken.case.left_out
    first, *notes = taken.notes
    assert first.startswith("own configuration:")
    for words in taken.case.notes:
        assert any(note.partition(": ")[2].startswith(words) for note in notes), notes


def test_what_was_set_is_read_again(taken: Taken) -> None:
    """The patched file has every value; with the user's own values it is the user's file."""
    bound, serving = taken.own.bound, taken.own.own.serving
    own = changed(bound, serving, bound.baseline, reference=bound.baseline)
    assert own.text == serving.tree.text
    for configuration in drawn(taken, 40):
        tree = changed(bound, serving, configuration, reference=bound.baseline)
        again = bind(bound.space, serving.reread(tree))
        found = {name: again.configured[name] for name in configuration.values}
        assert found == dict(configuration.values)


def test_haproxy_takes_what_a_search_proposes(taken: Taken) -> None:
    """The user's file with ten configurations, by ``haproxy -c``."""
    file = taken.folder / "tried.cfg"
    for configuration in drawn(taken, 10):
        file.write_text(taken.own.export_text(configuration, taken.own.bound.space))
        command = [taken.ground.binary, "-c", "-f", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_patch_makes_the_tuned_configuration_of_the_users_file(taken: Taken) -> None:
    """``patch -p0``; lines that are not tuned stay, with their comments and their blanks."""
    before = taken.main.read_text()
    bound = taken.own.bound
    hand = bound.space.adopt(bound.space.baseline("hand"), bound.baseline)
    files = taken.own.export_files(hand, bound.space, here("haproxy"))
    with patched(taken, files) as copy:
        assert (copy / "haproxy.cfg").read_text() == taken.own.export_text(hand, bound.space)
    removed = [row for row in files["own.patch"].splitlines() if row.startswith("-")][1:]
    tuned = ("nbthread", "tune.", "http-keep-alive", "server", "bind", "backlog")
    assert all(any(name in row for name in tuned) for row in removed), removed
    assert taken.main.read_text() == before


SPACE_FACTS = SpaceFacts(1, 32, 8 << 30, (2, 6, 12), (), proxied=True)


@pytest.mark.parametrize(
    ("text", "workload", "words"),
    [
        (SHORT + "frontend a\n    bind :80\n", "proxy", "frontend a passes no request on"),
        (SHORT + "frontend a\n    default_backend b\n", "proxy", "no frontend with a bind line"),
        ("frontend a\n    bind :80\n    default_backend b\n", "proxy", "not in mode http"),
        (SHORT + "listen a\n    bind :80\n    server b c:1\n", "static", "serves no files"),
        (
            SHORT + "listen a\n    bind :80\n    server b c:1\n",
            "https-proxy-4k",
            "haproxy.cfg:6: listen a has no bind line with ssl",
        ),
        (
            SHORT + "listen a\n    bind :80\n    disabled\n    server b c:1\n",
            "proxy",
            "listen a passes no request on",
        ),
        (
            SHORT + "listen a\n    bind :80\n    bogus 1\n    server b c:1\n",
            "proxy",
            "haproxy.cfg:8: HAProxy refuses it: unknown keyword 'bogus'",
        ),
        (
            SHORT + "listen a\n    bind :80\n    http-request deny\n    server b c:1\n",
            "proxy",
            "haproxy.cfg:6: .* answered with 403 .*in the lab",
        ),
    ],
)
def test_what_the_lab_cannot_serve_is_refused(
    tmp_path: Path, text: str, workload: str, words: str
) -> None:
    """At file and line, before anything starts."""
    file = tmp_path / "haproxy.cfg"
    file.write_text(text)
    tmp_path.chmod(0o755)
    server = here("haproxy")
    space = bind_space("haproxy/proxy", SPACE_FACTS)
    with pytest.raises(DefinitionError, match=words):
        adapt(read(OwnOptions(str(file)), load_workload(workload)), space, server)


def test_http2_must_be_offered(tmp_path: Path) -> None:
    """By ``alpn``, or by a version that offers it by itself."""
    file = tmp_path / "haproxy.cfg"
    tmp_path.chmod(0o755)
    proxy = load_workload("proxy")
    workload = replace(proxy, wire=Wire("http2", Tls()))
    space = bind_space("haproxy/proxy", replace(SPACE_FACTS, tls=True, protocol="http2"))
    here_26 = replace(here("haproxy"), version="2.6.12")

    def adapted(options: str, server: ServerFacts) -> tuple[str, ...]:
        bind_line = f"    bind :443 ssl crt /etc/a.pem{options}\n"
        file.write_text(f"{SHORT}listen a\n{bind_line}    server b c:1\n")
        return adapt(read(OwnOptions(str(file)), workload), space, server)[1]

    with pytest.raises(DefinitionError, match=r"haproxy.cfg:7: .* asks over http2"):
        adapted("", here_26)
    for options, server in ((" alpn h2", here_26), ("", replace(here_26, version="2.8.0"))):
        assert any("requests to" in note for note in adapted(options, server))


def test_a_frontend_may_be_named(tmp_path: Path) -> None:
    """Without a name it is the first that answers; an unknown one is refused with those known."""
    file = tmp_path / "haproxy.cfg"
    both = "".join(f"listen {n}\n    bind :80{n}\n    server s c:1\n" for n in ("1", "2"))
    file.write_text(SHORT + both)
    workload = load_workload("proxy")
    found = [read(OwnOptions(str(file), name), workload).serving.where for name in ("", "2")]
    assert found == [f"{file}:6", f"{file}:9"]
    with pytest.raises(DefinitionError, match="has no frontend '3'; it has: 1, 2"):
        read(OwnOptions(str(file), "3"), workload)
