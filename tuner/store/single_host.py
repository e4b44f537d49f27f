"""Writer of a record for a single host; for several: ``tuner.store.several_hosts``.

A trial of ``NAME`` is a configuration with its losses; a trial of ``NAME/blocks`` is a block with
its windows as attributes.

The record is read several times a block. A host that measures alone is the record's only writer, by
the lock of its folder, so once it has begun a block it keeps what it has read: otherwise the trials
that race and the texts of all configurations would be read each time, and the time of a study would
grow with the square of its trials. Of a finished block of the search it keeps the figures, and its
windows stay in the storage: a search needs no more, and a long one has a hundred thousand.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from tuner.goals.goals import goals_of
from tuner.judge.scoring import figures_of, mean_loss
from tuner.measurement.window import Measurement
from tuner.record.model import Block, Trial, TrialOrigin, TrialState
from tuner.space.configuration import Configuration, Value
from tuner.store.attributes import StoredTrial
from tuner.store.decode import read_block, read_trials
from tuner.store.host_part import WINDOW, BlockEnd, BlockStart
from tuner.store.optuna_storage import StudyTrials, contains, unless_ended

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

VALID_CONSTRAINT = "accepted by the server"
"""Name of the constraint that marks infeasible trials for samplers and dashboards."""


class SingleHostWriter:
    """The writer of a single host, with its open trials.

    Args:
        storage: Optuna's.
        search: Optuna's study of the configurations.
        blocks: that of the blocks.
    """

    def __init__(self, storage: Any, search: optuna.Study, blocks: optuna.Study) -> None:
        self._search = search
        self._blocks = blocks
        self._stored_search = StudyTrials(storage, search.study_name)
        self._stored_blocks = StudyTrials(storage, blocks.study_name)
        self._search_trials: dict[int, optuna.Trial] = {}
        self._block_trials: dict[int, optuna.Trial] = {}
        self._finished: dict[int, Block] = {}
        self._numbers: list[int] | None = None
        """Numbers of all blocks once it measures; until then another process may begin one."""
        self._attrs: dict[str, Any] | None = None
        self._trials: dict[int, Trial] | None = None

    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the search, which are not to be changed."""
        if self._numbers is None:
            return self._search.user_attrs
        if self._attrs is None:
            self._attrs = self._search.user_attrs
        return self._attrs

    def keep(self, key: str, value: object) -> None:
        """Set an attribute of the search."""
        self._search.set_user_attr(key, value)
        if self._attrs is not None:
            # As it is read: JSON has no tuples.
            self._attrs[key] = json.loads(json.dumps(value))

    def trials(self) -> list[Trial]:
        """Return the trials without their figures, in order."""
        if self._trials is None:
            read = read_trials(self._stored_search.all())
            if self._numbers is None:
                return read
            self._trials = {trial.number: trial for trial in read}
        return list(self._trials.values())

    def _changed(self, number: int) -> None:
        """Read a trial again that was written to."""
        if self._trials is not None:
            for trial in read_trials([self._stored_search.one(number)]):
                self._trials[number] = trial

    def open_block(self, begun: BlockStart) -> int:
        """Begin a block; return its number."""
        if self._numbers is None:
            self._numbers = [stored.number for stored in self._stored_blocks.all()]
        trial_id = self._stored_blocks.create(
            {
                "phase": begun.phase,
                "index": begun.index,
                "seed": begun.seed,
                "started_unix_s": begun.started_unix_s,
                "instances": msgspec.to_builtins(begun.instances),
            }
        )
        number = _opened(self._blocks, trial_id, self._block_trials)
        self._numbers.append(number)
        return number

    def add_window(self, block: int, window: Measurement) -> None:
        """Store a window."""
        self._block_trials[block].set_user_attr(
            WINDOW + window.window_id, msgspec.to_builtins(window)
        )

    def close_block(self, block: int, ended: BlockEnd) -> None:
        """End a block."""
        import optuna

        trial = self._block_trials.pop(block)
        trial.set_user_attr("instances", msgspec.to_builtins(ended.instances))
        trial.set_user_attr("reason", ended.reason)
        trial.set_user_attr("measured_share", ended.measured_share)
        trial.set_user_attr("ended_unix_s", ended.ended_unix_s)
        trial.set_user_attr("state", ended.state)
        with unless_ended():
            if ended.state == "complete":
                self._blocks.tell(block, ended.measured_share, skip_if_finished=True)
            else:
                failed = optuna.trial.TrialState.FAIL
                self._blocks.tell(block, state=failed, skip_if_finished=True)

    def open_trial(
        self,
        configuration: Configuration,
        origin: TrialOrigin,
        parameters: Mapping[str, Value],
        distributions: Mapping[str, BaseDistribution],
    ) -> int:
        """Begin a trial without dimensions outside their domain; return its number."""
        inside = {
            name: domain
            for name, domain in distributions.items()
            if name in parameters and contains(domain, parameters[name])
        }
        trial_id = self._stored_search.create(
            {
                "digest": configuration.digest,
                "origin": origin,
                "configuration": configuration.values,
            },
            params={name: parameters[name] for name in inside},
            distributions=inside,
        )
        number = _opened(self._search, trial_id, self._search_trials)
        self._changed(number)
        return number

    def report_loss(self, trial: int, block: int, loss: float) -> None:
        """Show a trial's loss in a block to Optuna's tools."""
        # Optuna accepts intermediate values only for one objective.
        if len(self._search.directions) == 1:
            with unless_ended():
                self._racing(trial).report(loss, step=block)

    def close_trial(
        self,
        number: int,
        state: TrialState,
        losses: Mapping[int, float],
        message: str,
        *,
        second: Mapping[int, float] | None,
        excess: Mapping[str, float] | None,
    ) -> None:
        """End a trial with the mean of its losses; see ``Store.close_trial``."""
        import optuna

        infeasible = state == "infeasible"
        constraints = {**(excess or {}), VALID_CONSTRAINT: 1.0 if infeasible else -1.0}
        with unless_ended():
            trial = self._racing(number)
            trial.set_user_attr("state", state)
            trial.set_user_attr("message", message)
            # Some exist already if the study was killed between this write and the next.
            # Optuna warns about those that another worker has just written.
            with contextlib.suppress(UserWarning):
                for name in constraints.keys() - trial.constraints.keys():
                    trial.set_constraint(name, constraints[name])
            values = [mean_loss(losses)] + ([] if second is None else [mean_loss(second)])
            if all(map(math.isfinite, values)) and not infeasible:
                self._search.tell(number, values, skip_if_finished=True)
            else:
                pruned = optuna.trial.TrialState.PRUNED
                self._search.tell(number, state=pruned, skip_if_finished=True)
        self._search_trials.pop(number, None)
        self._changed(number)

    def blocks(self, look: Callable[[], Sequence[StoredTrial]]) -> list[Block]:
        """Return the blocks as plain data; finished ones never change and are read once.

        Args:
            look: reads all blocks from the storage, while another process may begin one.
        """
        if self._numbers is None:
            found = {stored.number: self._read(stored) for stored in look()}
        else:
            found = {number: self._kept(number) for number in self._numbers}
        return [block for block in found.values() if block]

    def _kept(self, number: int) -> Block | None:
        """Return a block while this host measures, of the search without its windows."""
        block = self._finished.get(number) or self._read(self._stored_blocks.one(number))
        if number in self._finished and block and block.phase == "search" and block.windows:
            goals = goals_of(self.attrs()["header"]["definition"])
            figures = figures_of(block, goals.objectives, goals.limits)
            block = self._finished[number] = replace(block, figures=figures, windows=())
        return block

    def _read(self, stored: StoredTrial) -> Block | None:
        """Return a block of a single host, and keep it if it has ended."""
        if "instances" not in stored.attrs:
            return None
        block = self._finished.get(stored.number) or read_block(stored)
        if stored.finished:
            self._finished[stored.number] = block
        return block

    def _racing(self, number: int) -> optuna.Trial:
        """Return a trial for writing, which an earlier process may have begun."""
        import optuna

        if number not in self._search_trials:
            trial_id = self._stored_search.id_of(number)
            self._search_trials[number] = optuna.Trial(self._search, trial_id)
        return self._search_trials[number]


def _opened(study: optuna.Study, trial_id: int, kept: dict[int, optuna.Trial]) -> int:
    """Keep a trial that was begun to be written to; return its number."""
    import optuna

    trial = optuna.Trial(study, trial_id)
    kept[trial.number] = trial
    return trial.number
