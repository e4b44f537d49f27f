"""The Ansible deployer with a real Nginx: isolated, unprivileged, and nothing becomes code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.hosts.modules import LIBRARY, functions_of
from tests.hosts.nginxes import NginxLab, ask, needs_nginx, nginx_lab, processes_in
from tuner.errors import HostError, Interrupted
from tuner.hosts import local
from tuner.hosts.ansible import LOCAL_INVENTORY, AnsibleDeployer
from tuner.hosts.deployer import InstanceArguments, InstanceSpec

pytestmark = needs_nginx

JINJA = "{{ 7*7 }} {% raw %} {{ lookup('pipe', 'id') }}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NginxLab]:
    """One lab for all tests."""
    with nginx_lab(tmp_path_factory.mktemp("ansible") / "study") as made:
        yield made


def test_an_instance_runs_unprivileged_on_its_own_cpus_with_text_as_it_was(lab: NginxLab) -> None:
    """As nobody where tuner is root; and what looks like a template stays text to the byte."""
    port = local.free_ports(1)[0]
    spec = lab.spec("baseline", port, more=f"# {JINJA}\n")
    state = lab.deployer.deploy([spec])["baseline"]
    assert state.state == "live"
    written = (Path(spec.directory) / "nginx.conf").read_text()
    assert written == spec.files["nginx.conf"]
    assert JINJA in written
    wanted = 65534 if os.geteuid() == 0 else os.geteuid()
    for pid in state.pids:
        status = Path(f"/proc/{pid}/status").read_text()
        uids = next(line for line in status.splitlines() if line.startswith("Uid:"))
        assert set(map(int, uids.split()[1:])) == {wanted}
        assert os.sched_getaffinity(pid) == set(lab.cpus)


def test_what_the_caller_has_set_reaches_no_instance(
    lab: NginxLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go's settings and inherited sockets: a figure must not hang on the shell it came from."""
    monkeypatch.setenv("GOGC", "7")
    monkeypatch.setenv("NGINX", "0;")
    monkeypatch.setenv("GOMEMLIMIT", "64MiB")
    spec = lab.spec("baseline", local.free_ports(1)[0])
    start = ("sh", "-c", 'env >logs/said; exec "$@"', "sh", *spec.start)
    spec = replace(spec, start=start, environment={**spec.environment, "GOGC": "200"})
    assert lab.deployer.deploy([spec])["baseline"].state == "live"
    seen = (Path(spec.directory) / "logs/said").read_text().splitlines()
    assert [row for row in seen if row.startswith(("GO", "NGINX="))] == ["GOGC=200"]


def test_the_site_is_published_and_replaced(lab: NginxLab) -> None:
    """Every instance serves the workload's files, also after they changed."""
    port = local.free_ports(1)[0]
    lab.deployer.publish({"index.html": b"one", "deep/er.txt": JINJA.encode()})
    lab.deployer.deploy([lab.spec("baseline", port)])
    assert ask(f"http://127.0.0.1:{port}/index.html") == "one"
    assert ask(f"http://127.0.0.1:{port}/deep/er.txt") == JINJA
    lab.deployer.publish({"index.html": b"two"})
    assert ask(f"http://127.0.0.1:{port}/index.html") == "two"


def test_stopping_leaves_no_process_and_no_file(lab: NginxLab) -> None:
    """Master and workers alike, and the folder with them."""
    lab.deployer.deploy([lab.spec("baseline", local.free_ports(1)[0])])
    assert processes_in(lab.lab)
    lab.deployer.stop()
    assert processes_in(lab.lab) == []
    assert not lab.deployer.instances_dir.exists()


def test_workers_of_a_killed_master_are_stopped_too(lab: NginxLab) -> None:
    """They carry no path and have another parent by then, but the folder they were started in."""
    state = lab.deployer.deploy([lab.spec("baseline", local.free_ports(1)[0])])["baseline"]
    master, *workers = state.pids
    assert workers
    os.kill(master, signal.SIGKILL)
    lab.deployer.stop()
    assert processes_in(lab.lab) == []
    assert not [pid for pid in workers if _runs(pid)]


def _runs(pid: int) -> bool:
    """Return whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_another_server_on_the_port_is_not_taken_for_the_instance(lab: NginxLab) -> None:
    """The instance must answer with its own digest: what others answer proves nothing."""
    port = local.free_ports(1)[0]
    spec = replace(lab.spec("baseline", port), live_token="another-digest")  # noqa: S106 - no secret
    state = lab.deployer.deploy([spec])["baseline"]
    assert state.state == "failed"
    assert "instead of 'another-digest'" in state.message


def test_an_instance_outside_the_lab_is_refused(lab: NginxLab, tmp_path: Path) -> None:
    """The module empties its folder; it must never be somebody else's."""
    spec = replace(lab.spec("baseline", local.free_ports(1)[0]), directory=str(tmp_path))
    with pytest.raises(HostError, match="is not inside"):
        lab.deployer.deploy([spec])


def test_a_host_that_cannot_be_reached_is_a_host_error(tmp_path: Path) -> None:
    """With Ansible's own words."""
    host = {**LOCAL_INVENTORY["targets"]["hosts"]["localhost"], "ansible_connection": "ssh"}
    inventory = {"targets": {"hosts": {"127.0.0.1": {**host, "ansible_port": 1}}}}
    deployer = AnsibleDeployer(tmp_path / "lab", tmp_path / "work", user="", inventory=inventory)
    with pytest.raises(HostError, match=r"stop\.yml failed"):
        deployer.stop()


def deploy_and_interrupt(lab: NginxLab) -> None:
    """Deploy an instance that takes long to start; once it has begun to, Ctrl-C."""
    spec = lab.spec("baseline", local.free_ports(1)[0])
    slow = ("sh", "-c", 'touch logs/begun; sleep 30; exec "$@"', "sh", *spec.start)
    begun = Path(spec.directory) / "logs/begun"
    begun.unlink(missing_ok=True)

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(Interrupted):
        lab.deployer.deploy([replace(spec, start=slow)])


def test_tuner_can_be_interrupted_during_a_playbook_and_after_it(lab: NginxLab) -> None:
    """The signal ends the playbook, then tuner; the handlers are those that were there before."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    deploy_and_interrupt(lab)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupted_playbook_leaves_nobody_who_goes_on_with_it(lab: NginxLab) -> None:
    """Ansible's workers have sessions of their own: one would start what nobody stops any more."""
    deploy_and_interrupt(lab)
    # Left alone, it would wait for the start as long as the module does: 10 s.
    patience = time.monotonic() + 8
    while _players(lab) and time.monotonic() < patience:
        time.sleep(0.05)
    assert _players(lab) == []


def _players(lab: NginxLab) -> list[int]:
    """Return processes of Ansible's with a playbook for this lab."""
    processes = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in processes if _plays(pid, lab)]


def _plays(pid: int, lab: NginxLab) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return False
    return "ansible-playbook" in words and str(lab.work) in words and _runs(pid)


def test_what_is_taken_down_is_not_interrupted(lab: NginxLab) -> None:
    """A second Ctrl-C while the lab is stopped changes nothing."""
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        lab.deployer.stop()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, kept)
    assert processes_in(lab.lab) == []


@pytest.mark.parametrize(
    ("second", "wrong"),
    [(["sleep", "600"], subprocess.TimeoutExpired), (["/no/such/program"], FileNotFoundError)],
)
def test_where_one_command_fails_the_others_do_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: list[str], wrong: type[Exception]
) -> None:
    """Out of time, or not to be started: all are ended, with what they began."""
    module = functions_of("tuner_instances", monkeypatch)
    usual = {"environment": {}, "cpus": [], "open_files": 0}
    first = ["sh", "-c", "sleep 600 & wait"]
    instances = []
    for name, command in (("first", first), ("second", second)):
        (tmp_path / name).mkdir()
        instances.append({**usual, "directory": str(tmp_path / name), "start": command})
    with pytest.raises(wrong):
        module["run_all"]("start", instances, None, 0.25)
    # Those that have been killed take a moment, however long on a busy machine.
    patience = time.monotonic() + 60
    while module["processes_of"](str(tmp_path)) and time.monotonic() < patience:
        time.sleep(0.05)
    assert module["processes_of"](str(tmp_path)) == set()


def test_a_server_that_answers_before_it_writes_its_process_id_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file yet, an empty file, the id; and an error that names a file that never comes."""
    module = functions_of("tuner_instances", monkeypatch)
    pid_file = tmp_path / "pid"
    contents = ["", str(os.getpid())]
    state = module["prove"].__globals__
    monkeypatch.setitem(state, "proved", lambda _: (True, None))
    monkeypatch.setattr(
        module["time"], "sleep", lambda _: pid_file.write_text(contents.pop(0)) if contents else 0
    )
    instance = {"pid_file": str(pid_file), "live_url": "http://localhost/"}
    assert module["prove"](instance, 60) is None
    assert contents == []
    instance["pid_file"] = str(tmp_path / "none")
    assert f"writes no process id to {instance['pid_file']}" in module["prove"](instance, 0.05)


def test_the_module_is_documented(lab: NginxLab) -> None:
    """``ansible-doc`` reads it, with every option that it takes."""
    program = Path(sys.executable).parent / "ansible-doc"
    reported = subprocess.run(
        [str(program), "-t", "module", "-M", str(LIBRARY), "tuner_instances"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "timeout_s" in reported
    assert lab.server.name == "nginx"


def test_an_instance_is_sent_in_the_arguments_of_the_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither side knows a field that the other does not, and nothing else is sent."""
    known = functions_of("tuner_instances", monkeypatch)["INSTANCE"]
    assert {each.name for each in fields(InstanceArguments)} == set(known)
    spec = InstanceSpec(
        *("c1", "/lab/c1", {}, (), (), (), "/lab/c1/pid", "http://localhost/", "c1", {}, ()),
        kernel={"net.core.somaxconn": "128"},
    )
    assert set(spec.arguments) == set(known)
