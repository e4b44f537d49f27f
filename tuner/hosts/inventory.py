"""An ordinary Ansible inventory, read by Ansible itself: targets, generators, backends.

``ansible-inventory --list`` resolves groups, variables and vault as playbooks do, so Ansible's
rules are not repeated here.
https://docs.ansible.com/ansible/latest/cli/ansible-inventory.html
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import DefinitionError, quoted
from tuner.reading.inputs import INVENTORY_BYTES, open_input

TARGETS, GENERATORS, BACKENDS = "targets", "generators", "backends"
ALIVE = (
    # A peer that is silent for 15 s is gone: no study waits forever.
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=10"),
)
SSH_ARGS = ("-o", "ControlMaster=auto", "-o", "ControlPersist=60s", *ALIVE)
"""Options for Ansible's own connections: one TCP connection for all its tasks."""
_PATIENCE_S = 60
_KEPT = 1_000
_NAME = re.compile(r"\w[\w.@%+=/-]*")
_SELECTING = frozenset({"all", "ungrouped"})
"""Names of Ansible's own groups."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host of an inventory, with its resolved variables."""

    name: str
    variables: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Raise `DefinitionError` unless name and address are plain names."""
        refuse_name(self.name)
        if self.connects_to.startswith("-"):
            raise DefinitionError(
                f"host {self.name} has the ansible_host {self.connects_to!r}, which SSH would take"
                " for an option",
                path="--inventory",
            )

    @property
    def address(self) -> str:
        """Address of its instances: ``tuner_address``, or Ansible's address for the host."""
        return str(self.variables.get("tuner_address") or self.connects_to)

    @property
    def connects_to(self) -> str:
        """``ansible_host``, or the host's name."""
        if self.is_local:
            return "127.0.0.1"
        return str(self.variables.get("ansible_host", self.name))

    @property
    def is_local(self) -> bool:
        """True if Ansible uses a local connection."""
        return self.variables.get("ansible_connection") == "local"

    @property
    def python(self) -> str:
        """Its Python interpreter, if the inventory names one."""
        named = str(self.variables.get("ansible_python_interpreter", "auto"))
        return "python3" if named.startswith("auto") else named

    @property
    def becomes(self) -> bool:
        """True if commands run with ``become``."""
        return str(self.variables.get("ansible_become", False)).lower() in {"true", "yes", "1"}

    def command(self, *words: str, control_path: str, master: bool = False) -> list[str]:
        """Return the command that runs ``words`` there, connected to our standard streams.

        It uses the settings that Ansible's own SSH connection reads from the inventory
        (https://docs.ansible.com/ansible/latest/collections/ansible/builtin/ssh_connection.html).

        Args:
            words: program and arguments.
            control_path: socket of the shared connection.
            master: whether this command opens the shared connection, which ends with the command.

        Raises:
            DefinitionError: a setting asks for a password at a prompt.
        """
        given = self.variables
        inner = [*self._become(), *words]
        if self.is_local:
            return inner
        for key in ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password"):
            if given.get(key):
                raise DefinitionError(
                    f"host {self.name} has {key}: load and measurements need a connection"
                    " without prompts; use a key (ansible_ssh_private_key_file, or an agent)",
                    path="--inventory",
                )
        port = given.get("ansible_port", given.get("ansible_ssh_port"))
        user = given.get("ansible_user", given.get("ansible_ssh_user"))
        key = given.get("ansible_ssh_private_key_file", given.get("ansible_private_key_file"))
        command = [str(given.get("ansible_ssh_executable", "ssh")), "-T", *ALIVE]
        command += ["-o", f"ControlMaster={'yes' if master else 'no'}", "-o", "ControlPersist=no"]
        command += ["-o", f"ControlPath={control_path}", "-o", "BatchMode=yes"]
        command += ["-p", str(port)] if port else []
        command += ["-l", str(user)] if user else []
        command += ["-i", str(Path(str(key)).expanduser())] if key else []
        if str(self._host_key_checking()).lower() in {"false", "no", "0"}:
            command += ["-o", "StrictHostKeyChecking=no"]
        for extra in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
            command += shlex.split(str(given.get(extra, "")))
        return [*command, "--", self.connects_to, shlex.join(inner)]

    def _host_key_checking(self) -> object:
        """Return the user's Ansible setting; on by default."""
        for key in ("ansible_ssh_host_key_checking", "ansible_host_key_checking"):
            if key in self.variables:
                return self.variables[key]
        return os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "true")

    def _become(self) -> list[str]:
        if not self.becomes:
            return []
        method = str(self.variables.get("ansible_become_method", "sudo"))
        if method not in {"sudo", "ansible.builtin.sudo"}:
            raise DefinitionError(
                f"host {self.name} has ansible_become_method {method!r}; tuner supports sudo only",
                path="--inventory",
            )
        return ["sudo", "-n", "-u", str(self.variables.get("ansible_become_user", "root")), "--"]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The hosts of a study by their role."""

    path: str
    targets: tuple[Host, ...]
    generators: tuple[Host, ...]
    backends: tuple[Host, ...] = ()

    @property
    def target(self) -> Host:
        """The host that serves."""
        return self.targets[0]

    @property
    def generator(self) -> Host:
        """The host that offers the load, or the first of several."""
        return self.generators[0]

    @property
    def backend(self) -> Host:
        """The host behind a proxy; by default the target itself."""
        return self.backends[0] if self.backends else self.target

    @property
    def in_use(self) -> tuple[Host, ...]:
        """The hosts of one study, each once."""
        used = (self.target, *self.generators, self.backend)
        return tuple({host.name: host for host in used}.values())


def read_inventory(path: str, *, generators: bool = True) -> Inventory:
    """Read an Ansible inventory: a file, a folder, or a script.

    Args:
        path: an argument of ``ansible-playbook -i``.
        generators: whether at least one generator is required.

    Raises:
        DefinitionError: it is missing, cannot be read, or lacks a required host.
    """
    if not Path(path).exists():
        raise DefinitionError("there is no such inventory", path=path)
    if not Path(path).is_dir():
        open_input(path, INVENTORY_BYTES).close()
    command = [_next_to_python("ansible-inventory"), "-i", str(Path(path).resolve()), "--list"]
    environment = {**os.environ, "ANSIBLE_DEPRECATION_WARNINGS": "0", **configuration_file()}
    # An unreadable file must not look like an empty inventory.
    environment["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] = "1"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DefinitionError(f"ansible-inventory does not answer: {error}", path=path) from error
    if done.returncode != 0:
        raise DefinitionError(f"Ansible cannot read it: {done.stderr.strip()[-_KEPT:]}", path=path)
    return parse_inventory(json.loads(done.stdout), path, generators=generators)


def parse_inventory(listing: Mapping[str, Any], path: str, *, generators: bool = True) -> Inventory:
    """Return the hosts by group, from the output of ``ansible-inventory --list``.

    Raises:
        DefinitionError: a group is missing or empty.
    """
    variables = listing.get("_meta", {}).get("hostvars", {})

    def members(group: str) -> tuple[Host, ...]:
        names = dict.fromkeys(_names(listing, group))
        return tuple(Host(name, variables.get(name, {})) for name in names)

    for group, entry in listing.items():
        both = listing.keys() & set(entry.get("hosts", ()))
        if group != "_meta" and both:
            raise DefinitionError(
                f"{min(both)!r} is the name of a host and of a group, which is"
                " ambiguous for Ansible; rename one",
                path=path,
            )
    found = {group: members(group) for group in (TARGETS, GENERATORS, BACKENDS)}
    for group, what in ((TARGETS, "serves"), (GENERATORS, "offers the load")):
        if not found[group] and (group == TARGETS or generators):
            groups = sorted(set(listing) - {"_meta", "all", "ungrouped"})
            raise DefinitionError(
                f"no host in the group {group!r}, which {what}; groups here:"
                f" {', '.join(groups) or 'none'}",
                path=path,
            )
    return Inventory(path, found[TARGETS], found[GENERATORS], found[BACKENDS])


def limited(hosts: Sequence[Host], limit: str | None) -> tuple[Host, ...]:
    """Return the hosts that a limit selects, in the order of the inventory.

    Args:
        hosts: to select from.
        limit: names with commas between them; if all of them begin with ``!``, every other host.
            None: all hosts.

    Raises:
        DefinitionError: a name is none of them, both kinds are mixed, or no host is left.
    """
    if limit is None:
        return tuple(hosts)
    words = [word.strip() for word in limit.split(",") if word.strip()]
    names = {word.removeprefix("!") for word in words}
    known = ", ".join(host.name for host in hosts)
    for name in sorted(names - {host.name for host in hosts}):
        raise DefinitionError(f"no host {quoted(name)}; hosts: {known}", path="--limit")
    without = [word.startswith("!") for word in words]
    if any(without) and not all(without):
        raise DefinitionError(
            f"{quoted(limit)} both names hosts and leaves some out; write one of them",
            path="--limit",
        )
    found = tuple(host for host in hosts if (host.name in names) != any(without))
    if not found:
        raise DefinitionError(f"{quoted(limit)} leaves no host; hosts: {known}", path="--limit")
    return found


def host_pattern(names: Iterable[str]) -> str:
    """Return Ansible's pattern for these hosts, and no others.

    Raises:
        DefinitionError: Ansible would read a name as a pattern.
    """
    plain = tuple(dict.fromkeys(names))
    for name in plain:
        refuse_name(name)
    pattern = ",".join(plain)
    # Without a comma Ansible splits at colons, which an IPv6 address has.
    return f"{pattern}," if ":" in pattern else pattern


def refuse_name(name: str) -> None:
    """Raise `DefinitionError` unless Ansible reads this as the name of one host or group.

    Ansible selects hosts by patterns: ``all``, ``web*``, ``!web``, ``~regex``, ``web[0]``.
    https://docs.ansible.com/ansible/latest/inventory_guide/intro_patterns.html
    """
    if name in _SELECTING or not (_NAME.fullmatch(name) or _is_address(name)):
        raise DefinitionError(
            f"{name!r} cannot be the name of a host: Ansible reads it as a pattern that selects"
            " hosts; use letters, digits and . _ - @ in it",
            path="--inventory",
        )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def configuration_file() -> dict[str, str]:
    """Return ``ANSIBLE_CONFIG`` for a run in another folder: the file that Ansible finds here.

    Like Ansible, ignore a file in a world-writable folder.
    https://docs.ansible.com/ansible/latest/reference_appendices/config.html#avoiding-security-risks-with-ansible-cfg-in-the-current-directory
    """
    here = Path("ansible.cfg")
    if "ANSIBLE_CONFIG" in os.environ or not here.is_file():
        return {}
    if Path.cwd().stat().st_mode & stat.S_IWOTH:
        return {}
    return {"ANSIBLE_CONFIG": str(here.resolve())}


def _names(listing: Mapping[str, Any], group: str) -> list[str]:
    """Return the hosts of a group and of its child groups."""
    entry = listing.get(group, {})
    names = list(entry.get("hosts", ()))
    for child in entry.get("children", ()):
        names += _names(listing, child)
    return names


def _next_to_python(name: str) -> str:
    """Return Ansible's command from this Python's environment, or from the PATH."""
    path = Path(sys.executable).parent / name
    return str(path) if path.is_file() else name
