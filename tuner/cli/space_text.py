"""A space as text and as JSON data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.machine.facts import ServerFacts
from tuner.reading.located import read_yaml
from tuner.space.file import parameter_nodes
from tuner.space.parameter import Condition, Parameter
from tuner.space.space import BASELINES, Space
from tuner.workload.workload import Workload

_MANY = 4
"""Most parameters with one reason that have a line each."""


def show_lines(
    space: Space,
    server: ServerFacts,
    workload: Workload,
    *,
    assumed: bool,
    width: float = math.inf,
) -> Iterator[str]:
    """Yield a table of the parameters; on a narrow terminal, two lines for each parameter."""
    facts = space.facts
    cores = f"{facts.server_cores} core{'s' if facts.server_cores > 1 else ''}"
    how = " (assumed)" if assumed else ""
    yield f"{space.name}: {space.summary}"
    yield (
        f"bound to   {server.words}{how}, {cores} for it, {facts.memory_bytes / (1 << 30):.1f} GiB"
    )
    yield (
        f"workload   {workload.name}: {facts.wire}, {facts.connections} connections, answers up to"
        f" {facts.response_bytes:,} bytes"
    )
    yield ""
    table = list(_table(space))
    if max(map(len, table)) <= width:
        yield from table
    else:
        for parameter in space.parameters:
            yield f"{parameter.name}: {_searched(parameter)}"
            yield f"    {parameter.allowed}; {_defaults(parameter)}"
    for order in space.orders:
        yield f"always     {order.text}"
    for title, reasons in (
        ("left out: not supported by this server or host", space.left_out),
        ("without effect for this workload", space.unused),
        ("forced, despite the never-list", space.forced),
    ):
        if reasons:
            yield ""
            yield title
            yield from _reasons(reasons)


def _reasons(reasons: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each parameter, or for each reason that many parameters share."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons:
        by_reason.setdefault(reason, []).append(name)
    for name, reason in reasons:
        if len(by_reason[reason]) <= _MANY:
            yield f"  {name:<28} {reason}"
    for reason, names in by_reason.items():
        if len(names) > _MANY:
            count = f"{len(names)} parameters"
            yield f"  {count:<28} {reason}: {', '.join(names)}"


def explain_lines(space: Space, server: ServerFacts, name: str) -> Iterator[str]:
    """Yield an explanation of a parameter; nothing if the space does not have it."""
    gone = space.gone
    if name in gone:
        about, link = _written(space.path, name)
        yield f"{name}, {space.name}"
        yield f"  {about}"
        yield f"  not here   it {gone[name]} ({server.words})"
        yield f"  see        {link}"
        return
    for parameter in space.parameters:
        if parameter.name == name:
            yield from _explained(space, parameter)


def as_data(space: Space, server: ServerFacts, workload: Workload) -> dict[str, object]:
    """Return the space as JSON data."""
    return {
        "space": space.name,
        "summary": space.summary,
        "template": space.template,
        "server": {"name": server.name, "version": server.version},
        "workload": {"name": workload.name, "wire": space.facts.wire},
        "facts": {**space.facts.names, "streams": space.facts.streams},
        "parameters": [_parameter_data(parameter) for parameter in space.parameters],
        "order": [order.text for order in space.orders],
        "left_out": dict(space.left_out),
        "unused": dict(space.unused),
        "forced": dict(space.forced),
    }


def _explained(space: Space, parameter: Parameter) -> Iterator[str]:
    yield f"{parameter.name}, {space.name}"
    yield f"  {parameter.about}"
    yield f"  may be     {parameter.allowed}{', on a log scale' if parameter.log else ''}"
    yield f"  baselines  {_defaults(parameter)}"
    yield f"  searched   {_searched(parameter)}"
    needs = space.needs(parameter)
    if needs:
        yield f"  effect     only where {needs}"
    yield f"  trades     {parameter.trades or 'nothing that clients or operators rely on'}"
    if parameter.unseen:
        yield f"  not shown  {parameter.unseen}"
    if parameter.directive:
        yield f"  written    as {parameter.directive}"
    yield f"  applied    by a {parameter.apply}"
    if parameter.link:
        yield f"  see        {parameter.link}"


def _table(space: Space) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("parameter", "searched", "may be", *BASELINES)]
    rows += [_row(parameter) for parameter in space.parameters]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(parameter: Parameter) -> tuple[str, ...]:
    values = (_value(parameter, base) for base in BASELINES)
    return (parameter.name, _searched(parameter), parameter.allowed, *values)


def _defaults(parameter: Parameter) -> str:
    return ", ".join(f"{base} {_value(parameter, base)}" for base in BASELINES)


def _value(parameter: Parameter, base: str) -> str:
    return parameter.format(parameter.defaults[base])


def _searched(parameter: Parameter) -> str:
    if parameter.role == "floor":
        return f"no: at least {parameter.floor}"
    if parameter.role == "fixed":
        return "no: as the baseline"
    if not parameter.searchable:
        return "no: one value"
    if parameter.trades:
        return f"if allowed: {parameter.belongs_to or parameter.name}"
    return "yes"


def _written(path: Path, name: str) -> tuple[str, str]:
    """Return the description and link of a parameter that could not be bound."""
    for key, node in parameter_nodes(read_yaml(path)):
        if key == name:
            entries = node.entries()
            about, link = (entries[k].text() if k in entries else "" for k in ("about", "link"))
            return " ".join(about.split()), link
    return "", ""


def _parameter_data(parameter: Parameter) -> dict[str, object]:
    numeric = parameter.kind in ("integer", "real")
    return {
        "name": parameter.name,
        "type": parameter.kind,
        "range": [parameter.low, parameter.high] if numeric else None,
        "scale": "log" if parameter.log else "linear",
        "step": parameter.step,
        "unit": parameter.unit,
        "choices": list(parameter.choices),
        "special": list(parameter.special),
        "default": dict(parameter.defaults),
        "searched": _searched(parameter),
        "when": [_condition(one) for one in parameter.when],
        "either": [[_condition(one) for one in group] for group in parameter.either],
        "trades": parameter.trades,
        "unseen": parameter.unseen,
        "belongs_to": parameter.belongs_to,
        "floor": parameter.floor,
        "apply": parameter.apply,
        "directive": parameter.directive or parameter.name,
        "about": parameter.about,
        "link": parameter.link,
    }


def _condition(condition: Condition) -> dict[str, object]:
    return {
        "parameter": condition.parameter,
        "relation": condition.relation,
        "values": list(condition.values),
    }
