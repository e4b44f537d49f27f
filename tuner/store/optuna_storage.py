"""The one place that calls methods of Optuna's storages, which are not meant for users.

``optuna.Study`` begins a trial by asking a sampler, with a write for each attribute. It adds a
trial without returning its number (``Study.add_trial``), and cannot continue a running trial of
another process. A record needs a trial that is whole after one write, its number, and trials that
another process began. ``optuna.storages.BaseStorage`` has all three. Every storage implements it,
the gRPC proxy too, and ``tests/store`` runs against each, so an upgrade that changes one shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.space.configuration import Value
from tuner.store.attributes import StoredTrial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

EndState = Literal["complete", "failed"]


class StudyTrials:
    """The attributes and running trials of one Optuna study, below ``optuna.Study``.

    Args:
        storage: Optuna's.
        name: of the study.
        begin: whether the study is begun if it is not there.

    Raises:
        KeyError: the storage has no study of that name.
    """

    def __init__(self, storage: Any, name: str, *, begin: bool = False) -> None:
        import optuna

        self._storage = storage
        try:
            self._study: int = storage.get_study_id_from_name(name)
        except KeyError:
            if not begin:
                raise
            # Another worker may begin it at the same moment.
            with contextlib.suppress(optuna.exceptions.DuplicatedStudyError):
                storage.create_new_study([optuna.study.StudyDirection.MAXIMIZE], name)
            self._study = storage.get_study_id_from_name(name)

    @property
    def id(self) -> int:
        """Id of the study; one that is begun later under its name has another id."""
        return self._study

    def remove(self) -> None:
        """Remove the study, unless it is removed already."""
        with contextlib.suppress(KeyError):
            self._storage.delete_study(self._study)

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the study."""
        found: dict[str, Any] = self._storage.get_study_user_attrs(self._study)
        return found

    def keep(self, key: str, value: object) -> None:
        """Set an attribute of the study."""
        self._storage.set_study_user_attr(self._study, key, value)

    def create(
        self,
        attrs: Mapping[str, Any],
        params: Mapping[str, Value] | None = None,
        distributions: Mapping[str, BaseDistribution] | None = None,
    ) -> int:
        """Begin a trial in one write, so that a crash leaves the whole of it or nothing.

        Returns:
            Its id in the storage, of which ``optuna.Trial`` is made.
        """
        import optuna

        template = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING,
            params=dict(params or {}),
            distributions=dict(distributions or {}),
            user_attrs=dict(attrs),
        )
        made: int = self._storage.create_new_trial(self._study, template)
        return made

    def id_of(self, number: int) -> int:
        """Return the id of a trial, which any process may have begun."""
        found: int = self._storage.get_trial_id_from_study_id_trial_number(self._study, number)
        return found

    def one(self, number: int) -> StoredTrial:
        """Return one trial."""
        return StoredTrial.of(self._storage.get_trial(self.id_of(number)))

    def set_attr(self, trial_id: int, key: str, value: object) -> None:
        """Set an attribute of a trial.

        Raises:
            optuna.exceptions.UpdateFinishedTrialError: the trial has ended.
        """
        self._storage.set_trial_user_attr(trial_id, key, value)

    def end(self, trial_id: int, state: EndState, values: Sequence[float] = ()) -> None:
        """End a trial, unless another worker has ended it."""
        import optuna

        states = optuna.trial.TrialState
        with unless_ended():
            if state == "complete":
                self._storage.set_trial_state_values(trial_id, states.COMPLETE, list(values))
            else:
                self._storage.set_trial_state_values(trial_id, states.FAIL)

    def all(self) -> list[StoredTrial]:
        """Return every trial as it is now."""
        # A database has it from `tuner.store.storage`; memory and the gRPC proxy do not.
        read = getattr(self._storage, "read_attributes", None)
        found: list[StoredTrial] = read(self._study) if read else self.all_again()
        return found

    def all_again(self) -> list[StoredTrial]:
        """Return every trial, for callers that ask often.

        Optuna keeps those that have ended, and reads only the others from the storage.
        """
        found = self._storage.get_all_trials(self._study, deepcopy=False)
        return [StoredTrial.of(frozen) for frozen in found]


def import_optuna() -> Any:
    """Import Optuna late, because it takes most of a second that ``--help`` must not spend."""
    import optuna

    # Its warnings about unreadable rows contain the rows.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def contains(domain: BaseDistribution, value: Value) -> bool:
    """Return whether a value lies in a domain; Optuna has no public way to ask."""
    try:
        return domain._contains(domain.to_internal_repr(value))  # noqa: SLF001 - as above
    except ValueError:
        return False


@contextlib.contextmanager
def unless_ended() -> Iterator[None]:
    """Ignore errors about a trial that another worker has already ended."""
    import optuna

    with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
        yield
