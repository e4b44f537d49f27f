"""The pages of a run of contests: words, tables and pictures, in a real browser too."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.phases.rig import HAND, STOCK, rig
from tests.report.conftest import HOSTILE
from tests.report.test_browser import CHROMIUM, visit
from tests.report.test_html import parsed
from tuner.judge.contest import arms_figures, plan_contest
from tuner.judge.contest_results import ContestResult
from tuner.judge.results import StudyResult, evaluate
from tuner.measurement.resources import ProcessUsage, Resources
from tuner.measurement.window import Measurement
from tuner.phases.block import Arm
from tuner.phases.climb import run_ladder
from tuner.phases.contest import ContestLoad, run_contest
from tuner.record.contenders import (
    AlignedDefault,
    Contender,
    Contest,
    Ladder,
    Published,
    PublishedRow,
)
from tuner.record.model import Record
from tuner.record.small import small
from tuner.report.charts import for_files
from tuner.report.contest_tables import arm_table, brief
from tuner.report.html import render_html
from tuner.report.markdown import render_markdown
from tuner.report.text import result_lines
from tuner.space.configuration import Value
from tuner.stats.verdict import VerdictKind
from tuner.testing.lab import Effect

NAMED = HOSTILE.replace("/", "")
"""As much of it as a record accepts in a name: no separator of paths."""

RATES_PER_S = (800.0, 1_600.0, 2_400.0, 3_200.0, 4_000.0, 4_800.0)


def hand_is_faster(values: Mapping[str, Value]) -> Effect:
    """``hand`` takes 22 % of the latency away, and half of the CPU time."""
    hand = values == HAND.values
    return Effect(ln_latency=-0.25 * hand, capacity_per_s=4_000.0, cpu_us=50.0 if hand else 100.0)


def evaluated(record: Record) -> ContestResult:
    """Return the contest of a record."""
    found = evaluate(record).contest
    assert found is not None
    return found


@cache
def met(first: str = "one-stock", second: str = "one-hand", text: str = "words") -> ContestResult:
    """Two arms in common blocks and on a ladder; ``text`` wherever a study brings some in."""
    made = rig(truth=hand_is_faster)
    arms = (Arm(first, STOCK), Arm(second, HAND))
    plan = plan_contest(40.0, 2, 2_000.0, claims=4, mode="open", ladder=True)
    assert plan.ladder is not None
    bench = made.bench()
    for arm in arms:
        bench.store.add_configuration(bench.describe(arm.configuration))
    run_contest(bench, arms, plan, ContestLoad(2_000.0))
    run_ladder(bench, arms, RATES_PER_S, 3, plan.ladder)
    record = made.record()
    contest = Contest(
        title=text,
        case=text,
        summary=text,
        workload=text,
        mode="open",
        contenders=(
            Contender(first, "one", "stock", STOCK.digest, text, (text,)),
            Contender(second, "one", "hand", HAND.digest, text),
        ),
        servers=(replace(record.server, name="one"),),
        capacities_per_s={first: 4_000.0, second: 4_100.0},
        generator_bound=(second,),
        rate_per_s=2_000.0,
        rate_source=text,
        blocks=plan.blocks,
        rounds=plan.block.rounds,
        window_s=plan.block.window_s,
        limit="p99 <= 5ms",
        within_s=0.2,
        ladder=Ladder(RATES_PER_S, 3, plan.ladder.window_s),
        alike=(AlignedDefault(text, text, {"one": text}),),
        scaling=(text,),
        published=Published(
            text,
            text,
            "2023",
            text,
            (text,),
            (text,),
            (PublishedRow("", text, text, {text: text}),),
        ),
    )
    return evaluated(replace(record, contest=contest, notes=(text,), command=text))


def test_claims_are_in_a_sentence_for_each_pair() -> None:
    """A sentence for each pair states the gains with their sizes, and what is equal."""
    (line,) = brief(met())
    assert line.startswith("one-hand against one-stock: better in p50 (−2")
    assert "CPU per request (−5" in line
    assert line.endswith("equal in memory")


def with_slow_stalls(record: Record, factor: float) -> Record:
    """Return the record with a p99 of the faster arm that stalls make this many times as long."""

    def slowed(window: Measurement) -> Measurement:
        if window.instance != "one-hand":
            return window
        return replace(window, raw=replace(window.raw, p99_us=factor * window.raw.p99_us))

    blocks = (replace(b, windows=tuple(map(slowed, b.windows))) for b in record.blocks)
    return replace(record, blocks=tuple(blocks))


def test_a_claim_that_whole_arms_contradict_is_withdrawn_with_a_warning() -> None:
    """The p99 with the requests that stalls touched; records of earlier versions keep claims."""
    record = with_slow_stalls(met().record, 5.0)
    assert record.contest is not None
    (p99,) = (row for row in evaluated(record).compared if row.objective.name == "p99")
    assert p99.verdict.kind is VerdictKind.BETTER
    found = evaluated(replace(record, contest=replace(record.contest, evidence="whole")))
    (now,) = (row for row in found.compared if row.objective.name == "p99")
    assert now.verdict.kind is VerdictKind.INCONCLUSIVE
    (warning,) = (text for text in found.warnings if text.startswith("no claim on p99"))
    words = "no claim on p99 of one-hand against one-stock: p99 with the requests that stalls"
    assert warning.startswith(words)
    assert "times one-stock's" in warning


def test_an_exchanged_record_has_the_same_claims() -> None:
    """An exchanged record keeps the histograms of all requests."""
    record = met().record
    assert record.contest is not None
    whole = replace(record, contest=replace(record.contest, evidence="whole"))
    assert evaluated(small(whole)).compared == evaluated(whole).compared
    windows = [w for b in small(whole).blocks if b.phase == "contest" for w in b.windows]
    assert windows
    assert all(window.stall_free.hdr for window in windows)


def test_a_comparison_with_few_starts_warns() -> None:
    """Claims remain, and the report states which kind of start may have been missed."""
    record = met().record
    assert record.contest is not None
    few = evaluated(replace(record, contest=replace(record.contest, evidence="whole")))
    assert brief(few) == brief(met())
    (warning,) = (text for text in few.warnings if "a kind of start that comes in" in text)
    assert warning.startswith(f"with {len(few.blocks)} starts of each arm")


def test_what_is_known_of_no_arm_has_no_column() -> None:
    """Windows too short for p99.9, and a server without a backend."""
    head, rows = arm_table(met())
    assert "p99.9" not in head
    assert "of the backend" not in head
    assert {len(row) for row in rows} == {len(head)}


def study_of(result: ContestResult) -> StudyResult:
    """Return a contest as the reports take it."""
    return replace(
        evaluate(result.record),
        contest=result,
        sentence=result.sentence,
        warnings=result.warnings,
    )


def worked(window: Measurement) -> Measurement:
    """The window, with backends that take 30 µs for a request and a server that takes nothing."""
    none = ProcessUsage(0.0, 0.0, 0.0, 0, 0, 0, None, None, None, 1)
    spent = replace(none, user_s=window.completed_per_s * window.duration_s * 30e-6)
    found = Resources(1.0, window.duration_s, none, spent, none, 0, 0, 0, 0, 0.0)
    return replace(window, resources=found)


def working(result: ContestResult) -> ContestResult:
    """Return the same, with what was used in every window."""
    record = result.record
    blocks = (replace(b, windows=tuple(map(worked, b.windows))) for b in record.blocks)
    return replace(result, record=replace(record, blocks=tuple(blocks)))


def test_the_backend_has_its_cpu_time_by_request() -> None:
    """The backend's CPU time per request is taken over all windows, since one has few ticks."""
    blocks = [replace(block, windows=tuple(map(worked, block.windows))) for block in met().blocks]
    (found,) = arms_figures(blocks, ["one-hand"])
    assert found.backend_cpu_us == pytest.approx(30.0)


def test_what_was_used_is_drawn_against_the_rate() -> None:
    """A point for every arm and rate; without the kernel's counters the server's CPU alone."""
    without, _ = for_files([study_of(met())])
    assert [name for name in without if name.startswith("used-")] == ["used-cpu-words"]
    drawn, titles = for_files([study_of(working(met()))])
    spec = drawn["used-backend-cpu-words"]
    assert titles["used-backend-cpu-words"] == "backends, cores busy, against offered rate, words"
    ((_, rows),) = spec["datasets"].items()
    seen = {row["rate"]: row["value"] for row in rows if row["arm"] == "one-hand"}
    assert sorted(seen) == list(RATES_PER_S)
    blocks = [block for block in met().record.blocks if block.phase == "ladder"]
    windows = [window for block in blocks for window in block.windows]
    own = [w for w in windows if (w.instance, w.rate_per_s) == ("one-hand", 800.0)]
    # The counters were read a second apart.
    spent = statistics.median(w.completed_per_s * w.duration_s for w in own) * 30e-6
    assert seen[800.0] == pytest.approx(spent)


def test_a_table_keeps_to_the_width_of_the_terminal() -> None:
    """Columns without room come in a further table, each with its arms; nothing is cut."""
    result = study_of(met())
    wide, narrow = result_lines(result), result_lines(result, 79)
    tables = [line for line in narrow if line.startswith("  one-") and " against " not in line]
    assert max(map(len, tables)) <= 79
    assert max(map(len, wide)) > 79
    assert {word for line in wide for word in line.split()} == {
        word for line in narrow for word in line.split()
    }


@pytest.mark.parametrize(
    ("more", "spread", "in_transit", "warned"),
    [
        (1.02, 0.0, 0.0, False),
        (1.2, 0.0, 0.0, True),
        (1.2, 0.5, 0.0, False),
        (1.2, 0.0, 0.3, False),
        (1.2, 0.0, 0.1, True),
        (1.2, 0.0, math.nan, False),
    ],
)
def test_answers_of_another_size_are_warned_of(
    more: float, spread: float, in_transit: float, warned: bool
) -> None:
    """Beyond 3 %, unless the mix of the windows or the answers in transit at their ends explain it.

    As many answers are in transit as the latency is of a window's length; without a median nothing
    is known of them.
    """
    result = met()
    p50_us = in_transit * result.contest.window_s * 1e6

    def grown(place: int, window: Measurement) -> Measurement:
        size = 1_000 * (1 + spread * (-1) ** place)
        if window.instance == "one-hand":
            size *= more
        slowed = replace(window.stall_free, p50_us=max(p50_us, window.stall_free.p50_us))
        return replace(window, bytes_in=round(size * window.completed), stall_free=slowed)

    blocks = tuple(
        replace(b, windows=tuple(grown(b.index, w) for w in b.windows))
        for b in result.record.blocks
    )
    found = evaluated(replace(result.record, blocks=blocks))
    said = [text for text in found.warnings if "bytes with its head" in text]
    assert bool(said) is warned
    if warned:
        assert "an answer of one-hand takes 1,200 bytes" in said[0]
        assert "one of one-stock 1,000 (20% more)" in said[0]


def test_markdown_leads_with_what_was_shown_and_says_where() -> None:
    """The page has the version first, then sentences, tables and published figures."""
    text = render_markdown(study_of(met()))
    assert text.startswith("# words\n\n**words**\n\n")
    assert "tuner " in text.partition("### words")[0]
    assert "| second ÷ first | p50 | p99 | CPU per request | memory |" in text
    assert re.search(r"\| one-hand ÷ one-stock \| \*\*0\.7\d\d\*\* \(0\.7\d\d to 0\.[78]", text)
    assert "Published for this" in text


def test_the_page_of_a_contest_has_what_that_of_a_study_has() -> None:
    """Host, method, limits and time; heads have a capital, and percentiles their own name."""
    page = render_html(study_of(met()))
    for anchor in ("case-0", "notes", "alike", "time", "method", "limits", "again"):
        assert f' id="{anchor}"' in page, anchor
    assert "<th>Arm</th><th>p50</th>" in page
    assert "one-stock" in page.partition('id="case-0"')[2]


def test_pictures_are_named_by_case_and_never_leave_their_folder() -> None:
    """Files of pictures have plain names for any name of a case."""
    charts, titles = for_files([study_of(met(text="../../etc"))])
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in charts)
    assert titles["ratio-p99--etc"] == "p99, ratios with 95 % intervals, ../../etc"


def test_hostile_text_stays_text() -> None:
    """Neither page lets markup of names, notes or published texts become an element."""
    result = met(f"a{NAMED}", f"b{NAMED}", HOSTILE)
    assert "img" not in [tag for tag, _ in parsed(render_html(study_of(result))).tags]
    # Code shows what it holds; a backtick in it does not end it.
    assert "<img" not in without_code(render_markdown(study_of(result)))
    quoted = replace(result, record=replace(result.record, command="a ` <img>"))
    assert "```sh\na ` <img>\n```" in render_markdown(study_of(quoted))


def without_code(markdown: str) -> str:
    """Return the text of a page outside of blocks and spans of code."""
    prose = re.sub(r"^(`{3,})\w*$.*?^\1$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(`+).*?\1", "", prose)


@pytest.mark.integration
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("hostile", [False, True])
def test_every_chart_is_drawn_and_every_link_leads_somewhere(tmp_path: Path, hostile: bool) -> None:
    """In a real browser: ratios, ladder and what it used; a silent console; nothing runs."""
    result = met(f"a{NAMED}", f"b{NAMED}", HOSTILE) if hostile else met()
    page = render_html(study_of(working(result)))
    assert len(page) < 5_000_000
    seen = visit(page, tmp_path)
    assert seen.complaints == []
    assert 'data-charts="drawn"' in seen.dom
    assert seen.drawn == re.findall(r'id="chart-([a-z0-9-]+)" role', page)
    assert {"ratio-p99-0", "ladder-latency-0", "used-cpu-0"} <= set(seen.drawn)
    assert not seen.title.startswith("pwned")
    anchors = re.findall(r'href="#([^"]+)"', page)
    assert anchors
    assert set(anchors) <= set(re.findall(r'id="([^"]+)"', page))
