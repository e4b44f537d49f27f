"""An experiment: a benchmark of servers, mostly a published one, in a form that can be repeated.

A file of ``studies/experiments/`` has the published workloads, servers and sizes, and rules to
adapt sizes to the machine. Each case is a separate contest; the tuned arms are searched for in one
of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.definition.alike import RULE, AlignmentRule, read_rules
from tuner.definition.published import find_published, load_published
from tuner.definition.study_keys import OBJECTIVE
from tuner.errors import DefinitionError
from tuner.goals.constraint import Constraint
from tuner.goals.objective import Objective
from tuner.machine.facts import SERVER_NAMES
from tuner.measurement.instrument import Mode
from tuner.measurement.stalls import EXCLUDE, STALLS, Stalls
from tuner.paths import data_dir
from tuner.reading.located import Node, read_yaml
from tuner.reading.shape import (
    AnyText,
    Decimal,
    Either,
    Entries,
    Keys,
    ListOf,
    OneWord,
    OnOff,
    TimeSpan,
    Whole,
)
from tuner.reading.shipped import names_in, shipped_file
from tuner.record.contenders import Published
from tuner.workload.workload import Workload, load_workload

_SERVER = OneWord(SERVER_NAMES)
_RATE = Decimal(1, 1e7, "Published rate [a share of the weakest arm's capacity].")
_CONNECTIONS = Whole(1, 100_000, "Published number of connections [the workload's].")
_STREAMS = Whole(1, 1_000, "Requests at a time on a connection [the workload's].")
_CASE = Keys(
    {"workload": AnyText("Name, or path of a file.")},
    {
        "rate": _RATE,
        "connections": _CONNECTIONS,
        "streams": _STREAMS,
        "servers": ListOf(_SERVER, "Servers of this case [all]."),
    },
    about="One of the measurements.",
)
_TIME = TimeSpan(30, 30 * 86_400, "Time for all cases.")
_CORES = Whole(1, 1024, "CPUs of the published server [1].")
_LADDER = OnOff("Measure latency at rising rates [off].")
_HAND = OnOff("Measure each server as tuned by hand too [off].")
_STALLS = OneWord(STALLS, "Treatment of requests that stalls touch [exclude].")
EXPERIMENT = Keys(
    {
        "summary": AnyText("One line for lists."),
        "servers": ListOf(_SERVER, "Servers to compare."),
        "cases": Entries(_CASE, "Measurements by name.", at_least=1),
        "time": _TIME,
    },
    {
        "cores": _CORES,
        "limit": AnyText("Latency limit of the ladder [p99<10ms]."),
        "ladder": _LADDER,
        "tune": AnyText("Case for the search [the first]."),
        "tuned": ListOf(_SERVER, "Servers to tune [all]."),
        "alike": ListOf(RULE, "Differences of defaults to align in this experiment."),
        "published": AnyText("Folder of the published figures [the file's name, if there is one]."),
        "hand": _HAND,
        "objective": Either(OBJECTIVE.shapes, "Figure of the search and the claims [p99]."),
        "spaces": Entries(AnyText(), "Spaces by server [by the workload]."),
        "stalls": _STALLS,
        "note": AnyText("Remark for readers of the file."),
    },
    about="An experiment of tuner: a benchmark of servers in a form that can be repeated.",
)
"""An experiment's file."""


@dataclass(frozen=True, slots=True)
class Case:
    """One of the measurements of an experiment."""

    name: str
    workload: str
    rate_per_s: float | None
    """Published rate; None: a share of the weakest arm's capacity."""
    connections: int | None
    """Published number; None: the workload's."""
    streams: int | None
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """The definition of an experiment."""

    name: str
    path: Path
    summary: str
    servers: tuple[str, ...]
    spaces: Mapping[str, str]
    """Spaces by server, if the workload does not determine them."""
    cases: tuple[Case, ...]
    tune: str
    """Name of the case for the search."""
    tuned: tuple[str, ...]
    """Servers to tune; the others have a fixed configuration."""
    objective: Objective
    limit: Constraint
    ladder: bool
    time_s: float
    cores: int
    """CPUs of the published server."""
    alike: tuple[AlignmentRule, ...]
    published: Published | None
    """None for an experiment that nobody has published."""
    hand: bool = False
    """True to measure the baseline ``hand`` of each server too."""
    stalls: Stalls = EXCLUDE
    """Treatment of requests that stalls touch."""

    def case(self, name: str) -> Case:
        """Return the case of that name."""
        return next(case for case in self.cases if case.name == name)

    @property
    def mode(self) -> Mode:
        """Closed loop if the published figure is throughput; else an open loop."""
        return self.objective.mode


def list_experiments() -> tuple[Experiment, ...]:
    """Return the experiments that ship with tuner, by name."""
    return tuple(load_experiment(str(path)) for path in sorted(_folder().glob("*.yaml")))


def load_experiment(name_or_path: str) -> Experiment:
    """Read a shipped experiment by name, or a YAML file by its path.

    Raises:
        DefinitionError: the experiment does not exist, or its file is wrong.
    """
    path = _find(name_or_path)
    keys = EXPERIMENT.read(read_yaml(path))
    servers = tuple(map(_SERVER.read, keys["servers"].sequence()))
    cases = tuple(
        _case(name, node, path.parent, servers) for name, node in keys["cases"].entries().items()
    )
    if not cases:
        raise keys["cases"].error("at least one case is needed")
    names = tuple(case.name for case in cases)
    spaces = keys["spaces"].entries() if "spaces" in keys else {}
    return Experiment(
        name=path.stem,
        path=path,
        summary=keys["summary"].text(),
        servers=servers,
        spaces={server: node.text() for server, node in spaces.items()},
        cases=cases,
        tune=keys["tune"].one_of(names) if "tune" in keys else names[0],
        tuned=(
            tuple(node.one_of(servers) for node in keys["tuned"].sequence())
            if "tuned" in keys
            else servers
        ),
        objective=_objective(keys.get("objective")),
        limit=_limit(keys.get("limit")),
        ladder=_LADDER.read(keys["ladder"]) if "ladder" in keys else False,
        time_s=_TIME.read(keys["time"]),
        cores=_CORES.read(keys["cores"]) if "cores" in keys else 1,
        alike=read_rules(keys["alike"]) if "alike" in keys else (),
        published=(
            load_published(keys["published"].text())
            if "published" in keys
            else find_published(path.stem)
        ),
        hand=_HAND.read(keys["hand"]) if "hand" in keys else False,
        stalls=_STALLS.read(keys["stalls"]) if "stalls" in keys else EXCLUDE,
    )


def scaled_workload(
    experiment: Experiment, case: Case, server_cores: int
) -> tuple[Workload, tuple[str, ...]]:
    """Return the workload of a case on this machine, with notes on changed sizes.

    The number of connections is proportional to the server's cores, because each core serves its
    share, but never above the published number.
    """
    workload = load_workload(case.workload)
    words = []
    if case.streams is not None:
        workload = replace(workload, wire=replace(workload.wire, streams=case.streams))
    if case.connections is not None:
        share = min(1.0, server_cores / experiment.cores)
        count = max(2, math.ceil(case.connections * share))
        workload = replace(workload, connections=count)
        if count != case.connections:
            words.append(
                f"{count} connections in place of {case.connections}: the published server had"
                f" {experiment.cores} cores, this one has {server_cores}"
            )
    return workload, tuple(words)


def _folder() -> Path:
    return data_dir("studies") / "experiments"


def _find(name_or_path: str) -> Path:
    if name_or_path.endswith((".yaml", ".yml")):
        return Path(name_or_path)
    return shipped_file(name_or_path, "experiment", names_in(_folder()), _folder(), "NAME")


def _case(name: str, node: Node, folder: Path, servers: tuple[str, ...]) -> Case:
    keys = _CASE.read(node)
    workload = keys["workload"].text()
    if workload.endswith((".yaml", ".yml")):
        workload = str(folder / workload)
    own = keys["servers"].sequence() if "servers" in keys else ()
    return Case(
        name=name,
        workload=workload,
        rate_per_s=_RATE.read(keys["rate"]) if "rate" in keys else None,
        connections=_CONNECTIONS.read(keys["connections"]) if "connections" in keys else None,
        streams=_STREAMS.read(keys["streams"]) if "streams" in keys else None,
        servers=tuple(found.one_of(servers) for found in own) or servers,
    )


def _objective(node: Node | None) -> Objective:
    if node is None:
        return Objective("p99")
    try:
        return Objective.parse(node.text())
    except DefinitionError as error:
        raise node.error(error.message) from error


def _limit(node: Node | None) -> Constraint:
    try:
        found = Objective.capacity("p99<10ms" if node is None else node.text()).slo
    except DefinitionError as error:
        if node is None:
            raise
        raise node.error(error.message) from error
    assert found is not None  # noqa: S101 - a capacity always has one
    return found
