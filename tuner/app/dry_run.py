"""The option ``--dry-run``: what a run would do, with one request of each kind as proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import click

from tuner.app import turn
from tuner.app.announce import rows
from tuner.app.caller import Caller
from tuner.app.preflight import Preflight, Searching, preflight
from tuner.app.printing import print_json
from tuner.definition.study import StudyDefinition
from tuner.errors import DefinitionError, HostError
from tuner.hosts.deployer import InstanceSpec
from tuner.own.server import InPlaceServer
from tuner.paths import STUDIES
from tuner.servers.ground import TargetGround
from tuner.servers.moment import MOST_TRIED, TriedRequest, tried_out
from tuner.space.configuration import Configuration
from tuner.space.kernel import server_part
from tuner.stats.words import counted
from tuner.words.terminal import fitted, output_width

_FLAG = "--dry-run"
_ELSEWHERE = "no request is sent: another host serves"
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
    """Empty if no request was sent."""


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
        if not any(each.answers for each in self.tried):
            yield f"{'requests':<10} {_ELSEWHERE}"

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
        return (
            f"{counted(len(workload.requests), 'kind')} of request over"
            f" {counted(workload.connections, 'connection')}, {at}, arrivals {workload.arrival}"
        )

    def _answers(self, each: Tried) -> Iterator[str]:
        if not each.answers:
            return
        sent = f"{'requests':<10} one of each kind, sent to {each.name} ({each.digest})"
        left = len(self.found.workload.requests) - MOST_TRIED
        yield sent + (f", without the {left} rarest kinds" if left > 0 else "")
        for one in each.answers:
            request = one.request
            status = "-" if one.status is None else str(one.status)
            words = [f"{self._share(one):>7.1%}  {status}  {one.size_bytes:>9,} B"]
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

    Takes this machine's cores until the caller ends, because servers run for a moment.

    Args:
        definition: definition of the study.
        caller: holder of the cores.
        searching: the search to prepare; None if the study only measures.

    Raises:
        DefinitionError, HostError: as the preflight of the study.
    """
    take_cores(definition.inventory, caller)
    return preflight(definition, watch=False, searching=searching)


def take_cores(inventory: str | None, caller: Caller) -> None:
    """Take this machine's cores until the caller ends; of other hosts none are needed.

    Raises:
        HostError: a study measures on them.
    """
    if inventory is None:
        for done in turn.look_here(caller):
            caller.progress.note(done)


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
    """
    tried = tuple(
        Tried(name, each.digest, _answers(found, each)) for name, each in configurations.items()
    )
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


def _answers(found: Preflight, configuration: Configuration) -> tuple[TriedRequest, ...]:
    if found.definition.inventory or isinstance(found.own, InPlaceServer):
        return ()
    own_part = server_part(configuration)

    def make(ground: TargetGround, port: int) -> InstanceSpec:
        ground = replace(ground, cpus=found.cores.server)
        return found.adapter.instance("server", own_part, found.space, ground, port)

    return tried_out(make, found.server, found.workload, found.backend)
