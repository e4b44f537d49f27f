"""The table of what each server can do is that of the code."""

from __future__ import annotations

from pathlib import Path

from tuner.lint.check import RULES
from tuner.machine.facts import SERVER_NAMES
from tuner.own.catalog import READERS, SERVICES
from tuner.servers.catalog import server

PAGE = Path(__file__).resolve().parents[2] / "docs" / "servers.md"


def row(name: str) -> list[str]:
    """Return a server's row, from the modules that it has."""
    reader, service = READERS.get(name), SERVICES.get(name)
    kinds = [
        *(["own files"] if reader else []),
        *(["studies of the lab"] if service and service.place else []),
    ]
    return [
        f"`{name}`",
        "yes",
        "yes" if reader else "no",
        "yes" if reader and reader.tunes_in_place else "no",
        ", ".join(kinds) or "no",
        "yes" if server(name).usual_place.image else "file, role",
        "yes" if name in RULES else "no",
    ]


def test_the_page_says_what_each_server_can_do() -> None:
    """No server is missing, and none can do more or less."""
    section = PAGE.read_text(encoding="utf-8").split("## What each server can do\n")[1]
    table = section.strip().split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert {cells[0]: cells for cells in rows[2:]} == {
        f"`{name}`": row(name) for name in SERVER_NAMES
    }
