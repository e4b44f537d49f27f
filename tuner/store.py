"""The study's record on an Optuna storage.

Two Optuna studies make one record. ``NAME`` is the search: its trials are the configurations,
their intermediate values the losses by block. ``NAME/blocks`` holds a trial for every block, with
one user attribute for every window, written as the window ends; the life of a block (RUNNING,
COMPLETE, FAIL) is Optuna's own. Only Optuna's public interface is used, so that SQLite,
PostgreSQL and the gRPC proxy all serve, and optuna-dashboard opens the record as it is.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import msgspec

from tuner.configuration import Configuration, Value
from tuner.errors import StoreError
from tuner.facts import CoreSplit, HostFacts, ServerFacts
from tuner.goals import goals_of
from tuner.instrument import NATIVE, Instrument
from tuner.measurement import Measurement
from tuner.record import (
    SCHEMA_VERSION,
    AblationProtocol,
    Block,
    BlockInstance,
    BlockState,
    Calibration,
    ConfigurationRecord,
    Origin,
    Original,
    Phase,
    Protocol,
    Record,
    Trial,
    TrialState,
)
from tuner.scoring import mean_loss, trial_excess, trial_losses
from tuner.standing import pooled_all

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage

_T = TypeVar("_T")
_P = ParamSpec("_P")
_CONFIGURATION = "configuration:"
_WINDOW = "window:"
_VALID_CONSTRAINT = "accepted by the server"


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of a study when it starts."""

    name: str
    definition: Mapping[str, object]
    tuner_version: str
    command: str
    generator: str
    host: HostFacts
    server: ServerFacts
    cores: CoreSplit
    notes: tuple[str, ...]
    started_unix_s: float
    baseline: str
    objective: str
    instrument: Instrument = NATIVE


Storage: TypeAlias = "str | BaseStorage"
"""URL of an Optuna storage, or the storage itself (one in memory, a gRPC proxy)."""


def sqlite_url(folder: Path) -> str:
    """The default storage: a file in the study's own folder."""
    return f"sqlite:///{folder / 'record.db'}"


def _writes(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Say plainly that the record cannot be written: a full disk, a database that is gone."""

    @functools.wraps(method)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        import sqlalchemy

        internal = _optuna().exceptions.StorageInternalError
        try:
            return method(*args, **kwargs)
        except (internal, sqlalchemy.exc.SQLAlchemyError) as error:
            cause = error.__cause__ or error
            # The database's own words, without the statement and all that it held.
            words = getattr(cause, "orig", None) or cause
            raise StoreError(
                f"the record cannot be written: {words}; what was written so far is kept, go on"
                " with --resume once the storage has room and answers"
            ) from error

    return guarded


class Store:
    """One study's record, open for reading and writing.

    Args:
        search: Optuna's study of the configurations.
        blocks: that of the blocks.
        clock: Unix time in seconds; what happened when is told by it.
    """

    def __init__(
        self, search: optuna.Study, blocks: optuna.Study, clock: Callable[[], float] = time.time
    ) -> None:
        self._search = search
        self._blocks = blocks
        self._clock = clock
        self._search_trials: dict[int, optuna.Trial] = {}
        self._block_trials: dict[int, optuna.Trial] = {}

    @classmethod
    @_writes
    def create(cls, url: Storage, header: Header, clock: Callable[[], float] = time.time) -> Store:
        """Begin a record.

        Raises:
            StoreError: the name is taken in this storage, or the storage cannot be opened.
        """
        optuna = _optuna()
        storage = _storage(url)
        goals = goals_of(header.definition)
        try:
            search = optuna.create_study(
                storage=storage,
                study_name=header.name,
                sampler=_no_sampler(),
                directions=["minimize"] * len(goals.objectives),
            )
            blocks = optuna.create_study(
                storage=storage,
                study_name=f"{header.name}/blocks",
                sampler=_no_sampler(),
                direction="maximize",
            )
        except optuna.exceptions.DuplicatedStudyError as error:
            raise StoreError(
                f"a study called {header.name!r} is already in {url}; go on with it by --resume,"
                " or choose another --name"
            ) from error
        with warnings.catch_warnings():
            # Experimental since 3.2; without it, dashboards would show "objective 0".
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            search.set_metric_names(
                [f"ln({o.text} / baseline's), smaller is better" for o in goals.objectives]
            )
            blocks.set_metric_names(["share of the block's time in measuring windows"])
        search.set_user_attr("header", msgspec.to_builtins(header))
        # Last: a record without it was cut short before it began.
        search.set_user_attr("schema_version", SCHEMA_VERSION)
        return cls(search, blocks, clock)

    @classmethod
    def open(cls, url: Storage, name: str, clock: Callable[[], float] = time.time) -> Store:
        """Open an existing record.

        Raises:
            StoreError: there is none of that name, or its schema is not this version's.
        """
        optuna = _optuna()
        storage = _storage(url)
        try:
            search = optuna.load_study(storage=storage, study_name=name, sampler=_no_sampler())
        except KeyError as error:
            raise StoreError(f"no study called {name!r} in {url}; see 'tuner studies'") from error
        found = search.user_attrs.get("schema_version")
        if found is None:
            raise StoreError(
                f"{name!r} in {url} was cut short before it began: there is nothing to go on with;"
                " remove it, or choose another --name"
            )
        blocks = optuna.load_study(
            storage=storage, study_name=f"{name}/blocks", sampler=_no_sampler()
        )
        if found != SCHEMA_VERSION:
            raise StoreError(
                f"{name!r} has record schema {found}, this tuner reads {SCHEMA_VERSION};"
                " use the tuner version that wrote it"
            )
        return cls(search, blocks, clock)

    # --- what is written once ---------------------------------------------------------------

    @_writes
    def add_configuration(self, configuration: ConfigurationRecord) -> None:
        """Keep a configuration's values and text, once."""
        self._search.set_user_attr(
            _CONFIGURATION + configuration.digest, msgspec.to_builtins(configuration)
        )

    @_writes
    def set_calibration(self, calibration: Calibration) -> None:
        """Keep what was learnt of the baseline."""
        self._search.set_user_attr("calibration", msgspec.to_builtins(calibration))

    @_writes
    def set_protocol(self, protocol: Protocol) -> None:
        """Freeze the confirmation.

        Raises:
            StoreError: another protocol is frozen already; it is never replaced.
        """
        frozen = self._search.user_attrs.get("protocol")
        if frozen is not None and frozen["digest"] != protocol.digest:
            raise StoreError("the confirmation's protocol is frozen already and cannot be replaced")
        self._search.set_user_attr("protocol", msgspec.to_builtins(protocol))

    @_writes
    def set_ablation(self, ablation: AblationProtocol) -> None:
        """Freeze the ablation; it is never replaced."""
        self._search.set_user_attr("ablation", msgspec.to_builtins(ablation))

    @_writes
    def set_original(self, original: Original) -> None:
        """Keep the confirmation that this study repeats."""
        self._search.set_user_attr("original", msgspec.to_builtins(original))

    @_writes
    def set_importance(self, importance: Mapping[str, float]) -> None:
        """Keep the parameters' importance."""
        self._search.set_user_attr("importance", dict(importance))

    @_writes
    def set_ended(self) -> None:
        """Say that the study came to its end."""
        self._search.set_user_attr("ended_unix_s", self._clock())

    # --- blocks -----------------------------------------------------------------------------

    @_writes
    def open_block(
        self, phase: Phase, index: int, seed: int, instances: Sequence[BlockInstance]
    ) -> int:
        """Begin a block; its number."""
        trial = self._blocks.ask()
        self._block_trials[trial.number] = trial
        trial.set_user_attr("phase", phase)
        trial.set_user_attr("index", index)
        trial.set_user_attr("seed", seed)
        trial.set_user_attr("started_unix_s", self._clock())
        trial.set_user_attr("instances", msgspec.to_builtins(tuple(instances)))
        return trial.number

    @_writes
    def add_window(self, block: int, window: Measurement) -> None:
        """Keep one window, as soon as it has ended."""
        self._block_trials[block].set_user_attr(
            _WINDOW + window.window_id, msgspec.to_builtins(window)
        )

    @_writes
    def close_block(
        self,
        block: int,
        state: BlockState,
        reason: str,
        instances: Sequence[BlockInstance],
        measured_share: float,
    ) -> None:
        """End a block. Whatever is not ``complete`` keeps its windows and its reason."""
        states = _optuna().trial.TrialState
        trial = self._block_trials.pop(block)
        trial.set_user_attr("instances", msgspec.to_builtins(tuple(instances)))
        trial.set_user_attr("reason", reason)
        trial.set_user_attr("measured_share", measured_share)
        trial.set_user_attr("ended_unix_s", self._clock())
        trial.set_user_attr("state", state)
        if state == "complete":
            self._blocks.tell(trial, measured_share)
        else:
            self._blocks.tell(trial, state=states.FAIL)

    # --- trials -----------------------------------------------------------------------------

    @_writes
    def open_trial(
        self,
        configuration: Configuration,
        origin: Origin,
        parameters: Mapping[str, Value],
        distributions: Mapping[str, BaseDistribution],
    ) -> int:
        """Begin a trial with a configuration that was chosen elsewhere; its number.

        Args:
            configuration: what will run.
            origin: who proposed it.
            parameters: the searched dimensions, as Optuna knows them.
            distributions: their domains; dimensions whose value lies outside are left out.
        """
        inside = {
            name: domain
            for name, domain in distributions.items()
            if name in parameters and _contains(domain, parameters[name])
        }
        optuna = _optuna()
        running = optuna.trial.TrialState.RUNNING
        # One write, so that a crash leaves the whole trial or none of it.
        self._search.add_trial(
            optuna.trial.create_trial(
                state=running,
                params={name: parameters[name] for name in inside},
                distributions=inside,
                user_attrs={
                    "digest": configuration.digest,
                    "origin": origin,
                    "configuration": configuration.values,
                },
            )
        )
        added = [
            frozen
            for frozen in self._search.get_trials(deepcopy=False, states=(running,))
            if frozen.user_attrs["digest"] == configuration.digest
        ][-1]
        self._search_trials[added.number] = self._trial(added)
        return added.number

    @_writes
    def report_loss(self, trial: int, block: int, loss: float) -> None:
        """Show a trial's loss in a block to Optuna's tools; the record itself is the windows."""
        # Optuna takes intermediate values of one objective only.
        if len(self._search.directions) == 1:
            self._search_trials[trial].report(loss, step=block)

    @_writes
    def close_trial(
        self,
        number: int,
        state: TrialState,
        losses: Mapping[int, float],
        message: str,
        *,
        second: Mapping[int, float] | None = None,
        excess: Mapping[str, float] | None = None,
    ) -> None:
        """End a trial with the mean of its losses.

        An infeasible one is told as violating a constraint, so that every sampler knows.

        Args:
            number: of the trial.
            state: what becomes of it.
            losses: by block number.
            message: why.
            second: losses of the second objective, where there are two.
            excess: how far beyond each limit; told as constraints too.
        """
        states = _optuna().trial.TrialState
        trial = self._search_trials.pop(number)
        trial.set_user_attr("state", state)
        trial.set_user_attr("message", message)
        infeasible = state == "infeasible"
        told = {**(excess or {}), _VALID_CONSTRAINT: 1.0 if infeasible else -1.0}
        # Some are there already if the study was killed between this write and the next.
        for name in told.keys() - trial.constraints.keys():
            trial.set_constraint(name, told[name])
        values = [mean_loss(losses)] + ([] if second is None else [mean_loss(second)])
        if all(map(math.isfinite, values)) and not infeasible:
            self._search.tell(trial, values)
        else:
            self._search.tell(trial, state=states.PRUNED)

    # --- recovery and reading ---------------------------------------------------------------

    def recover(self) -> list[str]:
        """After a crash or an interruption: end orphaned blocks, take orphaned trials up again.

        Every window that had ended is kept. A trial that was racing goes on racing.

        Returns:
            What was done, in words.
        """
        states = _optuna().trial.TrialState
        done = []
        for frozen in self._blocks.get_trials(deepcopy=False, states=(states.RUNNING,)):
            if frozen.user_attrs.get("state") == "complete":
                self._blocks.tell(frozen.number, frozen.user_attrs["measured_share"])
                continue
            windows = sum(key.startswith(_WINDOW) for key in frozen.user_attrs)
            self._blocks.tell(frozen.number, state=states.FAIL)
            done.append(f"block {frozen.number} had been cut short; its {windows} windows are kept")
        for frozen in self._search.get_trials(deepcopy=False, states=(states.RUNNING,)):
            self._search_trials[frozen.number] = self._trial(frozen)
        return done

    def _trial(self, frozen: optuna.trial.FrozenTrial) -> optuna.Trial:
        # Optuna has no public way to take up a running trial again.
        trial: optuna.Trial = _optuna().Trial(self._search, frozen._trial_id)  # noqa: SLF001
        return trial

    def record(self) -> Record:
        """The whole record as plain data.

        Raises:
            StoreError: it is damaged, or was written by another version.
        """
        try:
            return self._record()
        except (msgspec.ValidationError, KeyError) as error:
            raise StoreError(
                f"the record of {self._search.study_name!r} is damaged, or of another version of"
                f" tuner: {error}"
            ) from error

    def _record(self) -> Record:
        attrs = self._search.user_attrs
        header = msgspec.convert(attrs["header"], Header)
        goals = goals_of(header.definition)
        blocks = tuple(
            _block(frozen)
            for frozen in self._blocks.get_trials(deepcopy=False)
            if "instances" in frozen.user_attrs
        )
        losses = trial_losses(blocks, goals.first)
        second = trial_losses(blocks, goals.second) if goals.second else {}
        calibration = _maybe(attrs.get("calibration"), Calibration)
        effects = [found.effects for found in pooled_all(blocks, goals, calibration)]
        excess = {limit.text: trial_excess(blocks, limit) for limit in goals.limits}
        trials = tuple(
            replace(
                _trial(frozen, losses.get(frozen.number, {})),
                second=second.get(frozen.number, {}),
                excess={text: found.get(frozen.number, {}) for text, found in excess.items()},
                effects=tuple(found[frozen.number] for found in effects if frozen.number in found),
            )
            for frozen in self._search.get_trials(deepcopy=False)
            if "digest" in frozen.user_attrs
        )
        configurations = {
            key.removeprefix(_CONFIGURATION): msgspec.convert(value, ConfigurationRecord)
            for key, value in attrs.items()
            if key.startswith(_CONFIGURATION)
        }
        return Record(
            schema_version=attrs["schema_version"],
            name=header.name,
            definition=header.definition,
            tuner_version=header.tuner_version,
            command=header.command,
            generator=header.generator,
            host=header.host,
            server=header.server,
            cores=header.cores,
            notes=header.notes,
            started_unix_s=header.started_unix_s,
            ended_unix_s=attrs.get("ended_unix_s"),
            baseline=header.baseline,
            configurations=configurations,
            calibration=calibration,
            trials=trials,
            blocks=blocks,
            protocol=_maybe(attrs.get("protocol"), Protocol),
            importance=attrs.get("importance", {}),
            ablation=_maybe(attrs.get("ablation"), AblationProtocol),
            original=_maybe(attrs.get("original"), Original),
            instrument=header.instrument,
        )

    def importance(self) -> Mapping[str, float]:
        """Share of each parameter in the spread of the losses (PED-ANOVA, Watanabe 2023).

        Of the first objective. Empty where there are too few finished trials to say.
        """
        optuna = _optuna()
        several = len(self._search.directions) > 1
        target = (lambda trial: trial.values[0]) if several else None
        with warnings.catch_warnings():
            # Of too few trials Optuna warns, and calls all parameters equally important.
            warnings.simplefilter("error", UserWarning)
            try:
                found: Mapping[str, float] = optuna.importance.get_param_importances(
                    self._search, target=target
                )
            except (ValueError, RuntimeError, UserWarning):
                return {}
        return found


def list_names(url: Storage) -> list[str]:
    """Names of the studies in a storage."""
    names: list[str] = _optuna().get_all_study_names(_storage(url))
    return sorted(name for name in names if not name.endswith("/blocks"))


def _optuna() -> Any:
    """Optuna, imported late: it costs most of a second, which ``--help`` need not pay."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _no_sampler() -> Any:
    """The cheapest sampler: proposals are made in tuner.search, never by the record's studies."""
    return _optuna().samplers.RandomSampler()


def _storage(url: Storage) -> Any:
    optuna = _optuna()
    import sqlalchemy

    if not isinstance(url, str):
        return url
    try:
        return optuna.storages.RDBStorage(url)
    except (sqlalchemy.exc.SQLAlchemyError, ImportError, RuntimeError) as error:
        raise StoreError(f"the storage {_without_secret(url)} cannot be opened: {error}") from error


def _without_secret(url: str) -> str:
    import sqlalchemy

    try:
        return sqlalchemy.make_url(url).render_as_string(hide_password=True)
    except sqlalchemy.exc.ArgumentError:
        return "given by --storage"


def _contains(domain: BaseDistribution, value: Value) -> bool:
    try:
        return domain._contains(domain.to_internal_repr(value))  # noqa: SLF001 - no public way
    except ValueError:
        return False


def _maybe(value: object, kind: type[_T]) -> _T | None:
    return None if value is None else msgspec.convert(value, kind)


def _block(frozen: optuna.trial.FrozenTrial) -> Block:
    attrs = frozen.user_attrs
    windows = [msgspec.convert(v, Measurement) for k, v in attrs.items() if k.startswith(_WINDOW)]
    interrupted = frozen.state.is_finished() and "state" not in attrs
    windows.sort(key=lambda window: window.started_unix_s)
    started = attrs["started_unix_s"]
    # What was cut short ended with its last window: the time until it was taken up again was not
    # spent on the study.
    last = windows[-1].started_unix_s + windows[-1].duration_s if windows else started
    ended = attrs.get("ended_unix_s", last)
    state: BlockState = "failed" if interrupted else attrs.get("state", "running")
    return Block(
        number=frozen.number,
        phase=attrs["phase"],
        index=attrs["index"],
        seed=attrs["seed"],
        state=state,
        reason="interrupted" if interrupted else attrs.get("reason", ""),
        started_unix_s=started,
        ended_unix_s=ended,
        instances=tuple(msgspec.convert(i, BlockInstance) for i in attrs["instances"]),
        windows=tuple(windows),
    )


def _trial(frozen: optuna.trial.FrozenTrial, losses: Mapping[int, float]) -> Trial:
    attrs = frozen.user_attrs
    # A trial whose end was under way when the study was killed has not ended.
    ended = frozen.state.is_finished()
    return Trial(
        number=frozen.number,
        digest=attrs["digest"],
        origin=attrs["origin"],
        state=attrs["state"] if ended else "racing",
        losses=losses,
        message=attrs["message"] if ended else "",
    )
