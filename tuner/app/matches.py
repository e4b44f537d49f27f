"""Comparison of servers, for ``tuner compare nginx caddy`` and ``tuner ladder``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from string import ascii_lowercase

from tuner.app import dry_run, results
from tuner.app.caller import Caller
from tuner.app.contests import (
    TOO_SHORT_S,
    Entry,
    Meeting,
    RunFolder,
    configuration_of,
    hold,
    look,
    parse_entry,
    search_time_s,
    tune,
)
from tuner.app.generator_size import sized_by_option
from tuner.app.metrics_server import run_metrics
from tuner.app.option_words import named_options
from tuner.app.preflight import Preflight
from tuner.app.runs import reopen_run
from tuner.app.server_binary import KEY, OPTION
from tuner.app.session import free_name
from tuner.app.turn import take_turn
from tuner.definition.alike import shipped_rules
from tuner.definition.study import BASE_STUDY, FORMER_SEED, StudyDefinition, load_study
from tuner.errors import DefinitionError, HostError, named
from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.hosts.host_locks import HostLocks
from tuner.judge.results import StudyResult
from tuner.machine.topology import cpu_ranges
from tuner.paths import STUDIES
from tuner.record.contenders import PUBLISHED, TUNED
from tuner.record.model import Record
from tuner.space.configuration import Configuration
from tuner.stats.verdict import Verdict
from tuner.words.terminal import duration
from tuner.workload.workload import load_workload

DEFAULT_LIMIT = "p99<10ms"
_CONTEST = ".contest"
"""Suffix of the record's name in the run's folder."""


def names_servers(texts: Sequence[str]) -> bool:
    """Return whether the arms of a command are servers.

    Raises:
        DefinitionError: some arms name a server and some do not.
    """
    return bool(_parsed(texts))


def entries_of(texts: Sequence[str], programs: Sequence[str] = ()) -> tuple[Entry, ...]:
    """Return the named arms.

    Args:
        texts: arms in the notation of options.
        programs: a program for each arm, or one for all arms of one server; none for the installed
            servers.

    Raises:
        DefinitionError: some arms name a server and some do not, an arm repeats, or the programs do
            not fit the arms.
    """
    entries = _parsed(texts)
    if len(programs) == 1 and len({entry.server for entry in entries}) > 1:
        raise DefinitionError(
            "the arms are of several servers; repeat it, once for each arm in their order",
            path=OPTION,
        )
    if len(programs) == 1:
        programs = [*programs] * len(entries)
    if programs and len(programs) != len(entries):
        raise DefinitionError(
            f"names {len(programs)} programs for {len(entries)} arms; name one for each arm",
            path=OPTION,
        )
    if programs:
        entries = [
            replace(entry, program=program)
            for entry, program in zip(entries, programs, strict=True)
        ]
    labels = [entry.label for entry in entries]
    again = [text for text, label in zip(texts, labels, strict=True) if labels.count(label) > 1]
    if len({(entry.label, entry.program) for entry in entries}) < len(entries):
        raise DefinitionError(
            f"{again[0]!r} is named twice; two programs of a server are compared by {OPTION} OLD"
            f" {OPTION} NEW",
            path="A B",
        )
    return tuple(
        replace(entry, letter=_letter(place)) if labels.count(entry.label) > 1 else entry
        for place, entry in enumerate(entries)
    )


def _letter(place: int) -> str:
    return ascii_lowercase[place] if place < len(ascii_lowercase) else str(place + 1)


def _parsed(texts: Sequence[str]) -> list[Entry]:
    """Return the named arms; empty if none of them names a server."""
    found = [parse_entry(text) for text in texts]
    if not any(found):
        return []
    for text, entry in zip(texts, found, strict=True):
        if entry is None:
            raise DefinitionError(f"{text!r} names no server; write nginx:{text}", path="A B")
        if entry.kind == PUBLISHED:
            raise DefinitionError(
                "published configurations belong to an experiment: tuner run NAME", path="A B"
            )
    return [entry for entry in found if entry is not None]


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
    server_binary: tuple[str, ...] = ()
    """Programs of the arms; see ``entries_of``."""

    @classmethod
    def of(
        cls,
        arms: Sequence[str],
        options: Mapping[str, object],
        study_file: str | None,
        *,
        limit: str | None,
        ladder: bool,
    ) -> Match:
        """Return the arms and options of a command; the programs are not options of a study."""
        programs = options.get(KEY, ())
        own = {key: value for key, value in options.items() if key != KEY}
        assert isinstance(programs, Sequence)  # noqa: S101 - an option that may be repeated
        return cls(tuple(arms), own, study_file, limit, ladder, tuple(map(str, programs)))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The arms with their programs."""
        return entries_of(self.arms, self.server_binary)

    def as_dict(self) -> dict[str, object]:
        """Return plain data, with the command's name."""
        given = {**asdict(self), "arms": list(self.arms), KEY: list(self.server_binary)}
        return {"command": "meet", **given}


def meet(match: Match, caller: Caller, *, resume: bool, metrics: str | None = None) -> Record:
    """Tune the servers that have no configuration, then measure all arms in common blocks.

    Return the record of the comparison. ``metrics`` is the value of ``--metrics``.

    Raises:
        DefinitionError, HostError: a server cannot serve the workload here.
    """
    progress = caller.progress
    called = None
    if resume:
        called, match = _resumed(match, caller)
    entries = match.entries
    base = load_study(
        match.study_file or BASE_STUDY,
        {**match.options, "server": entries[0].server},
        seed=FORMER_SEED if resume else None,
    )
    if not resume:  # A resumed run has recorded its programs, and a file may have changed.
        match, entries = with_program(match, base)
    limit = _limit(match.limit or base.slo or DEFAULT_LIMIT)
    options = {**match.options, "seed": base.seed}
    match = replace(match, options=options)
    name = called or _name(entries, base, options)
    folder = STUDIES / name
    rules = shipped_rules()
    turn = take_turn(folder, base.inventory, caller)

    def look_with(chosen: Mapping[str, str]) -> list[Preflight]:
        return [*_look_at(entries, base, {**options, **chosen}, name, turn, watch=True).values()]

    looks, reasons = (look_with({}), ()) if resume else sized_by_option(look_with, folder, progress)
    programs = dict.fromkeys(entry.served_by for entry in entries)
    found = {
        program: replace(each, notes=(*each.notes, *reasons))
        for program, each in zip(programs, looks, strict=True)
    }
    if chosen := cpu_ranges(looks[0].definition.cpus.generator):
        match = replace(match, options={**options, "generator_cpus": chosen})
    place = RunFolder(folder, caller, match.as_dict(), resume=resume)
    title = " against ".join(_title(entry, found[entry.served_by]) for entry in entries)
    wanted = [entry for entry in entries if entry.kind == TUNED]
    search_s = search_time_s(base.time_s, len(wanted))
    progress.note(f"seed {base.seed}")
    progress.note(
        f"{title}; {duration(base.time_s)}, or longer if the last claim needs more blocks;"
        f" results in {place.folder}/"
    )
    tuned: dict[str, Configuration] = {}
    origins: dict[str, str] = {}
    same = _command(match.arms, ladder=match.ladder)
    with (
        run_metrics(metrics, place.folder, progress),
        results.kept(None, place.folder, progress, f"{same} --resume --name {name}"),
    ):
        for entry in wanted:
            server, seen = entry.server, found[entry.served_by]
            letter = f"-{entry.letter}" if entry.letter else ""
            own = replace(seen.definition, name=f"{name}.tuned-{server}{letter}", time_s=search_s)
            best = tune(replace(seen, definition=own), place, rules)
            if best is None:
                raise HostError(
                    f"{server} could not be tuned here (see above); resume when the host is"
                    f" quieter, or compare given configurations: {server}:stock,"
                    f" {server}:FILE.yaml"
                )
            tuned[entry.served_by], origins[entry.served_by] = best, own.name
        return hold(
            Meeting(
                name=f"{name}{_CONTEST}",
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
                time_s=max(TOO_SHORT_S, base.time_s - len(wanted) * search_s),
            ),
            place,
        )


def open_match(name: str) -> Record | None:
    """Return the record of a comparison of servers by the comparison's name; None without one."""
    found = results.read_run(STUDIES / name) if results.is_run(STUDIES / name, name) else []
    return next((record for record in found if record.name == f"{name}{_CONTEST}"), None)


def folder_of(record: Record) -> Path:
    """Return the folder of a comparison's results, by its record."""
    return STUDIES / record.name.removesuffix(_CONTEST if record.contest else "")


def check_match(record: Record, arms: Sequence[str]) -> None:
    """Raise HostError if a comparison of servers has no complete block.

    Args:
        record: record of the comparison.
        arms: its arms, as in the command that resumes it.
    """
    ladder = record.contest is not None and record.contest.ladder is not None
    command = _command(arms, ladder=ladder)
    results.check_run([record], f"{command} --name {folder_of(record).name}")


def _command(arms: Sequence[str], *, ladder: bool) -> str:
    return f"tuner {'ladder' if ladder else 'compare'} {' '.join(arms)}"


def rehearsed_match(what: str, match: Match, caller: Caller) -> list[dry_run.Rehearsal]:
    """Return what a comparison of servers would measure, and start nothing.

    An arm that would be tuned first is asked in the configuration from which its search starts.

    Raises:
        DefinitionError, HostError: as ``meet``; or a request is not answered as expected.
    """
    entries = match.entries
    first = {**match.options, "server": entries[0].server}
    base = load_study(match.study_file or BASE_STUDY, first)
    match, entries = with_program(match, base)
    _limit(match.limit or base.slo or DEFAULT_LIMIT)
    turn = dry_run.take_cores(base.inventory, caller)
    name = _name(entries, base, match.options)
    found = _look_at(entries, base, {**match.options, "seed": base.seed}, name, turn, watch=False)
    rules = shipped_rules()
    added = {"time": f"{duration(base.time_s)} for all; results in {STUDIES / name}/"}
    plans = []
    for served_by, seen in found.items():
        arms = [entry for entry in entries if entry.served_by == served_by]
        asked = {entry.label: configuration_of(entry, seen, rules) for entry in arms}
        tuned = any(entry.kind == TUNED for entry in arms)
        plans.append(dry_run.rehearse(what, seen, asked, searches=tuned, added=added))
    return plans


def with_program(match: Match, base: StudyDefinition) -> tuple[Match, tuple[Entry, ...]]:
    """Return the match and its entries; a study file may name one program for all of them."""
    if base.server_binary and not match.server_binary:
        match = replace(match, server_binary=(base.server_binary,))
    return match, match.entries


def _name(entries: Sequence[Entry], base: StudyDefinition, options: Mapping[str, object]) -> str:
    """Return the name of a new comparison."""
    given = base.name if options.get("name") else ""
    return given or free_name("-".join(entry.label for entry in entries))


def _resumed(match: Match, caller: Caller) -> tuple[str, Match]:
    """Return the name and options of the contest to resume: the named one, or the newest.

    Raises:
        DefinitionError: there is none, or options are given that it keeps.
    """
    given = {key: value for key, value in match.options.items() if key != "name"}
    asked = {"study": match.study_file, "limit": match.limit}
    if given or any(asked.values()):
        others = {**given, **{name: True for name, value in asked.items() if value}}
        raise DefinitionError(
            f"a resumed contest keeps its options; leave out {named_options(others)}",
            path="--resume",
        )
    wanted = {"command": "meet", "arms": list(match.arms)}
    return reopen_run(match.options.get("name"), wanted, Match, caller, match.server_binary)


def verdicts_on_last(study: StudyResult) -> tuple[Verdict, ...]:
    """Return the verdicts on B, or on the last arm of several servers, for the objective."""
    contest = study.contest
    if contest is None:
        return () if study.verdict is None else (study.verdict,)
    label = contest.contest.contenders[-1].label
    objective = str(study.record.definition["objective"])
    return tuple(
        row.verdict
        for row in contest.compared
        if row.claim.arm == label and row.objective.text == objective
    )


def _title(entry: Entry, found: Preflight) -> str:
    """Return an arm's label; of arms that differ in their program, with its version."""
    return f"{entry.label} ({found.server.words})" if entry.letter else entry.label


def _look_at(
    entries: Sequence[Entry],
    base: StudyDefinition,
    options: Mapping[str, object],
    name: str,
    turn: HostLocks | None,
    *,
    watch: bool,
) -> dict[str, Preflight]:
    """Return the preflights of all arms by server and program."""
    workload = load_workload(base.workload)
    if base.connections is not None:
        workload = replace(workload, connections=base.connections)
    common = {
        **{key: value for key, value in options.items() if key != "space"},
        "workload": base.workload,
        "objective": base.objective[0],
        "time": str(base.time_s),
    }
    programs = {entry.served_by: entry for entry in entries}
    return {
        served_by: look(
            entry.server,
            workload,
            common,
            space=None,
            name=name,
            watch=watch and place == 0,
            program=entry.program,
            turn=turn,
        )
        for place, (served_by, entry) in enumerate(programs.items())
    }


def _limit(text: str) -> Constraint:
    with named("--slo", "--limit"):
        found = Objective.capacity(text).slo
    assert found is not None  # noqa: S101 - a capacity always has one
    return found
