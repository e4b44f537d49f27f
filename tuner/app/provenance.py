"""The origin of a record, shown and confirmed before the record affects a host."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from tuner.app.caller import Caller
from tuner.errors import DefinitionError
from tuner.record.model import Record
from tuner.store.signature import made_here


def origin_words(record: Record) -> str:
    """Return the origin of a record, in words; empty for this user's unchanged records."""
    maker = made_here(record)
    if maker == "here":
        return ""
    if maker == "changed":
        others = ", another worker measured for it" if record.hosts else ""
        return (
            f"{record.name!r} began here and has changed since: a command that measured for it was"
            f" killed{others}, or somebody changed its record"
        )
    begun = datetime.fromtimestamp(record.started_unix_s, UTC)
    return (
        f"{record.name!r} was not made here by this user, as far as its record shows: it names the"
        f" host {record.host.hostname!r}, tuner {record.tuner_version} and {begun:%Y-%m-%d}"
    )


def confirm_applying(record: Record, caller: Caller, *, shows_only: bool) -> None:
    """Show the origin of a record before applying it; ask unless it is this user's.

    Args:
        record: the record to apply.
        caller: the command, which may accept other origins.
        shows_only: True if nothing is changed, which needs no question.

    Raises:
        DefinitionError: it has another origin or was changed, the caller does not accept it, and
            there is no terminal.
    """
    words = origin_words(record)
    if words:
        question = "apply a record that was not made here?"
        _confirm(words, question, "--check", caller, asks=not shows_only)


def confirm_measuring(record: Record, caller: Caller) -> None:
    """Show the origin of a record before measuring for it; ask unless it was begun here.

    Records that were begun here need no question even if they were changed since, as every killed
    study was.

    Raises:
        DefinitionError: it was begun elsewhere, the caller does not accept it, and there is no
            terminal.
    """
    if made_here(record) == "elsewhere":
        look = f"`tuner report {record.name}`"
        _confirm(origin_words(record), "measure what it says?", look, caller)


def _confirm(words: str, question: str, look: str, caller: Caller, *, asks: bool = True) -> None:
    if caller.asks:
        click.echo(f"note: {words}", err=True)
    else:
        caller.progress.note(words)
    if not asks or caller.foreign:
        return
    if not (caller.asks and sys.stdin.isatty()):
        raise DefinitionError(
            f"{words}; inspect it with {look}, then accept it with --foreign",
            path="--foreign",
        )
    click.confirm(question, abort=True)
