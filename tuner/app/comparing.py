"""The work of ``tuner compare``: B against A, which are configurations or servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tuner.app import dry_run
from tuner.app.bind import read_configuration
from tuner.app.caller import Caller
from tuner.app.confirming import confirmed
from tuner.app.generator_size import preflight_sized
from tuner.app.matches import Match, meet, names_servers, rehearsed_match
from tuner.app.metrics_server import check_listen
from tuner.app.option_words import named_options
from tuner.app.preflight import Preflight, preflight
from tuner.app.resume import reopen
from tuner.app.runs import GivenOptions, find_run
from tuner.app.session import create_store, describe, free_name, open_store
from tuner.app.turn import take_turn
from tuner.definition.study import BASE_STUDY, StudyDefinition, load_study
from tuner.errors import DefinitionError, named
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import STUDIES
from tuner.space.configuration import Configuration
from tuner.store.store import Store


@dataclass(frozen=True, slots=True)
class WantedComparison:
    """A comparison of B with A."""

    arms: tuple[str, ...]
    """A and B, which are configurations; or two or more servers."""
    options: GivenOptions
    """Given options by their names in a study file."""
    study_file: str | None = None
    """Name or path of a study file; None for the default one."""
    ladder: bool = False
    """True to compare servers at rising rates too."""
    metrics: str | None = None
    """Value of ``--metrics``."""

    @property
    def of_servers(self) -> bool:
        """True if the arms are servers.

        Raises:
            DefinitionError: only some of them are.
        """
        return names_servers(self.arms)

    @property
    def match(self) -> Match:
        """The comparison of servers."""
        return Match.of(self.arms, self.options, self.study_file, limit=None, ladder=self.ladder)


def compare(wanted: WantedComparison, caller: Caller, *, resume: bool = False) -> StudyResult:
    """Compare B with A under a frozen protocol, and write the results.

    Args:
        wanted: the comparison.
        caller: the command or program.
        resume: whether to resume the named or newest comparison of A and B.

    Raises:
        DefinitionError: an option is wrong; nothing was started.
        HostError, InstrumentError, StoreError: the host, the generator or the record failed.
        Interrupted, KeyboardInterrupt: the user stopped it; the record keeps what was measured.
    """
    _check(wanted)
    if wanted.of_servers:
        return evaluate(meet(wanted.match, caller, resume=resume, metrics=wanted.metrics))
    found, other, store = (_reopen if resume else _create)(wanted, caller)
    return confirmed(
        found, other, store, "compare", *wanted.arms, caller=caller, metrics=wanted.metrics
    )


def rehearsed(wanted: WantedComparison, caller: Caller) -> list[dry_run.Rehearsal]:
    """Return what ``compare`` would measure, and start nothing.

    Raises:
        DefinitionError, HostError: as ``compare``.
    """
    _check(wanted)
    if wanted.of_servers:
        return rehearsed_match("compare", wanted.match, caller)
    found = dry_run.prepared(_defined(wanted), caller)
    baseline, candidate = wanted.arms
    both = {baseline: found.baseline, candidate: _other(candidate, found)}
    return [dry_run.rehearse("compare", found, both, searches=False)]


def _check(wanted: WantedComparison) -> None:
    """Raise DefinitionError for an option that does not apply to these arms."""
    check_listen(wanted.metrics)
    if len(wanted.arms) > 2 and not wanted.of_servers:
        server = load_study(wanted.study_file or BASE_STUDY, wanted.options).server
        more = " ".join(f"{server}:{arm}" for arm in wanted.arms)
        raise DefinitionError(
            f"configurations are compared two at a time; several as arms: tuner ladder {more}",
            path=wanted.arms[2],
        )
    if wanted.ladder and not wanted.of_servers:
        raise DefinitionError(
            "applies to servers; for configurations run: tuner ladder nginx:A nginx:B",
            path="--ladder",
        )


def _create(wanted: WantedComparison, caller: Caller) -> tuple[Preflight, Configuration, Store]:
    """Return the preflight, B's configuration and the record of a new comparison."""
    definition = _defined(wanted)
    folder = STUDIES / definition.name
    turn = take_turn(folder, definition.inventory, caller)
    found = preflight_sized(partial(preflight, turn=turn), definition, folder, caller.progress)
    other = _other(wanted.arms[1], found)
    store = create_store(
        found,
        folder,
        asked=_asked(wanted.arms),
        command=caller.command,
        begin=lambda store: store.add_configuration(describe(found, other)),
    )
    return found, other, store


def _defined(wanted: WantedComparison) -> StudyDefinition:
    """Return the definition of a new comparison."""
    asked = {**wanted.options, "baseline": wanted.arms[0]}
    with named("--baseline", "A"):
        definition = load_study(wanted.study_file or BASE_STUDY, asked)
    definition = replace(definition, finalists=1, others=())
    if "name" not in wanted.options:
        definition = replace(definition, name=free_name(f"compare-{definition.name}"))
    return definition


def _other(candidate: str, found: Preflight) -> Configuration:
    """Return B's configuration.

    Raises:
        DefinitionError: it is the same as A's.
    """
    with named("--baseline", "B"):
        other = read_configuration(candidate, found.space, found.definition.published)
    if other.digest == found.baseline.digest:
        raise DefinitionError(
            f"A and B are the same configuration ({other.digest}); there is nothing to compare"
        )
    return other


def _reopen(wanted: WantedComparison, caller: Caller) -> tuple[Preflight, Configuration, Store]:
    """Return the preflight, B's configuration and the record of an interrupted comparison.

    It is the named comparison, or the newest one of A and B in this folder.

    Raises:
        DefinitionError: there is none, B has changed, or an option would change the definition.
    """
    file = {"study": wanted.study_file} if wanted.study_file else {}
    given = {**file, **wanted.options}
    others = {key: value for key, value in given.items() if key not in ("name", "storage")}
    if others:
        raise DefinitionError(
            f"a resumed comparison keeps its definition; leave out {named_options(others)}",
            path="--resume",
        )
    name, storage = (
        None if given.get(key) is None else str(given[key]) for key in ("name", "storage")
    )
    if storage is None or name is None:
        name, _ = find_run(name, _asked(wanted.arms))
    store = open_store(name, storage)
    definition, found = reopen(store, caller, path="--resume")
    other = read_configuration(wanted.arms[1], found.space, definition.published)
    if other.digest not in store.record().configurations:
        raise DefinitionError(
            f"{wanted.arms[1]} has changed since {name!r} began, so old and new blocks cannot be"
            " compared; begin a new study",
            path="--resume",
        )
    return found, other, store


def _asked(arms: Sequence[str]) -> GivenOptions:
    return {"command": "compare", "arms": list(arms)}
