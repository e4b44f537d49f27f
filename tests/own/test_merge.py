"""A study's patch on a file that is not the one that was tuned."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.own.merge import merge
from tuner.own.patch import before_patch, patch

BASE = "a\nb\nc\nd\ne\n"
TEXTS = st.lists(st.sampled_from(["a", "b", "-c", "+++ d", "@@ -1 +1 @@"]), max_size=7).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "".join(f"{line}\n" for line in lines)])
)


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        pytest.param(
            "a\nb\nc\nd\ne\nmine\n", "a\nB\nc\nd\ne\n", "a\nB\nc\nd\ne\nmine\n", id="apart"
        ),
        pytest.param("mine\n" + BASE, BASE + "theirs\n", f"mine\n{BASE}theirs\n", id="both-add"),
        pytest.param("a\nB\nc\nd\ne\n", "a\nB\nc\nd\ne\n", "a\nB\nc\nd\ne\n", id="the-same"),
        pytest.param("a\nc\nd\ne\n", "a\nb\nc\nd\nE\n", "a\nc\nd\nE\n", id="ours-removes"),
        pytest.param("a\nb\nc\nd\ne", "A\nb\nc\nd\ne\n", "A\nb\nc\nd\ne", id="no-last-line-feed"),
    ],
)
def test_changes_apart_are_both_kept(ours: str, theirs: str, wanted: str) -> None:
    """A line that one side alone changed gets that change."""
    found = merge(BASE, ours, theirs)
    assert (found.text, found.conflicts) == (wanted, ())


def test_lines_that_both_sides_changed_are_a_conflict() -> None:
    """With the line of our text, and all three versions; our text stays."""
    found = merge(BASE, "first\na\nb\nmine\nd\ne\n", "a\nb\ntheirs\nd\ne\n")
    (conflict,) = found.conflicts
    assert conflict.line == 4
    assert (conflict.base, conflict.ours, conflict.theirs) == (("c\n",), ("mine\n",), ("theirs\n",))
    assert found.text == "first\na\nb\nmine\nd\ne\n"


@given(base=TEXTS, other=TEXTS)
def test_one_side_alone_is_taken_whole(base: str, other: str) -> None:
    """A side without changes gets the other side's text."""
    for ours, theirs in ((base, other), (other, base), (other, other)):
        found = merge(base, ours, theirs)
        assert (found.text, found.conflicts) == (other, ())


@given(before=TEXTS, after=TEXTS)
def test_a_patch_leads_back_to_the_files_before_it(before: str, after: str) -> None:
    """A patch restores the files before it, for any lines, with or without a final line feed."""
    text = patch({"/etc/f": before}, {"/etc/f": after}, Path("/etc"))
    assert before_patch(f"a head\n\n{text}", {"f": after}) == {"f": before if text else after}


@pytest.mark.parametrize("after", [{"f": "a\nX\n"}, {"g": "a\nB\n"}])
def test_a_patch_of_other_files_is_refused(after: dict[str, str]) -> None:
    """A patch that does not fit the files raises ValueError."""
    text = patch({"/etc/f": "a\nb\n"}, {"/etc/f": "a\nB\n"}, Path("/etc"))
    with pytest.raises(ValueError, match="patch"):
        before_patch(text, after)
