"""The systemd drop-in that a role adds for variables of the server's process.

``tuner apply`` installs the same files (``tuner.render.systemd``). Everything here is empty for a
server without variables (``UsualPlace.environment``).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from tuner.render.systemd import DROP_IN, VARIABLES, drop_in, drop_ins, unit_of
from tuner.servers.usual_place import UsualPlace


def defaults(name: str, place: UsualPlace, environment: str) -> dict[str, object]:
    """Return the role's variables.

    Args:
        name: name of the role.
        place: usual place of the server.
        environment: the exported file of variables.
    """
    if not place.environment:
        return {}
    return {
        f"{name}_environment": unit_of(place.service, environment, place.variables) is not None,
        f"{name}_drop_ins": drop_ins(f"{{{{ {name}_service }}}}"),
        f"{name}_systemd": "{{ ansible_facts.service_mgr | default('systemd') == 'systemd'"
        f" and {name}_service | length > 0 }}}}",
    }


def options(name: str, place: UsualPlace) -> Mapping[str, tuple[str, str]]:
    """Return type and description of each variable."""
    if not place.environment:
        return {}
    return {
        f"{name}_environment": ("bool", "Whether its process gets variables; no: none of these."),
        f"{name}_drop_ins": ("path", "Folder of the drop-ins of its unit."),
        f"{name}_systemd": ("bool", "Whether systemd starts it."),
    }


def tasks(name: str, place: UsualPlace) -> str:
    """Return tasks that install the variables and the drop-in, or remove them."""
    if not place.environment:
        return ""
    folder = f"{{{{ {name}_drop_ins }}}}"
    # From the command line it is text.
    wanted, systemd = f"{name}_environment | bool", f"{name}_systemd | bool"
    content = textwrap.indent(drop_in(folder), 10 * " ")
    # A folder that --check has not made can hold nothing.
    there = f"not (ansible_check_mode and {name}_folder is changed)"
    return f"""
- name: Say what is left to be done by hand
  ansible.builtin.debug:
    msg: >-
      Without systemd the environment of {place.service} stays as it is;
      files/{place.environment} of this role says what it is to have
  when: {wanted} and not {systemd}

- name: Give the process its environment
  when: {wanted} and {systemd}
  become: "{{{{ {name}_become }}}}"
  block:
    - name: Make the folder of the unit's drop-ins
      ansible.builtin.file:
        path: "{folder}"
        state: directory
        mode: "0755"
      register: {name}_folder

    - name: Put the variables in place
      ansible.builtin.copy:
        src: {place.environment}
        dest: "{folder}/{VARIABLES}"
        mode: "0644"
      when: {there}
      notify: Restart {place.service}

    - name: Put the drop-in that names them in place
      ansible.builtin.copy:
        content: |
{content}        dest: "{folder}/{DROP_IN}"
        mode: "0644"
      when: {there}
      notify: Restart {place.service}

- name: Take the environment away again
  ansible.builtin.file:
    path: "{folder}/{{{{ item }}}}"
    state: absent
  loop:
    - {DROP_IN}
    - {VARIABLES}
  become: "{{{{ {name}_become }}}}"
  when: not {wanted} and {systemd}
  notify: Restart {place.service}
"""


def handler(name: str, place: UsualPlace) -> str:
    """Return the handler that restarts the service, since only a new process has the variables."""
    if not place.environment:
        return ""
    return f"""
- name: Restart {place.service}
  ansible.builtin.systemd_service:
    name: "{{{{ {name}_service }}}}"
    state: restarted
    daemon_reload: true
  become: "{{{{ {name}_become }}}}"
  when: {name}_service | length > 0
"""


def readme(name: str, place: UsualPlace) -> str:
    """Return a paragraph for the role's README."""
    if not place.environment:
        return ""
    return f"""\
Variables of its process (`files/{place.environment}`) become a drop-in of its systemd unit:
`{DROP_IN}` and `{VARIABLES}` in `{drop_ins(place.service)}`.
Where they change, the service is restarted. `-e {name}_environment=false` takes them away again.

"""
