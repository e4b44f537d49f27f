"""docs/lint.md lists every rule as it is."""

from __future__ import annotations

from pathlib import Path

from tuner.lint import apache_rules, caddy_rules, envoy_rules, haproxy_rules, nginx_rules

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "lint.md").read_text(encoding="utf-8")


def test_every_rule_is_documented() -> None:
    """With its severity, its reason and the way out."""
    rows = [_row(r.id, r.link, r.severity, r.why, r.remedy) for r in nginx_rules.RULES]
    rows += [_row(r.id, r.link, r.severity, r.why, r.remedy) for r in caddy_rules.RULES]
    rows += [_row(r.id, r.link, r.severity, r.why, r.remedy) for r in haproxy_rules.RULES]
    rows += [_row(r.id, r.link, r.severity, r.why, r.remedy) for r in apache_rules.RULES]
    rows += [_row(r.id, r.link, r.severity, r.why, r.remedy) for r in envoy_rules.RULES]
    assert [row for row in rows if row not in TEXT] == []


def _row(name: str, link: str, *cells: str) -> str:
    return f"| [`{name}`]({link}) | {' | '.join(cells)} |"
