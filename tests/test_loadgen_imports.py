"""The generator's modules import in one direction: the map in `loadgen/src/lib.rs`.

The map lists the modules of the library from the ground up. An import of a module, or a path to it
in the code, may only point to a line above its own. Between files there are no circles, neither in
the library nor in the binary. Unit tests inside a module may import what they like.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "loadgen" / "src"
BINARY = SOURCES / "bin" / "tuner-loadgen"


def code(text: str) -> str:
    """Return Rust source without its comments and its unit tests."""
    return re.sub(r"//[^\n]*", "", text.partition("#[cfg(test)]")[0])


def files(top: Path, root: str) -> dict[str, Path]:
    """Return the modules of a crate below `top`, path (`a::b`, the root is "") to file."""
    found = {}
    for file in sorted(top.rglob("*.rs")):
        parts = file.relative_to(top).with_suffix("").parts
        if parts[0] != "bin":
            found["" if parts == (root,) else "::".join(parts)] = file
    return found


def leaves(tree: str) -> Iterator[str]:
    """Yield the paths of a `use` tree: `a::{b, c::d}` gives `a::b` and `a::c::d`."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        yield head.split(" as ")[0].strip()
        return
    start, depth = 0, 0
    inside = rest[: rest.rindex("}")] + ","
    for at, letter in enumerate(inside):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if inside[start:at].strip():
                yield from (head + leaf for leaf in leaves(inside[start:at]))
            start = at + 1


def targets(module: str, text: str, known: set[str]) -> set[str]:
    """Return the modules among `known` that the source of `module` names."""
    source = code(text)
    uses = re.findall(r"\buse\s+([^;]*);", source)
    paths = {leaf for use in uses for leaf in leaves(" ".join(use.split()))}
    paths |= set(re.findall(r"(?<![\w:])(?:\w+::)+\w+", re.sub(r"\buse\s+[^;]*;", "", source)))
    # A path that names no module ends, without its last parts, at the module that it stands in.
    own = module.split("::") if module else []
    found = set()
    for path in paths:
        parts = path.split("::")
        if parts[0] == "crate":
            parts = parts[1:]
        else:
            base = list(own)
            while parts and parts[0] in {"super", "self"}:
                base = base[:-1] if parts[0] == "super" else base
                parts = parts[1:]
            parts = base + parts
        while parts and "::".join(parts) not in known:
            parts = parts[:-1]
        if parts and "::".join(parts) != module:
            found.add("::".join(parts))
    return found


def graph(top: Path, root: str) -> dict[str, set[str]]:
    """Return the imports between the modules of a crate."""
    found = files(top, root)
    return {
        module: targets(module, file.read_text(encoding="utf-8"), set(found))
        for module, file in found.items()
    }


def read_map(text: str) -> list[str]:
    """Return the modules that the map in the documentation of `lib.rs` lists, in its order."""
    block = text.partition("//! ```text\n")[2].partition("//! ```\n")[0]
    return [line[len("//! ") + 11 :].split()[0] for line in block.splitlines()]


def upward(imports: dict[str, set[str]], order: list[str]) -> list[str]:
    """Return a message for every import that points to a line below its own in the map."""
    layer = {name: place for place, name in enumerate(order)}
    messages = []
    for module, named in imports.items():
        source = module.split("::")[0]
        for target in sorted(named):
            top = target.split("::")[0]
            if source in layer and top in layer and layer[top] > layer[source]:
                messages.append(f"{module} names {target}, which stands above it")
    return messages


def circle(imports: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle; empty when there is none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


ORDER = read_map((SOURCES / "lib.rs").read_text(encoding="utf-8"))


def test_the_map_lists_every_module_once() -> None:
    """The map is complete and names nothing that does not exist."""
    declared = re.findall(r"(?m)^pub mod (\w+);", (SOURCES / "lib.rs").read_text(encoding="utf-8"))
    assert sorted(ORDER) == sorted(declared)


def test_imports_point_down_the_map() -> None:
    """No module of the library knows the modules that stand on it."""
    assert upward(graph(SOURCES, "lib"), ORDER) == []


@pytest.mark.parametrize(("top", "root"), [(SOURCES, "lib"), (BINARY, "main")])
def test_no_files_import_each_other_in_a_circle(top: Path, root: str) -> None:
    """Each file can be read with those alone that it names."""
    assert circle(graph(top, root)) == []


@pytest.mark.parametrize(
    "text",
    [
        "use crate::plan;",
        "use crate::{sys, plan::{Plan, Window as W}};",
        "fn f() { crate::plan::Plan::read() }",
        "use super::plan::urls;",
    ],
)
def test_an_import_that_points_up_is_found(text: str) -> None:
    """However it is written."""
    imports = {"sys": targets("sys", text, {"sys", "plan"})}
    assert upward(imports, ["sys", "plan"]) == ["sys names plan, which stands above it"]


@pytest.mark.parametrize(
    "text",
    ["// use crate::plan;", "#[cfg(test)]\nmod tests { use crate::plan; }", "use libc::plan;"],
)
def test_what_is_no_import_passes(text: str) -> None:
    """Comments, unit tests and other crates may name what they like."""
    assert targets("sys", text, {"sys", "plan"}) == set()


def test_a_circle_between_a_module_and_its_child_is_found() -> None:
    """A child that uses its parent stands above it, so the parent cannot use the child."""
    known = {"quic", "quic::streams"}
    imports = {
        "quic": targets("quic", "mod streams;\nuse streams::Stream;", known),
        "quic::streams": targets("quic::streams", "use super::Quic;", known),
    }
    assert set(circle(imports)) == known


def unsafe_parts(text: str) -> int:
    """Return the number of unsafe blocks, functions and implementations in Rust source."""
    return len(re.findall(r"\bunsafe\s*(?:\{|fn\b|impl\b|extern\b|trait\b)", code(text)))


def test_unsafe_code_is_counted() -> None:
    """The table of docs/bounds.md has the number of each module; clippy demands their reasons."""
    found = {
        f"`{file.stem}`": unsafe_parts(file.read_text(encoding="utf-8"))
        for file in SOURCES.glob("sys/*.rs")
    }
    page = (SOURCES.parents[1] / "docs" / "bounds.md").read_text(encoding="utf-8")
    table = {
        name: int(count)
        for name, count in re.findall(r"^\| (`\w+`) \| (\d+) \|", page, re.MULTILINE)
    }
    assert table == {name: count for name, count in found.items() if count}
    elsewhere = [file for file in SOURCES.rglob("*.rs") if file.parent.name != "sys"]
    assert not [file for file in elsewhere if unsafe_parts(file.read_text(encoding="utf-8"))]
