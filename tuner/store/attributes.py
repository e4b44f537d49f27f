"""Trials with nothing but their attributes, read from a database in one statement.

A record is made of attributes. Optuna's own reading also returns parameters, values and
intermediate values, with an object of its ORM for each: most of the time of a long study's report.
The tables are those of Optuna's ``optuna.storages._rdb.models``; ``RDBStorage`` refuses a database
with another schema, and ``tests/store`` compares both ways of reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import optuna
    import sqlalchemy

_ATTRIBUTES = """
SELECT trials.number, trials.state, attributes.key, attributes.value_json
FROM trials LEFT JOIN trial_user_attributes AS attributes ON attributes.trial_id = trials.trial_id
WHERE trials.study_id = :study
ORDER BY trials.trial_id, attributes.trial_user_attribute_id
"""


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """The parts of one of Optuna's trials that a record needs."""

    number: int
    finished: bool
    attrs: Mapping[str, Any]

    @classmethod
    def of(cls, frozen: optuna.trial.FrozenTrial) -> StoredTrial:
        """Return it from one that Optuna has read."""
        return cls(frozen.number, frozen.state.is_finished(), frozen.user_attrs)


class JsonAttributes(Mapping[str, Any]):
    """Attributes in JSON, each decoded when it is used.

    Args:
        texts: JSON by key.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, key: str) -> Any:
        """Return the decoded value of an attribute."""
        text = self._texts[key]
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            # Python's JSON, which Optuna writes, also has NaN and infinities.
            return json.loads(text)

    def __contains__(self, key: object) -> bool:
        """Return whether there is an attribute of this name, without decoding it."""
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter(self._texts)

    def __len__(self) -> int:
        """Return the number of attributes."""
        return len(self._texts)


def read_attributes(engine: sqlalchemy.Engine, study: int) -> list[StoredTrial]:
    """Return the trials of a study in the order of their beginning.

    Args:
        engine: of a database with Optuna's tables.
        study: id of Optuna's study.
    """
    import optuna
    import sqlalchemy

    ended = {state.name: state.is_finished() for state in optuna.trial.TrialState}
    found: dict[int, tuple[str, dict[str, str]]] = {}
    with engine.connect() as connection:
        for number, state, key, text in connection.execute(
            sqlalchemy.text(_ATTRIBUTES), {"study": study}
        ):
            texts = found.setdefault(number, (state, {}))[1]
            if key is not None:
                texts[key] = text
    return [
        StoredTrial(number, ended[state], JsonAttributes(texts))
        for number, (state, texts) in found.items()
    ]
