"""Contests of servers and configurations in common blocks, from options to a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tuner.app import results
from tuner.app.bind import read_configuration
from tuner.app.caller import Caller
from tuner.app.preflight import Preflight, Searching, preflight
from tuner.app.progress import RunProgress
from tuner.app.runs import GivenOptions, begin
from tuner.app.server_binary import KEY, OPTION
from tuner.app.session import describe, open_bench
from tuner.definition.alike import AlignmentRule, alignments, equalise
from tuner.definition.published import load_configuration
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import DefinitionError, HostError
from tuner.goals.constraint import Constraint
from tuner.hosts.host_locks import HostLocks
from tuner.judge.climbs import rungs
from tuner.judge.contest import ContestPlan, family, plan_contest
from tuner.judge.load_point import contest_load
from tuner.judge.support import LEAST_STARTS
from tuner.machine.facts import SERVER_NAMES
from tuner.measurement.instrument import Mode
from tuner.phases.bench import Bench
from tuner.phases.block import Arm
from tuner.phases.climb import run_ladder
from tuner.phases.contest import (
    CLOSED_LOOP,
    Capacities,
    ContestLoad,
    measure_capacities,
    probe_contest,
    quick_calibration,
    run_contest,
)
from tuner.phases.search import SearchSpec, run_search
from tuner.record.contenders import (
    PUBLISHED,
    STOCK,
    TUNED,
    Contender,
    Contest,
    Ladder,
    Published,
    server_keys,
)
from tuner.record.model import ConfigurationRecord, Record
from tuner.search.schedule import winner
from tuner.space.configuration import Configuration
from tuner.store.store import Store
from tuner.workload.workload import Workload

TOO_SHORT_S = 10.0
"""Least time of the common blocks."""
_SEARCH_SHARE = 0.4
_LONGEST_SEARCH_S = 900.0
"""Longest search for a tuned configuration; the searches of studies of ten minutes have four."""
_WITHIN_SHARE = 0.2
"""Share of a window within which an answer is in time; at most the workload's timeout.

The queue of an overloaded server grows during the whole window, and in a short one it does not
reach a client's timeout.
"""


def search_time_s(time_s: float, searches: int) -> float:
    """Return the time of each search of a contest.

    Args:
        time_s: time of the whole contest.
        searches: number of the searches, which have at most two fifths of it together.
    """
    return min(_LONGEST_SEARCH_S, _SEARCH_SHARE * time_s / searches) if searches else 0.0


@dataclass(frozen=True, slots=True)
class Entry:
    """An arm in the notation of options: ``nginx:stock``."""

    server: str
    kind: str
    """``stock``, ``distro``, ``hand``, ``published``, ``tuned``, or the path of a file."""
    program: str = ""
    """Path of its server's program; empty for the installed one."""
    letter: str = ""
    """``a``, ``b`` for arms that differ only in their program."""

    @property
    def label(self) -> str:
        """Name of its instance in every block."""
        kind = Path(self.kind).stem if self.kind.endswith((".yaml", ".yml")) else self.kind
        return f"{self.server}-{kind}" + (f"-{self.letter}" if self.letter else "")

    @property
    def served_by(self) -> str:
        """Key of its server and program in a contest."""
        return f"{self.server} {self.program}".rstrip()


def parse_entry(text: str) -> Entry | None:
    """Parse ``nginx`` (its tuned configuration) or ``nginx:stock``; None for other texts."""
    name, _, kind = text.partition(":")
    return Entry(name, kind or TUNED) if name in SERVER_NAMES else None


@dataclass(frozen=True, slots=True)
class Meeting:
    """A requested contest, before any measurement of the machine."""

    name: str
    """Name of the record."""
    title: str
    case: str
    summary: str
    entries: tuple[Entry, ...]
    found: Mapping[str, Preflight]
    """Preflights by server and program (``Entry.served_by``), all with the same workload."""
    tuned: Mapping[str, Configuration]
    """By server and program."""
    origins: Mapping[str, str]
    """Names of their studies, by server and program."""
    rules: tuple[AlignmentRule, ...]
    limit: Constraint
    rate_per_s: float | None
    ladder: bool
    time_s: float
    scaling: tuple[str, ...] = ()
    published: Published | None = None
    published_name: str = ""

    @property
    def rate_kind(self) -> str:
        """Name for its rate, in words."""
        return "published" if self.published else "wanted"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with the studies of a run, new or resumed."""

    folder: Path
    caller: Caller
    asked: GivenOptions
    """The options of its command."""
    resume: bool

    def begin(self, found: Preflight) -> Store:
        """Return the record of one of its studies; see ``runs.begin``."""
        return begin(
            found, self.folder, self.asked, resume=self.resume, command=self.caller.command
        )

    @property
    def progress(self) -> RunProgress:
        """Progress of the caller."""
        return self.caller.progress

    def has_contest(self) -> bool:
        """Return whether common blocks have begun, which fixes their arms."""
        return bool(results.read_run(self.folder))

    def has_study(self, name: str) -> bool:
        """Return whether it has the record of a study."""
        return name in results.names_in(self.folder)


def look(
    server: str,
    workload: Workload,
    options: Mapping[str, object],
    *,
    space: str | None,
    name: str,
    watch: bool,
    program: str = "",
    turn: HostLocks | None = None,
) -> Preflight:
    """Return the preflight of one server with a possibly scaled workload.

    Raises:
        DefinitionError, HostError: it cannot serve the workload here; the message has the reason.
    """
    overrides = {**options, "server": server, "connections": workload.connections, "name": name}
    overrides[KEY] = program or None
    if space is not None:
        overrides["space"] = space
    definition = load_study(BASE_STUDY, overrides)
    return preflight(
        definition, workload, turn=turn, watch=watch, searching=Searching(required=False)
    )


def configuration_of(
    entry: Entry, found: Preflight, rules: Iterable[AlignmentRule]
) -> Configuration:
    """Return the configuration of an arm, or that from which its search starts.

    Raises:
        DefinitionError: its file is wrong.
    """
    given = found.baseline if entry.kind == TUNED else read_configuration(entry.kind, found.space)
    return equalise(given, found.space, rules)


def tune(
    found: Preflight, place: RunFolder, rules: Iterable[AlignmentRule]
) -> Configuration | None:
    """Search for the best configuration of one server; None on a host with too much noise.

    The common blocks support the claim, so nothing is confirmed here. A failed search is repeated
    on resume, until the common blocks begin without its configuration.
    """
    base = equalise(found.baseline, found.space, rules)
    found = replace(found, baseline=base)
    if not found.space.searched(found.definition.allow):
        return None
    progress, server = place.progress, found.definition.server
    has_begun = place.has_study(found.definition.name)
    if not has_begun and place.has_contest():
        return None
    store = place.begin(found)
    if store.record().ended_unix_s is not None:
        return _found_before(found, store.record(), rules)
    if has_begun and place.has_contest():
        return None
    progress.note(f"{server}: searching for its best configuration")
    with open_bench(found, place.folder, progress, store) as (bench, spec):
        _recover(store, progress)
        try:
            ready = quick_calibration(bench, spec)
        except HostError as error:
            progress.note(f"{server} is not tuned: {error}")
            return None
        # The time of an earlier failed attempt does not reduce that of the search.
        spent_s = sum(
            block.ended_unix_s - block.started_unix_s
            for block in store.record().blocks
            if block.state == "complete"
        )
        search = SearchSpec(
            space=spec.space,
            allow=spec.allow,
            baseline=base,
            known_good=spec.known_good,
            time_s=max(1.0, spec.time_s - spent_s),
            trials=spec.trials,
            sampler=spec.sampler,
        )
        best = run_search(ready.bench, search, ready.calibration, ready.plan)
        store.set_ended()
    if best is None:
        progress.note(f"{server}: the search eliminated every configuration")
        return None
    chosen = store.record().configurations[best.digest].configuration
    return equalise(chosen, found.space, rules)


def _found_before(
    found: Preflight, record: Record, rules: Iterable[AlignmentRule]
) -> Configuration | None:
    """Return the configuration that a finished search chose, from its record."""
    best = winner([t for t in record.trials if t.origin != "baseline"], found.goals)
    if best is None:
        return None
    return equalise(record.configurations[best.digest].configuration, found.space, rules)


def _recover(store: Store, progress: RunProgress) -> None:
    # Only now does this process own the lab; another one may have been running the study.
    for done in store.recover():
        progress.note(done)


def hold(meeting: Meeting, place: RunFolder) -> Record:
    """Measure the missing parts of a contest, from capacities to ladder; return the record.

    Raises:
        DefinitionError: it was begun with another plan.
        HostError, InstrumentError: the host or the generator fails repeatedly.
    """
    chosen, contenders = _contenders(meeting)
    # Backends of one server run for the whole lab, with their own cores.
    lead = max(meeting.found.values(), key=lambda found: found.workload.backend is not None)
    first = replace(
        lead,
        baseline=next(a.configuration for a in chosen if a.configuration.space == lead.space.name),
        definition=replace(lead.definition, name=meeting.name),
    )
    store = place.begin(first)
    if store.record().ended_unix_s is not None:
        return store.record()
    others = [found for found in meeting.found.values() if found is not lead]
    with open_bench(first, place.folder, place.progress, store, others) as (bench, _):
        _recover(store, place.progress)
        for arm in chosen:
            store.add_configuration(_described(bench, meeting, arm))
        known = store.record().contest
        if known is None:
            seen = measure_capacities(bench, chosen)
        else:
            seen = Capacities(dict(known.capacities_per_s), known.generator_bound, {})
        arms = [arm for arm in chosen if arm.label in seen.per_s]
        if known is None:
            load = probe_contest(bench, arms, seen, meeting.rate_per_s, meeting.rate_kind)
        else:
            load = _known_load(meeting, known, seen, mode=bench.goals.mode)
        contest, plan = _planned(meeting, contenders, seen, load, mode=bench.goals.mode)
        if known is not None:
            contest = replace(contest, evidence=known.evidence)
        _check_same_plan(known, contest, meeting.name)
        store.set_contest(contest)
        whole = run_contest(bench, arms, plan, load)
        if contest.ladder and plan.ladder:
            run_ladder(bench, arms, contest.ladder.rates_per_s, contest.ladder.passes, plan.ladder)
            # The host may have become quieter.
            whole = whole or run_contest(bench, arms, plan, load)
        if whole:  # Otherwise it may be resumed on a quieter host.
            store.set_ended()
    return store.record()


def _described(bench: Bench, meeting: Meeting, arm: Arm) -> ConfigurationRecord:
    """Return an arm's configuration with its text, as its own program reads it."""
    for found in meeting.found.values():
        if arm.program and found.server.binary == arm.program:
            return describe(found, arm.configuration)
    return bench.describe(arm.configuration)


def _known_load(meeting: Meeting, known: Contest, seen: Capacities, *, mode: str) -> ContestLoad:
    """Return the load of a resumed contest; another one if its rate was changed."""
    if mode == "closed":
        return CLOSED_LOOP
    load = ContestLoad(
        known.rate_per_s, known.slice_ms, known.level, known.rate_source, known.busy_share
    )
    first = contest_load(meeting.rate_per_s, seen.of(seen.weakest), meeting.rate_kind)
    was_given = known.rate_source.startswith("as ")
    if first.given != was_given or (first.given and first.rate_per_s != known.rate_per_s):
        return replace(load, rate_per_s=first.rate_per_s, source=first.source)
    return load


def _check_same_plan(known: Contest | None, planned: Contest, name: str) -> None:
    """Raise DefinitionError if a resumed contest differs from its plan."""
    if known is None or known == planned:
        return
    changed = [f.name for f in fields(known) if getattr(known, f.name) != getattr(planned, f.name)]
    raise DefinitionError(
        f"{' and '.join(changed)} changed since {name!r} began, so old and new blocks cannot be"
        " compared; begin a new run",
        path="--resume",
    )


def _contenders(meeting: Meeting) -> tuple[list[Arm], tuple[Contender, ...]]:
    arms: list[Arm] = []
    contenders: list[Contender] = []
    for entry in meeting.entries:
        found = meeting.found[entry.served_by]
        space = found.space
        program = found.server.binary if entry.program else ""
        lost: tuple[str, ...] = ()
        origin = ""
        if entry.kind == TUNED:
            configuration, lost = space.carry_over(meeting.tuned[entry.served_by])
            origin = f"the search {meeting.origins.get(entry.served_by, '')}".rstrip()
        elif entry.kind == PUBLISHED:
            configuration, lost = load_configuration(meeting.published_name, space)
            origin = meeting.published.title if meeting.published else ""
        else:
            configuration = read_configuration(entry.kind, space)
            origin = "as compiled in" if entry.kind == STOCK else entry.kind
        configuration = equalise(configuration, space, meeting.rules)
        served = (configuration, program)
        known = ((i, arm) for i, arm in enumerate(arms))
        same = next((i for i, arm in known if (arm.configuration, arm.program) == served), None)
        if same is not None and entry.letter:
            raise DefinitionError(
                f"{program} is the program of both {arms[same].label} and {entry.label}, with the"
                " same configuration",
                path=OPTION,
            )
        if same is not None:
            # A configuration with two names is measured once.
            first = contenders[same]
            also = f"{first.origin}; the same as {entry.kind}"
            contenders[same] = replace(first, origin=also, not_carried=first.not_carried + lost)
            continue
        arms.append(Arm(entry.label, configuration, program=program))
        contenders.append(
            Contender(
                entry.label, entry.server, entry.kind, configuration.digest, origin, lost, program
            )
        )
    labels = [arm.label for arm in arms]
    if len(set(labels)) < len(labels):
        raise DefinitionError(f"two arms are called {max(labels, key=labels.count)!r}")
    return arms, tuple(contenders)


def _planned(
    meeting: Meeting,
    contenders: tuple[Contender, ...],
    seen: Capacities,
    at: ContestLoad,
    *,
    mode: str,
) -> tuple[Contest, ContestPlan]:
    weakest, strongest = min(seen.per_s.values()), max(seen.per_s.values())
    open_loop = mode == "open"
    here = [c for c in contenders if c.label in seen.per_s]
    load: Mode = "open" if open_loop else "closed"
    first = next(iter(meeting.found.values()))
    servers = tuple(found.server for found in meeting.found.values())
    spaces = [found.space for found in meeting.found.values()]
    margin = first.goals.margin
    plan = plan_contest(
        meeting.time_s,
        len(here),
        at.rate_per_s if open_loop else weakest,
        claims=len(family(here, load, margin).claims),
        mode=load,
        ladder=meeting.ladder and open_loop,
        in_flight=first.workload.requests_in_flight,
    )
    ladder = None
    if plan.ladder is not None:
        rates = rungs(weakest, strongest, plan.rungs)
        ladder = Ladder(rates, plan.passes, plan.ladder.window_s)
    shortest_s = min(plan.block.window_s, ladder.window_s if ladder else plan.block.window_s)
    contest = Contest(
        title=meeting.title,
        case=meeting.case,
        summary=meeting.summary,
        workload=f"{first.workload.summary} ({first.workload.wire.words}),"
        f" {first.workload.connections} connections",
        mode=mode,
        contenders=contenders,
        servers=servers,
        capacities_per_s=seen.per_s,
        generator_bound=seen.generator_bound,
        rate_per_s=at.rate_per_s,
        rate_source=at.source,
        slice_ms=at.slice_ms,
        level=at.level,
        busy_share=at.busy_share,
        blocks=plan.blocks,
        rounds=plan.block.rounds,
        window_s=plan.block.window_s,
        limit=meeting.limit.text,
        within_s=min(first.workload.timeout_s, _WITHIN_SHARE * shortest_s),
        ladder=ladder,
        margin=margin.share,
        margin_symmetric=margin.symmetric,
        evidence="starts" if plan.blocks >= LEAST_STARTS else "whole",
        alike=alignments(meeting.rules, dict(zip(server_keys(servers), spaces, strict=True))),
        scaling=(*meeting.scaling, *_rate_words(meeting, at.source, open_loop=open_loop)),
        published=meeting.published,
        results=meeting.origins,
    )
    return contest, plan


def _rate_words(meeting: Meeting, source: str, *, open_loop: bool) -> Sequence[str]:
    if not open_loop or meeting.rate_per_s is None:
        return ()
    return () if source.startswith("as ") else (f"rate: {source}",)
