"""Spaces: parameters bound to the facts, and configurations that are whole and allowed."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spaces import load_space
from tuner.errors import DefinitionError
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import Parameter
from tuner.space.space import Space

HEAD = "space: nginx/mine\nserver: nginx\n"


def load(tmp_path: Path, text: str, *, cores: int = 2, version: str = "1.22.1") -> Space:
    """Bind the space in ``text``, whose parameters begin in line 4."""
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    return load_space(
        str(path),
        server_cores=cores,
        server_version=tuple(int(part) for part in version.split(".")),
        modules=("http_ssl", "threads"),
    )


def refusal(tmp_path: Path, text: str, **facts: object) -> str:
    """Return the message that reading raises, without the folder."""
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, text, **facts)  # type: ignore[arg-type]
    return str(raised.value).replace(f"{tmp_path}/", "")


SMALL = """\
parameters:
  workers: {type: integer, range: [1, 2 * server_cores], default: {stock: 1, hand: server_cores}}
  connections: {type: integer, range: [64, 4096], floor: 2 * connections + 64, default: 64}
  sendfile: {type: boolean, default: {stock: off, hand: on}}
  nopush: {type: boolean, default: {stock: off, hand: on}, when: {sendfile: on}}
  chunk:
    type: integer
    range: [128k, 8m]
    scale: log
    step: 128k
    unit: bytes
    special: [0]
    default: 2m
    when: {sendfile: on}
  cache: {type: integer, range: [100, 900], special: [off], default: off, trades: stale files}
  valid:
    type: integer
    range: [10s, 60s]
    unit: seconds
    default: 60s
    trades: late changes
    belongs_to: cache
    when: {cache: {not: off}}
  mode: {type: choice, choices: [fast, "1.1"], default: fast}
  gzip: {type: boolean, default: {stock: off, distro: on}, fixed: yes}
"""


@pytest.fixture
def small(tmp_path: Path) -> Space:
    """A space with one parameter of every sort."""
    return load(tmp_path, SMALL)


def names(parameters: tuple[Parameter, ...]) -> list[str]:
    """Return their names."""
    return [parameter.name for parameter in parameters]


def test_bounds_are_numbers_of_this_host(tmp_path: Path) -> None:
    """``2 * server_cores`` is 8 on four cores; defaults follow likewise."""
    workers = load(tmp_path, SMALL, cores=4).parameter("workers")
    assert (workers.low, workers.high) == (1, 8)
    assert workers.defaults == {"stock": 1, "distro": 1, "hand": 4}


def test_sizes_and_durations_are_read_with_their_unit(small: Space) -> None:
    """``128k`` is bytes and ``60s`` seconds."""
    chunk, valid = small.parameter("chunk"), small.parameter("valid")
    assert (chunk.low, chunk.high, chunk.step) == (128 << 10, 8 << 20, 128 << 10)
    assert (valid.low, valid.high) == (10, 60)


def test_only_what_is_neutral_is_searched(small: Space) -> None:
    """Floors and fixed parameters never are, trades only if they are allowed."""
    neutral = ["workers", "sendfile", "nopush", "chunk", "mode"]
    assert names(small.searched()) == neutral
    assert sorted(names(small.searched(("cache",)))) == sorted([*neutral, "cache", "valid"])


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("sendfile", "--allow: 'sendfile' has no trade-off; --allow accepts: cache, valid"),
        ("cach", "--allow: unknown parameter 'cach'; did you mean 'cache'?; --allow accepts"),
    ],
)
def test_allowing_what_is_no_trade_is_an_error(small: Space, name: str, answer: str) -> None:
    """A user who allows it expects something that will not happen."""
    with pytest.raises(DefinitionError) as raised:
        small.searched((name,))
    assert str(raised.value).startswith(answer)


def test_a_single_value_is_nothing_to_search(tmp_path: Path) -> None:
    """On one core, ``[1, server_cores]`` leaves no choice."""
    text = "parameters:\n  w: {type: integer, range: [1, server_cores], default: 1}\n"
    assert names(load(tmp_path, text, cores=1).searched()) == []
    assert names(load(tmp_path, text, cores=2).searched()) == ["w"]


def test_an_inactive_parameter_has_no_value(small: Space) -> None:
    """Without sendfile its two companions are gone, and so is every trace of their values."""
    stock = small.baseline("stock")
    assert not {"nopush", "chunk", "valid"} & stock.values.keys()
    proposal = small.complete({"sendfile": False, "nopush": True, "chunk": 0}, stock)
    assert proposal == stock
    assert proposal.digest == stock.digest


def test_an_activated_parameter_takes_its_compiled_in_value(small: Space) -> None:
    """A parameter that becomes active takes the server's compiled-in default."""
    values = small.complete({"sendfile": True}, small.baseline("stock")).values
    assert (values["nopush"], values["chunk"]) == (False, 2 << 20)


def test_the_rest_is_as_in_the_base(small: Space) -> None:
    """A search from ``distro`` keeps what the package ships."""
    values = small.complete({"workers": 2}, small.baseline("distro")).values
    assert (values["workers"], values["gzip"]) == (2, True)


def test_a_floor_holds(small: Space) -> None:
    """64 would refuse the load; 128 is what two sides of 32 connections need, with room."""
    base = small.baseline("stock")
    assert base.values["connections"] == 128
    assert small.complete({"connections": 70}, base).values["connections"] == 128
    assert small.complete({"connections": 999}, base).values["connections"] == 999


def test_proposals_are_rounded_to_the_grid(small: Space) -> None:
    """Within the range, and special values are left alone."""
    base = small.baseline("hand")

    def chunk(value: Value) -> Value:
        return small.complete({"chunk": value}, base).values["chunk"]

    assert chunk((128 << 10) + 5) == 128 << 10
    assert chunk((256 << 10) - 5) == 256 << 10
    assert chunk(8 << 20) == 8 << 20
    assert chunk(0) == 0


def test_a_value_off_the_grid_stays_if_the_base_has_it(small: Space) -> None:
    """The user's own configuration is not corrected on the way."""
    base = Configuration.of("nginx/mine", {**small.baseline("hand").values, "chunk": 300_000})
    assert small.complete({"chunk": 300_000, "workers": 1}, base).values["chunk"] == 300_000


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({"wrokers": 2}, "unknown parameter 'wrokers'; did you mean 'workers'?"),
        ({"workers": 5}, "workers: 5 is out of range; allowed: 1 to 4"),
        ({"workers": True}, "workers: True is not allowed; allowed: 1 to 4"),
        ({"workers": 1.5}, "workers: 1.5 is not allowed; allowed: 1 to 4"),
        ({"workers": "auto"}, "workers: 'auto' is not allowed; allowed: 1 to 4"),
        ({"sendfile": 1}, "sendfile: 1 is not allowed; allowed: on or off"),
        ({"chunk": 64 << 10}, "chunk: 64k is out of range; allowed: 128k to 8m bytes, or 0"),
        ({"chunk": False}, "chunk: False is not allowed; allowed: 128k to 8m bytes, or 0"),
        ({"cache": "on"}, "cache: 'on' is not allowed; allowed: 100 to 900, or off"),
        ({"valid": 5}, "valid: 5s is out of range; allowed: 10s to 60s"),
        ({"mode": "slow"}, "mode: 'slow' is not allowed; allowed: fast, 1.1"),
        ({"mode": 1.1}, "mode: 1.1 is not allowed; allowed: fast, 1.1"),
    ],
)
def test_a_wrong_value_is_answered_with_what_is_allowed(
    small: Space, values: dict[str, Value], answer: str
) -> None:
    """Name, bad value, and what would do."""
    with pytest.raises(DefinitionError) as raised:
        small.complete(values, small.baseline("stock"))
    assert str(raised.value) == answer


def test_a_configuration_of_another_space_is_refused(small: Space) -> None:
    """A configuration of another space is refused."""
    with pytest.raises(DefinitionError, match="a configuration of 'nginx/other' is not one of"):
        small.complete({}, Configuration.of("nginx/other", {}))


def test_an_unknown_baseline_is_answered_with_the_known_ones(small: Space) -> None:
    """Three names."""
    with pytest.raises(DefinitionError, match="'best'; allowed: stock, distro, hand"):
        small.baseline("best")


def test_only_active_parameters_are_asked_for(small: Space) -> None:
    """In the order of the file, each after those it depends on."""
    asked: list[str] = []

    def without_sendfile(parameter: Parameter) -> Value:
        asked.append(parameter.name)
        return False if parameter.kind == "boolean" else parameter.defaults["stock"]

    found = small.propose(small.searched(), small.baseline("hand"), without_sendfile)
    assert asked == ["workers", "sendfile", "mode"]
    assert found.values["sendfile"] is False


def test_the_hand_tuning_joins_a_search_without_what_is_not_searched(small: Space) -> None:
    """Adopting the hand tuning keeps the package's values of parameters that are not searched."""
    hand, distro = small.baseline("hand"), small.baseline("distro")
    joined = small.adopt(hand, distro)
    assert (hand.values["gzip"], joined.values["gzip"]) == (False, True)
    assert (joined.values["sendfile"], joined.values["nopush"]) == (True, True)


def test_a_relation_between_numbers_holds_or_is_an_error(tmp_path: Path) -> None:
    """Busy buffers that nginx would refuse, say; inactive parameters are not asked."""
    text = """\
    parameters:
      size: {type: integer, range: [1, 64], default: 4}
      more: {type: boolean, default: on}
      count: {type: integer, range: [2, 9], default: 8, when: {more: on}}
      each: {type: integer, range: [1, 64], default: 4}
    order:
      - size <= (count - 1) * each
    """
    space = load(tmp_path, text)
    base = space.baseline("stock")
    assert space.complete({"size": 28}, base).values["size"] == 28
    with pytest.raises(DefinitionError) as raised:
        space.complete({"size": 29}, base)
    assert str(raised.value) == (
        "size <= (count - 1) * each does not hold: count is 8, each is 4, size is 29"
    )
    assert space.complete({"size": 64, "more": False}, base).values["size"] == 64
    (tmp_path / "c.yaml").write_text("space: nginx/mine\nvalues:\n  size: 29\n")
    with pytest.raises(DefinitionError, match=r"c.yaml:3: values: size <= \(count - 1\) \* each"):
        space.read_configuration(tmp_path / "c.yaml")


def test_a_configuration_is_carried_over_without_what_has_no_parameter_here(tmp_path: Path) -> None:
    """Lost settings are named with value and reason; new ones have their compiled-in value."""
    text = """\
    parameters:
      pool: {type: boolean, default: off}
      new: {type: integer, range: [1, 9], default: 2, requires: {version: ">= 1.29.7"}}
      old: {type: integer, range: [1, 9], default: 3, requires: {version: "< 1.29.7"}}
      switch: {type: boolean, default: off, requires: {version: ">= 1.29.7"}}
    """
    newer, older = (load(tmp_path, text, version=version) for version in ("1.31.4", "1.22.1"))
    found = newer.complete({"pool": True, "new": 7, "switch": True}, newer.baseline("stock"))
    carried, lost = older.carry_over(found)
    assert dict(carried.values) == {"pool": True, "old": 3}
    assert lost == (
        "new 7: it needs version >= 1.29.7; this is 1.22.1",
        "switch on: it needs version >= 1.29.7; this is 1.22.1",
    )
    assert older.carry_over(carried) == (carried, ())


def test_what_the_server_cannot_do_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """Old versions and missing modules; what depends on such a parameter goes with it."""
    text = """\
    parameters:
      new: {type: boolean, default: off, requires: {version: ">= 1.29.7"}}
      quic: {type: boolean, default: off, requires: {module: http_v3}}
      pool: {type: boolean, default: off, requires: {module: threads, version: ">= 1.7.11"}}
      after: {type: boolean, default: off, when: {new: on}}
      one: {type: integer, range: [1, 1], default: 1}
      many: {type: boolean, default: off, when: {one: {above: 1}}}
    """
    space = load(tmp_path, text)
    assert names(space.parameters) == ["pool", "one"]
    assert dict(space.left_out) == {
        "new": "needs version >= 1.29.7; this is 1.22.1",
        "quic": "needs the module http_v3, which is not built in",
        "after": (
            "applies only with new, which is left out: needs version >= 1.29.7; this is 1.22.1"
        ),
        "many": "applies only with one above 1, which is impossible here",
    }
    with pytest.raises(DefinitionError, match="'new' is not available here: it needs version"):
        space.complete({"new": True}, space.baseline("stock"))
    assert names(load(tmp_path, text, version="1.29.7").parameters)[:2] == ["new", "pool"]


@pytest.mark.parametrize(
    ("version", "value"), [("1.19.9", 100), ("1.19.10", 1000), ("1.20", 1000), ("1.19", 100)]
)
def test_a_default_may_depend_on_the_version(tmp_path: Path, version: str, value: int) -> None:
    """Compared number by number: 1.19.10 is newer than 1.19.9."""
    text = """\
    parameters:
      r:
        type: integer
        range: [1000, 9000]
        default: {stock: {"< 1.19.10": 100, ">= 1.19.10": 1000}}
    """
    assert load(tmp_path, text, version=version).baseline("stock").values["r"] == value


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("{type: integer, default: 1}", "s.yaml:5: p: 'range' is missing"),
        ("{type: whole, default: 1}", "type: 'whole' is not allowed; allowed: boolean, integer"),
        ("{type: boolean}", "s.yaml:5: p: 'default' is missing"),
        ("{type: boolean, default: 1}", "s.yaml:5: default: '1' is not allowed; allowed: on or"),
        ("{type: boolean, default: {hand: on}}", "default: 'stock' is missing"),
        ("{type: boolean, default: {stock: on, best: on}}", "unknown key 'best'; allowed: stock"),
        (
            "{type: boolean, default: on, range: [1, 2]}",
            "only numbers have a range; this is a bool",
        ),
        ("{type: integer, range: [1], default: 1}", "range: write [lowest, highest]"),
        ("{type: integer, range: [5, 4], default: 5}", "range: the range is empty here: 5 to 4"),
        ("{type: integer, range: [1, cores], default: 1}", "unknown name 'cores'; known: connec"),
        ("{type: integer, range: [1, 5 / 2], default: 1}", "2.5 is not an integer; // rounds down"),
        (
            "{type: integer, range: [0, 5], scale: log, default: 1}",
            "a log scale must start above 0",
        ),
        ("{type: integer, range: [0, 5], step: 0, default: 1}", "step: a step must be above 0"),
        ("{type: integer, range: [0, 5], default: x}", "default: unknown name 'x'"),
        ("{type: choice, choices: [a], default: a}", "choices: write two or more different words"),
        ("{type: choice, choices: [a, 'b;'], default: a}", "'b;' is not a plain word"),
        ("{type: choice, choices: [a, b], default: c}", "default: 'c' is not allowed; allowed: a"),
        ("{type: choice, default: a}", "'choices' belongs to a choice, and a choice needs it"),
        (
            "{type: boolean, default: on, when: {q: on}}",
            "q: 'q' is not an earlier parameter; earlier: ",
        ),
        ("{type: boolean, default: on, when: {a: 5}}", "a: impossible condition: 5 is out of ra"),
        ("{type: boolean, default: on, when: {a: []}}", "a condition without a value can never"),
        ("{type: boolean, default: on, when: {a: {over: 1}}}", "unknown key 'over'"),
        (
            "{type: boolean, default: on, when: {p: on}}",
            "'p' is not an earlier parameter; earlier: a",
        ),
        (
            "{type: boolean, default: on, requires: {version: new}}",
            "'new' is not a condition on the",
        ),
        ("{type: boolean, default: {stock: {'< 1': on}}}", "no condition holds for version 1.22.1"),
        (
            "{type: boolean, default: on, belongs_to: a}",
            "belongs_to is only for a parameter with a trade-off",
        ),
        (
            "{type: boolean, default: on, trades: x, belongs_to: a}",
            "'a' is not an earlier parameter with a trade-off",
        ),
        ("{type: boolean, default: on, unti: x}", "s.yaml:5: unknown key 'unti'; did you mean"),
    ],
)
def test_a_wrong_parameter_is_answered_at_its_line(tmp_path: Path, line: str, answer: str) -> None:
    """A mistake in a parameter is refused with its file, line and reason."""
    before = "parameters:\n  a: {type: integer, range: [1, 2], default: 1}\n  p: "
    assert answer in refusal(tmp_path, before + line + "\n")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("order: [a]\nparameters: {}", "s.yaml:3: order: 'a' is not a relation such as 'a < b'"),
        ("order: [a < b]\nparameters: {}", "s.yaml:3: order: 'a' is not a parameter with a number"),
        ("parameters: {P: {type: boolean, default: on}}", "'P' is not a name; allowed: a-z, 0-9"),
        ("template: 5\n", "s.yaml:1: 'parameters' is missing"),
    ],
)
def test_a_wrong_space_is_answered_at_its_line(tmp_path: Path, text: str, answer: str) -> None:
    """A mistake outside the parameters is refused with its line too."""
    assert answer in refusal(tmp_path, text)


def test_a_space_is_named_after_its_server(tmp_path: Path) -> None:
    """A space's name begins with its server; another name is refused."""
    path = tmp_path / "s.yaml"
    path.write_text("space: mine\nserver: nginx\nparameters: {}\n", encoding="utf-8")
    with pytest.raises(DefinitionError, match="'mine' is not a name for a space; write nginx/NAME"):
        load_space(str(path), connections=1, memory_bytes=1, server_version=(1,))


@given(st.data())
def test_completing_twice_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Completing a complete configuration returns it unchanged."""
    space = load(tmp_path_factory.mktemp("s"), SMALL)

    def draw(parameter: Parameter) -> Value:
        if parameter.kind == "boolean":
            return bool(data.draw(st.booleans()))
        allowed: st.SearchStrategy[Value] = st.integers(int(parameter.low), int(parameter.high))
        if parameter.kind == "choice":
            allowed = st.sampled_from(parameter.choices)
        elif parameter.special:
            allowed = allowed | st.sampled_from(parameter.special)
        return data.draw(allowed)

    base = space.baseline(data.draw(st.sampled_from(("stock", "distro", "hand"))))
    once = space.propose(space.searched(("cache",)), base, draw)
    assert space.complete(once.values, base) == once
    assert space.complete({}, once) == once
