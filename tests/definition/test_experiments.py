"""The published experiments that ship with tuner, and what is read of their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spaces import load_space
from tuner.definition.alike import alignments, equalise, merged, read_rules, shipped_rules
from tuner.definition.experiment import (
    Experiment,
    list_experiments,
    load_experiment,
    scaled_workload,
)
from tuner.definition.published import has_configuration, load_configuration
from tuner.definition.study import load_study
from tuner.errors import DefinitionError
from tuner.reading.located import parse_yaml
from tuner.space.configuration import Value
from tuner.space.space import Space, spaces

EXPERIMENTS = {found.name: found for found in list_experiments()}
NAMES = (
    "https-proxy-500",
    "static-https-ladder",
    "reverse-proxy-ladder",
    "http3-page",
    "file-100k-h1-h2-terminator",
)
"""The published ones."""
OWN = ("reverse-proxies",)
VERSIONS = {
    "nginx": (1, 26, 3),
    "caddy": (2, 11, 0),
    "haproxy": (2, 6, 12),
    "envoy": (1, 40, 0),
    "apache": (2, 4, 62),
}


def space_of(name: str) -> Space:
    """Return a space on a host of two cores, bound by what every definition's test binds it to."""
    return load_space(
        name,
        server_cores=2,
        server_version=(1, 26, 3) if name.startswith("nginx") else (2, 9, 0),
        modules=("http_ssl", "http_v2", "http_v3", "http_gzip", "threads"),
    )


def space_for(experiment: Experiment, server: str, workload: str) -> str:
    """Return the space's name, as a run would choose it."""
    named = experiment.spaces.get(server)
    return named or load_study("static", {"server": server, "workload": workload}).space


def test_all_experiments_are_there() -> None:
    """Each can be started by its name."""
    assert {*NAMES, *OWN} == set(EXPERIMENTS)


@pytest.mark.parametrize("name", OWN)
def test_an_experiment_of_our_own_has_nothing_published_and_hand_tuned_arms(name: str) -> None:
    """Every server has a space for every case, and a hand tuning that differs from stock."""
    found = EXPERIMENTS[name]
    assert found.published is None
    assert found.hand
    for case in found.cases:
        for server in case.servers:
            name_of_space = space_for(found, server, case.workload)
            space = load_space(name_of_space, server_version=VERSIONS[server])
            assert space.baseline("hand").digest != space.baseline("stock").digest


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_is_whole(name: str) -> None:
    """Workloads load and scale, the source is named, its weakness stated, figures given."""
    found = EXPERIMENTS[name]
    assert found.published
    assert found.published.source
    assert found.published.weak
    assert found.published.rows
    cases = {case.name for case in found.cases}
    assert {row.case for row in found.published.rows} - {""} <= cases
    for case in found.cases:
        workload, words = scaled_workload(found, case, server_cores=1)
        assert workload.connections <= max(2, case.connections or workload.connections)
        assert bool(words) == (case.connections not in {None, workload.connections})


@pytest.mark.parametrize("name", NAMES)
def test_published_configurations_are_read_by_their_spaces(name: str) -> None:
    """Published settings without a parameter are listed; the rest is a configuration."""
    found = EXPERIMENTS[name]
    for case in found.cases:
        for server in case.servers:
            space = space_for(found, server, case.workload)
            if space not in spaces() or not has_configuration(name, server):
                continue
            bound = space_of(space)
            configuration, lost = load_configuration(name, bound)
            assert configuration.space == space
            assert all(": " in text for text in lost)
            equalise(configuration, bound, merged(shipped_rules(), found.alike))


def test_a_published_setting_without_a_parameter_is_reported_and_the_rest_is_carried_over() -> None:
    """``auto`` is as many workers as the server has cores."""
    configuration, lost = load_configuration("https-proxy-500", space_of("nginx/proxy"))
    values: dict[str, Value] = configuration.values
    assert values["worker_processes"] == 2
    assert values["worker_connections"] == 4000
    assert any(text.startswith("access_log off: all arms") for text in lost)


def test_the_terminator_has_a_fixed_configuration() -> None:
    """Elsewhere every server is tuned."""
    assert EXPERIMENTS["file-100k-h1-h2-terminator"].tuned == ("nginx", "caddy")
    assert EXPERIMENTS["https-proxy-500"].tuned == ("nginx", "caddy")


def test_spdy_keeps_its_published_figures_and_says_that_nothing_is_measured() -> None:
    """No server or client has it any more."""
    published = EXPERIMENTS["file-100k-h1-h2-terminator"].published
    assert published
    rows = published.rows
    spdy = [row for row in rows if row.arm.startswith("SPDY")]
    assert len(spdy) == 4
    assert all("nothing speaks it" in row.arm and row.figures["requests/s"] for row in spdy)


def test_an_unknown_experiment_is_answered_with_those_there_are() -> None:
    """And with the nearest."""
    with pytest.raises(DefinitionError, match="did you mean 'https-proxy-500'"):
        load_experiment("https-proxy-50")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("servers: [lighttpd]", "'lighttpd' is not allowed"),
        ("cases: {}", "at least one case"),
        ("limit: fast", "'fast'"),
        ("tune: other", "'other' is not allowed"),
        ("published: nothing", "nothing published under 'nothing'"),
        ("objective: speed", "'speed'"),
    ],
)
def test_a_mistake_in_an_experiment_is_answered_with_its_place(
    tmp_path: Path, text: str, words: str
) -> None:
    """File and bad value."""
    keys = {
        "summary": "a summary",
        "servers": "[nginx]",
        "time": "1m",
        "published": "https-proxy-500",
        "cases": "{one: {workload: static}}",
    }
    key, _, value = text.partition(": ")
    keys[key] = value
    file = tmp_path / "mine.yaml"
    file.write_text("".join(f"{k}: {v}\n" for k, v in keys.items()))
    with pytest.raises(DefinitionError, match=words):
        load_experiment(str(file))


def test_a_rule_settles_parameters_and_is_described() -> None:
    """A rule sets its parameters; its description names those that the space lacks."""
    rules = read_rules(
        parse_yaml(
            "- what: compression\n  why: less work\n"
            "  servers: {nginx: {gzip: on, brotli: on}, caddy: never}\n",
            "rules.yaml",
        )
    )
    space = space_of("nginx/static")
    stock = space.baseline("stock")
    assert equalise(stock, space, rules).values["gzip"] is True
    assert "brotli" not in equalise(stock, space, rules).values
    (alike,) = alignments(rules, {space.server: space})
    assert alike.by_server == {"nginx": "gzip on, brotli is not a parameter of nginx/static"}


def test_a_rule_with_a_wrong_value_names_its_line() -> None:
    """The error names the file, the line and the value, so that it can be corrected."""
    text = "- what: x\n  why: y\n  servers: {nginx: {gzip: maybe}}\n"
    rules = read_rules(parse_yaml(text, "rules.yaml"))
    space = space_of("nginx/static")
    with pytest.raises(DefinitionError, match=r"rules\.yaml.*3.*maybe"):
        equalise(space.baseline("stock"), space, rules)


def test_an_experiments_own_rule_replaces_the_shipped_one() -> None:
    """By what it is about."""
    shipped = shipped_rules()
    special = EXPERIMENTS["static-https-ladder"].alike
    found = {rule.what: rule for rule in merged(shipped, special)}
    assert found["compression"] is special[0]
    assert len(found) == len(shipped)
