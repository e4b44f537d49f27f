"""Changes to a configuration, and the two things that they are made to: the tree, and the text.

A change is said once. The lab serves the changed tree, the user gets the changed text, and the
changed text read again is the changed tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.own.nginx.tree import Directive, TextSpan, Tree, walk
from tuner.reading.nginx_text import plain_word


@dataclass(frozen=True, slots=True)
class Set:
    """Other arguments for a directive that is there."""

    at: Directive
    args: tuple[str, ...]
    """As they are to be written, quotes included."""


@dataclass(frozen=True, slots=True)
class Insert:
    """A directive that is not there yet."""

    into: Directive | None
    """The block; None: the main file, outside of all blocks."""
    name: str
    args: tuple[str, ...]
    block: tuple[tuple[str, ...], ...] | None = None
    """The words of each directive in it; None: it is not a block."""


@dataclass(frozen=True, slots=True)
class Remove:
    """A directive that goes."""

    at: Directive


Edit = Set | Insert | Remove

_INDENT = re.compile(r"[ \t]*")
_STEP = "    "


def change_tree(tree: Tree, edits: Iterable[Edit]) -> tuple[Directive, ...]:
    """Return the tree's directives with the changes made.

    A file that is included several times is changed wherever it stands, as its text would be.
    """
    sets, inserts, gone = _sorted(edits)

    def changed(directives: Sequence[Directive], owner: Directive | None) -> list[Directive]:
        anchor = _anchor(owner, directives, tree.file)
        added = [_made(insert, owner, tree) for insert in inserts.get(_key(owner), ())]
        made = [] if anchor is not None else list(added)
        for found in directives:
            if found.key not in gone:
                made.append(one(found))
            if found is anchor:
                made += added
        return made

    def one(found: Directive) -> Directive:
        if found.key in sets:
            args = sets[found.key]
            plain = tuple(map(plain_word, args))
            found = replace(found, args=plain, written=(found.words[0], *args))
        if found.block is None:
            return found
        return replace(found, block=tuple(changed(found.block, found)))

    return tuple(changed(tree.directives, None))


def change_texts(tree: Tree, edits: Iterable[Edit]) -> dict[str, str]:
    """Return the files that change, with the changes made; all else in them stays as it is."""
    sets, inserts, gone = _sorted(edits)
    pieces: dict[str, list[tuple[int, int, str]]] = {}

    def put(file: str, start: int, end: int, text: str) -> None:
        piece = (start, end, text)
        if piece not in pieces.setdefault(file, []):
            pieces[file].append(piece)

    for found in walk(tree.directives):
        if found.place is None:
            continue
        text = tree.texts[found.file]
        if found.key in gone:
            put(found.file, *_whole_line(text, found.place), "")
        elif found.key in sets:
            for start, end, words in _rewritten(found.place, found.words[1:], sets[found.key]):
                put(found.file, start, end, words)
        if found.block is not None and found.key in inserts:
            for at, words in _inserted(found, found.block, inserts[found.key], tree):
                put(found.file, at, at, words)
    for at, words in _inserted(None, tree.directives, inserts.get(_key(None), ()), tree):
        put(tree.file, at, at, words)
    return {
        file: _applied(tree.texts[file], changes)
        for file, changes in sorted(pieces.items())
        if _applied(tree.texts[file], changes) != tree.texts[file]
    }


def _sorted(
    edits: Iterable[Edit],
) -> tuple[
    Mapping[tuple[str, int], tuple[str, ...]],
    Mapping[tuple[str, int], list[Insert]],
    frozenset[tuple[str, int]],
]:
    sets: dict[tuple[str, int], tuple[str, ...]] = {}
    inserts: dict[tuple[str, int], list[Insert]] = {}
    gone = set()
    for edit in edits:
        match edit:
            case Set(at, args):
                sets[at.key] = args
            case Insert(into):
                wanted = inserts.setdefault(_key(into), [])
                if edit not in wanted:
                    wanted.append(edit)
            case Remove(at):
                gone.add(at.key)
    return sets, inserts, frozenset(gone)


def _key(block: Directive | None) -> tuple[str, int]:
    return ("", -1) if block is None else block.key


def _made(insert: Insert, owner: Directive | None, tree: Tree) -> Directive:
    file, line = (tree.file, 1) if owner is None else (owner.file, owner.line)

    def directive(words: Sequence[str], block: tuple[Directive, ...] | None = None) -> Directive:
        plain = tuple(map(plain_word, words[1:]))
        return Directive(words[0], plain, file, line, block, written=tuple(words))

    inside = None if insert.block is None else tuple(map(directive, insert.block))
    return directive((insert.name, *insert.args), inside)


def _anchor(
    owner: Directive | None, directives: Sequence[Directive], main: str
) -> Directive | None:
    """Return the anchor of a new directive: the last plain one before the first block.

    None: right behind the block's opening brace, or at the beginning of the main file.
    """
    file = main if owner is None else owner.file
    last = None
    for found in directives:
        if found.file != file or found.place is None:
            continue
        if found.block is not None:
            break
        last = found
    return last


def _inserted(
    owner: Directive | None, directives: Sequence[Directive], inserts: Iterable[Insert], tree: Tree
) -> list[tuple[int, str]]:
    """Return the insertion point and the text of the new directives."""
    inserts = list(inserts)
    if not inserts:
        return []
    file = tree.file if owner is None else owner.file
    text = tree.texts[file]
    newline = "\r\n" if "\r\n" in text else "\n"
    anchor = _anchor(owner, directives, tree.file)
    if anchor is not None and anchor.place is not None:
        behind, sibling = anchor.place.end, anchor.place.start
    elif owner is not None and owner.place is not None and owner.place.inside is not None:
        behind, sibling = owner.place.inside, owner.place.start
    else:
        return [(0, "".join(f"{line}{newline}" for line in _lines(inserts)))]
    indent = _indent_of(text, sibling)
    step = "\t" if "\t" in indent or "\n\t" in text else _STEP
    if anchor is None:
        indent += step
    end = _rest_of_line(text, behind)
    if end is None:
        # Something else stands on the line, so the new directives stand there too.
        return [(behind, "".join(f" {line.strip()}" for line in _lines(inserts)))]
    lines = [f"{indent}{line}" for line in _lines(inserts, step)]
    if end == len(text) and not text.endswith("\n"):
        return [(end, "".join(f"{newline}{line}" for line in lines))]
    return [(end, "".join(f"{line}{newline}" for line in lines))]


def _lines(inserts: Iterable[Insert], step: str = _STEP) -> Iterator[str]:
    """Yield the new directives, a block over several lines."""
    for insert in inserts:
        head = " ".join((insert.name, *insert.args))
        if insert.block is None:
            yield f"{head};"
            continue
        yield f"{head} {{"
        yield from (f"{step}{' '.join(words)};" for words in insert.block)
        yield "}"


def _rest_of_line(text: str, at: int) -> int | None:
    """Behind the line's end, if nothing but blanks and a comment follows; else None."""
    end = text.find("\n", at)
    rest = text[at : end if end >= 0 else len(text)].strip()
    if rest and not rest.startswith("#"):
        return None
    return len(text) if end < 0 else end + 1


def _indent_of(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    found = _INDENT.match(text, start)
    return found.group() if found else ""


def _whole_line(text: str, place: TextSpan) -> tuple[int, int]:
    """Return the directive, and its line if nothing else stands there."""
    start = text.rfind("\n", 0, place.start) + 1
    end = text.find("\n", place.end)
    end = len(text) if end < 0 else end + 1
    alone = not text[start : place.start].strip() and not text[place.end : end].strip()
    return (start, end) if alone else (place.start, place.end)


def _rewritten(
    place: TextSpan, old: Sequence[str], new: Sequence[str]
) -> list[tuple[int, int, str]]:
    """Return the fewest words replaced: one by one where their number stays, else what differs."""
    spans = place.words[1:]
    if len(old) == len(new):
        return [
            (start, end, word)
            for (start, end), was, word in zip(spans, old, new, strict=True)
            if was != word
        ]
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    # Behind the last word that stays: what is replaced begins with the blank before it.
    start = place.words[same][1]
    end = place.words[-1][1]
    return [(start, end, "".join(f" {word}" for word in new[same:]))]


def _applied(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    for start, end, words in sorted(pieces, reverse=True):
        text = text[:start] + words + text[end:]
    return text
