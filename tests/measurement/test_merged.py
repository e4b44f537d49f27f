"""Windows of several generators: merged request by request, and each judged by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measurement.windows import GATES, raw_window
from tuner.measurement.latency import HistogramCounts
from tuner.measurement.measuring import measure
from tuner.measurement.merged import merged_samples, merged_terms, merged_window
from tuner.measurement.stall_free import weights_of
from tuner.measurement.stalls import CYCLES, SPANS, excluded
from tuner.measurement.window import Histogram, RawWindow, Samples
from tuner.workload.wire import NegotiatedTerms

MS = 1_000_000
TIMES = ("intended_ns", "written_ns", "completed_ns", "first_ns")


@st.composite
def some_samples(draw: st.DrawFn) -> Samples:
    """Draw the requests of a window in the order of their intended instants."""
    rows = draw(st.lists(st.tuples(*[st.integers(0, 10**9)] * 5), max_size=30))
    intended, lag, first, rest, outcome = (
        np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else [()] * 5)
    )
    intended = np.sort(intended)
    written = intended + lag
    return Samples(
        intended,
        written,
        written + first + rest,
        (outcome % 5).astype(np.uint8),
        written + first,
    )


def rows(samples: Samples) -> list[tuple[int, ...]]:
    """Return the requests one by one, without their source."""
    assert samples.first_ns is not None
    columns = [getattr(samples, name) for name in (*TIMES, "outcome")]
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(st.lists(some_samples(), min_size=1, max_size=4))
def test_every_request_is_there_once(parts: list[Samples]) -> None:
    """In the order of the intended instants, with all of its times, and its generator."""
    merged = merged_samples(parts)
    assert sorted(rows(merged)) == sorted(row for part in parts for row in rows(part))
    assert (np.diff(merged.intended_ns) >= 0).all()
    for place, part in enumerate(parts):
        assert rows(merged.of(place)) == rows(part)


def parts_of(whole: RawWindow, count: int) -> list[RawWindow]:
    """Deal the requests of a window to several generators."""
    samples = whole.samples
    assert isinstance(samples, Samples)
    found = []
    for place in range(count):
        own = replace(
            samples,
            **{
                name: getattr(samples, name)[place::count]
                for name in ("intended_ns", "written_ns", "completed_ns", "outcome")
            },
        )
        number = len(own.outcome)
        found.append(
            replace(
                whole,
                samples=own,
                offered=number,
                completed=number,
                rate_per_s=whole.rate_per_s / count,
                connections=whole.connections // count,
                generator_cpu_s=whole.generator_cpu_s / count,
            )
        )
    return found


def together(parts: Sequence[RawWindow], guard_ns: int = 0) -> RawWindow:
    """Merge the windows of generators a, b, c and so on."""
    return merged_window(parts, "abcdefgh"[: len(parts)], guard_ns)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("rule", [None, CYCLES, SPANS])
def test_a_window_in_parts_has_the_figures_of_the_whole(count: int, rule: object) -> None:
    """Percentiles, histograms, counts and validity: with the clocks agreeing exactly, the same."""
    random = np.random.default_rng(5)
    whole = raw_window(
        random.exponential(300.0, 1_200).tolist(),
        connections=12,
        generator_spans=((100 * MS, 104 * MS), (700 * MS, 701 * MS)),
        rate_per_s=1_200.0,
    )
    found = measure(together(parts_of(whole, count)), rule, GATES)  # type: ignore[arg-type]
    expected = measure(whole, rule, GATES)  # type: ignore[arg-type]
    assert found.valid
    for each in fields(expected):
        if each.name in ("generator_cpu_s", "rate_per_s"):
            assert getattr(found, each.name) == pytest.approx(getattr(expected, each.name))
        elif each.name != "generator_spans":
            assert getattr(found, each.name) == getattr(expected, each.name), each.name
    assert set(found.generator_spans) == set(expected.generator_spans)


def test_counts_and_errors_add_up() -> None:
    """By kind; the busiest generator is the one that matters."""
    one = raw_window(errors={"reset": 2}, timeouts=1, bytes_in=10, generator_busy_share=0.2)
    other = raw_window(
        errors={"reset": 1, "status_503": 4}, unsent=3, bytes_in=5, generator_busy_share=0.7
    )
    found = together([one, other])
    assert found.errors == {"reset": 3, "status_503": 4}
    assert (found.timeouts, found.unsent, found.bytes_in) == (1, 3, 15)
    assert (found.offered, found.connections, found.rate_per_s) == (200, 8, 200.0)
    assert found.generator_busy_share == 0.7
    assert [(s.name, s.busy_share) for s in found.sources] == [("a", 0.2), ("b", 0.7)]


def test_terms_are_joined() -> None:
    """Counts add up; of percentiles, which cannot be merged, the worst is kept."""
    one = NegotiatedTerms("TLSv1_3", "A + B", "X", 1, 2, 3, 100.0, 200.0, 4, 5.0)
    other = NegotiatedTerms("TLSv1_3", "A", "Y", 10, 20, 30, 90.0, 300.0, 40, 1.0)
    assert merged_terms([one, other]) == NegotiatedTerms(
        "TLSv1_3", "A + B", "X + Y", 11, 22, 33, 100.0, 300.0, 44, 5.0
    )


def test_a_histogram_cannot_be_merged() -> None:
    """Single requests have instants, and it lacks them."""
    empty = Histogram(HistogramCounts.empty(), HistogramCounts.empty())
    with pytest.raises(ValueError, match="single requests"):
        together([raw_window(), raw_window(samples=empty)])


def slowed(window: RawWindow, lag_us: float) -> RawWindow:
    """Return the window with requests that were written late."""
    samples = window.samples
    assert isinstance(samples, Samples)
    late = np.int64(lag_us * 1e3)
    return replace(
        window,
        samples=replace(
            samples,
            written_ns=samples.intended_ns + late,
            completed_ns=samples.completed_ns + late,
        ),
    )


def test_a_generator_that_cannot_keep_up_is_named() -> None:
    """Its lag counts, not that of the others, of which there are far more requests."""
    quick = [raw_window((100.0,) * 1_000) for _ in range(3)]
    slow = slowed(raw_window((100.0,) * 20, generator_busy_share=0.95), 80.0)
    found = measure(together([*quick, slow]), None, GATES)
    assert not found.valid
    assert not found.bad
    assert found.invalid[0].startswith("the generator d could not keep up: p99 of its send lag")
    assert len(found.invalid) == 1
    busy = replace(quick[0], generator_busy_share=0.95)
    assert measure(together([busy, *quick[1:]]), None, GATES).valid


def unanswered(window: RawWindow, share: float) -> RawWindow:
    """Return the window with a share of requests that are answered in the drain only."""
    samples = window.samples
    assert isinstance(samples, Samples)
    completed = samples.completed_ns.copy()
    completed[: round(share * len(completed))] += 2_000 * MS
    return replace(window, samples=replace(samples, completed_ns=completed))


def test_a_generator_that_misses_the_rate_alone_is_named() -> None:
    """The configuration is not at fault; if all miss it, the server is."""
    sound = raw_window((100.0,) * 1_000)
    bad = unanswered(sound, 0.02)
    found = measure(together([sound, bad, sound]), None, GATES)
    assert not found.bad
    (reason,) = found.invalid
    assert reason.startswith("the generator b achieved less than offered: 20 of its 1000 requests")
    # Three late requests of one generator may be chance, and are too few to matter.
    few = unanswered(raw_window((100.0,) * 100), 0.03)
    assert measure(together([few, sound, sound]), None, GATES).valid
    found = measure(together([bad, bad, bad]), None, GATES)
    assert found.bad
    assert found.invalid[0].startswith("achieved less than offered: 60 of 3000")


@given(st.integers(0, 2 * MS), st.integers(0, 2**32 - 1))
def test_no_touched_request_counts_whatever_the_clocks(guard_ns: int, seed: int) -> None:
    """The true times differ from the reported ones by up to the guard, each generator's its own.

    A request that the rule of spans excludes by its true time has weight 0 in the merged window.
    """
    random = np.random.default_rng(seed)
    stall = (400 * MS, 402 * MS)
    true, parts = [], []
    for place in range(3):
        intended = np.sort(random.integers(0, 900 * MS, 60))
        # By its own clock this generator is early or late.
        shift = int(random.integers(-guard_ns, guard_ns + 1))
        shown = intended + shift
        samples = Samples(shown, shown, shown, np.zeros(60, np.uint8))
        spans = ((stall[0] + shift, stall[1] + shift),) if place == 1 else ()
        true.append(intended)
        parts.append(raw_window(samples=samples, offered=60, generator_spans=spans))
    merged = together(parts, guard_ns)
    assert isinstance(merged.samples, Samples)
    found = weights_of(merged, merged.samples, SPANS)
    for place, intended in enumerate(true):
        own = found[merged.samples.source == place]
        assert (own[excluded(intended, [stall], SPANS)] == 0).all()
