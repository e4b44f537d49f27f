"""The study's record on an Optuna storage.

Two Optuna studies make one record. ``NAME`` is the search: its trials are the configurations,
their intermediate values the losses by block. ``NAME/blocks`` holds a trial for every block, with
one user attribute for every window, written as the window ends; the life of a block (RUNNING,
COMPLETE, FAIL) is Optuna's own. Only Optuna's public interface is used, so that SQLite,
PostgreSQL and the gRPC proxy all serve, and optuna-dashboard opens the record as it is.

Several workers may write one record: see ``tuner.sharing``.
"""

from __future__ import annotations

import contextlib
import math
import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tuner.configuration import Configuration, Value
from tuner.contenders import Contest
from tuner.errors import ClaimedError, StoreError
from tuner.goals import goals_of
from tuner.measurement import Measurement
from tuner.record import (
    SCHEMA_VERSION,
    AblationProtocol,
    Applied,
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
    StudyHost,
    TrialState,
)
from tuner.scoring import mean_loss
from tuner.sharing import LEASE_S, Sharing, unless_ended
from tuner.storage import Say, Storage, no_words, open_storage, without_secret, writes
from tuner.stored import CONFIGURATION, WINDOW, WITHDRAWN, Header, at, read_block, read_record

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

__all__ = ["Header", "Storage", "Store", "list_names", "sqlite_url"]

_VALID_CONSTRAINT = "accepted by the server"


def sqlite_url(folder: Path) -> str:
    """The default storage: a file in the study's own folder."""
    return f"sqlite:///{folder / 'record.db'}"


class Store:
    """One study's record, open for reading and writing.

    Args:
        storage: where it is.
        search: Optuna's study of the configurations.
        blocks: that of the blocks.
        clock: Unix time in seconds; what happened when is told by it.
    """

    def __init__(
        self,
        storage: Any,
        search: optuna.Study,
        blocks: optuna.Study,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._storage = storage
        self._search = search
        self._blocks = blocks
        self._search_id = storage.get_study_id_from_name(search.study_name)
        self._blocks_id = storage.get_study_id_from_name(blocks.study_name)
        self._clock = clock
        self._search_trials: dict[int, optuna.Trial] = {}
        self._block_trials: dict[int, optuna.Trial] = {}
        self._finished: dict[int, Block] = {}
        self.sharing = Sharing(search, blocks)
        """What is known of other workers on this record."""

    @property
    def host(self) -> str:
        """Name of the host whose worker this is; empty where one host measures alone."""
        return self.sharing.host

    @classmethod
    @writes
    def create(
        cls,
        url: Storage,
        header: Header,
        clock: Callable[[], float] = time.time,
        say: Say = no_words,
        first: StudyHost | None = None,
    ) -> Store:
        """Begin a record.

        Args:
            url: of the storage.
            header: what is known by now.
            clock: as for ``Store``.
            say: told when the storage does not answer and is asked again.
            first: the first of several hosts that share it; None if there is one only.

        Raises:
            StoreError: the name is taken in this storage, or the storage cannot be opened.
        """
        optuna = _optuna()
        storage = open_storage(url, say)
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
                f"a study called {header.name!r} is already in {without_secret(url)}; go on with"
                " it by --resume, or choose another --name"
            ) from error
        with warnings.catch_warnings():
            # Experimental since 3.2; without it, dashboards would show "objective 0".
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            search.set_metric_names(
                [f"ln({o.text} / baseline's), smaller is better" for o in goals.objectives]
            )
            blocks.set_metric_names(["share of the block's time in measuring windows"])
        search.set_user_attr("header", msgspec.to_builtins(header))
        made = cls(storage, search, blocks, clock)
        if first:
            made.sharing.join(first)
        # Last: a record without it was cut short before it began.
        search.set_user_attr("schema_version", SCHEMA_VERSION)
        return made

    @classmethod
    def open(
        cls,
        url: Storage,
        name: str,
        clock: Callable[[], float] = time.time,
        say: Say = no_words,
    ) -> Store:
        """Open an existing record.

        Raises:
            StoreError: there is none of that name, or its schema is not this version's.
        """
        optuna = _optuna()
        storage = open_storage(url, say)
        where = without_secret(url)
        try:
            search = optuna.load_study(storage=storage, study_name=name, sampler=_no_sampler())
        except KeyError as error:
            raise StoreError(f"no study called {name!r} in {where}; see 'tuner studies'") from error
        found = search.user_attrs.get("schema_version")
        if found is None:
            raise StoreError(
                f"{name!r} in {where} was cut short before it began: there is nothing to go on"
                " with; remove it, or choose another --name"
            )
        blocks = optuna.load_study(
            storage=storage, study_name=f"{name}/blocks", sampler=_no_sampler()
        )
        if found != SCHEMA_VERSION:
            raise StoreError(
                f"{name!r} has record schema {found}, this tuner reads {SCHEMA_VERSION};"
                " use the tuner version that wrote it"
            )
        return cls(storage, search, blocks, clock)

    # --- what is written once ---------------------------------------------------------------

    @writes
    def add_configuration(self, configuration: ConfigurationRecord) -> None:
        """Keep a configuration's values and text, once."""
        self._search.set_user_attr(
            CONFIGURATION + configuration.digest, msgspec.to_builtins(configuration)
        )

    @writes
    def set_calibration(self, calibration: Calibration) -> None:
        """Keep what was learnt of the baseline."""
        self._search.set_user_attr(at("calibration", self.host), msgspec.to_builtins(calibration))

    @writes
    def set_protocol(self, protocol: Protocol) -> None:
        """Freeze the confirmation.

        Raises:
            StoreError: another protocol is frozen already; it is never replaced.
        """
        key = at("protocol", self.host)
        frozen = self._search.user_attrs.get(key)
        if frozen is not None and frozen["digest"] != protocol.digest:
            raise StoreError("the confirmation's protocol is frozen already and cannot be replaced")
        self._search.set_user_attr(key, msgspec.to_builtins(protocol))

    @writes
    def set_ablation(self, ablation: AblationProtocol) -> None:
        """Freeze the ablation; it is never replaced."""
        self._search.set_user_attr("ablation", msgspec.to_builtins(ablation))

    @writes
    def set_original(self, original: Original) -> None:
        """Keep the confirmation that this study repeats."""
        self._search.set_user_attr("original", msgspec.to_builtins(original))

    @writes
    def set_contest(self, contest: Contest) -> None:
        """Keep what a contest is planned to be, before its first block."""
        self._search.set_user_attr("contest", msgspec.to_builtins(contest))

    @writes
    def add_applied(self, applied: Applied) -> None:
        """Keep what was changed on a host."""
        so_far = self._search.user_attrs.get("applied", [])
        self._search.set_user_attr("applied", [*so_far, msgspec.to_builtins(applied)])

    @writes
    def set_importance(self, importance: Mapping[str, float]) -> None:
        """Keep the parameters' importance."""
        self._search.set_user_attr("importance", dict(importance))

    @writes
    def set_ended(self) -> None:
        """Say that the study came to its end."""
        self._search.set_user_attr(at("ended_unix_s", self.host), self._clock())

    # --- blocks -----------------------------------------------------------------------------

    @writes
    def open_block(
        self,
        phase: Phase,
        index: int,
        seed: int,
        instances: Sequence[BlockInstance],
        *,
        lease_s: float = LEASE_S,
    ) -> int:
        """Begin a block; its number.

        Args:
            lease_s: for so long it may go without a window before others take it for abandoned.

        Raises:
            ClaimedError: another worker began to measure one of its trials first.
            StoreError: another worker took this host over.
        """
        self.sharing.check_worker()
        number = self._create(
            self._blocks,
            self._blocks_id,
            self._block_trials,
            attrs={
                "phase": phase,
                "index": index,
                "seed": seed,
                "started_unix_s": self._clock(),
                "instances": msgspec.to_builtins(tuple(instances)),
                **({"host": self.host, "lease_s": lease_s} if self.host else {}),
            },
        )
        trials = {i.trial for i in instances if i.trial is not None}
        if self.sharing.contested(number, trials):
            self._block_trials[number].set_user_attr(WITHDRAWN, value=True)
            self._drop(self._blocks, self._block_trials, number)
            raise ClaimedError(f"block {number}: another worker measures one of its trials")
        return number

    @writes
    def add_window(self, block: int, window: Measurement) -> None:
        """Keep one window, as soon as it has ended.

        Raises:
            LeaseLostError: the block was taken for abandoned and ended by another worker.
        """
        self._block_trials[block].set_user_attr(
            WINDOW + window.window_id, msgspec.to_builtins(window)
        )

    @writes
    def close_block(
        self,
        block: int,
        state: BlockState,
        reason: str,
        instances: Sequence[BlockInstance],
        measured_share: float,
    ) -> None:
        """End a block. Whatever is not ``complete`` keeps its windows and its reason.

        Raises:
            LeaseLostError: as ``add_window``.
        """
        states = _optuna().trial.TrialState
        trial = self._block_trials.pop(block)
        trial.set_user_attr("instances", msgspec.to_builtins(tuple(instances)))
        trial.set_user_attr("reason", reason)
        trial.set_user_attr("measured_share", measured_share)
        trial.set_user_attr("ended_unix_s", self._clock())
        trial.set_user_attr("state", state)
        with unless_ended():
            if state == "complete":
                self._blocks.tell(block, measured_share, skip_if_finished=True)
            else:
                self._blocks.tell(block, state=states.FAIL, skip_if_finished=True)

    # --- trials -----------------------------------------------------------------------------

    @writes
    def open_trial(
        self,
        configuration: Configuration,
        origin: Origin,
        parameters: Mapping[str, Value],
        distributions: Mapping[str, BaseDistribution],
    ) -> int:
        """Begin a trial with a configuration that was chosen elsewhere; its number.

        If another worker began one with this configuration at the same time, the number of that.

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
        number = self._create(
            self._search,
            self._search_id,
            self._search_trials,
            attrs={
                "digest": configuration.digest,
                "origin": origin,
                "configuration": configuration.values,
                **({"host": self.host} if self.host else {}),
            },
            params={name: parameters[name] for name in inside},
            distributions=inside,
        )
        if not self.host:
            return number
        first = min(
            frozen.number
            for frozen in self._search.get_trials(deepcopy=False)
            if frozen.user_attrs.get("digest") == configuration.digest
        )
        if first != number:
            self._drop(self._search, self._search_trials, number)
        return first

    @writes
    def report_loss(self, trial: int, block: int, loss: float) -> None:
        """Show a trial's loss in a block to Optuna's tools; the record itself is the windows."""
        # Optuna takes intermediate values of one objective only.
        if len(self._search.directions) == 1:
            with unless_ended():
                self._racing(trial).report(loss, step=block)

    @writes
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
        """End a trial with the mean of its losses; one that has ended stays as it is.

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
        infeasible = state == "infeasible"
        told = {**(excess or {}), _VALID_CONSTRAINT: 1.0 if infeasible else -1.0}
        with unless_ended():
            trial = self._racing(number)
            trial.set_user_attr("state", state)
            trial.set_user_attr("message", message)
            # Some are there already if the study was killed between this write and the next.
            # Those that another worker has just told are warned of, and are there.
            with contextlib.suppress(UserWarning):
                for name in told.keys() - trial.constraints.keys():
                    trial.set_constraint(name, told[name])
            values = [mean_loss(losses)] + ([] if second is None else [mean_loss(second)])
            if all(map(math.isfinite, values)) and not infeasible:
                self._search.tell(number, values, skip_if_finished=True)
            else:
                self._search.tell(number, state=states.PRUNED, skip_if_finished=True)
        self._search_trials.pop(number, None)

    def _racing(self, number: int) -> optuna.Trial:
        """A trial to be written to; another worker may have begun it."""
        if number not in self._search_trials:
            trial_id = self._storage.get_trial_id_from_study_id_trial_number(
                self._search_id, number
            )
            self._search_trials[number] = _optuna().Trial(self._search, trial_id)
        return self._search_trials[number]

    def _create(
        self,
        study: optuna.Study,
        study_id: int,
        kept: dict[int, optuna.Trial],
        *,
        attrs: Mapping[str, Any],
        params: Mapping[str, Value] | None = None,
        distributions: Mapping[str, BaseDistribution] | None = None,
    ) -> int:
        """Begin a trial of either study in one write: a crash leaves the whole of it or nothing.

        It carries a mark, because a write whose answer was lost is made again: of trials of one
        mark the first counts.
        """
        optuna = _optuna()
        mark = uuid.uuid4().hex
        template = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING,
            params=dict(params or {}),
            distributions=dict(distributions or {}),
            user_attrs={**attrs, "mark": mark},
        )
        trial_id = self._storage.create_new_trial(study_id, template)
        number: int = self._storage.get_trial(trial_id).number
        kept[number] = optuna.Trial(study, trial_id)
        if self.host:
            states = (optuna.trial.TrialState.RUNNING,)
            for frozen in study.get_trials(deepcopy=False, states=states):
                if frozen.user_attrs.get("mark") == mark and frozen.number != number:
                    self._drop(study, {}, frozen.number)
        return number

    def _drop(self, study: optuna.Study, kept: dict[int, optuna.Trial], number: int) -> None:
        """End a trial that is there twice."""
        kept.pop(number, None)
        with unless_ended():
            study.tell(number, state=_optuna().trial.TrialState.FAIL, skip_if_finished=True)

    # --- recovery and reading ---------------------------------------------------------------

    def recover(self) -> list[str]:
        """After a crash or an interruption: end orphaned blocks, take orphaned trials up again.

        Every window that had ended is kept. A trial that was racing goes on racing. Of several
        hosts only the blocks of this one are ended: the others may be running.

        Returns:
            What was done, in words.
        """
        mine = [f for f in self.sharing.running() if f.user_attrs.get("host", "") == self.host]
        done = [(f.user_attrs.get("state"), self.sharing.abandon(f)) for f in mine]
        # One that was complete but for its last write lost nothing.
        return [words for state, words in done if state != "complete"]

    def record(self) -> Record:
        """The whole record as plain data; as this host sees it once it has joined.

        Raises:
            StoreError: it is damaged, or was written by another version.
        """
        try:
            return read_record(
                self._search.user_attrs,
                self._search.get_trials(deepcopy=False),
                self._read_blocks(),
                self.host,
            )
        except (msgspec.ValidationError, KeyError) as error:
            raise StoreError(
                f"the record of {self._search.study_name!r} is damaged, or of another version of"
                f" tuner: {error}"
            ) from error

    def _read_blocks(self) -> list[Block]:
        """All blocks; one that has ended never changes, so it is read once."""
        blocks = []
        for frozen in self._blocks.get_trials(deepcopy=False):
            attrs = frozen.user_attrs
            if "instances" not in attrs or WITHDRAWN in attrs:
                continue
            block = self._finished.get(frozen.number) or read_block(frozen)
            if frozen.state.is_finished():
                self._finished[frozen.number] = block
            blocks.append(block)
        return blocks

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
    names: list[str] = _optuna().get_all_study_names(open_storage(url))
    return sorted(name for name in names if not name.endswith("/blocks"))


def _optuna() -> Any:
    """Optuna, imported late: it costs most of a second, which ``--help`` need not pay."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _no_sampler() -> Any:
    """The cheapest sampler: proposals are made in tuner.search, never by the record's studies."""
    return _optuna().samplers.RandomSampler()


def _contains(domain: BaseDistribution, value: Value) -> bool:
    try:
        return domain._contains(domain.to_internal_repr(value))  # noqa: SLF001 - no public way
    except ValueError:
        return False
