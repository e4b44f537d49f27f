"""Studies of every objective on a host whose truth is known: what is there is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import optuna
import pytest

from tests.phases.rig import NAME, SPACE, STOCK, Rig, blocks, rig
from tuner.errors import HostError
from tuner.judge.plan import Design
from tuner.judge.results import StudyResult, evaluate
from tuner.measurement.stalls import SPANS
from tuner.paths import data_dir
from tuner.phases.measure import measure_one
from tuner.phases.study import calibrate, confirm
from tuner.report.charts import charts
from tuner.report.data import as_data
from tuner.report.html import render_html
from tuner.report.markdown import render_markdown
from tuner.report.text import result_lines
from tuner.space.configuration import Value
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Effect
from tuner.testing.simulate import Noise

NOISE = Noise(ar_sd=0.03, restart_sd=0.02, burst_probability=0.02, burst_scale=0.1)


def truth(values: Mapping[str, Value]) -> Effect:
    """``fast`` costs memory and saves the rest; ``boost`` buys latency with more memory."""
    fast, boost = bool(values["fast"]), float(values.get("boost", 0))
    return Effect(
        ln_latency=-0.2 * fast - 0.06 * math.log(max(1.0, boost)),
        capacity_per_s=5_000.0 if fast else 4_000.0,
        cpu_us=80.0 if fast else 100.0,
        memory_mib=10.0 + 0.05 * boost,
    )


def study(objective: str | tuple[str, ...] = "p50", **wanted: Any) -> tuple[Rig, StudyResult]:
    """Return a whole study, evaluated."""
    seed = wanted.pop("seed", 1)
    made = rig(
        objective=objective, wanted=wanted, truth=truth, noise=NOISE, time_s=400.0, seed=seed
    )
    return made, evaluate(made.run())


@pytest.mark.parametrize(
    ("objective", "slo", "ratio", "kind"),
    [
        ("p75", "", None, VerdictKind.BETTER),
        ("cpu", "", 0.8, VerdictKind.BETTER),
        ("memory", "", 1.0, VerdictKind.EQUIVALENT),
        ("throughput", "", 1.25, VerdictKind.BETTER),
        ("capacity", "p99<1ms", 1.25, VerdictKind.BETTER),
    ],
)
def test_each_objective_is_found_and_confirmed(
    objective: str, slo: str, ratio: float | None, kind: VerdictKind
) -> None:
    """With the true ratio where the truth is one number."""
    _, result = study(objective, slo=slo)
    assert result.verdict is not None
    assert result.verdict.kind is kind, result.sentence
    if ratio is not None:
        assert result.verdict.estimate.ratio == pytest.approx(ratio, rel=0.06)
    assert result.figures[0].unit == result.objective.unit


def test_a_capacity_is_sought_by_one_rule_for_both_arms() -> None:
    """Both begin at the same rate, every round, and the arms of a round have the same arrivals."""
    made, result = study("capacity", slo="p99<1ms")
    record = made.record()
    assert record.calibration is not None
    assert record.protocol is not None
    start = record.calibration.rate_per_s
    assert "p99 <= 1ms" in record.calibration.rate_source
    assert "p99 <= 1ms" in record.protocol.estimand
    for block in blocks(record, "confirm"):
        first = [w.rate_per_s for w in block.windows if w.round == 0]
        assert first == pytest.approx([start, start])
        assert len({round(w.rate_per_s) for w in block.windows}) > len(block.windows) / 3
    assert not blocks(record, "load-points"), "the windows themselves tell how latency grows"
    assert record.protocol.stall_rule == SPANS, "one rule for all rates"
    reported = {finding.code for finding in result.findings}
    assert "stall-shares" in reported
    assert not {"order-effect", "variance-shares"} & reported, "windows differ on purpose"
    assert "rates" in charts(result)
    assert not {"p99", "throughput"} & {entry.name for entry in result.figures}, "rates differ"


def test_a_limit_that_no_rate_meets_is_said_before_the_search() -> None:
    """With the latency that the baseline has, and the way out."""
    made = rig(objective="capacity", wanted={"slo": "p50<10us"}, truth=truth, noise=NOISE)
    with pytest.raises(HostError, match=r"does not meet p50 <= 10us.*allow a longer one by --slo"):
        made.run()


def test_a_capacity_of_equal_configurations_is_not_called_better() -> None:
    """Six studies on a noisy host."""
    kinds = []
    for seed in range(6):
        made = rig(
            objective="capacity", wanted={"slo": "p99<1ms"}, seed=seed, noise=NOISE, time_s=300.0,
            truth=lambda _: Effect(capacity_per_s=4_000.0),
        )  # fmt: skip
        verdict = evaluate(made.run()).verdict
        kinds.append(verdict.kind if verdict else None)
    assert sum(kind in {VerdictKind.BETTER, VerdictKind.WORSE} for kind in kinds) <= 1


def test_a_constraint_keeps_the_search_within_and_is_confirmed() -> None:
    """The winner holds it, and the verdict, the record and all reports say so."""
    limit = "memory <= 1.1x baseline"
    made, result = study(constraint=[limit])
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.BETTER
    assert f"{limit} is held" in result.sentence
    record = made.record()
    assert record.protocol is not None
    assert record.protocol.constraints == (limit,)
    assert any(v > 0 for trial in record.trials for v in trial.excess[limit].values()), (
        "some do not"
    )
    (claim,) = result.constraints
    assert claim.state == "held"
    assert claim.found.high <= 1.1
    for text in (render_html(result), render_markdown(result), "\n".join(result_lines(result))):
        assert "held" in text
    (reported,) = as_data(result, data_dir("studies"))["constraints"]
    assert (reported["constraint"], reported["state"]) == (limit, "held")


def test_what_violates_a_constraint_is_not_confirmed_however_good_it_is() -> None:
    """Everything fast takes half as much memory again, so the winner is something else."""

    def fast_is_greedy(values: Mapping[str, Value]) -> Effect:
        fast = bool(values["fast"])
        return Effect(ln_latency=-0.5 * fast, memory_mib=15.0 if fast else 10.0)

    limit = "memory <= 1.2x baseline"
    made = rig(objective="p50", wanted={"constraint": [limit]}, truth=fast_is_greedy, noise=NOISE)
    record = made.run()
    assert record.protocol is not None
    assert record.configurations[record.protocol.candidate].values["fast"] is False
    assert evaluate(record).constraints[0].state == "held"


def test_of_several_finalists_one_that_keeps_to_the_constraints_is_named() -> None:
    """The faster one, in the same blocks, takes half as much memory again."""
    greedy = SPACE.complete({"fast": True, "boost": 1_000}, STOCK)
    modest = SPACE.complete({"fast": True, "boost": 1}, STOCK)

    def fast(values: Mapping[str, Value]) -> Effect:
        more = values.get("boost") == 1_000
        gain = 0.5 if more else 0.3 * bool(values["fast"])
        return Effect(ln_latency=-gain, memory_mib=15.0 if more else 10.0)

    made = rig(
        objective="p50",
        wanted={"constraint": ["memory <= 1.2x baseline"]},
        design=Design(finalists=2),
        truth=fast,
        noise=NOISE,
    )
    confirm(calibrate(made.bench(), made.spec), greedy, modest)
    result = evaluate(made.record())
    assert result.candidate == modest.digest
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.BETTER
    assert [(f.claim.arm, f.verdict.kind) for f in result.finalists] == [
        (greedy.digest, VerdictKind.BETTER),
        (modest.digest, VerdictKind.BETTER),
    ]
    for block in blocks(made.record(), "load-points"):
        assert block.instances[1].digest == modest.digest


def test_optuna_receives_the_excess_over_a_constraint() -> None:
    """Each trial in the record has the excess over its constraint, at most 0 if feasible."""
    made, _ = study(constraint=["memory <= 1.05x baseline"])
    reported = optuna.load_study(study_name=NAME, storage=made.storage).trials
    values = [t.constraints["memory <= 1.05x baseline"] for t in reported if len(t.constraints) > 1]
    assert min(values) <= 0 < max(values)


@pytest.mark.parametrize(
    ("limit", "kind", "words"),
    [
        ("memory <= 20M", VerdictKind.BETTER, "memory <= 20M is held"),
        ("memory <= 12M", VerdictKind.VIOLATED, "Violated: memory <= 12M is violated (15.0 MiB"),
        ("memory <= 1.2x baseline", VerdictKind.VIOLATED, "is violated (1.500, 95 % interval"),
    ],
)
def test_a_winner_that_violates_a_constraint_is_not_better(
    limit: str, kind: VerdictKind, words: str
) -> None:
    """A given candidate that violates a constraint is not better, however large its gain."""
    made = rig(objective="p50", wanted={"constraint": [limit]}, truth=truth, noise=NOISE)
    candidate = SPACE.complete({"fast": True, "boost": 100}, STOCK)
    confirm(calibrate(made.bench(), made.spec), candidate)
    result = evaluate(made.record())
    assert result.verdict is not None
    assert result.verdict.kind is kind
    assert words in result.sentence


def test_errors_may_be_allowed_up_to_a_share() -> None:
    """A configuration that loses one request in two hundred is measured, and held to the limit."""

    def fails_when_fast(values: Mapping[str, Value]) -> Effect:
        return Effect(
            ln_latency=-0.5 * bool(values["fast"]), error_share=0.005 * bool(values["fast"])
        )

    made = rig(
        objective="p50", wanted={"constraint": ["errors <= 2%"]}, truth=fails_when_fast, noise=NOISE
    )
    result = evaluate(made.run())
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.BETTER
    assert result.constraints[0].found.value == pytest.approx(0.005, rel=0.2)


def test_two_objectives_give_a_front_and_a_verdict_each() -> None:
    """The chosen point is on the front of the search, and each figure is judged on fresh blocks."""
    made, result = study(("p50", "memory"))
    assert [claim.objective.name for claim in result.objectives] == ["p50", "memory"]
    assert all(claim.adjusted_p <= 1 for claim in result.objectives)
    ahead = [trial for trial in result.trials if trial.front]
    assert any(trial.digest == result.candidate for trial in ahead)
    assert all(not (a.ratio < b.ratio and a.second < b.second) for a in ahead for b in ahead)
    assert {"front", "effect"} <= charts(result).keys()
    reported = optuna.load_study(study_name=NAME, storage=made.storage)
    assert len(reported.directions) == 2
    assert reported.best_trials
    html = render_html(result)
    assert "The front" in html
    assert "adjusted p" in render_markdown(result)
    assert len(as_data(result, data_dir("studies"))["objectives"]) == 2


def test_a_limit_in_the_choice_makes_the_trade_a_verdict_of_the_other_objective() -> None:
    """Up to 10 % more memory may be given for latency; more is not."""
    _, result = study(("p50", "memory"), choose="memory <= 1.1x baseline")
    assert result.verdict is not None
    assert result.verdict.kind is VerdictKind.BETTER
    assert result.constraints[0].state == "held"
    assert result.constraints[0].found.high <= 1.1


def test_a_study_of_two_objectives_goes_on_where_it_was_interrupted() -> None:
    """An interrupted study of two objectives resumes from the record and ends the same."""
    made, whole = study(("p50", "memory"))
    again = evaluate(made.record())
    assert again == whole
    assert made.run() == made.record(), "there is nothing left to be done"


def test_one_configuration_is_measured_where_it_just_meets_the_limit() -> None:
    """With a latency limit the load point of a measurement is its capacity."""
    made = rig(objective="capacity", wanted={"slo": "p99<1ms"}, truth=truth, noise=NOISE)
    measured = measure_one(made.bench(), made.spec)
    assert measured.rate_source.startswith("where the baseline just has p99 <= 1ms; its core is ")
    assert 3_300 < measured.rate_per_s < 4_200
    assert {w.rate_per_s for w in measured.windows} == {measured.rate_per_s}
