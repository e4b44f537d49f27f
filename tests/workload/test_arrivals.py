"""Patterns of arrivals: spread as recorded, as many as the study says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tuner.errors import DefinitionError
from tuner.workload.arrivals import Profile, Recorded, Step, read_instants, stretch

BURSTS = Recorded("day.txt", tuple(second + k / 1_000 for second in range(60) for k in range(100)))


def test_a_stretch_has_the_studys_rate_and_the_recordings_pattern() -> None:
    """Bursts stay bursts: most of the time nothing arrives."""
    instants = stretch(BURSTS, rate_per_s=1_000, duration_s=5.0, seed=1)
    assert len(instants) == pytest.approx(5_000, rel=0.05)
    assert (np.diff(instants) >= 0).all()
    assert instants[0] >= 0
    assert instants[-1] < 5.0
    busy = np.unique((instants * 1_000).astype(int))
    assert len(busy) < 0.15 * 5_000


def test_all_arms_of_a_round_replay_the_same_stretch() -> None:
    """Another seed begins elsewhere."""
    one, same, other = (
        stretch(BURSTS, rate_per_s=500, duration_s=1.0, seed=seed) for seed in (1, 1, 2)
    )
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


def test_a_short_recording_starts_over() -> None:
    """A short recording repeats until it fills the window."""
    recorded = Recorded("x", (0.0, 0.25, 1.0))
    instants = stretch(recorded, rate_per_s=2.0, duration_s=10.0, seed=3)
    assert len(instants) == 20


def test_a_profile_is_scaled_to_the_studys_rate() -> None:
    """A step and a ramp; their mean over the window is the rate."""
    profile = Profile((Step(1, 1, 1), Step(3, 1, 5)))
    pieces = profile.pieces(1_000, 2.0)
    assert [seconds for seconds, _, _ in pieces] == [0.5, 1.5]
    assert sum(seconds * (a + b) / 2 for seconds, a, b in pieces) == pytest.approx(2_000)
    assert pieces[1][2] == pytest.approx(5 * pieces[1][1])


def test_instants_are_read_from_anywhere_and_with_comments(tmp_path: Path) -> None:
    """Epoch seconds are as good as offsets."""
    path = tmp_path / "i.txt"
    path.write_text("# of Monday\n1700000000.5\n1700000000.75  # two\n\n1700000002.5\n")
    assert read_instants(path) == (0.0, 0.25, 2.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\nsoon\n", "i.txt:2: expected seconds, found 'soon'"),
        ("1\n2\n\n1.5\n", "i.txt:4: 1.5 comes before 2.0; instants must ascend"),
        ("1\n", "i.txt: at least two different instants are needed"),
        ("nan\n2\n", "i.txt:1: expected seconds"),
    ],
)
def test_wrong_instants_are_answered_at_their_line(tmp_path: Path, text: str, words: str) -> None:
    """With what is expected."""
    path = tmp_path / "i.txt"
    path.write_text(text)
    with pytest.raises(DefinitionError) as raised:
        read_instants(path)
    assert words in str(raised.value)
