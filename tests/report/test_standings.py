"""Several servers in the order of each figure."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tuner.judge.contest_results import ContestResult
from tuner.judge.results import evaluate
from tuner.record.file import read_record
from tuner.report.contest_tables import brief
from tuner.report.standings import legend, orders, other_pairs
from tuner.stats.verdict import VerdictKind

RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"
FIVE = RESULTS / "reverse-proxies" / "record-http1.json.gz"
SERVERS = {"nginx", "caddy", "haproxy", "envoy", "apache"}


@cache
def five() -> ContestResult:
    """Return the contest of five servers, each as stock, hand and tuned."""
    found = evaluate(read_record(FIVE)).contest
    assert found is not None
    return found


def with_two(result: ContestResult) -> ContestResult:
    """Return the contest with the figures and claims of two of its servers."""
    kept = tuple(c for c in result.contest.contenders if c.server in {"nginx", "caddy"})
    labels = {contender.label for contender in kept}
    return replace(
        result,
        contest=replace(result.contest, contenders=kept),
        arms=tuple(arm for arm in result.arms if arm.label in labels),
        compared=tuple(
            row for row in result.compared if {row.claim.arm, row.claim.against} <= labels
        ),
    )


def test_each_line_has_every_server_from_best_to_worst() -> None:
    """A line for each of three kinds and four figures; the first server has the least."""
    lines = orders(five())
    assert len(lines) == 3 * 4
    for line in lines:
        assert set(re.findall(r"[a-z]+(?= [\d.,]+ [µm]s| [\d.,]+ MiB)", line)) == SERVERS
    (line,) = (line for line in lines if line.startswith("stock, memory: "))
    sizes = [float(text) for text in re.findall(r"([\d.]+) MiB", line)]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("place", range(12))
def test_signs_say_what_is_shown_of_neighbours(place: int) -> None:
    """Each sign is that of the pair's verdict, whichever of the two was compared with the other."""
    result = five()
    head, _, line = orders(result)[place].partition(": ")
    kind, _, figure = head.partition(", ")
    names = re.findall(r"\b(?:nginx|caddy|haproxy|envoy|apache)\b", line)
    signs = re.findall(r" ([<=~>]) ", line)
    assert len(signs) == len(names) - 1
    for one, sign, other in zip(names, signs, names[1:], strict=False):
        (verdict,) = (
            row.verdict.kind
            for row in result.compared
            if {row.claim.arm, row.claim.against} == {f"{one}-{kind}", f"{other}-{kind}"}
            and row.objective.words == figure
        )
        assert (sign == "<") is (verdict in {VerdictKind.BETTER, VerdictKind.WORSE})
        assert (sign == "=") is (verdict is VerdictKind.EQUIVALENT)


def test_pairs_that_are_not_in_a_line_have_a_sentence() -> None:
    """Three pairs within each of five servers; with two servers every pair has one."""
    pairs = [line.partition(":")[0] for line in other_pairs(five())]
    assert len(pairs) == 5 * 3
    for pair in pairs:
        one, other = pair.split(" against ")
        assert one.partition("-")[0] == other.partition("-")[0]
    assert orders(with_two(five())) == []
    assert other_pairs(with_two(five())) == brief(with_two(five()))


def test_a_difference_without_a_claim_is_seen_or_nothing_is_shown() -> None:
    """An interval without 1 is mentioned with its size, and the legend says why it is no claim."""
    result = five()
    sentences = dict(line.split(": ") for line in brief(result))
    unclaimed = [row for row in result.compared if row.verdict.kind is VerdictKind.INCONCLUSIVE]
    seen = [row for row in unclaimed if row.verdict.estimate.excludes_no_change]
    assert 0 < len(seen) < len(unclaimed)
    for row in unclaimed:
        parts = sentences[f"{row.claim.arm} against {row.claim.against}"].split("; ")
        (part,) = (part for part in parts if row.objective.words in part)
        assert part.startswith("seen, but not claimed, in" if row in seen else "nothing shown in")
        assert (f"{row.objective.words} (" in part) is (row in seen)
    assert any(sentence.startswith("Seen, but not claimed: ") for sentence in legend(result))
    claimed = replace(result, compared=tuple(r for r in result.compared if r not in unclaimed))
    assert len(legend(claimed)) == 1


def test_of_throughput_the_most_is_best() -> None:
    """In a closed loop the order begins with the highest rate, and its sign turns around."""
    kept = evaluate(read_record(RESULTS / "file-100k-h1-h2-terminator/record-c16m1.json.gz"))
    assert kept.contest is not None
    (line,) = (line for line in orders(kept.contest) if "throughput" in line)
    rates = [float(text.replace(",", "")) for text in re.findall(r"([\d,]+)/s", line)]
    assert rates == sorted(rates, reverse=True)
    assert "<" not in line


def test_arms_of_one_server_have_their_labels() -> None:
    """Two programs of one server share its name."""
    result = five()
    first, *others = result.contest.contenders
    renamed = tuple(
        replace(c, server="nginx") if c.label.startswith("apache") else c for c in others
    )
    alike = replace(result, contest=replace(result.contest, contenders=(first, *renamed)))
    line = orders(alike)[0]
    assert "nginx-stock" in line
    assert "apache-stock" in line
    assert "haproxy " in line
