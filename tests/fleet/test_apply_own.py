"""``tuner apply`` of a study of one's own files, to a host whose files are not quite those."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.app.services import evaluated
from tests.fleet.bed import Bed, BedHost, bed
from tests.fleet.conftest import skip_without_bed
from tests.fleet.services import GUARD, own_files
from tuner.app.canary import ProbeOptions, Probes
from tuner.app.planning import HostPlan, planned, wanted
from tuner.app.reached import Reached, reached
from tuner.app.recommended import recommended
from tuner.app.roll_out import RollOut
from tuner.errors import HostError
from tuner.hosts.inventory import read_inventory
from tuner.judge.results import StudyResult
from tuner.own.patch import exported
from tuner.record.model import Applied

pytestmark = [pytest.mark.integration, pytest.mark.fleet]

MAIN = "/etc/nginx/nginx.conf"
SITE = "/etc/nginx/sites-enabled/default"
ADMIN = "\tlocation /admin { deny all; }\n"
QUICK = "http {\n\tadd_header X-Tuned yes always;"
# A regular expression that tries all ways to divide a row of x: some eight times the CPU time of an
# answer. Each further x doubles it, and a server of a busy machine would fall behind the probes.
SLOW = """http {
\tmap $request_uri $slow { default 0; "~(x+x+)+[yz]" 1; }
\tadd_header X-Slow $slow always;"""
PROBE = f"http://{{host}}/?{'x' * 13}"


@pytest.fixture(scope="module")
def made() -> Iterator[Bed]:
    """A host that serves with Debian's files."""
    skip_without_bed()
    with bed({"targets": ["web"]}, services={"web": ("nginx",)}) as hosts:
        (hosts["web"].root / "var/www/html").mkdir(parents=True, exist_ok=True)
        (hosts["web"].root / "var/www/html/index.html").write_text("here\n")
        yield hosts


@pytest.fixture
def web(made: Bed) -> Iterator[BedHost]:
    """Yield the host; check that a test leaves its files as before, and no restore pending."""
    web = made["web"]
    before = own_files(web)
    yield web
    assert own_files(web) == before
    assert not (web.root / GUARD / "saved.json").exists()


@pytest.fixture
def there(made: Bed) -> Iterator[Reached]:
    """The host over SSH."""
    with reached(read_inventory(str(made.inventory), generators=False)) as found:
        yield found


def study(web: BedHost, becomes: str) -> StudyResult:
    """Return a study of Debian's files in which the http block became another."""
    text = (web.base / MAIN.lstrip("/")).read_text()
    more = exported("0123", {MAIN: text}, {MAIN: text.replace("http {", becomes, 1)}, MAIN, "nginx")
    found = evaluated("better")
    record, candidate = found.record, found.candidate
    assert candidate is not None
    configurations = dict(record.configurations)
    configurations[candidate] = replace(configurations[candidate], more=more)
    definition = {**record.definition, "config": MAIN}
    return replace(
        found, record=replace(record, configurations=configurations, definition=definition)
    )


def plan(made: Bed, there: Reached, result: StudyResult) -> list[HostPlan]:
    """Return the plan of applying the study."""
    want = wanted(recommended(result, "mine"), inventory=str(made.inventory))
    hosts = read_inventory(str(made.inventory), generators=False).targets
    found = planned(hosts, want, there.agent, there.home)
    found.check(hosts)
    return [*found.plans]


def roll_out(
    there: Reached, plans: list[HostPlan], probes: int, figure: str = "p50"
) -> list[Applied]:
    """Do it; what is then in the record."""
    done: list[Applied] = []
    judge = Probes(
        ProbeOptions(PROBE, probes, 100.0, figure), lambda host: there.agent(host).usage("nginx")
    )
    try:
        RollOut(there.services, judge, done.append, "no claim").run(plans)
    finally:
        assert {entry.host for entry in done} <= {"web"}
    return done


def asked(web: BedHost, path: str) -> tuple[int, str]:
    """Status and headers of an answer."""
    try:
        with urllib.request.urlopen(f"http://{web.address}{path}", timeout=5) as answer:
            return answer.status, str(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, str(error.headers)


@pytest.mark.every_run
def test_a_hosts_own_lines_stay(made: Bed, web: BedHost, there: Reached) -> None:
    """In the file that changes and in one that does not: they hold before and afterwards."""
    main, site = (web.root / path.lstrip("/") for path in (MAIN, SITE))
    before = {path: path.read_text() for path in (main, site.resolve())}
    target = web.root / "etc/nginx/sites-available/default"
    text = target.read_text()
    target.write_text(text.replace("server_name _;", f"server_name _;\n{ADMIN}", 1))
    main.write_text(main.read_text().replace("worker_connections 768;", "worker_connections 999;"))
    web.run("service", "nginx", "reload")
    try:
        (found,) = plan(made, there, study(web, QUICK))
        assert "+            deny all;" in found.plan.unlike
        assert "nginx -t: accepted there" in found.words
        roll_out(there, [found], 10)
        assert "X-Tuned: yes" in asked(web, "/")[1]
        assert asked(web, "/admin")[0] == 403
        assert "worker_connections 999;" in main.read_text()
        there.services.restore([found.host])
        assert "X-Tuned" not in asked(web, "/")[1]
        assert asked(web, "/admin")[0] == 403
    finally:
        target.write_text(text)
        main.write_text(before[main])
        web.run("service", "nginx", "reload")


@pytest.mark.every_run
def test_a_host_that_is_worse_gets_its_own_files_back(
    made: Bed, web: BedHost, there: Reached
) -> None:
    """By itself: a configuration that really takes more CPU time, measured over the network.

    On a busy machine the latency of one window in eight may hide it, and all must show it.
    """
    plans = plan(made, there, study(web, SLOW))
    with pytest.raises(HostError, match=r"web is worse by more than 10%.*; rolled back: web"):
        roll_out(there, plans, 400, "cpu")
    assert "X-Slow" not in asked(web, "/")[1]


def test_lines_that_both_changed_are_refused(made: Bed, web: BedHost, there: Reached) -> None:
    """By file and line, over SSH; nothing is left on the host."""
    main = web.root / MAIN.lstrip("/")
    text = main.read_text()
    main.write_text(text.replace("http {", "http { # ours", 1))
    line = text[: text.index("http {")].count("\n") + 1
    try:
        with pytest.raises(HostError, match=f"web: {MAIN}:{line}: has 'http {{ # ours'"):
            plan(made, there, study(web, QUICK))
    finally:
        main.write_text(text)


def test_a_file_that_changed_since_it_was_planned_is_not_replaced(
    made: Bed, web: BedHost, there: Reached
) -> None:
    """Somebody may have worked on it while the question was on the screen."""
    main = web.root / MAIN.lstrip("/")
    plans = plan(made, there, study(web, QUICK))
    text = main.read_text()
    main.write_text(text + "# just now\n")
    try:
        with pytest.raises(HostError, match=f"{MAIN} changed since this was planned"):
            roll_out(there, plans, 10)
        assert main.read_text() == text + "# just now\n"
    finally:
        main.write_text(text)
