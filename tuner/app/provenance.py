"""The origin of a record, shown and confirmed before the record affects a host."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from tuner.app.flags import is_given, kept_flag
from tuner.errors import DefinitionError
from tuner.record.model import Record
from tuner.store.signature import made_here

_FLAG = "--foreign"

option = kept_flag(_FLAG, "Accept a record that another user or machine made [ask].")
"""Decorator: add ``--foreign``, which accepts a record from elsewhere."""


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


def confirm_applying(record: Record, *, shows_only: bool) -> None:
    """Show the origin of a record before applying it; ask unless it is this user's.

    Args:
        record: the record to apply.
        shows_only: True if nothing is changed, which needs no question.

    Raises:
        DefinitionError: it has another origin or was changed, ``--foreign`` is missing, and there
            is no terminal.
    """
    words = origin_words(record)
    if words:
        _confirm(words, "apply a record that was not made here?", "--check", asks=not shows_only)


def confirm_measuring(record: Record) -> None:
    """Show the origin of a record before measuring for it; ask unless it was begun here.

    Records that were begun here need no question even if they were changed since, as every killed
    study was.

    Raises:
        DefinitionError: it was begun elsewhere, ``--foreign`` is missing, and there is no terminal.
    """
    if made_here(record) == "elsewhere":
        _confirm(origin_words(record), "measure what it says?", f"`tuner report {record.name}`")


def _confirm(words: str, question: str, look: str, *, asks: bool = True) -> None:
    click.echo(f"note: {words}", err=True)
    if not asks or is_given(_FLAG):
        return
    if not sys.stdin.isatty():
        raise DefinitionError(
            f"{words}; inspect it with {look}, then accept it with --foreign",
            path="--foreign",
        )
    click.confirm(question, abort=True)
