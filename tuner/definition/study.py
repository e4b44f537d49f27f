"""The definition of a study: goals, server, workload, load and time.

A YAML file has the names of the command line's options as keys, and options override the file. The
same code reads both, so both have the same error messages.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tuner.definition import study_keys as shapes
from tuner.definition.sampler_names import AUTO, read_sampler
from tuner.errors import DefinitionError, quoted
from tuner.goals.constraint import Constraint
from tuner.goals.goals import Goals, parse_goals
from tuner.machine.facts import DEFAULT_SERVER
from tuner.machine.idle import AUTO as BY_HOST
from tuner.machine.idle import HALT, IdleCpus
from tuner.machine.placement import BY_RULES, WantedCpus
from tuner.machine.topology import cpu_ranges, parse_cpus
from tuner.measurement.instrument import Load
from tuner.measurement.stalls import EXCLUDE, Stalls
from tuner.paths import data_dir
from tuner.reading.located import Node, did_you_mean, read_yaml
from tuner.reading.shipped import names_in, shipped_file
from tuner.space.parameter import BASELINES, OWN
from tuner.space.space import spaces
from tuner.stats.margin import DEFAULT_MARGIN, Margin
from tuner.workload.workload import load_workload

DEFAULT_STUDY = "quickstart"
"""The study of ``tuner optimize`` without options."""
BASE_STUDY = "static"
"""Defaults of the other commands, and of keys that a record leaves out: its meaning stays when
``DEFAULT_STUDY`` changes."""
MOST_BASELINES = 4
"""Limit for baselines; each adds an arm to every block of the confirmation."""
FORMER_SEED = 1
"""Seed of runs that an older version began without one."""
_FORMER_CHOICES: Mapping[str, object] = MappingProxyType({"idle_cpus": HALT})
"""Choices of older studies, which had no others and so do not name them."""
RESERVED_NAMES = ("workloads", "experiments", "published", "results")

_OWN_TEXTS = ("server_name", "location", "root", "env_file")
"""Keys with one text that concern a configuration of the user's own."""


@dataclass(frozen=True, slots=True)
class StudyDefinition:
    """All choices of the user."""

    name: str
    server: str
    space: str
    """Name, or path of a file."""
    workload: str
    """Name, or path of a file."""
    objective: tuple[str, ...]
    """One name, or two."""
    baseline: str
    """``stock``, ``distro``, ``hand``, ``published``, or path of a configuration's file."""
    trials: int | None
    """Largest number of configurations; None: limited by time only."""
    time_s: float
    """Time for the whole study without set-up."""
    rate_per_s: float | None
    """Offered rate; None: a share of the baseline's capacity."""
    connections: int | None
    """Number of connections; None: the workload's."""
    allow: tuple[str, ...]
    """Parameters with a trade-off that may be searched."""
    seed: int
    storage: str | None
    """URL of an Optuna storage; None: SQLite in the study's folder."""
    effect: float
    """Reduction that the plan wants to claim with 80 % probability, as a share."""
    load: Load = "native"
    """Load generator."""
    stalls: Stalls = EXCLUDE
    """Treatment of requests that stalls touch."""
    idle_cpus: IdleCpus = BY_HOST
    """Idle CPUs of the serving host: they poll in the windows, or halt."""
    slo: str = ""
    """The latency limit of the objective ``capacity``, ``p99<5ms``."""
    constraint: tuple[str, ...] = ()
    """Limits for the tuned configuration."""
    choose: str = ""
    """Rule that chooses one point of a front; empty: the best product of ratios."""
    sequential: bool = False
    """True if the confirmation may stop early, by an always-valid test."""
    finalists: int = 1
    """Number of the search's best configurations to confirm in the same blocks."""
    others: tuple[str, ...] = ()
    """Further baselines in the same blocks, in the notation of ``baseline``."""
    published: str = ""
    """File of the configuration for the baseline ``published``; empty without one."""
    force: tuple[str, ...] = ()
    """Parameters to search although they are on the never-list (``tuner.space.never``)."""
    layer: str = ""
    """``kernel``, or the file of a kernel space to search as well; empty without one."""
    config: str = ""
    """The user's own configuration file, for the baseline ``own``; empty: none, or
    in place the one that the server reads by itself.
    """
    server_name: str = ""
    """Name of the server block; empty: the default server."""
    location: str = ""
    """Path below which the workload's requests go; empty: as the workload has them."""
    root: str = ""
    """Folder of its files, if it differs from the configured one."""
    prefix: tuple[str, ...] = ()
    """``/etc/nginx=FOLDER``: copies of the folders that the configuration names."""
    env_file: str = ""
    """File with the environment of the server; a configuration may name its variables."""
    keep_upstreams: bool = False
    """True to keep its configured upstreams."""
    in_place: str = ""
    """``IN_PLACE`` to tune the target's own service, with ``config`` as its configuration there;
    empty for separate instances.
    """
    inventory: str | None = None
    """Path of an Ansible inventory; None: this machine only."""
    margin: float = DEFAULT_MARGIN
    """Smallest difference worth having, as a share; no smaller one is claimed."""
    cpus: WantedCpus = BY_RULES
    """CPUs that the user names for generator, server and backend."""
    ablate: shapes.Ablate = "auto"
    """``auto`` to ablate a winner in what is left of the time; ``off`` to leave it out."""
    only: tuple[str, ...] = ()
    """Parameters to search, with those that they need; empty for all."""
    sampler: str = AUTO
    """Source of the proposals: one of ``SAMPLERS``, or ``MODULE:CLASS``."""
    server_binary: str = ""
    """Path of the server's program on the target; empty for the installed one."""

    @property
    def goals(self) -> Goals:
        """Parsed objectives, constraints and choice."""
        return parse_goals(
            self.objective,
            slo=self.slo,
            constraints=self.constraint,
            choose=self.choose,
            margin=self.margin,
        )

    def as_dict(self) -> dict[str, object]:
        """Return the definition by the file's keys, for ``load_study``."""
        return {
            "name": self.name,
            "server": self.server,
            "space": self.space,
            "workload": self.workload,
            "objective": self.objective[0] if len(self.objective) == 1 else list(self.objective),
            "slo": self.slo or None,
            "constraint": list(self.constraint),
            "choose": self.choose or None,
            "baseline": [self.baseline, *self.others] if self.others else self.baseline,
            "trials": self.trials,
            "time": self.time_s,
            "rate": self.rate_per_s,
            "connections": self.connections,
            "allow": list(self.allow),
            "seed": self.seed,
            "storage": self.storage,
            "effect": self.effect,
            "load": self.load,
            "stalls": self.stalls,
            "idle_cpus": self.idle_cpus,
            "sequential": self.sequential,
            "finalists": self.finalists,
            "published": self.published or None,
            "force": list(self.force),
            "layer": self.layer or None,
            "config": self.config or None,
            "server_name": self.server_name or None,
            "location": self.location or None,
            "root": self.root or None,
            "prefix": list(self.prefix) or None,
            "env_file": self.env_file or None,
            "keep_upstreams": self.keep_upstreams,
            "in_place": self.in_place or None,
            "inventory": self.inventory,
            "margin": self.margin,
            "generator_cpus": cpu_ranges(self.cpus.generator) or None,
            "server_cpus": cpu_ranges(self.cpus.server) or None,
            "backend_cpus": cpu_ranges(self.cpus.backend) or None,
            "ablate": self.ablate,
            "only": list(self.only),
            "sampler": self.sampler,
            "server_binary": self.server_binary or None,
        }


@dataclass(frozen=True, slots=True)
class StudySummary:
    """A built-in study in a list."""

    name: str
    path: Path
    summary: str


def list_studies() -> tuple[StudySummary, ...]:
    """Return the built-in studies, by name."""
    summaries = []
    for path in sorted(data_dir("studies").glob("*.yaml")):
        keys = shapes.STUDY.read(read_yaml(path))
        summary = keys["summary"].text() if "summary" in keys else ""
        summaries.append(StudySummary(path.stem, path, summary))
    return tuple(summaries)


def draw_seed() -> int:
    """Return a random seed for a study."""
    return secrets.randbits(32)


def recorded_choices(definition: Mapping[str, object]) -> dict[str, object]:
    """Return a record's definition, with the choices that older versions do not name.

    Args:
        definition: the definition in the record.
    """
    return {**_FORMER_CHOICES, **definition}


def load_study(
    path: str | Path = BASE_STUDY,
    overrides: Mapping[str, object] | None = None,
    *,
    seed: int | None = None,
) -> StudyDefinition:
    """Read a built-in study by name, or a YAML file by its path.

    Paths in the file are relative to its folder, paths in options to the current one.

    Args:
        path: name, or a path that ends with ``.yaml``.
        overrides: options by the file's keys (``{"time": "5m"}``); None and empty sequences count
            as missing.
        seed: seed if neither the file nor an option names one; None: a random seed.

    Raises:
        DefinitionError: the definition is wrong, with the file's line or the option.
    """
    file = _find(str(path))
    keys = shapes.STUDY.read(read_yaml(file))
    for key in ("space", "workload", "baseline", "published", "layer", "inventory"):
        if key in keys:
            keys[key] = _next_to(keys[key], file.parent)
    for key in ("config", "root", "env_file", "server_binary"):
        if key in keys:
            keys[key] = replace(keys[key], content=str(file.parent / keys[key].text()))
    if "prefix" in keys:
        copies = tuple(_copy_next_to(item, file.parent) for item in _items(keys["prefix"]))
        keys["prefix"] = replace(keys["prefix"], content=copies)
    given = set()
    for key, value in (overrides or {}).items():
        if key not in shapes.STUDY.optional:
            known = shapes.STUDY.optional
            raise DefinitionError(
                f"unknown option{did_you_mean(key, known)}; allowed: {', '.join(known)}",
                path=f"--{key}",
            )
        if value is not None and value not in ((), []):
            keys[key] = Node.option(key, value)
            given.add(key)
    if (
        "config" in given or ("in_place" in keys and "config" not in keys)
    ) and "baseline" not in given:
        # A configuration named on the command line overrides the study's file.
        keys.pop("baseline", None)
    return _definition(keys, file, draw_seed() if seed is None else seed, given)


def _find(name_or_path: str) -> Path:
    if _is_file(name_or_path):
        return Path(name_or_path)
    folder = data_dir("studies")
    return shipped_file(name_or_path, "study", names_in(folder), folder, "--study")


def _is_file(text: str) -> bool:
    return text.endswith((".yaml", ".yml"))


def _copy_next_to(node: Node, folder: Path) -> Node:
    named, equals, copy = node.text().partition("=")
    return replace(node, content=f"{named}{equals}{folder / copy if copy else ''}")


def _next_to(node: Node, folder: Path) -> Node:
    if isinstance(node.content, tuple):
        return replace(node, content=tuple(_next_to(item, folder) for item in node.content))
    text = node.text()
    if not _is_file(text):
        return node
    return Node(node.path, node.line, node.key, str(folder / text), plain=False)


def _definition(
    keys: Mapping[str, Node], file: Path, seed: int, given: Collection[str]
) -> StudyDefinition:
    server = shapes.SERVER.read(keys["server"]) if "server" in keys else DEFAULT_SERVER
    workload = keys["workload"].text() if "workload" in keys else "static"
    goals = _goals(keys)
    published = _published(keys["published"]) if "published" in keys else ""
    known = (OWN, *BASELINES) if _is_own(keys) else BASELINES
    baselines: tuple[str, ...] = known[:1]
    margin = Margin(_margin(keys))
    if "baseline" in keys:
        baselines = _baselines(keys["baseline"], known, published)
    return StudyDefinition(
        name=_name(keys.get("name"), file),
        server=server,
        space=keys["space"].text() if "space" in keys else _space_for(server, workload),
        workload=workload,
        objective=tuple(o.name for o in goals.objectives),
        baseline=baselines[0],
        trials=shapes.TRIALS.read(keys["trials"]) if "trials" in keys else None,
        time_s=shapes.TIME.read(keys["time"]) if "time" in keys else 600.0,
        rate_per_s=shapes.RATE.read(keys["rate"]) if "rate" in keys else None,
        connections=shapes.CONNECTIONS.read(keys["connections"]) if "connections" in keys else None,
        allow=_names(keys["allow"]) if "allow" in keys else (),
        seed=shapes.SEED.read(keys["seed"]) if "seed" in keys else seed,
        storage=keys["storage"].text() if "storage" in keys else None,
        effect=_effect(keys, margin),
        slo=goals.seek.text if goals.seek else "",
        constraint=tuple(limit.text for limit in goals.constraints),
        choose=goals.choice.text,
        load=shapes.LOAD.read(keys["load"]) if "load" in keys else "native",
        stalls=shapes.STALLS_KEPT.read(keys["stalls"]) if "stalls" in keys else EXCLUDE,
        idle_cpus=shapes.IDLE.read(keys["idle_cpus"]) if "idle_cpus" in keys else BY_HOST,
        sequential=_sequential(keys["sequential"], goals) if "sequential" in keys else False,
        finalists=_finalists(keys["finalists"], goals) if "finalists" in keys else 1,
        others=baselines[1:],
        published=published,
        force=_names(keys["force"]) if "force" in keys else (),
        layer=_layer(keys["layer"]) if "layer" in keys else "",
        in_place=_in_place(keys) if "in_place" in keys else "",
        **_own(keys),
        inventory=keys["inventory"].text() if "inventory" in keys else None,
        margin=margin.share,
        cpus=WantedCpus(*(_cpus(keys[key]) if key in keys else () for key in shapes.CPU_KEYS)),
        ablate=shapes.ABLATE.read(keys["ablate"]) if "ablate" in keys else "auto",
        only=_names(keys["only"]) if "only" in keys else (),
        sampler=_sampler(keys["sampler"], goals, given) if "sampler" in keys else AUTO,
        server_binary=_server_binary(keys, given) if "server_binary" in keys else "",
    )


def _sampler(node: Node, goals: Goals, given: Collection[str]) -> str:
    objectives = len(goals.objectives)
    return read_sampler(node, from_option="sampler" in given, objectives=objectives)


def _server_binary(keys: Mapping[str, Node], given: Collection[str]) -> str:
    node = keys["server_binary"]
    if "in_place" in keys:
        raise node.error("a service in place runs its own program; leave it out")
    if "server_binary" not in given:
        return node.text()
    first, *more = _items(node)  # The option may be repeated.
    if more:
        raise node.error(
            "a study has one program; two are compared by: tuner compare nginx:stock nginx:stock"
        )
    return first.text()


def _cpus(node: Node) -> tuple[int, ...]:
    try:
        return parse_cpus(node.text())
    except ValueError as error:
        raise node.error(f"{quoted(node.text())} is not a list of CPUs; {error}") from error


def _margin(keys: Mapping[str, Node]) -> float:
    return shapes.MARGIN.read(keys["margin"]) if "margin" in keys else DEFAULT_MARGIN


def _effect(keys: Mapping[str, Node], margin: Margin) -> float:
    """Return the effect to plan for, which is never one that the margin hides."""
    if "effect" not in keys:
        return margin.wanted()
    return margin.wanted(shapes.EFFECT.read(keys["effect"]))


def _goals(keys: Mapping[str, Node]) -> Goals:
    """Return the goals; errors name the line or the option."""
    nodes = {key: _items(keys[key]) for key in ("objective", "constraint") if key in keys}
    for node in nodes.get("constraint", ()):
        try:
            Constraint.parse(node.text())
        except ValueError as error:
            raise node.error(str(error)) from error
    texts = {key: tuple(node.text() for node in found) for key, found in nodes.items()}
    single = {key: keys[key].text() for key in ("slo", "choose") if key in keys}
    try:
        return parse_goals(
            texts.get("objective", ("p99",)),
            slo=single.get("slo", ""),
            constraints=texts.get("constraint", ()),
            choose=single.get("choose", ""),
        )
    except DefinitionError as error:
        place = keys.get((error.path or "").removeprefix("--"))
        if place is None:
            raise
        quoted = (item for item in _items(place) if repr(item.text()) in error.message)
        raise next(quoted, place).error(error.message) from error


def _sequential(node: Node, goals: Goals) -> bool:
    alone = not goals.second and not goals.constraints
    if node.content == "auto":
        return alone
    chosen = node.boolean()
    if chosen and not alone:
        raise node.error(
            "only one objective without constraints can be watched after every block: what else is"
            " wanted is judged by intervals that need a fixed number of blocks; leave out"
            " sequential, or the others"
        )
    return chosen


def _finalists(node: Node, goals: Goals) -> int:
    count = shapes.FINALISTS.read(node)
    if count > 1 and goals.second:
        raise node.error(
            "with two objectives only one point of the front is confirmed; leave out finalists"
        )
    return count


def _items(node: Node) -> Sequence[Node]:
    """Return the items of a list, or a single text as a list of one."""
    return node.sequence() if isinstance(node.content, tuple) else (node,)


def _name(node: Node | None, file: Path) -> str:
    name = file.stem if node is None else node.text()
    where = node or Node(str(file), None, "name", name)
    if not shapes.NAME.fullmatch(name):
        raise where.error(
            f"{quoted(name)} is not a name; allowed: up to 64 letters, digits, '.', '_' and '-', "
            "beginning with a letter or a digit"
        )
    if name in RESERVED_NAMES:
        raise where.error(f"{quoted(name)} is reserved; choose another name")
    return name


def _space_for(server: str, workload: str) -> str:
    """Return the default space: a proxy's if the workload has a backend.

    A server with a single space has that one.
    """
    own = [name for name in spaces() if name.startswith(f"{server}/")]
    if len(own) == 1:
        return own[0]
    backend = load_workload(workload).backend
    return f"{server}/{'static' if backend is None or backend.serves_site else 'proxy'}"


def _baselines(node: Node, known: Sequence[str], published: str) -> tuple[str, ...]:
    """Return the baseline of the study, and further ones."""
    items = _items(node)
    names = tuple(_baseline(item, known, published) for item in items)
    for item, name in zip(items, names, strict=True):
        if names.count(name) > 1:
            raise item.error(f"{quoted(name)} is given twice")
    if not 1 <= len(names) <= MOST_BASELINES:
        raise node.error(f"write 1 to {MOST_BASELINES} baselines; the first is the study's")
    return names


def _baseline(node: Node, known: Sequence[str], published: str) -> str:
    text = node.text()
    if text == shapes.PUBLISHED and not published:
        raise node.error(
            "this study names no published configuration; write its file under 'published'"
        )
    return text if _is_file(text) else node.one_of((*known, shapes.PUBLISHED, "FILE.yaml"))


def _is_own(keys: Mapping[str, Node]) -> bool:
    """Return whether the study is of a configuration of the user's own."""
    return "config" in keys or "in_place" in keys


def _own(keys: Mapping[str, Node]) -> dict[str, Any]:
    """Return the options that concern the user's own configuration."""
    if not _is_own(keys):
        for key in (*_OWN_TEXTS, "prefix", "keep_upstreams"):
            if key in keys and str(keys[key].content).lower() not in ("false", "off", "no"):
                raise keys[key].error("belongs to a configuration of your own; name it: --config")
        return {}
    texts = {key: keys[key].text() for key in ("config", *_OWN_TEXTS) if key in keys}
    if "location" in texts and not texts["location"].startswith("/"):
        raise keys["location"].error(
            f"{quoted(texts['location'])} is not a path; it begins with a slash: /app/"
        )
    copies = tuple(map(_copy, _items(keys["prefix"]))) if "prefix" in keys else ()
    kept = keys["keep_upstreams"].boolean() if "keep_upstreams" in keys else False
    return {**texts, "prefix": copies, "keep_upstreams": kept}


def _copy(node: Node) -> str:
    named, _, copy = node.text().partition("=")
    if not named.startswith("/") or not copy:
        raise node.error(
            f"{quoted(node.text())} does not name a copied folder; write /etc/nginx=FOLDER"
        )
    return node.text()


def _in_place(keys: Mapping[str, Node]) -> str:
    node = keys["in_place"]
    if node.text() != shapes.IN_PLACE:
        raise node.error(
            "the target's own service would be stopped and started with an experimental"
            " configuration for every window, while its users are served; it gets its own files"
            " and state back at the end, or by itself after a time limit (docs/fleet.md). If that"
            f" is what you want, write: --in-place {shapes.IN_PLACE}"
        )
    if "config" in keys and not keys["config"].text().startswith("/"):
        raise keys["config"].error("in place this is a file of the target; write its absolute path")
    for key, why in (
        ("layer", "the kernel's settings are not tuned in place"),
        ("keep_upstreams", "the service keeps its upstreams anyway"),
        ("root", "the service keeps its files"),
        ("prefix", "the service's files are read where they are"),
        ("env_file", "the service's own environment is read"),
    ):
        if key in keys and str(keys[key].content).lower() not in ("false", "off", "no"):
            raise keys[key].error(f"{why}; leave it out")
    return node.text()


def _layer(node: Node) -> str:
    text = node.text()
    return text if _is_file(text) else node.one_of((shapes.KERNEL_LAYER, "FILE.yaml"))


def _published(node: Node) -> str:
    text = node.text()
    if not _is_file(text):
        raise node.error(
            f"{quoted(text)} is not a file; write the path of a configuration's YAML file"
        )
    return text


def _names(node: Node) -> tuple[str, ...]:
    # A single name is allowed, and commas separate names, as on the command line.
    names = [name.strip() for item in _items(node) for name in item.text().split(",")]
    if not all(names):
        raise node.error("a name is empty")
    return tuple(dict.fromkeys(names))
