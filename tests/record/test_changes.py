"""One function says which settings change, and everything that speaks of them agrees with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.judge.ablation import contrasts
from tuner.record.changes import Change, changes_between, changes_of
from tuner.record.model import ConfigurationRecord
from tuner.space.configuration import Configuration, Value
from tuner.space.facts import SpaceFacts
from tuner.space.parameter import Condition, Parameter
from tuner.space.space import Space
from tuner.words.figures import setting

FACTS = SpaceFacts(1, 32, 8 << 30, (1, 22, 1), ())


def parameter(name: str, default: Value, when: str = "", floor: int | None = None) -> Parameter:
    """Return a switch or a number from 1 to 4, active while the switch ``when`` is on."""
    return Parameter(
        name=name,
        kind="boolean" if isinstance(default, bool) else "integer",
        low=0 if isinstance(default, bool) else 1,
        high=0 if isinstance(default, bool) else 4,
        log=False,
        step=None,
        unit="",
        choices=(),
        special=(),
        defaults={"stock": default},
        when=(Condition(when, "in", (True,)),) if when else (),
        trades="",
        belongs_to="",
        role="search" if floor is None else "floor",
        floor=floor,
        about="",
        link="",
    )


def space_of(*parameters: Parameter) -> Space:
    """Return a space of these parameters."""
    return Space("nginx/random", "nginx", "", "", parameters, (), (), FACTS, Path("random.yaml"))


@dataclass(frozen=True)
class Pair:
    """A space with two of its configurations."""

    space: Space
    baseline: Configuration
    tuned: Configuration


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Return two configurations of a space whose parameters depend on earlier switches."""
    made: list[Parameter] = []
    for number in range(draw(st.integers(2, 8))):
        switches = [found.name for found in made if found.kind == "boolean"]
        when = draw(st.sampled_from(["", *switches]))
        default: Value = draw(st.one_of(st.booleans(), st.integers(1, 4)))
        floor = None if isinstance(default, bool) else draw(st.sampled_from([None, None, 3]))
        made.append(parameter(f"p{number}", default, when, floor))
    space = space_of(*made)

    def configuration() -> Configuration:
        values = {
            found.name: draw(st.booleans() if found.kind == "boolean" else st.integers(1, 4))
            for found in made
            if draw(st.booleans())
        }
        return space.complete(values, Configuration.of(space.name, {}))

    return Pair(space, configuration(), configuration())


def recorded(space: Space, configuration: Configuration) -> ConfigurationRecord:
    """Return a configuration as a study records it."""
    return ConfigurationRecord(
        space.name,
        configuration.digest,
        configuration.values,
        "",
        inactive=space.inactive(configuration),
    )


@given(pairs())
@settings(max_examples=200)
def test_the_changes_and_no_fewer_make_the_tuned_configuration(pair: Pair) -> None:
    """Set in the baseline they give it; with any one of them left out they do not."""
    space, baseline, tuned = pair.space, pair.baseline, pair.tuned
    found = changes_between(baseline.values, tuned.values, space.inactive(baseline))
    names = {change.name for change in found}
    assert space.exchange(baseline, tuned, names) == tuned
    for name in names:
        assert space.exchange(baseline, tuned, names - {name}) != tuned
        assert space.exchange(tuned, baseline, {name}) != tuned


@given(pairs())
@settings(max_examples=200)
def test_an_ablation_contrasts_exactly_the_changes(pair: Pair) -> None:
    """Each change has one contrast; a setting that only follows from another has none."""
    space, baseline, tuned = pair.space, pair.baseline, pair.tuned
    found = changes_between(baseline.values, tuned.values, space.inactive(baseline))
    named = [name for contrast in contrasts(space, baseline, tuned) for name in contrast.names]
    assert sorted(named) == sorted(change.name for change in found)


@given(pairs(), st.data())
@settings(max_examples=200)
def test_a_smaller_difference_changes_what_it_keeps(pair: Pair, data: st.DataObject) -> None:
    """A smaller difference reports the kept settings that have an effect, with the tuned values."""
    space, baseline, tuned = pair.space, pair.baseline, pair.tuned
    found = changes_of(recorded(space, baseline), recorded(space, tuned))
    kept = {change.name for change in found if data.draw(st.booleans())}
    minimal = space.exchange(baseline, tuned, kept)
    said = changes_of(recorded(space, baseline), recorded(space, minimal))
    assert {change.name for change in said} == kept & minimal.values.keys()
    assert all(change.tuned == tuned.values[change.name] for change in said)


def test_what_only_becomes_active_is_no_change() -> None:
    """A setting that only becomes active, with its default raised to its floor, is no change."""
    space = space_of(
        parameter("cache", default=False),
        parameter("entries", 2, "cache"),
        parameter("slots", 1, "cache", floor=3),
    )
    stock = space.baseline("stock")
    on = space.complete({"cache": True}, stock)
    assert on.values == {"cache": True, "entries": 2, "slots": 3}
    switched = Change("cache", baseline=False, tuned=True)
    assert changes_of(recorded(space, stock), recorded(space, on)) == (switched,)
    more = space.complete({"cache": True, "entries": 4}, stock)
    entries = Change("entries", None, 4)
    assert changes_of(recorded(space, stock), recorded(space, more)) == (switched, entries)


def test_what_only_becomes_inactive_is_no_change() -> None:
    """Nothing is written for it."""
    space = space_of(parameter("cache", default=False), parameter("entries", 2, "cache"))
    off = space.baseline("stock")
    on = space.complete({"cache": True, "entries": 4}, off)
    (change,) = changes_of(recorded(space, on), recorded(space, off))
    assert change == Change("cache", baseline=True, tuned=False)


def test_a_record_of_an_older_version_counts_what_becomes_active() -> None:
    """A record without inactive values counts a setting that becomes active as a change."""
    space = space_of(parameter("cache", default=False), parameter("entries", 2, "cache"))
    stock = replace(recorded(space, space.baseline("stock")), inactive={})
    on = recorded(space, space.complete({"cache": True}, space.baseline("stock")))
    assert [change.name for change in changes_of(stock, on)] == ["cache", "entries"]


def test_a_switch_and_a_number_are_two_values() -> None:
    """Python takes True for 1."""
    (change,) = changes_between({"a": True}, {"a": 1}, {})
    assert change.tuned is not True


def test_a_size_and_a_time_are_written_as_the_server_writes_them() -> None:
    """Units come from the record; records of older versions have none."""
    before = ConfigurationRecord("s", "a", {"buffer": 4096, "idle": 60.0, "count": 8}, "")
    after = ConfigurationRecord("s", "b", {"buffer": 28_672, "idle": 5.0, "count": 10}, "")
    known = replace(after, units={"buffer": "bytes", "idle": "seconds"})

    def words(tuned: ConfigurationRecord) -> list[str]:
        changes = changes_of(before, tuned)
        return [f"{setting(c.baseline, c.unit)} {setting(c.tuned, c.unit)}" for c in changes]

    assert words(known) == ["4k 28k", "8 10", "60s 5s"]
    assert words(after) == ["4096 28672", "8 10", "60.0 5.0"]
