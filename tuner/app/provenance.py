"""Whose record it is, said and confirmed before it changes a host."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from tuner.errors import DefinitionError
from tuner.record.model import Record
from tuner.store.signature import made_here


def whose(record: Record) -> str:
    """Return in words whose record it is; empty if it was made here and not changed since."""
    maker = made_here(record)
    if maker == "here":
        return ""
    if maker == "changed":
        return (
            f"{record.name!r} was begun here and changed since: a command that measured for it was"
            " killed, or somebody changed its record"
        )
    begun = datetime.fromtimestamp(record.started_unix_s, UTC)
    return (
        f"{record.name!r} was not made here by this user, as far as its record proves: it names the"
        f" host {record.host.hostname!r}, tuner {record.tuner_version} and {begun:%Y-%m-%d}"
    )


def confirm_maker(record: Record, *, accepted: bool, shows_only: bool) -> None:
    """Say whose record it is, and ask whether that is known, unless it was made here.

    Args:
        record: to be applied.
        accepted: the user accepts it, by ``--foreign``.
        shows_only: nothing is changed, so nothing is asked.

    Raises:
        DefinitionError: it was not made here, was not accepted, and there is nobody to ask.
    """
    words = whose(record)
    if not words:
        return
    click.echo(f"note: {words}", err=True)
    if accepted or shows_only:
        return
    if not sys.stdin.isatty():
        raise DefinitionError(
            f"{words}; see what would change with --check, then accept it by --foreign",
            path="--foreign",
        )
    click.confirm("apply a record that was not made here?", abort=True)
