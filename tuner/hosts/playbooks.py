"""Playbooks through ansible-runner: variables in, each host's last result out.

ansible-runner has forty options, of which tuner uses a handful. No other module uses it.
https://ansible.readthedocs.io/projects/runner/
"""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import HostError, Interrupted, UnreachableError
from tuner.hosts.ansible_temporary import FOLDER
from tuner.hosts.ansible_workers import ENDS, LOST, LostWorker, end_workers, variables_file
from tuner.hosts.inventory import SSH_ARGS, configuration_file, refuse_name
from tuner.hosts.reason import reason
from tuner.paths import data_dir
from tuner.render.unsafe_yaml import unsafe_yaml

if TYPE_CHECKING:
    from ansible_runner import Runner

LOCAL_INVENTORY: Mapping[str, Any] = {
    "targets": {
        "hosts": {
            "localhost": {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
            }
        }
    }
}
_PATTERNS = frozenset({"tuner_hosts", "tuner_servers", "tuner_generators", "tuner_loadgen_hosts"})
"""Variables with the hosts of a play (``hosts:`` in ``playbooks/``)."""
_KEPT_OUTPUT = 2_000
"""Limit for the end of Ansible's output in an error message, characters."""
_PATIENCE_S = 600
"""Time limit for a playbook; installing a package over a slow line takes the longest."""


@dataclass(frozen=True, slots=True)
class PlaybookResult:
    """The outcome of a playbook, host by host."""

    results: Mapping[str, Mapping[str, Any]]
    """Result of the last task that had one, by host."""
    failed: Mapping[str, str]
    """Reason of the failure, by host."""
    unreachable: frozenset[str]
    words: str
    """Reason of the failure as a whole; empty if there was none."""


@dataclass(frozen=True, slots=True)
class Playbooks:
    """A runner of ``playbooks/``.

    This is the only way from tuner to Ansible. Variables are passed as a file of data
    (`unsafe_yaml`), so Ansible never evaluates their content as a template.

    Args:
        work: folder on this machine for Ansible's own files.
        inventory: an Ansible inventory as data, or the path of one; by default this machine.
        settings: further settings of Ansible, as environment variables.
    """

    work: Path
    inventory: Mapping[str, Any] | str = field(default_factory=lambda: LOCAL_INVENTORY)
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(self, playbook: str, variables: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Run one playbook; return the last result of each host.

        Raises:
            HostError: a task failed, or a host cannot be reached.
            Interrupted: a signal arrived during the run.
        """
        played = self.play(playbook, variables)
        if played.words:
            error = UnreachableError if played.unreachable else HostError
            raise error(f"{playbook} failed: {played.words}")
        return played.results

    def play(self, playbook: str, variables: Mapping[str, Any]) -> PlaybookResult:
        """Run one playbook; a failure on a host is part of the result.

        Raises:
            DefinitionError: a variable with hosts is a pattern for others.
            Interrupted: a signal arrived during the run.
        """
        # Imported here, because it takes noticeable time that --help must not spend.
        import ansible_runner

        results: dict[str, Mapping[str, Any]] = {}
        failed: dict[str, str] = {}
        lost: set[str] = set()
        tried: set[str] = set()

        def keep(event: Mapping[str, Any]) -> bool:
            worker.see(event)
            data = event.get("event_data", {})
            if event["event"] in ENDS:
                tried.add(str(data.get("host")))
            if event["event"] == "runner_on_ok":
                results[data["host"]] = data["res"]
            elif event["event"] in {"runner_on_failed", "runner_on_unreachable"}:
                failed[str(data.get("host"))] = f"{data.get('task')}: {reason(data['res'])}"
                if event["event"] == "runner_on_unreachable":
                    lost.add(str(data.get("host")))
            return False

        folder = data_dir("playbooks")
        for name in _PATTERNS & variables.keys():
            for host in str(variables[name]).removesuffix(",").split(","):
                refuse_name(host)
        private = _prepared(self.work / "ansible", variables)
        worker = LostWorker(private)
        hosts = isinstance(self.inventory, str)
        temporary = remote_temporary() if hosts else _temporary(private / "tmp")
        inventory = self.inventory
        with _stoppable() as asked_to_stop:
            runner = ansible_runner.run(
                private_data_dir=str(private),
                playbook=str(folder / playbook),
                inventory=inventory if isinstance(inventory, str) else dict(inventory),
                envvars={**_environment(folder, private), **temporary, **self.settings},
                suppress_env_files=True,
                event_handler=keep,
                cancel_callback=lambda: asked_to_stop() or worker.look(),
                quiet=True,
                timeout=_PATIENCE_S,
            )
        if runner.status in ("canceled", "timeout"):
            end_workers(private)
        if asked_to_stop():
            raise Interrupted(f"interrupted during {playbook}")
        words = LOST if worker.lost else ""
        if runner.rc != 0 and not words:
            words = "; ".join(f"{host}: {why}" for host, why in failed.items())
            words = words or _end(runner)
        if not tried and not words:
            # Ansible ends with 0 where a play finds no host, as with a cut inventory.
            words = f"no task ran on any host: {_end(runner)}"
        return PlaybookResult(results, failed, frozenset(lost), words)


def _prepared(private: Path, variables: Mapping[str, Any]) -> Path:
    """Return ansible-runner's folder with nothing but the variables.

    ansible-runner reads options, environment and plugins from files in its folder, and a study's
    folder may come from an untrusted source.
    """
    shutil.rmtree(private, ignore_errors=True)
    environment = private / "env"
    environment.mkdir(mode=0o700, parents=True)
    variables_file(private).write_text(unsafe_yaml(dict(variables)), encoding="utf-8")
    return private


def _end(runner: Runner) -> str:
    """Return why ``ansible-playbook`` ended, if no task reports a reason."""
    if runner.status == "timeout":
        return f"it took longer than {_PATIENCE_S} s"
    with runner.stdout as stream:
        said: str = stream.read()[-_KEPT_OUTPUT:].strip()
    if runner.rc is None:
        # After a signal pexpect, with which ansible-runner starts it, has no exit code.
        return f"ansible-playbook was killed{f'; its last output: {said}' if said else ''}"
    return said or f"ansible-playbook ended with exit code {runner.rc} and no output"


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Let a signal end the playbook instead of tuner; yield a function that reports one.

    Without a callback, ansible-runner would install its own handlers and leave them in place:
    after its first playbook tuner could no longer be interrupted. Signals that the caller ignores
    (while it removes a lab) stay ignored.
    """
    came = threading.Event()
    kept = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                kept[number] = signal.signal(number, lambda *_: came.set())
    try:
        yield came.is_set
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _environment(playbooks: Path, private: Path) -> dict[str, str]:
    """Return Ansible's settings for short runs, with its files below the study's folder."""
    bins = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        "PATH": os.pathsep.join(bins),
        "ANSIBLE_LIBRARY": str(playbooks / "library"),
        "ANSIBLE_MODULE_UTILS": str(playbooks / "module_utils"),
        "ANSIBLE_HOME": str(private / "home"),
        # Facts in a module's result must not replace variables of a playbook.
        "ANSIBLE_INJECT_FACT_VARS": "0",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        "ANSIBLE_SSH_ARGS": os.environ.get("ANSIBLE_SSH_ARGS", shlex.join(SSH_ARGS)),
        **configuration_file(),
        **{name: str(Path(os.environ[name]).resolve()) for name in _PATHS if os.environ.get(name)},
    }


def _temporary(folder: Path) -> dict[str, str]:
    """Return settings for Ansible's temporary files, in a folder that is created here.

    By default, a killed run leaves modules in the system's and in the user's temporary folder.
    """
    folder.mkdir(mode=0o700)
    return {"TMPDIR": str(folder), "ANSIBLE_REMOTE_TEMP": str(folder)}


def remote_temporary() -> dict[str, str]:
    """Return the setting of Ansible's folder for temporary files on hosts.

    It is empty if the user has set another folder: the usual one may be of no use there.
    """
    set_here = "ANSIBLE_REMOTE_TEMP" in os.environ or "ANSIBLE_REMOTE_TMP" in os.environ
    return {} if set_here or _sets_remote_temporary() else {"ANSIBLE_REMOTE_TEMP": FOLDER}


def _sets_remote_temporary() -> bool:
    """Return whether the configuration file that Ansible reads sets that folder."""
    named = configuration_file().get("ANSIBLE_CONFIG") or os.environ.get("ANSIBLE_CONFIG")
    places = [named] if named else ["~/.ansible.cfg", "/etc/ansible/ansible.cfg"]
    file = next((path for path in map(Path.expanduser, map(Path, places)) if path.is_file()), None)
    found = configparser.ConfigParser(interpolation=None, strict=False)
    # What cannot be read here, Ansible refuses by itself.
    with suppress(OSError, configparser.Error, UnicodeDecodeError):
        found.read(file or [])
    return found.has_option("defaults", "remote_tmp")


_PATHS = ("ANSIBLE_VAULT_PASSWORD_FILE", "ANSIBLE_PRIVATE_KEY_FILE")
"""Settings with paths relative to the user's folder, while playbooks run in another."""
