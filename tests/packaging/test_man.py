"""The manual pages, which are made from the texts of ``--help``."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from release.man import page, pages
from tuner.cli.commands import cli

DATE = "2026-11-23"
PAGES = dict(pages(DATE))
_OVERSTRUCK = re.compile(r".\x08")


def mandoc(*arguments: str, source: str = "") -> str:
    """Return what mandoc prints on its standard output; without it, the test is skipped."""
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    done = subprocess.run(
        ["mandoc", *arguments], input=source, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_every_command_has_a_page() -> None:
    """And every command below it."""
    names = cli.list_commands(click.Context(cli))
    assert {"tuner.1", "tuner-space-explain.1", *(f"tuner-{name}.1" for name in names)} <= set(
        PAGES
    )


def test_a_page_has_every_option() -> None:
    """As ``--help`` has them."""
    command = cli.get_command(click.Context(cli), "optimize")
    assert command is not None
    text = PAGES["tuner-optimize.1"].replace(r"\-", "-")
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert len(options) > 30
    assert [option.name for option in options if option.opts[0] not in text] == []


def test_mandoc_has_no_complaint(tmp_path: Path) -> None:
    """About any page, down to its style of macros."""
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert mandoc("-Tlint", "-Wwarning", *map(str, sorted(tmp_path.iterdir()))) == ""


def test_a_text_is_shown_as_it_is() -> None:
    """Characters of roff stand for themselves, and lines of examples stay lines."""
    hard = r"A '\d+\.x' and \fBnone\fR, --a ~b ^c `d`."
    command = click.Command(
        "x", help=f"Do it.\n\n.TH {hard}", epilog=f"\b\nExamples:\n  .x '{hard}'\n  x | y"
    )
    source = page(("tuner", "x"), command, DATE)
    shown = _OVERSTRUCK.sub("", mandoc("-Tutf8", "-Owidth=120", source=source))
    assert [line.strip() for line in shown.splitlines() if hard in line] == [
        f".TH {hard}",
        f".x '{hard}'",
    ]
    assert re.search(r"\n +x \| y\n", shown)


def test_the_pages_depend_on_nothing_else() -> None:
    """The same day gives the same pages."""
    assert dict(pages(DATE)) == PAGES
