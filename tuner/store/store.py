"""The study's record on an Optuna storage.

Two Optuna studies make one record. ``NAME`` is the search: its trials are the configurations,
their intermediate values the losses by block. ``NAME/blocks`` holds a trial for every block, with
one user attribute for every window, written as the window ends. The states of a block (RUNNING,
COMPLETE, FAIL) are Optuna's own. Only Optuna's public interface is used, so that SQLite, PostgreSQL
and the gRPC proxy all work, and optuna-dashboard opens the record directly.

``tuner.store.single_host`` writes for a single host, ``tuner.store.several_hosts`` for workers that
share a record.
"""

from __future__ import annotations

import contextlib
import gc
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tuner.errors import NameTakenError, StoreError, UnbegunError
from tuner.goals.goals import Goals, goals_of
from tuner.measurement.window import Measurement
from tuner.paths import record_file
from tuner.record.check import check_record, reading
from tuner.record.contenders import Contest
from tuner.record.model import (
    SCHEMA_VERSION,
    AblationProtocol,
    Applied,
    BlockInstance,
    BlockState,
    Calibration,
    ConfigurationRecord,
    Original,
    Phase,
    Protocol,
    Record,
    RecordSignatures,
    StudyHost,
    TrialOrigin,
    TrialState,
)
from tuner.record.small import small_of_search
from tuner.space.configuration import Configuration, Value
from tuner.store.decode import HOST, Header, SearchFigureCache, read_record
from tuner.store.host_part import CONFIGURATION, BlockEnd, BlockStart
from tuner.store.optuna_storage import import_optuna
from tuner.store.several_hosts import LEASE_S, Sharing, host_of
from tuner.store.single_host import SingleHostWriter
from tuner.store.storage import (
    Say,
    Storage,
    is_sqlite,
    no_message,
    open_storage,
    without_secret,
    writes,
)
from tuner.store.unbegun import VERSION, remove_unbegun

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

__all__ = ["Header", "Storage", "Store", "sqlite_url"]


def sqlite_url(folder: Path) -> str:
    """Return the default storage: a file in the study's own folder."""
    return f"sqlite:///{record_file(folder)}"


def _nothing_more(_: Store) -> None:
    """Write nothing."""


class Store:
    """A study's record, open for reading and writing.

    Args:
        storage: Optuna's storage.
        search: Optuna's study of the configurations.
        blocks: that of the blocks.
        clock: Unix time in seconds; source of all timestamps.
        where: name of an existing record, which is checked at its first reading; empty for a new
            one.
    """

    def __init__(
        self,
        storage: Any,
        search: optuna.Study,
        blocks: optuna.Study,
        clock: Callable[[], float] = time.time,
        *,
        where: str = "",
    ) -> None:
        self._storage = storage
        self._search = search
        self._blocks = blocks
        self._clock = clock
        self._unchecked = where
        self._cache = SearchFigureCache()
        self._searching: dict[int, Goals] = {}
        """Goals of the search by its blocks that are measured now."""
        self._alone = SingleHostWriter(storage, search, blocks)
        self._sharing = Sharing(storage, search, blocks, self._goals)

    def _goals(self) -> Goals:
        return goals_of(self._alone.attrs()["header"]["definition"])

    @property
    def _host(self) -> str:
        """Name of this worker's host; empty for a single host."""
        return self._sharing.host

    # --- several hosts ------------------------------------------------------------------------

    def join(
        self,
        host: StudyHost,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[], None] | None = None,
    ) -> None:
        """Measure on one of several hosts from here on; see ``Sharing.join``."""
        self._sharing.join(host, clock=clock, pause=pause)

    def pause(self) -> None:
        """Wait a while for the other hosts."""
        self._sharing.pause()

    def reap(self, *, look: bool = True) -> list[str]:
        """End blocks that other hosts abandoned; return what was done, in words.

        Args:
            look: at the storage as it is now; else as of the last ``record``.
        """
        return self._sharing.reap(look=look)

    def search_runs_elsewhere(self, *, look: bool = True) -> bool:
        """Return whether another host measures a block of the search; ``look`` as for ``reap``."""
        return self._sharing.search_runs_elsewhere(look=look)

    def orphans(self, record: Record) -> set[int]:
        """Return trials that were begun and that nobody measures, so that this host may."""
        return self._sharing.orphans(record)

    def choose(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Fix what is confirmed; of several hosts the first choice stands for all."""
        return self._sharing.choose(digests)

    def end_search(self) -> None:
        """Say to other hosts that the time of the search is over."""
        self._sharing.end_search()

    @property
    def _writer(self) -> SingleHostWriter | Sharing:
        """Writer of blocks."""
        return self._sharing if self._host else self._alone

    @classmethod
    @writes
    def create(
        cls,
        url: Storage,
        header: Header,
        clock: Callable[[], float] = time.time,
        say: Say = no_message,
        first: StudyHost | None = None,
        *,
        begin: Callable[[Store], None] = _nothing_more,
    ) -> Store:
        """Create a record.

        Args:
            url: URL of the storage.
            header: facts known at the start.
            clock: as for ``Store``.
            say: called with messages about retries.
            first: the first of several hosts; None for a single host.
            begin: writes what else the record needs to be resumed. A record that ends before it is
                as if it had not begun.

        Raises:
            NameTakenError: the storage has a study of this name.
            StoreError: the storage cannot be opened, or somebody removed the record meanwhile.
        """
        optuna = import_optuna()
        storage = open_storage(url, say)
        goals = goals_of(header.definition)
        if is_sqlite(url):
            # Only the study's own folder has such a file, and this command holds its lock.
            remove_unbegun(storage, header.name)
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
            raise NameTakenError(
                f"a study called {header.name!r} is already in {without_secret(url)}; resume"
                " it with --resume, or choose another --name"
            ) from error
        made = cls(storage, search, blocks, clock)
        try:
            name_losses(search, goals)
            _name_values(blocks, ["share of the block's time in measuring windows"])
            search.set_user_attr("header", msgspec.to_builtins(header))
            if first:
                made.join(first)
            begin(made)
            # Last, because it marks a complete start of the record.
            search.set_user_attr(VERSION, SCHEMA_VERSION)
        except KeyError as error:
            if header.name in optuna.get_all_study_names(storage):
                raise
            raise StoreError(
                f"{header.name!r} has been removed from {without_secret(url)} while it was being"
                " started; start the command again"
            ) from error
        return made

    @classmethod
    def open(
        cls,
        url: Storage,
        name: str,
        clock: Callable[[], float] = time.time,
        say: Say = no_message,
        *,
        writing: bool = True,
    ) -> Store:
        """Open an existing record from here or elsewhere.

        Args:
            url: URL of the storage.
            name: name of the study.
            clock: as for ``Store``.
            say: called with messages about retries.
            writing: False to create and change nothing in the storage.

        Raises:
            UnbegunError: its command ended before the start was complete.
            StoreError: the record does not exist, has another schema, or is damaged.
        """
        optuna = import_optuna()
        storage = open_storage(url, say, writing=writing)
        where = f"{name!r} in {without_secret(url)}"
        with reading(where):
            try:
                search = optuna.load_study(storage=storage, study_name=name, sampler=_no_sampler())
            except KeyError as error:
                raise StoreError(f"no study called {where}; see 'tuner studies'") from error
            found = search.user_attrs.get(VERSION)
            if found is None:
                raise UnbegunError(
                    f"{where} was interrupted before its start, so there is nothing to resume;"
                    " begin it again"
                )
            blocks = optuna.load_study(
                storage=storage, study_name=f"{name}/blocks", sampler=_no_sampler()
            )
            if found != SCHEMA_VERSION:
                raise StoreError(
                    f"{where} has record schema {found!r:.20}, this tuner reads {SCHEMA_VERSION};"
                    " use the tuner version that wrote it"
                )
            return cls(storage, search, blocks, clock, where=where)

    # --- what is written once ---------------------------------------------------------------

    @writes
    def add_configuration(
        self, configuration: ConfigurationRecord, *, proposed: bool = False
    ) -> None:
        """Store a configuration's values and text once.

        Args:
            configuration: the configuration with its text.
            proposed: whether a search proposed it. With several hosts its first block stores it,
                because every worker reads all attributes of the study.
        """
        if self._host and proposed:
            self._sharing.add_text(configuration)
            return
        self._alone.keep(CONFIGURATION + configuration.digest, msgspec.to_builtins(configuration))

    @writes
    def set_calibration(self, calibration: Calibration) -> None:
        """Store the calibration of the baseline."""
        self._keep("calibration", msgspec.to_builtins(calibration))

    @writes
    def set_code(self, code: Mapping[str, str]) -> None:
        """Store the SHA-256 of the servers' programs and libraries, by path."""
        self._keep("code", dict(code))

    def _keep(self, key: str, value: object) -> None:
        """Store an attribute of this host."""
        if self._host:
            self._sharing.own.keep(key, value)
        else:
            self._alone.keep(key, value)

    @writes
    def set_protocol(self, protocol: Protocol) -> None:
        """Freeze the confirmation.

        Raises:
            StoreError: another protocol is frozen already; it is never replaced.
        """
        attrs = self._sharing.own.attrs if self._host else self._alone.attrs()
        frozen = attrs.get("protocol")
        if frozen is not None and frozen["digest"] != protocol.digest:
            raise StoreError("the confirmation's protocol is frozen already and cannot be replaced")
        self._keep("protocol", msgspec.to_builtins(protocol))

    @writes
    def set_ablation(self, ablation: AblationProtocol) -> None:
        """Freeze the ablation; it is never replaced."""
        self._alone.keep("ablation", msgspec.to_builtins(ablation))

    @writes
    def set_original(self, original: Original) -> None:
        """Store the confirmation that this study repeats."""
        self._alone.keep("original", msgspec.to_builtins(original))

    @writes
    def set_contest(self, contest: Contest) -> None:
        """Store the plan of a contest, before its first block."""
        self._alone.keep("contest", msgspec.to_builtins(contest))

    @writes
    def add_applied(self, applied: Applied) -> None:
        """Store the changes of a host."""
        # Another command may have added to it.
        so_far = self._search.user_attrs.get("applied", [])
        self._alone.keep("applied", [*so_far, msgspec.to_builtins(applied)])

    @writes
    def set_signed(self, signed: RecordSignatures) -> None:
        """Store the signatures of the record."""
        self._alone.keep("signed", msgspec.to_builtins(signed))

    @writes
    def set_importance(self, importance: Mapping[str, float]) -> None:
        """Store the importance of the parameters."""
        self._alone.keep("importance", dict(importance))

    @writes
    def set_ended(self) -> None:
        """Mark the study as finished."""
        self._keep("ended_unix_s", self._clock())

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
        """Begin a block; return its number.

        Args:
            lease_s: time without a window after which others may take over.

        Raises:
            ClaimedError: another worker claimed one of its trials first.
            StoreError: another worker took this host over.
        """
        self._sharing.check_worker()
        number = self._writer.open_block(
            BlockStart(
                phase=phase,
                index=index,
                seed=seed,
                started_unix_s=self._clock(),
                host=self._host,
                lease_s=lease_s,
                instances=tuple(instances),
                trials=(),
                mark=uuid.uuid4().hex,
            )
        )
        if phase == "search":
            self._searching[number] = self._goals()
        return number

    @writes
    def add_window(self, block: int, window: Measurement) -> None:
        """Store a window as soon as it ends, of a search only the parts that a report needs.

        Raises:
            LeaseLostError: another worker took over the block and ended it.
        """
        if (goals := self._searching.get(block)) is not None:
            window = small_of_search(window, goals)
        self._writer.add_window(block, window)

    @writes
    def close_block(
        self,
        block: int,
        state: BlockState,
        reason: str,
        instances: Sequence[BlockInstance],
        measured_share: float,
    ) -> None:
        """End a block; an incomplete one keeps its windows and its reason.

        Raises:
            LeaseLostError: as ``add_window``.
        """
        ended = BlockEnd(state, reason, measured_share, self._clock(), tuple(instances))
        self._writer.close_block(block, ended)
        self._searching.pop(block, None)

    # --- trials -----------------------------------------------------------------------------

    @writes
    def open_trial(
        self,
        configuration: Configuration,
        origin: TrialOrigin,
        parameters: Mapping[str, Value],
        distributions: Mapping[str, BaseDistribution],
    ) -> int:
        """Begin a trial of a configuration; return its number.

        With several hosts the first block of the trial writes it, and the configuration determines
        the number: see ``tuner.store.host_part``.

        Args:
            configuration: configuration of the trial.
            origin: source of the proposal.
            parameters: values by Optuna's dimension.
            distributions: their domains; values outside are left out.
        """
        if self._host:
            return self._sharing.open_trial(configuration, origin)
        return self._alone.open_trial(configuration, origin, parameters, distributions)

    @writes
    def report_loss(self, trial: int, block: int, loss: float) -> None:
        """Show a trial's loss in a block to Optuna's tools; the record itself is the windows."""
        # With several hosts the blocks have all losses.
        if not self._host:
            self._alone.report_loss(trial, block, loss)

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
        """End a trial with the mean of its losses; an ended trial stays unchanged.

        With several hosts nothing is written, because the state follows from the blocks. An
        infeasible trial is stored with a violated constraint, for every sampler.

        Args:
            number: number of the trial.
            state: final state.
            losses: losses by block number.
            message: reason of the state.
            second: losses of the second objective, if there is one.
            excess: excess over each limit, also stored as constraints.
        """
        if not self._host:
            self._alone.close_trial(number, state, losses, message, second=second, excess=excess)

    # --- recovery and reading ---------------------------------------------------------------

    def recover(self) -> list[str]:
        """End orphaned blocks after a crash or an interruption, and resume their trials.

        All finished windows are kept, and racing trials continue. With several hosts only the
        blocks of this one end, because the others may be running.

        Returns:
            Descriptions of the actions.
        """
        mine = [f for f in self._sharing.running() if host_of(f) == self._host]
        done = [(f.attrs.get("state"), self._sharing.abandon(f)) for f in mine]
        # A block without only its last write is complete.
        return [words for state, words in done if state != "complete"]

    def record(self) -> Record:
        """Return the record as plain data, for this worker's host if it has joined.

        Once this store has begun a block, finished blocks of the search have figures and no
        windows; `record_for_report` has both.

        Raises:
            StoreError: the record is damaged, or of another version.
        """
        with reading(self._unchecked or self._name), _garbage_kept():
            record = self._read()
            if self._unchecked:
                check_record(record)
                self._unchecked = ""
            return record

    def record_for_report(self) -> Record:
        """Return the record with all windows of a single host, as a report needs it.

        Raises:
            StoreError: as ``record``.
        """
        return self.record() if self._host else self.for_readers().record()

    def for_readers(self) -> Store:
        """Return the same record as a reader sees it: of all hosts, as no particular one.

        Raises:
            StoreError: the storage cannot be read.
        """
        with reading(self._name):
            return Store(self._storage, self._search, self._blocks, self._clock)

    @property
    def _name(self) -> str:
        """Name of the record, for messages."""
        return f"the record of {self._search.study_name!r}"

    def _read(self) -> Record:
        attrs = self._alone.attrs()
        names = [key.removeprefix(HOST) for key in attrs if key.startswith(HOST)]
        blocks = self._alone.blocks(self._sharing.look)
        if names:
            read = [self._host] if self._host else names
            return self._sharing.record(attrs, read, blocks, self._cache)
        trials = self._alone.trials()
        return read_record(attrs, trials, blocks, "", {}, cache=self._cache)

    def importance(
        self, trials: Callable[[], Sequence[optuna.trial.FrozenTrial]]
    ) -> Mapping[str, float]:
        """Return the share of each parameter in the spread of losses (PED-ANOVA, Watanabe 2023).

        It is for the first objective, and empty with too few finished trials.

        Args:
            trials: called where several hosts measure: their trials are not stored, and follow from
                their blocks.
        """
        optuna = import_optuna()
        study = self._search
        if self._host:
            study = optuna.create_study(directions=self._search.directions)
            study.add_trials(trials())
        several = len(study.directions) > 1
        target = (lambda trial: trial.values[0]) if several else None
        with warnings.catch_warnings():
            # With too few trials Optuna warns and returns equal importances.
            warnings.simplefilter("error", UserWarning)
            try:
                found: Mapping[str, float] = optuna.importance.get_param_importances(
                    study, target=target
                )
            except (ValueError, RuntimeError, UserWarning):
                return {}
        return found


@contextlib.contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no garbage while a record is read.

    A long record is millions of objects, and none of them is garbage. Python looks for it each time
    that they have grown by a quarter, which took half of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def name_losses(search: optuna.Study, goals: Goals) -> None:
    """Set the names of the objectives' values in an Optuna study."""
    _name_values(
        search, [f"ln({o.text} / baseline's), smaller is better" for o in goals.objectives]
    )


def _name_values(study: optuna.Study, names: Sequence[str]) -> None:
    with warnings.catch_warnings():
        # Experimental since 3.2; without it dashboards show "objective 0".
        warnings.simplefilter("ignore", import_optuna().exceptions.ExperimentalWarning)
        study.set_metric_names(list(names))


def _no_sampler() -> Any:
    """Return the cheapest sampler; tuner.search makes proposals, not the record's studies."""
    return import_optuna().samplers.RandomSampler()
