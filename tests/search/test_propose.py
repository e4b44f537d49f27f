"""Proposals: a function of the record and the seed, never a duplicate, always allowed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.search.spaces import BUILT_IN, SMALL, loss_of, tiny_space
from tuner.search.propose import _best, _modelled, propose
from tuner.search.trials import MeasuredTrial
from tuner.space.configuration import Configuration
from tuner.space.space import Space

SPACES = pytest.mark.parametrize("space", [SMALL, *BUILT_IN], ids=lambda s: s.name)


def run(space: Space, blocks: int, *, seed: int = 1, count: int = 5) -> list[MeasuredTrial]:
    """Return a search without noise, in blocks of `count` proposals."""
    base = space.baseline("stock")
    seen = [MeasuredTrial(base, (0.0,))]
    for block in range(blocks):
        found = propose(space, (), base, seen, count=count, seed=seed * 1_000 + block)
        seen += [MeasuredTrial(c, (loss_of(c) if space is SMALL else 0.0,)) for c in found]
    return seen


@SPACES
def test_nothing_is_proposed_twice(space: Space) -> None:
    """Neither what was seen before nor twice in a batch."""
    digests = [s.configuration.digest for s in run(space, 8)]
    assert len(digests) == 1 + 8 * 5
    assert len(set(digests)) == len(digests)


@SPACES
def test_every_proposal_is_a_whole_and_allowed_configuration(space: Space) -> None:
    """Completing it again changes nothing: conditions, grids, floors and orders all hold."""
    base = space.baseline("stock")
    for seen in run(space, 6):
        assert space.complete(seen.configuration.values, base) == seen.configuration


@SPACES
def test_what_trades_something_stays_as_in_the_baseline(space: Space) -> None:
    """Only parameters that are neutral are searched without leave."""
    base = space.baseline("stock").values
    searched = {parameter.name for parameter in space.searched(())}
    for seen in run(space, 4):
        for name, value in seen.configuration.values.items():
            assert name in searched or name not in base or base[name] == value, name


def test_an_allowed_trade_is_searched() -> None:
    """``--allow cache`` lets the search turn it on."""
    base = SMALL.baseline("stock")
    found = propose(SMALL, ("cache",), base, [MeasuredTrial(base, (0.0,))], count=20, seed=1)
    assert {c.values["cache"] for c in found} == {False, True}


def test_the_same_record_and_seed_give_the_same_proposals() -> None:
    """And another seed gives others."""
    one, same, other = (
        [s.configuration.digest for s in run(SMALL, 3, seed=seed)] for seed in (1, 1, 2)
    )
    assert one == same != other


def test_an_exhausted_space_gives_what_is_left(tmp_path: Path) -> None:
    """A space of four configurations has three to propose, then none; it never waits for more."""
    tiny = tiny_space(tmp_path)
    base = tiny.baseline("stock")
    found = propose(tiny, (), base, [MeasuredTrial(base, (0.0,))], count=10, seed=1)
    assert len(found) == 3
    seen = [MeasuredTrial(base, (0.0,)), *(MeasuredTrial(c, (0.0,)) for c in found)]
    assert propose(tiny, (), base, seen, count=10, seed=2) == []


def test_the_search_learns_from_what_it_saw() -> None:
    """Late proposals are better than early ones, and most have what matters."""
    seen = run(SMALL, 15)[1:]
    losses = [s.losses[0] for s in seen if s.losses]
    assert sum(losses[-25:]) < sum(losses[:25]) - 25 * 0.03
    # By chance it would be half of them; 32 of 50 come about once in thirty times.
    assert sum(bool(s.configuration.values["fast"]) for s in seen[-50:]) >= 32


def test_the_search_avoids_what_is_infeasible() -> None:
    """Late proposals avoid the half of a space that the server refuses."""
    base = SMALL.baseline("hand")
    seen = [MeasuredTrial(base, (0.0,))]
    for block in range(16):
        found = propose(SMALL, (), base, seen, count=5, seed=block)
        seen += [MeasuredTrial(c, (0.0,) if c.values["fast"] else None) for c in found]
    # By chance it would be 20; 26 of 40 come about once in twenty-five times.
    assert sum(bool(s.configuration.values["fast"]) for s in seen[-40:]) >= 26


def test_a_trial_outside_the_ranges_can_be_seen() -> None:
    """A baseline of the user's own may lie where the search does not go."""
    odd = Configuration.of(SMALL.name, {**SMALL.baseline("stock").values, "size": 7})
    base = SMALL.baseline("stock")
    assert len(propose(SMALL, (), base, [MeasuredTrial(odd, (-1.0,))], count=3, seed=1)) == 3


def test_neighbours_of_the_best_are_among_the_proposals() -> None:
    """They keep most of what it has; the search does not end where a model sees no difference."""
    seen = run(SMALL, 6)
    best = min(seen, key=lambda s: sum(s.losses or ()))
    found = propose(SMALL, (), SMALL.baseline("stock"), seen, count=20, seed=9)
    shared = [
        sum(c.values.get(name) == value for name, value in best.configuration.items) for c in found
    ]
    assert max(shared) >= len(best.configuration.items) - 1


def test_no_neighbour_is_drawn_around_what_violates_a_limit() -> None:
    """However good its figure is."""
    seen = run(SMALL, 6)
    forbidden = [replace(s, excess={"memory": 0.5}) if s.losses else s for s in seen]
    assert _best(forbidden) == []
    assert len(_best(seen)) == 3


def test_what_no_look_supports_is_seldom_proposed() -> None:
    """With little noise, the second block mostly proposes the better value of a setting."""
    base = SMALL.baseline("stock")
    first = propose(SMALL, (), base, [MeasuredTrial(base, (0.0,))], count=8, seed=3)
    assert len({c.values["fast"] for c in first}) == 2
    seen = [MeasuredTrial(base, (0.0,), looks=0), *(MeasuredTrial(c, (loss_of(c),)) for c in first)]
    found = propose(SMALL, (), base, seen, count=8, seed=4, noise=0.02)
    assert sum(bool(c.values["fast"]) for c in found) >= 6


def test_of_very_many_trials_the_best_and_the_latest_are_modelled() -> None:
    """And the baseline; a long search does not become slow."""
    base = SMALL.baseline("stock")
    others = [MeasuredTrial(base, (place / 1000,)) for place in range(1, 1000)]
    kept = _modelled([MeasuredTrial(base, (0.0,)), *others])
    values = [sum(trial.losses or ()) for trial in kept]
    assert values[:3] == [0.0, 0.001, 0.002]
    assert values[-1] == 0.999
    assert len(set(values)) == len(values) == 201


def test_of_very_many_points_both_ends_of_the_front_are_modelled() -> None:
    """A point that is the best in one objective and bad in the other stays in sight."""
    base = SMALL.baseline("stock")
    first = [MeasuredTrial(base, (-1.0, 3.0)), MeasuredTrial(base, (3.0, -1.0))]
    rest = [MeasuredTrial(base, (place / 1000, place / 1000)) for place in range(1000)]
    kept = _modelled([MeasuredTrial(base, (0.0, 0.0)), *first, *rest])
    assert all(point in kept for point in first)
    assert len(kept) == 201


def test_only_infeasible_trials_are_a_history_too() -> None:
    """A search in which nothing ran yet proposes all the same."""
    base = SMALL.baseline("stock")
    known = [MeasuredTrial(c, None) for c in propose(SMALL, (), base, [], count=9, seed=1)]
    seen = [MeasuredTrial(base, (0.0,)), *known]
    assert _modelled(seen) == seen
    assert propose(SMALL, (), base, seen, count=4, seed=2)
