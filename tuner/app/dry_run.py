"""The option ``--dry-run``: what a run would do, with one request of each kind as proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from tuner.app import turn
from tuner.app.announce import rows
from tuner.app.asked import answers
from tuner.app.caller import Caller
from tuner.app.preflight import Preflight, Searching, preflight
from tuner.app.printing import print_json
from tuner.definition.study import StudyDefinition
from tuner.errors import DefinitionError, HostError
from tuner.hosts.host_locks import HostLocks
from tuner.paths import STUDIES
from tuner.servers.moment import TriedRequest
from tuner.space.configuration import Configuration
from tuner.stats.words import counted
from tuner.words.terminal import fitted, output_width

_FLAG = "--dry-run"
_NOT_ASKED = "the service runs another configuration"
_TITLE = 11
"""Columns of a row's title."""


def refuse_resume(*, dry: bool, resume: bool) -> None:
    """Raise DefinitionError if a dry run would resume a study.

    Raises:
        DefinitionError: it would.
    """
    if dry and resume:
        raise DefinitionError(
            "a resumed study keeps its definition, which its report shows; leave out --resume",
            path=_FLAG,
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """The answers of one configuration."""

    name: str
    """Name of the configuration: ``stock``."""
    digest: str
    answers: tuple[TriedRequest, ...]
    """Empty if no request was sent, because a service in place runs another configuration."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A run that was prepared and not started."""

    what: str
    """Name of the command."""
    found: Preflight
    tried: tuple[Tried, ...]
    searches: bool = True
    """True if the run searches."""
    added: Mapping[str, str] | None = None
    """Further rows by title."""

    @property
    def wrong(self) -> tuple[TriedRequest, ...]:
        """Answers that differ from the expected ones."""
        return tuple(one for each in self.tried for one in each.answers if one.difference)

    def check(self) -> None:
        """Raise HostError if an answer differs from the expected one.

        Raises:
            HostError: it does.
        """
        count = len(self.wrong)
        if count:
            raise HostError(
                f"{counted(count, 'request')} {'is' if count == 1 else 'are'} not answered as the"
                f" workload expects, first {self._wrong(self.wrong[0])}; name another location"
                " (--location), server (--server-name) or workload (--workload)"
            )

    @property
    def site(self) -> str:
        """The tuned site of the user's own configuration; empty for the lab's."""
        return self.found.own.site if self.found.own else ""

    def as_dict(self) -> dict[str, object]:
        """Return JSON data."""
        found, definition = self.found, self.found.definition
        workload = found.workload
        searched = found.space.searched(definition.allow) if self.searches else ()
        return {
            "name": definition.name,
            "folder": str(STUDIES / definition.name),
            "server": found.server.name,
            "server_version": found.server.version,
            "config": definition.config or None,
            "site": self.site or None,
            "objective": found.goals.words,
            "workload": workload.name,
            "wire": workload.wire.words,
            "connections": workload.connections,
            "arrival": str(workload.arrival),
            "rate_per_s": definition.rate_per_s,
            "time_s": definition.time_s,
            "space": found.space.name,
            "searched": [parameter.name for parameter in searched],
            "notes": list(found.notes),
            "configurations": [
                {
                    "name": each.name,
                    "digest": each.digest,
                    "requests": [self._request(one) for one in each.answers],
                }
                for each in self.tried
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines for a terminal."""
        for title, text in self._rows().items():
            yield f"{title:<10} {text}"
        for each in self.tried:
            yield from self._answers(each)

    def _rows(self) -> dict[str, str]:
        found, made = self.found, dict[str, str]()
        said = rows(found, STUDIES / found.definition.name, what=self.what, search=self.searches)
        rest = {**said, **(self.added or {})}
        # Notes stay last.
        notes = {title: rest.pop(title) for title in said if title.startswith("note ")}
        for title, text in {**rest, **notes}.items():
            # A seed is drawn anew by the run, unless it is given.
            if title != "seed":
                made[title] = text
            if title == "workload":
                made["load"] = self._load()
                made |= {"bound": self.site} if self.site else {}
        return made

    def _load(self) -> str:
        found, workload = self.found, self.found.workload
        rate = found.definition.rate_per_s
        at = "at the load point that calibration finds" if rate is None else f"at {rate:,.0f}/s"
        if found.goals.mode == "closed":
            at = "as many requests as the server answers"
        count = len(workload.requests)
        # A kind of a log may be several requests, of different sizes.
        mix = "one request" if count == 1 else f"a mix of {count} requests"
        return (
            f"{mix} over"
            f" {counted(workload.connections, 'connection')}, {at}, arrivals {workload.arrival}"
        )

    def _answers(self, each: Tried) -> Iterator[str]:
        if not each.answers:
            yield f"{'requests':<10} none sent to {each.name} ({each.digest}): {_NOT_ASKED}"
            return
        sent = f"{'requests':<10} one of each, sent to {each.name} ({each.digest})"
        left = len(self.found.workload.requests) - len(each.answers)
        yield sent + (f", without the {left} rarest" if left > 0 else "")
        for one in each.answers:
            request = one.request
            status = "-" if one.status is None else str(one.status)
            size = "" if one.size_bytes is None else f"{one.size_bytes:,} B"
            words = [f"{self._share(one):>7.1%}  {status:>3}  {size:>11}"]
            words.append(f"{request.method} {request.path}")
            place = self._place(one)
            words += [place] if place else []
            if one.difference:
                words.append(f"WRONG: {self._why(one)}")
            yield "  ".join(words)

    def _wrong(self, one: TriedRequest) -> str:
        status = "" if one.status is None else f" with {one.status}"
        return f"{one.request.method} {one.request.path}{status}: {self._why(one)}"

    def _why(self, one: TriedRequest) -> str:
        return f"{one.difference} ({one.reason})" if one.reason else one.difference

    def _request(self, one: TriedRequest) -> dict[str, object]:
        return {
            "method": one.request.method,
            "path": one.request.path,
            "share": self._share(one),
            "answered_by": self._place(one) or None,
            "status": one.status,
            "size_bytes": one.size_bytes,
            "difference": one.difference or None,
            "reason": one.reason or None,
        }

    def _share(self, one: TriedRequest) -> float:
        return one.request.weight / sum(each.weight for each in self.found.workload.requests)

    def _place(self, one: TriedRequest) -> str:
        return self.found.own.answering(one.request) if self.found.own else ""


def prepared(
    definition: StudyDefinition,
    caller: Caller,
    *,
    searching: Searching | None = None,
) -> Preflight:
    """Return the preflight of a study that is not started.

    Takes the cores until the caller ends, because servers run for a moment.

    Args:
        definition: definition of the study.
        caller: holder of the cores.
        searching: the search to prepare; None if the study only measures.

    Raises:
        DefinitionError, HostError: as the preflight of the study.
    """
    locks = take_cores(definition.inventory, caller)
    return preflight(definition, turn=locks, watch=False, searching=searching)


def take_cores(inventory: str | None, caller: Caller) -> HostLocks | None:
    """Take this machine's cores until the caller ends, or return the locks for other hosts' cores.

    Raises:
        HostError: a study measures on them.
    """
    if inventory is not None:
        return turn.look_there(caller)
    for done in turn.look_here(caller):
        caller.progress.note(done)
    return None


def rehearse(
    what: str,
    found: Preflight,
    configurations: Mapping[str, Configuration],
    *,
    searches: bool = True,
    added: Mapping[str, str] | None = None,
) -> Rehearsal:
    """Return what a run would do, with the answers of its configurations.

    Args:
        what: name of the command.
        found: preflight of the run.
        configurations: the configurations to ask, by name.
        searches: whether the run searches.
        added: further rows by title.

    Raises:
        HostError: a server does not start.
        InstrumentError: the generator failed.
    """
    answered = answers(found, configurations)
    tried = tuple(Tried(name, each.digest, answered[name]) for name, each in configurations.items())
    return Rehearsal(what, found, tried, searches, added)


def baselines(found: Preflight) -> dict[str, Configuration]:
    """Return the study's baselines by name."""
    names = (found.definition.baseline, *found.definition.others)
    return dict(zip(names, (found.baseline, *found.others), strict=True))


def show(rehearsals: Sequence[Rehearsal], *, as_json: bool, dry: bool = True) -> None:
    """Print rehearsals.

    Args:
        rehearsals: the rehearsals.
        as_json: whether to print JSON.
        dry: whether the command ends here.

    Raises:
        HostError: a request is not answered as the workload expects.
    """
    if as_json:
        print_json({"dry_run": True, "plans": [each.as_dict() for each in rehearsals]})
    else:
        width = output_width()
        for each in rehearsals:
            for line in each.lines():
                for part in fitted(line, width, _TITLE):
                    click.echo(part)
        if dry:
            click.echo("dry run: no study was started, and nothing was written")
    for each in rehearsals:
        each.check()
