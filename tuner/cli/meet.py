"""Comparison of servers, for ``tuner compare nginx caddy`` and ``tuner ladder``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from tuner.app import dry_run, results
from tuner.app.contests import (
    SEARCH_SHARE,
    TOO_SHORT_S,
    Entry,
    Meeting,
    RunFolder,
    configuration_of,
    hold,
    look,
    parse_entry,
    tune,
)
from tuner.app.preflight import Preflight
from tuner.app.progress import TerminalProgress
from tuner.app.runs import reopen_run
from tuner.app.session import STUDIES, free_name
from tuner.app.turn import take_turn
from tuner.cli.options import given as as_given
from tuner.definition.alike import shipped_rules
from tuner.definition.study import BASE_STUDY, FORMER_SEED, StudyDefinition, load_study
from tuner.errors import DefinitionError, HostError, named
from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.judge.results import evaluate
from tuner.record.contenders import PUBLISHED, TUNED
from tuner.record.model import Record
from tuner.space.configuration import Configuration
from tuner.words.terminal import duration
from tuner.workload.workload import load_workload

DEFAULT_LIMIT = "p99<10ms"


def entries_of(texts: Sequence[str]) -> tuple[Entry, ...]:
    """Return the named arms; empty if none of them names a server.

    Raises:
        DefinitionError: some arms name a server and some do not, or an arm repeats.
    """
    found = [parse_entry(text) for text in texts]
    if not any(found):
        return ()
    for text, entry in zip(texts, found, strict=True):
        if entry is None:
            raise DefinitionError(f"{text!r} names no server; write nginx:{text}", path="A B")
        if entry.kind == PUBLISHED:
            raise DefinitionError(
                "published configurations belong to an experiment: tuner run NAME", path="A B"
            )
    entries = tuple(entry for entry in found if entry is not None)
    if len({entry.label for entry in entries}) < len(entries):
        raise DefinitionError(f"{texts[0]!r} is named twice", path="A B")
    return entries


@dataclass(frozen=True, slots=True)
class Match:
    """The arms and options of a command."""

    arms: tuple[str, ...]
    """Arms in the syntax of ``entries_of``."""
    options: Mapping[str, object]
    """Options of the study."""
    study_file: str | None
    limit: str | None
    ladder: bool

    def as_dict(self) -> dict[str, object]:
        """Return plain data, with the command's name."""
        return {"command": "meet", **asdict(self), "arms": list(self.arms)}


def meet(match: Match, *, resume: bool, as_json: bool, quiet: bool) -> Record:
    """Tune the servers that have no configuration, then measure all arms in common blocks.

    Return the record of the comparison.

    Raises:
        DefinitionError, HostError: a server cannot serve the workload here.
    """
    progress = TerminalProgress(quiet=quiet)
    called = None
    if resume:
        called, match = _resumed(match)
    entries, study_file = entries_of(match.arms), match.study_file
    servers = tuple(dict.fromkeys(entry.server for entry in entries))
    base = load_study(
        study_file or BASE_STUDY,
        {**match.options, "server": servers[0]},
        seed=FORMER_SEED if resume else None,
    )
    limit = _limit(match.limit or base.slo or DEFAULT_LIMIT)
    options = {**match.options, "seed": base.seed}
    match = replace(match, options=options)
    title = " against ".join(entry.label for entry in entries)
    name = called or _name(entries, base, options)
    place = RunFolder(STUDIES / name, progress, match.as_dict(), resume=resume)
    rules = shipped_rules()
    take_turn(place.folder, base.inventory, progress)
    found = _look_at(servers, base, options, name)
    wanted = [entry.server for entry in entries if entry.kind == TUNED]
    search_s = SEARCH_SHARE * base.time_s if wanted else 0.0
    progress.note(f"seed {base.seed}")
    progress.note(
        f"{title}; {duration(base.time_s)}, or longer if the last claim needs more blocks;"
        f" results in {place.folder}/"
    )
    tuned: dict[str, Configuration] = {}
    origins: dict[str, str] = {}
    same = f"tuner {'ladder' if match.ladder else 'compare'} {' '.join(match.arms)}"
    with results.kept(None, place.folder, progress, f"{same} --resume --name {name}"):
        for server in wanted:
            seen = found[server]
            time_s = search_s / len(wanted)
            own = replace(seen.definition, name=f"{name}.tuned-{server}", time_s=time_s)
            best = tune(replace(seen, definition=own), place, rules)
            if best is None:
                raise HostError(
                    f"{server} could not be tuned here (see above); resume when the host is"
                    f" quieter, or compare given configurations: {server}:stock,"
                    f" {server}:FILE.yaml"
                )
            tuned[server], origins[server] = best, own.name
        record = hold(
            Meeting(
                name=f"{name}.contest",
                title=title,
                case="",
                summary=title,
                entries=tuple(entries),
                found=found,
                tuned=tuned,
                origins=origins,
                rules=rules,
                limit=limit,
                rate_per_s=base.rate_per_s,
                ladder=match.ladder,
                time_s=max(TOO_SHORT_S, base.time_s - search_s),
            ),
            place,
        )
    results.show([evaluate(record)], place.folder, as_json=as_json)
    results.check_run([record], f"{same} --name {place.folder.name}")
    return record


def rehearse_match(what: str, match: Match, *, as_json: bool, quiet: bool) -> None:
    """Show what a comparison of servers would measure, and start nothing.

    An arm that would be tuned first is asked in the configuration from which its search starts.

    Raises:
        DefinitionError, HostError: as ``meet``; or a request is not answered as expected.
    """
    entries = entries_of(match.arms)
    servers = tuple(dict.fromkeys(entry.server for entry in entries))
    base = load_study(match.study_file or BASE_STUDY, {**match.options, "server": servers[0]})
    _limit(match.limit or base.slo or DEFAULT_LIMIT)
    dry_run.take_cores(base.inventory, TerminalProgress(quiet=quiet))
    name = _name(entries, base, match.options)
    found = _look_at(servers, base, {**match.options, "seed": base.seed}, name)
    rules = shipped_rules()
    added = {"time": f"{duration(base.time_s)} for all; results in {STUDIES / name}/"}
    plans = []
    for server in servers:
        arms = [entry for entry in entries if entry.server == server]
        seen = found[server]
        asked = {entry.label: configuration_of(entry, seen, rules) for entry in arms}
        tuned = any(entry.kind == TUNED for entry in arms)
        plans.append(dry_run.rehearse(what, seen, asked, searches=tuned, added=added))
    dry_run.show(plans, as_json=as_json)


def _name(entries: Sequence[Entry], base: StudyDefinition, options: Mapping[str, object]) -> str:
    """Return the name of a new comparison."""
    given = base.name if options.get("name") else ""
    return given or free_name("-".join(entry.label for entry in entries))


def _resumed(match: Match) -> tuple[str, Match]:
    """Return the name and options of the contest to resume: the named one, or the newest.

    Raises:
        DefinitionError: there is none, or options are given that it keeps.
    """
    given = {key: value for key, value in match.options.items() if key != "name"}
    asked = {"study": match.study_file, "limit": match.limit}
    if given or any(asked.values()):
        others = {**given, **{name: True for name, value in asked.items() if value}}
        raise DefinitionError(
            f"a resumed contest keeps its options; leave out {as_given(others)}",
            path="--resume",
        )
    wanted = {"command": "meet", "arms": list(match.arms)}
    return reopen_run(match.options.get("name"), wanted, Match)


def verdict_words(record: Record, label: str) -> set[str]:
    """Return the verdicts on an arm for the study's objective."""
    objective = str(record.definition["objective"])
    contest = evaluate(record).contest
    return {
        str(row.verdict.kind)
        for row in (contest.compared if contest else ())
        if row.claim.arm == label and row.objective.text == objective
    }


def _look_at(
    servers: Sequence[str], base: StudyDefinition, options: Mapping[str, object], name: str
) -> dict[str, Preflight]:
    workload = load_workload(base.workload)
    if base.connections is not None:
        workload = replace(workload, connections=base.connections)
    common = {
        **{key: value for key, value in options.items() if key != "space"},
        "workload": base.workload,
        "objective": base.objective[0],
        "time": str(base.time_s),
    }
    return {
        server: look(
            server,
            workload,
            common,
            space=None,
            name=name,
            watch=place == 0 and not dry_run.is_dry(),
        )
        for place, server in enumerate(servers)
    }


def _limit(text: str) -> Constraint:
    with named("--slo", "--limit"):
        found = Objective.capacity(text).slo
    assert found is not None  # noqa: S101 - a capacity always has one
    return found
