"""Manual pages of all commands, made from the same texts as their ``--help``.

    python -m release.man [FOLDER]

`make man` runs it. FOLDER is `build/man` unless named. Macros are those of man(7).
"""

from __future__ import annotations

import argparse
import inspect
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from release.components import TOP
from tuner import __version__
from tuner.cli.commands import cli
from tuner.cli.groups import by_theme

_SPECIAL = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def pages(date: str) -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of each page."""
    for names, command in _walk(("tuner",), cli):
        yield f"{'-'.join(names)}.1", page(names, command, date)


def page(names: Sequence[str], command: click.Command, date: str) -> str:
    """Return the page of a command.

    Args:
        names: words of the command, such as ``("tuner", "space", "show")``.
        command: the command itself.
        date: day of the build, such as 2026-11-23.
    """
    context = click.Context(command, info_name=" ".join(names), **cli.context_settings)
    title = "-".join(names)
    first, *rest = _paragraphs(command.help or "")
    below = _commands(command)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{_escaped(title.upper())}" 1 {date} "servertune {__version__}" "User Commands"',
        ".SH NAME",
        f"{_escaped(title)} \\- {_escaped(first.removesuffix('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_escaped(' '.join(names))}\\fR {_escaped(usage)}",
        *_section("DESCRIPTION", _text(rest)),
        *_section("OPTIONS", _options(command, context)),
        *_section(
            "COMMANDS", _list((name, found.get_short_help_str(200)) for name, found in below)
        ),
    ]
    for block in _paragraphs(command.epilog or ""):
        heading, _, text = block.removeprefix("\b\n").partition("\n")
        lines += _section(heading.removesuffix(":").upper(), _kept(inspect.cleandoc(text)))
    related = [f"{title}-{name}" for name, _ in below] or ["-".join(names[:-1])]
    references = (f"\\fB{_escaped(name)}\\fR(1)" for name in related)
    return "\n".join([*lines, *_section("SEE ALSO", [",\n".join(references)])]) + "\n"


def _walk(
    names: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all below it, with their words."""
    yield names, command
    for name, found in _commands(command):
        yield from _walk((*names, name), found)


def _commands(command: click.Command) -> list[tuple[str, click.Command]]:
    """Return the commands below a command, with their names."""
    if not isinstance(command, click.Group):
        return []
    context = click.Context(command)
    found = ((name, command.get_command(context, name)) for name in command.list_commands(context))
    return [(name, below) for name, below in found if below is not None]


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the options as ``--help`` orders them, a long list by theme."""
    themes = by_theme(command, context)
    for theme, rows in themes:
        if len(themes) > 1:
            yield f'.SS "{_escaped(theme)}"'
        yield from _list(rows)


def _list(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in rows:
        yield from (".TP", f"\\fB{_escaped(term)}\\fR", _escaped(text))


def _section(title: str, lines: Iterable[str]) -> list[str]:
    """Return a section; nothing if it is empty."""
    found = list(lines)
    # A heading begins a paragraph.
    found = found[1:] if found[:1] == [".PP"] else found
    return [f'.SH "{_escaped(title)}"', *found] if found else []


def _paragraphs(text: str) -> list[str]:
    r"""Return the paragraphs of a help text; one that begins with ``\b`` keeps its lines."""
    found = inspect.cleandoc(text).split("\n\n")
    return [each if each.startswith("\b") else " ".join(each.split()) for each in found if each]


def _text(paragraphs: Iterable[str]) -> Iterator[str]:
    for each in paragraphs:
        if each.startswith("\b"):
            yield from _kept(each.removeprefix("\b\n"))
        else:
            yield from (".PP", _escaped(each))


def _kept(text: str) -> list[str]:
    """Return lines that are not filled; every line stays one."""
    return [".PP", ".nf", ".RS 2", *map(_escaped, text.splitlines()), ".RE", ".fi"]


def _escaped(text: str) -> str:
    """Return a text without meaning for roff: its characters, and no request at a line's start."""
    plain = "".join(_SPECIAL.get(char, char) for char in text)
    return f"\\&{plain}" if plain.startswith(".") else plain


def main() -> None:
    """Write all pages into a folder."""
    parser = argparse.ArgumentParser(description="Write the manual pages of all commands.")
    parser.add_argument("folder", nargs="?", type=Path, default=TOP / "build" / "man")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    # https://reproducible-builds.org/specs/source-date-epoch/
    built = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    for name, text in pages(time.strftime("%Y-%m-%d", time.gmtime(built))):
        (folder / name).write_text(text, encoding="utf-8")
    print(f"man -l {folder / 'tuner.1'}")


if __name__ == "__main__":
    main()
