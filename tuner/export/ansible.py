"""The configuration for Ansible: values as variables, and a role that installs the file."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import yaml

from tuner.export import unit
from tuner.export.configuration import choose, comment, provenance
from tuner.judge.results import StudyResult
from tuner.reading.printable import printable_lines
from tuner.record.model import ConfigurationRecord
from tuner.render.unsafe_yaml import IndentedDumper, trusted, unsafe_yaml
from tuner.report.markdown import plain
from tuner.servers.catalog import server as server_of
from tuner.servers.usual_place import UsualPlace

ROLE = "tuned"
"""Prefix of the role's variables, before the server's name, as ansible-lint requires."""


def variables(
    study: StudyResult, *, candidate: bool = False, minimal: bool = False
) -> dict[str, str]:
    """Return the values as a file of variables, for the user's own templates.

    Returns:
        Empty if the record has no configuration.
    """
    chosen = choose(study, candidate=candidate, minimal=minimal)
    if chosen is None:
        return {}
    lines = provenance(study, chosen)
    name = study.record.server.name
    return {
        f"{name}.yml": "---\n"
        + _wrapped(lines)
        + unsafe_yaml(_values(study, chosen, f"{ROLE}_{name}"))
    }


def role(study: StudyResult, *, candidate: bool = False, minimal: bool = False) -> dict[str, str]:
    """Return a role directory by path; apply it with ``hosts: web`` and ``roles: [tuned_nginx]``.

    The role writes the server's file after the server has validated it, with a copy of the old one,
    and reloads the service if the file changed, or restarts one that cannot reload. Variables of
    the server's process become a drop-in of its systemd unit.

    Returns:
        Empty if the record has no configuration.
    """
    chosen = choose(study, candidate=candidate, minimal=minimal)
    if chosen is None:
        return {}
    lines, place = provenance(study, chosen), server_of(study.record.server.name).usual_place
    name = f"{ROLE}_{study.record.server.name}"
    head = "---\n" + _wrapped(lines)
    more = dict(chosen.more)
    variables = more.get(place.environment, "")
    if variables:
        # This file is separate from the server's, so it has its own provenance.
        more[place.environment] = comment(lines) + variables
    own = {
        f"{name}_path": place.path,
        f"{name}_owner": "root",
        f"{name}_group": "root",
        f"{name}_mode": "0644",
        f"{name}_become": True,
        f"{name}_backup": True,
        f"{name}_validate": place.validate,
        f"{name}_service": place.service,
        **unit.defaults(name, place, variables),
    }
    defaults = {**trusted(own), **_values(study, chosen, name)}
    return {
        f"{name}/README.md": _readme(name, place, lines),
        f"{name}/defaults/main.yml": head + unsafe_yaml(defaults),
        f"{name}/files/{place.file}": comment(lines) + chosen.text,
        **{f"{name}/files/{file}": text for file, text in more.items()},
        f"{name}/handlers/main.yml": head + _handlers(name, place),
        f"{name}/meta/argument_specs.yml": head + _yaml(_arguments(name, place)),
        f"{name}/meta/main.yml": head + _yaml(_meta(name)),
        f"{name}/tasks/main.yml": head + _tasks(name, place),
        "site.yml": head + _playbook(name),
    }


def _values(study: StudyResult, chosen: ConfigurationRecord, name: str) -> dict[str, object]:
    return {
        f"{name}_parameters": dict(chosen.values),
        f"{name}_provenance": {
            "study": study.record.name,
            "configuration": chosen.digest,
            "protocol": study.record.protocol.digest if study.record.protocol else None,
            "verdict": str(study.verdict.kind) if study.verdict else None,
            "space": chosen.space,
            "server": study.record.server.words,
            "tuner": study.record.tuner_version,
        },
    }


def _tasks(name: str, place: UsualPlace) -> str:
    return f"""\
- name: Put the configuration in place
  ansible.builtin.copy:
    src: {place.file}
    dest: "{{{{ {name}_path }}}}"
    owner: "{{{{ {name}_owner or omit }}}}"
    group: "{{{{ {name}_group or omit }}}}"
    mode: "{{{{ {name}_mode }}}}"
    backup: "{{{{ {name}_backup }}}}"
    validate: "{{{{ {name}_validate or omit }}}}"
  become: "{{{{ {name}_become }}}}"
  notify: {_renewal(place)}
{unit.tasks(name, place)}"""


def _handlers(name: str, place: UsualPlace) -> str:
    # The reload comes first: with a file that the server cannot use, it keeps the running
    # configuration.
    return f"""\
- name: {_renewal(place)}
  ansible.builtin.service:
    name: "{{{{ {name}_service }}}}"
    state: {_state(place)}
  become: "{{{{ {name}_become }}}}"
  when: {name}_service | length > 0
{unit.handler(name, place)}"""


def _renewal(place: UsualPlace) -> str:
    """Return the name of the handler for a changed file."""
    return f"Reload {place.service}" if place.reloads else f"Restart {place.service} with its file"


def _verb(place: UsualPlace) -> str:
    return "reloads" if place.reloads else "restarts"


def _state(place: UsualPlace) -> str:
    return "reloaded" if place.reloads else "restarted"


def _playbook(name: str) -> str:
    return f"""\
- name: Apply the tuned configuration
  hosts: all
  roles:
    - role: {name}
"""


def _meta(name: str) -> dict[str, object]:
    return {
        "galaxy_info": {
            "role_name": name,
            "author": "tuner",
            "description": "The configuration that a study recommends.",
            "license": "Apache-2.0",
            "min_ansible_version": "2.15",
            "platforms": [
                {"name": "EL", "versions": ["all"]},
                {"name": "Debian", "versions": ["all"]},
            ],
        },
        "dependencies": [],
    }


def _arguments(name: str, place: UsualPlace) -> dict[str, object]:
    def option(kind: str, words: str) -> dict[str, str]:
        return {"type": kind, "description": words}

    summary = f"Puts {place.file} in place and {_verb(place)} {place.service}."
    restarted = f"Service to be {_state(place)}; empty: none."
    return {
        "argument_specs": {
            "main": {
                "short_description": summary,
                "options": {
                    f"{name}_path": option("path", f"Where {place.file} lies."),
                    f"{name}_owner": option("str", "Its owner; empty leaves that as it is."),
                    f"{name}_group": option("str", "Its group; empty leaves that as it is."),
                    f"{name}_mode": option("str", "Its mode."),
                    f"{name}_become": option("bool", "Whether to become root."),
                    f"{name}_backup": option("bool", "Whether to keep what was there."),
                    f"{name}_validate": option("str", "Command that checks the file; empty: none."),
                    f"{name}_service": option("str", restarted),
                    **{key: option(*said) for key, said in unit.options(name, place).items()},
                    f"{name}_parameters": option("dict", "The values, for your own templates."),
                    f"{name}_provenance": option("dict", "Where they come from."),
                },
            }
        }
    }


def _readme(name: str, place: UsualPlace, lines: Sequence[str]) -> str:
    comment = printable_lines("\n".join(f"> {plain(line)}" for line in lines))
    return f"""\
# {name}

Puts `{place.file}` at `{place.path}` after the server found it valid, keeps a copy of what was
there, and {_verb(place)} `{place.service}` if it changed.

{unit.readme(name, place)}\
{comment}

    ansible-playbook -i inventory site.yml --check --diff
    ansible-playbook -i inventory site.yml

To use the values in a template of your own, read `{name}_parameters`. All variables, with their
defaults, are in `defaults/main.yml`.
"""


def _yaml(value: object) -> str:
    """Return trusted texts as YAML; data from a record needs `unsafe_yaml`."""
    text: str = yaml.dump(value, Dumper=IndentedDumper, sort_keys=False, width=96)
    return text


def _wrapped(lines: Sequence[str]) -> str:
    return comment([part for line in lines for part in textwrap.wrap(line, 96)])
