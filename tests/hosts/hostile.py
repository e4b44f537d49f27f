"""Strings that would run a command where they are taken for code, and what shows that one ran."""

from __future__ import annotations

from pathlib import Path

CANARY = "CANARY"


def payloads(folder: Path) -> tuple[str, ...]:
    """Strings for one field each; a command in any of them makes a file ``CANARY``."""
    touch = f"touch {folder}/{CANARY}"
    return (
        f"{{{{ lookup('pipe', '{touch}') }}}}",
        f"{{% set x = lookup('ansible.builtin.pipe', '{touch}') %}}{{{{ x }}}}",
        f"#jinja2: variable_start_string: '[['\n[[ lookup('pipe', '{touch}') ]]",
        f"$({touch})",
        f"`{touch}`",
        f"'; {touch}; '",
        f'"; {touch}; "',
        f"x; {touch} #",
        f"x\n- ansible.builtin.shell: {touch}\n",
        f"x\n  vars: {{y: \"{{{{ lookup('pipe', '{touch}') }}}}\"}}\n",
        f'!!python/object/apply:os.system ["{touch}"]',
        f"%({touch})s",
        f"${{IFS;{touch}}}",
        f"@{folder}/variables.yml",
        f"-e{touch}",
        f"--eval={touch}",
        f"| {touch}",
        f"-oProxyCommand={touch}",
    )


def everything(folder: Path) -> str:
    """Return all of them in one string, for what is expensive to try."""
    return " ".join(payloads(folder))


def names() -> tuple[str, ...]:
    """Return names of files that would run a command."""
    return (
        f"{{{{ lookup('pipe', 'touch {CANARY}') }}}}",
        f"$(touch {CANARY})",
        f"a'; touch {CANARY}; '",
        f"-e touch {CANARY}",
    )


def touched(*folders: Path) -> list[Path]:
    """Return what a command made in these folders."""
    return [folder / CANARY for folder in folders if (folder / CANARY).exists()]
