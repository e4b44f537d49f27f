"""Plans of ``tuner apply``: the host's own lines stay, and planning changes nothing."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.services import (
    BEFORE,
    MAIN,
    PROXY,
    SHOP,
    SITE,
    TEXT,
    TUNED,
    FakeHost,
    given,
    host,
    lab_study,
    no_home,
    own_study,
)
from tests.hosts.nginxes import NGINX
from tuner.app.host_files import tuned_files
from tuner.app.planning import HostPlan, planned, wanted
from tuner.errors import DefinitionError, HostError
from tuner.hosts.agent import Agent
from tuner.hosts.inventory import Host
from tuner.hosts.service import SERVICE_FOLDER
from tuner.judge.results import StudyResult
from tuner.own.patch import exported
from tuner.servers.nginx import usual_place

ADMIN = "    location /admin { deny all; }\n"
STATE = f"{SERVICE_FOLDER}/saved.json"


def plan(there: FakeHost, study: StudyResult | None = None) -> HostPlan:
    """Return the plan for a host."""
    want = wanted(given(study or own_study()), inventory="prod.yml")
    found = planned([host()], want, lambda _: there, no_home)
    found.check([host()])
    (only,) = found.plans
    return only


def refusal(there: FakeHost, study: StudyResult | None = None) -> str:
    """Return the message that refuses a plan for a host."""
    with pytest.raises(HostError) as refused:
        plan(there, study)
    return str(refused.value)


# --- a study of the user's own files -----------------------------------------------------------


def test_files_as_they_were_tuned_become_the_tuned_ones() -> None:
    """Nothing is said of a difference; the host's server judges the new text."""
    there = FakeHost()
    found = plan(there)
    assert found.change.files == {MAIN: TUNED}
    assert found.plan.unlike == ""
    assert there.judged == [{MAIN: TUNED.encode()}]
    assert found.change.expected == {MAIN: hashlib.sha256(TEXT.encode()).hexdigest()}
    assert "+    sendfile on;" in found.words
    assert "nginx -t: accepted there" in found.words


def test_lines_of_the_hosts_own_stay() -> None:
    """In the file that changes and in an included one; the difference is shown."""
    own = TEXT.replace("http {\n", "http {\n    server_tokens off;\n    # ours\n")
    there = FakeHost({MAIN: own, SITE: SHOP.replace("}\n", f"{ADMIN}}}\n")})
    found = plan(there)
    assert found.change.files == {
        MAIN: own.replace("keepalive_timeout 65;", "keepalive_timeout 65;\n    sendfile on;")
    }
    assert "differs from the one that was tuned" in found.words
    assert "+        location /admin {" in found.words
    assert "+    server_tokens off;" in found.words


def test_lines_that_both_changed_are_refused_by_file_and_line() -> None:
    """With what stands there, and what the study made of it; no host is changed."""
    tuned = TEXT.replace("worker_processes 1;", "worker_processes 4;")
    there = FakeHost({MAIN: TEXT.replace("worker_processes 1;", "worker_processes 2;"), SITE: SHOP})
    words = refusal(there, own_study(tuned=tuned))
    assert words.startswith(f"nothing was changed; web: {MAIN}:2: has 'worker_processes 2;'")
    assert "the study changed 'worker_processes 1;' to 'worker_processes 4;'" in words
    assert there.judged == []


def test_a_file_that_the_host_does_not_include_is_refused() -> None:
    """A change of it would have no effect."""
    want = wanted(given(own_study()), inventory="prod.yml", target="/etc/nginx/other.conf")
    there = FakeHost({"/etc/nginx/other.conf": TEXT, SITE: SHOP, MAIN: TEXT})
    with pytest.raises(HostError, match=f"{MAIN}: the study changed it, but .* not include"):
        planned([host()], want, lambda _: there, no_home).check([])


@pytest.mark.parametrize(
    ("config", "folder", "name", "words"),
    [
        (MAIN, "/etc/cron.d", "evil", "is damaged: its patch is relative to '/etc/cron.d'"),
        (MAIN, "/etc/nginx/conf.d", "evil", "is damaged: its patch is relative to"),
        (MAIN, "../../etc/nginx", "evil", "is damaged: its patch is relative to"),
        (MAIN, "/etc", "cron.d/evil", "changed /etc/cron.d/evil, which lies outside the folder"),
        ("/srv/copy/nginx.conf", "/srv", "copies/x", "apply changes files below /etc/nginx only"),
    ],
)
def test_a_patch_stays_below_the_folder_of_the_main_file(
    config: str, folder: str, name: str, words: str
) -> None:
    """A patch outside the main file's folder, or relative to another, is refused."""
    more = {"own.patch": f"  patch -p0 -d {folder} < own.patch\n", f"own/{name}": "evil"}
    study = given(own_study())
    hostile = replace(study, chosen=replace(study.chosen, more=more))
    with pytest.raises(DefinitionError, match=f"NAME: .*{re.escape(words)}"):
        tuned_files(hostile, config, MAIN, usual_place)


def test_a_patch_of_a_copy_is_applied_where_the_hosts_file_lies() -> None:
    """A path relative to the copy's folder becomes one relative to the host's main file."""
    file, copy = "/srv/a/conf.d/x", "/srv/a/n.conf"
    more = exported("0", {file: "1\n"}, {file: "2\n"}, copy, "")
    study = given(own_study())
    study = replace(study, chosen=replace(study.chosen, more=more))
    found = tuned_files(study, copy, MAIN, usual_place)
    assert found.after == {"/etc/nginx/conf.d/x": "2\n"}


def test_a_host_that_has_it_already_is_not_changed() -> None:
    """Nothing is judged, and nothing is to be done."""
    there = FakeHost({MAIN: TUNED, SITE: SHOP})
    found = plan(there)
    assert not found.is_needed
    assert "has the configuration already; no change" in found.words
    assert there.judged == []


def test_what_the_hosts_server_refuses_is_refused_before_a_file_is_replaced() -> None:
    """In the words of the server."""
    words = refusal(FakeHost(), own_study(tuned=TEXT + "bad;\n"))
    assert f"nginx refuses the files: nginx -t: [emerg] unknown directive in {MAIN}:1" in words


def test_a_host_without_mount_namespaces_says_when_it_validates() -> None:
    """The service guard still validates before the reload."""
    found = plan(FakeHost(namespaces=False))
    assert "not before the files are replaced" in found.words
    assert "and before the reload" in found.words


def test_a_file_that_is_no_text_is_refused() -> None:
    """A configuration file with bytes that are not UTF-8 is refused by name."""
    there = FakeHost({MAIN: TEXT.replace("as it always", "caf\udce9"), SITE: SHOP})
    assert f"{MAIN}: has bytes that are not UTF-8" in refusal(there)


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        pytest.param("other 0123", "other 0123 has changed", id="another-study"),
        pytest.param("", "changed since 'mine' was applied here", id="the-same"),
    ],
)
def test_a_host_that_is_changed_already_is_refused(owner: str, words: str) -> None:
    """Until that is rolled back: the guard would give back what this change does not name."""
    owner = owner or f"mine {given(own_study()).chosen.digest}"
    there = FakeHost({MAIN: TEXT, SITE: SHOP, STATE: f'{{"owner": "{owner}"}}'})
    assert words in refusal(there)


def test_every_host_is_planned_before_any_is_changed() -> None:
    """All that cannot be applied is said at once, each host with its own reason."""
    hosts = {"one": FakeHost(), "two": FakeHost({SITE: SHOP}), "three": FakeHost({MAIN: "http {"})}
    want = wanted(given(own_study()), inventory="prod.yml")
    among = [host(name) for name in hosts]
    found = planned(among, want, lambda h: hosts[h.name], no_home)
    assert [plan.host.name for plan in found.plans] == ["one"]
    with pytest.raises(HostError) as refused:
        found.check(among)
    assert "change the other hosts only: --limit '!two,!three'" in str(refused.value)
    assert f"two: {MAIN}: cannot be read: No such file" in str(refused.value)
    assert f"three: {MAIN}:1" in str(refused.value)
    assert "one:" not in str(refused.value)
    with pytest.raises(HostError, match=r"fix this, or .*: --limit one$"):
        found.check(among, "one,two,three")
    with pytest.raises(HostError, match=r"fix this$"):
        found.check(among[1:])


# --- a study of the lab ------------------------------------------------------------------------


def test_a_study_of_the_lab_sets_its_settings_in_the_hosts_own_files() -> None:
    """The host's site, comments and limits stay; the lab's file is nowhere."""
    there = FakeHost({MAIN: TEXT, SITE: PROXY})
    found = plan(there, lab_study())
    made = found.change.files
    assert set(made) == {MAIN, SITE}
    assert made[MAIN] == TEXT.replace(
        "    keepalive_timeout 65;\n",
        "    keepalive_timeout 65;\n    keepalive_requests 100000;\n",
    )
    added = [row.strip() for row in made[SITE].splitlines() if row not in PROXY.splitlines()]
    assert "keepalive 32;" in added
    assert ADMIN in made[SITE]
    assert all(row in made[SITE] for row in PROXY.splitlines())
    assert "made in the lab" in given(lab_study()).statements()[1]
    assert there.judged == [{path: text.encode() for path, text in made.items()}]


def test_settings_that_the_study_did_not_change_stay_as_the_host_has_them() -> None:
    """They are named, since the study had them otherwise."""
    there = FakeHost({MAIN: TEXT.replace("65;", "65;\n    keepalive_requests 7;"), SITE: PROXY})
    found = plan(there, lab_study(tuned={**BEFORE, "proxy_http_version": "1.1"}))
    assert "keepalive_requests 7;" in found.change.files.get(MAIN, there.texts[MAIN])
    assert "keeps the host's " in found.words
    assert "keepalive_requests 7 (in the study 1000)" in found.words


def test_a_setting_that_has_no_effect_on_the_host_is_refused() -> None:
    """A setting whose condition does not hold on the host is refused."""
    there = FakeHost({MAIN: TEXT, SITE: PROXY})
    words = refusal(there, lab_study(tuned={**BEFORE, "upstream_keepalive": 32}))
    assert "upstream_keepalive has no effect" in words


def test_a_setting_without_a_place_is_refused_with_the_command_that_tunes_the_hosts_files() -> None:
    """A host that proxies nowhere has no place for upstream connections."""
    words = refusal(FakeHost(), lab_study())
    assert "web: " in words
    assert f"tune its own files instead: tuner optimize --server nginx --config COPY-OF-{MAIN}" in (
        words
    )


def test_a_lab_study_of_caddy_is_refused_with_that_command() -> None:
    """Caddy's settings are found by its own adapter, which the lab did not ask about the host."""
    study = lab_study()
    server = replace(study.record.server, name="caddy")
    study = replace(study, record=replace(study.record, server=server))
    with pytest.raises(DefinitionError, match="tuner optimize --server caddy --config COPY-OF-"):
        wanted(given(study), inventory="prod.yml")


@pytest.mark.parametrize("kind", ["better", "equivalent"])
def test_a_server_without_places_is_refused_with_the_command_for_a_role(kind: str) -> None:
    """Which exports what apply would have set, also where the verdict was accepted by name."""
    study = lab_study(kind)
    server = replace(study.record.server, name="nghttpx")
    study = replace(study, record=replace(study.record, server=server))
    accepted = None if kind == "better" else kind
    option = " --candidate" if accepted else ""
    with pytest.raises(DefinitionError, match=rf"own nghttpx.conf; .*--format role{option}$"):
        wanted(given(study, accepted), inventory="prod.yml")


def test_a_setting_that_a_reload_does_not_take_over_needs_a_restart() -> None:
    """Otherwise the host would be probed with its old value."""
    there = FakeHost({MAIN: TEXT, SITE: PROXY})
    assert plan(there, lab_study()).change.how == "reload"
    found = plan(there, lab_study(tuned={**BEFORE, "worker_processes": 2}))
    assert found.change.how == "restart"
    assert "web: then restart of nginx" in found.words


# --- a real server -----------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.integration
@pytest.mark.skipif(
    NGINX is None or os.geteuid() != 0, reason="no nginx, or not root: no mount namespace"
)
def test_a_real_server_judges_files_that_are_not_there_yet(tmp_path: Path) -> None:
    """In its own mount namespace: the file has its own bytes, before, meanwhile and after."""
    main = tmp_path / "nginx.conf"
    main.write_text("events {}\n")
    agent = Agent(Host("here", {"ansible_connection": "local"}), str(tmp_path / "socket"))
    log = tmp_path / "error.log"
    seen = f"grep -c bogus {main}; {NGINX} -t -c {main} -e {log} -g 'pid {tmp_path}/pid;'"
    try:
        reported = agent.overlaid({str(main): b"events {}\nbogus on;\n"}, ["sh", "-c", seen])
        if "unavailable" in reported:
            pytest.skip(f"no mount namespaces here: {reported['unavailable']}")
        assert reported["said"].startswith("1\n")
        assert reported["code"] != 0
        assert "bogus" in reported["said"]
        good = agent.overlaid({str(main): b"events {} # new\n"}, ["sh", "-c", seen])
        assert (good["code"], good["said"][:1]) == (0, "0")
    finally:
        agent.close()
    assert main.read_text() == "events {}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) in (
        [["error.log", "nginx.conf", "pid"], ["nginx.conf", "pid"], ["error.log", "nginx.conf"]]
    )
