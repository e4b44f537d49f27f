"""``tuner run``: run an experiment with stock, published, hand-tuned and tuned configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import click

from tuner.app import dry_run, results
from tuner.app.caller import Caller
from tuner.app.contests import Entry, Meeting, RunFolder, hold, look, search_time_s, tune
from tuner.app.generator_size import sized_by_option
from tuner.app.metrics_server import check_listen, run_metrics
from tuner.app.option_words import overrides
from tuner.app.preflight import Preflight
from tuner.app.runs import reopen_run
from tuner.app.session import free_name
from tuner.app.turn import take_turn
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.definition.alike import AlignmentRule, equalise, merged, shipped_rules
from tuner.definition.experiment import Case, Experiment, load_experiment, scaled_workload
from tuner.definition.published import has_configuration, load_configuration
from tuner.definition.study import BASE_STUDY, FORMER_SEED, draw_seed, load_study
from tuner.definition.study_keys import CPU_KEYS
from tuner.errors import DefinitionError, HostError
from tuner.hosts import local
from tuner.judge.results import evaluate
from tuner.machine.placement import place
from tuner.machine.topology import cpu_ranges
from tuner.measurement.stalls import STALLS
from tuner.paths import STUDIES
from tuner.reading.located import Node
from tuner.record.contenders import HAND, PUBLISHED, STOCK, TUNED
from tuner.record.model import Record
from tuner.space.configuration import Configuration
from tuner.stats.words import counted
from tuner.words.terminal import duration
from tuner.workload.workload import Workload, load_workload

ALL = "all"
_FORMER_ALL = "both"
"""The former name of ``all``, in published commands and in records of runs; not in the help."""
_EPILOG = """
\b
Examples:
  tuner run https-proxy-500
  tuner run reverse-proxy-ladder --server nginx --time 10m
  tuner run static-https-ladder --server all --time 1h --name before-release
  tuner run static-https-ladder --resume
  tuner studies
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.argument("name", metavar="NAME", shell_complete=complete.experiments)
@click.option(
    "--server",
    default=ALL,
    metavar="NAME",
    help="Run this server of the experiment, or all of them [all].",
    shell_complete=complete.servers,
)
@click.option(
    "--time", metavar="T", help="Limit the whole run to this time [as the experiment says]."
)
@click.option(
    "--case",
    "only",
    multiple=True,
    metavar="CASE",
    help="Run only this case; may be repeated [all cases].",
    shell_complete=complete.cases,
)
@click.option("--seed", type=int, metavar="N", help="Seed all random choices [drawn and printed].")
@click.option(
    "--stalls",
    metavar="WHAT",
    help="Exclude the requests touched by stalls, or keep them [as the experiment says].",
    shell_complete=complete.stalls,
)
@click.option(
    "--name",
    "called",
    metavar="NAME",
    help="Write the results to studies/NAME/ [the experiment's name].",
)
@click.option("--resume", is_flag=True, help="Resume an interrupted run [the newest one].")
@options.cpus
@options.output
@options.metrics
@options.dry_run
@options.foreign
@options.wait
@as_caller
def command(
    name: str,
    *,
    caller: Caller,
    server: str,
    time: str | None,
    only: tuple[str, ...],
    seed: int | None,
    stalls: str | None,
    called: str | None,
    resume: bool,
    as_json: bool,
    metrics: str | None,
    dry: bool,
    **cpus: str | None,
) -> None:
    """Run the experiment NAME on this machine (`tuner studies` lists them).

    Tunes each server for the experiment's workload, then measures the stock, published and tuned
    configurations of all servers in common randomised blocks, at a fixed rate and, if the
    experiment defines one, on a ladder of rates. The report includes the published figures.
    An experiment that nobody has published may measure each server as tuned by hand, too.
    """
    progress = caller.progress
    dry_run.refuse_resume(dry=dry, resume=resume)
    check_listen(metrics)
    if stalls is not None:
        Node.option("stalls", stalls).one_of(STALLS)
    server = ALL if server == _FORMER_ALL else server
    asked = _Asked(name, server, time, only, seed, stalls, overrides(cpus))
    if resume:
        called, asked = _resumed(asked, called, caller)
    elif seed is None:
        asked = replace(asked, seed=draw_seed())
    experiment = load_experiment(asked.name)
    if asked.time is not None:
        time_s = Node.option("time", asked.time).duration_s(30, 30 * 86_400)
        experiment = replace(experiment, time_s=time_s)
    servers = _servers(experiment, asked.server)
    cases = _cases(experiment, asked.only)
    called = called or free_name(experiment.name)
    place = RunFolder(STUDIES / called, caller, asked.as_dict(), resume=resume)
    if dry:
        dry_run.take_cores(None, caller)
    else:
        take_turn(place.folder, None, caller)
    progress.note(f"{experiment.summary}; results in {place.folder}/")
    progress.note(
        f"{duration(experiment.time_s)} for {counted(len(cases), 'case')}, or longer if the last"
        " claim needs more blocks"
    )
    progress.note(f"seed {asked.seed}")
    if experiment.published:
        progress.note(f"published: {experiment.published.title} ({experiment.published.source})")
    rules = merged(shipped_rules(), experiment.alike)
    wanted = {
        "objective": experiment.objective.name,
        "seed": asked.seed,
        "stalls": asked.stalls or experiment.stalls,
        **asked.cpus,
    }
    run = _Run(experiment, rules, called, place, wanted)
    if dry:
        plans = [plan for case in cases for plan in run.rehearsed(case, servers)]
        dry_run.show(plans, as_json=as_json)
        return
    if not resume:
        run = run.sized(servers)
    resume_with = f"tuner run {asked.name} --resume --name {called}"
    with (
        run_metrics(metrics, place.folder, progress),
        results.kept(None, place.folder, progress, resume_with),
    ):
        tuned = run.search(servers)
        records = [run.case(case, servers, tuned, len(cases)) for case in cases]
    results.show(list(map(evaluate, records)), place.folder, as_json=as_json)
    results.check_run(records, f"tuner run {asked.name} --name {called}")


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options that define a run."""

    name: str
    server: str
    time: str | None
    only: tuple[str, ...]
    seed: int | None
    stalls: str | None = None
    cpus: Mapping[str, object] = field(default_factory=dict)
    """CPUs of generator, server and backend, by option."""

    def as_dict(self) -> dict[str, object]:
        return {"command": "run", **asdict(self), "only": list(self.only)}


def _resumed(asked: _Asked, called: str | None, caller: Caller) -> tuple[str, _Asked]:
    """Return the name and options of the run to resume: the named one, or the newest.

    Raises:
        DefinitionError: there is none, or options are given that it keeps.
    """
    if asked != _Asked(asked.name, ALL, None, (), None):
        raise DefinitionError(
            "a resumed run keeps its options; give NAME and --name only", path="--resume"
        )
    name, found = reopen_run(called, {"command": "run", "name": asked.name}, _Asked, caller)
    return name, found if found.seed is not None else replace(found, seed=FORMER_SEED)


@dataclass(frozen=True, slots=True)
class _Run:
    """The parts of a run that all of its cases share."""

    experiment: Experiment
    rules: tuple[AlignmentRule, ...]
    called: str
    place: RunFolder
    options: Mapping[str, object]
    notes: tuple[str, ...] = ()
    """Notes for the records of all cases."""

    def sized(self, servers: Sequence[str]) -> _Run:
        """Return the run with a generator that is large enough for its ladder, if its host is."""
        if not self.experiment.ladder:
            return self
        case = self.experiment.case(self.experiment.tune)

        def look_with(chosen: Mapping[str, str]) -> list[Preflight]:
            run = replace(self, options={**self.options, **chosen})
            return [*run.look(case, servers, watch=False).values()]

        looks, reasons = sized_by_option(look_with, self.place.folder, self.place.progress)
        cpus = cpu_ranges(looks[0].definition.cpus.generator)
        if not reasons or not cpus:
            return self
        added = {"generator_cpus": cpus}
        kept = (*CPU_KEYS, "idle_cpus")
        chosen = {key: self.options[key] for key in kept if key in self.options}
        place = replace(self.place, asked={**self.place.asked, "cpus": {**chosen, **added}})
        return replace(self, place=place, options={**self.options, **added}, notes=tuple(reasons))

    def look(self, case: Case, servers: Sequence[str], *, watch: bool) -> dict[str, Preflight]:
        """Return preflights of the servers that can serve a case; report why others cannot.

        Raises:
            DefinitionError, HostError: no server can.
        """
        workload, words = self.workload(case)
        found: dict[str, Preflight] = {}
        problem: DefinitionError | HostError | None = None
        for server in (name for name in servers if name in case.servers):
            space = self.experiment.spaces.get(server)
            # A file server reads the file itself; a TLS terminator has a backend.
            static = space is not None and space.endswith("/static")
            try:
                seen = look(
                    server,
                    replace(workload, backend=None) if static else workload,
                    {**self.options, "workload": case.workload},
                    space=space,
                    name=f"{self.called}.{case.name}",
                    watch=watch and not found,
                )
                found[server] = replace(seen, notes=(*seen.notes, *self.notes))
            except (DefinitionError, HostError) as error:
                problem = error
                self.place.progress.note(f"{server} is left out: {error}")
        if not found:
            raise problem or DefinitionError(f"no server takes part in {case.name}")
        for text in words if watch else ():
            self.place.progress.note(text)
        return found

    def workload(self, case: Case) -> tuple[Workload, tuple[str, ...]]:
        """Return the case's workload on this machine, and notes on its scaled sizes."""
        proxied = load_workload(case.workload).backend is not None
        wanted = load_study(BASE_STUDY, {**self.options, "workload": case.workload}).cpus
        cores = place(local.facts().layout, backend=proxied, wanted=wanted)
        return scaled_workload(self.experiment, case, len(cores.server))

    def rehearsed(self, case: Case, servers: Sequence[str]) -> list[dry_run.Rehearsal]:
        """Return what the run would measure in a case, for each server."""
        plans = []
        time_s = self.experiment.time_s
        added = {"time": f"{duration(time_s)} for all; results in {self.place.folder}/"}
        for server, seen in self.look(case, servers, watch=False).items():
            definition = replace(seen.definition, rate_per_s=case.rate_per_s, time_s=time_s)
            found = replace(seen, definition=definition)
            asked = {
                kind: equalise(self._given(kind, found), found.space, self.rules)
                for kind in self._kinds(server)
            }
            tuned = case.name == self.experiment.tune and server in self.experiment.tuned
            plans.append(dry_run.rehearse("run", found, asked, searches=tuned, added=added))
        return plans

    def _kinds(self, server: str) -> list[str]:
        """Return the kinds of a server's arms that need no search."""
        published = has_configuration(self.experiment.name, server)
        return [STOCK, *[PUBLISHED] * published, *[HAND] * self.experiment.hand]

    def _given(self, kind: str, found: Preflight) -> Configuration:
        if kind == PUBLISHED:
            return load_configuration(self.experiment.name, found.space)[0]
        return found.space.baseline(HAND) if kind == HAND else found.baseline

    def search(self, servers: Sequence[str]) -> tuple[dict[str, Configuration], dict[str, str]]:
        """Return the tuned configuration of each server, and the studies that found them."""
        case = self.experiment.case(self.experiment.tune)
        wanted = self._searched(servers)
        if not wanted:
            return {}, {}
        found = self.look(case, wanted, watch=True)
        each_s = search_time_s(self.experiment.time_s, len(wanted))
        tuned: dict[str, Configuration] = {}
        names: dict[str, str] = {}
        for server, seen in found.items():
            name = f"{self.called}.tuned-{server}"
            definition = replace(seen.definition, name=name, time_s=each_s)
            best = tune(replace(seen, definition=definition), self.place, self.rules)
            if best is not None:
                tuned[server], names[server] = best, name
        return tuned, names

    def _searched(self, servers: Sequence[str]) -> list[str]:
        """Return the servers with a search for their tuned configuration."""
        return [server for server in servers if server in self.experiment.tuned]

    def case(
        self,
        case: Case,
        servers: Sequence[str],
        tuned: tuple[Mapping[str, Configuration], Mapping[str, str]],
        cases: int,
    ) -> Record:
        """Measure one case and return its record."""
        experiment = self.experiment
        searches = len(self._searched(servers))
        searches_s = searches * search_time_s(experiment.time_s, searches)
        found = self.look(case, servers, watch=not tuned[0])
        _, scaling = self.workload(case)
        if case.name != experiment.tune:
            scaling += (f"tuned for {experiment.tune}, not for this case",)
        entries = []
        for server in found:
            entries += [Entry(server, kind) for kind in self._kinds(server)]
            if server in tuned[0]:
                entries.append(Entry(server, TUNED))
        if cases > 1:
            self.place.progress.note(f"case {case.name}")
        return hold(
            Meeting(
                name=f"{self.called}.{case.name}",
                title=experiment.name,
                case=case.name if len(experiment.cases) > 1 else "",
                summary=experiment.summary,
                entries=tuple(entries),
                found=found,
                tuned=tuned[0],
                origins=tuned[1],
                rules=self.rules,
                limit=experiment.limit,
                rate_per_s=case.rate_per_s,
                ladder=experiment.ladder,
                time_s=(experiment.time_s - searches_s) / cases,
                scaling=scaling,
                published=experiment.published,
                published_name=experiment.name,
            ),
            self.place,
        )


def _servers(experiment: Experiment, wanted: str) -> tuple[str, ...]:
    if wanted in (ALL, _FORMER_ALL):
        return experiment.servers
    if wanted not in experiment.servers:
        raise DefinitionError(
            f"{wanted!r} is not a server of {experiment.name}; allowed:"
            f" {', '.join(experiment.servers)}, {ALL}",
            path="--server",
        )
    return (wanted,)


def _cases(experiment: Experiment, wanted: Sequence[str]) -> tuple[Case, ...]:
    known = {case.name: case for case in experiment.cases}
    for name in wanted:
        if name not in known:
            raise DefinitionError(
                f"{experiment.name} has no case {name!r}; it has: {', '.join(known)}", path="--case"
            )
    return tuple(known[name] for name in wanted or known)
