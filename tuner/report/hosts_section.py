"""Several hosts in a report: each one's own ratio, and what they say of hosts like them."""

from __future__ import annotations

import math

from tuner.judge.across_hosts import stands_for
from tuner.judge.results import StudyResult
from tuner.report.section import Section, Table
from tuner.stats.words import p_in_words, percent
from tuner.words.figures import interval, ratio

HEAD = ("host", "verdict", "ratio", "95 % interval", "blocks", "outlier")


def hosts_section(study: StudyResult) -> Section | None:
    """Return the hosts as a section of their own; None where one host measured."""
    found = study.hosts
    if found is None:
        return None
    across = found.across
    spread = {host.name: host for host in across.hosts} if across else {}
    rows = []
    for host in found.hosts:
        estimate, known = host.estimate, spread.get(host.name)
        rows.append(
            (
                host.name,
                str(host.verdict.kind) if host.verdict else host.why,
                ratio(estimate.ratio if estimate else math.nan),
                interval(estimate) if estimate else "",
                f"{host.blocks} of {host.planned}",
                f"yes ({p_in_words(known.outlier_p)})" if known and known.is_outlier else "no",
            )
        )
    tables = [Table(HEAD, tuple(rows))]
    if across:
        facts = [
            ("ratio on hosts like these", ratio(across.ratio)),
            ("95 % interval", _span(across.low, across.high)),
            ("standard deviation from host to host", percent(across.tau)),
            ("share of the spread that is not noise (I²)", f"{across.i_squared:.0%}"),
            ("all hosts alike (Welch's test)", p_in_words(across.q_p)),
        ]
        if across.prediction:
            facts.append(("one further host lies in", _span(*across.prediction)))
        tables.append(Table(("over all hosts", ""), tuple(facts)))
    shown = stands_for(study.record)
    return Section(
        anchor="hosts",
        title="Hosts",
        lead=f"{found.everywhere} All figures but the claim are of host {shown}.",
        tables=tuple(tables),
        notes=found.notes,
    )


def _span(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}"
