"""The documentation: its commands exist, its links lead somewhere, every page can be found."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tuner.cli.commands import cli

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "README.md"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "loadgen" / "README.md",
    ROOT / "playbooks" / "README.md",
]
LINES_OF_A_SCREEN = 60
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = PROJECT["urls"]["Source"]
# The two addresses of a file of the repository: its page, and its bytes.
_ABSOLUTE = (
    f"{SOURCE}/blob/main/",
    f"{SOURCE.replace('github.com', 'raw.githubusercontent.com')}/main/",
)

_COMMAND = re.compile(r"(?:`|^\s*(?:\w+=\S+ )*|&& |sudo )(tuner [^`\n]*)", re.MULTILINE)
_COMMENT = re.compile(r"\s+# .*")
_ENDS = re.compile(r"\s(?:\||&&|>|;)\s.*|,? …")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)
_REPORTED = re.compile(r"(?<!!)\[([^\]]*\d[^\]]*)\]\(([^)\s]+/report\.md)\)")
"""A link with a figure to a kept report, as its text and its address."""
_FIGURE = re.compile(r"\d(?:[\d,.]*\d)?")


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_that_a_page_shows_exists(page: Path) -> None:
    """With its subcommand, its options, and no more arguments than it takes."""
    wrong = []
    for line in _commands(page.read_text(encoding="utf-8")):
        try:
            _parse(line)
        except click.UsageError as error:
            wrong.append(f"{line}: {error.format_message()}")
    assert wrong == []


def test_the_commands_are_found() -> None:
    """A pattern that finds none would prove nothing; a wrong option is noticed."""
    assert len(set(_commands(README.read_text(encoding="utf-8")))) >= 10
    with pytest.raises(click.UsageError):
        _parse("tuner optimize --frobnicate")
    with pytest.raises(click.UsageError):
        _parse("tuner optimise")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=_name)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Every link leads to a file and, with an anchor, to a heading of that page."""
    wrong = []
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = _target(page, path) if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_a_figure_that_links_a_report_stands_in_it() -> None:
    """So the pages follow when a result is measured anew."""
    linked = [(page, *match) for page in PAGES for match in _REPORTED.findall(_text(page))]
    assert linked
    missing = [
        f"{_name(page)}: {figure}"
        for page, text, link in linked
        for figure in _FIGURE.findall(text)
        if figure not in _FIGURE.findall(_text(_target(page, link)))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """So the pages follow when a file moves; a part in capitals stands for a name."""
    named = _FILE.findall(page.read_text(encoding="utf-8"))
    missing = [name for name in named if not _PLACEHOLDER.search(name) and not _there(name)]
    assert missing == []


def test_where_to_change_what_has_ten_rows() -> None:
    """Each common change has its file, and the files are among those that the test above checks."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text.partition("## Where to change what")[2].partition("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 10
    assert all(_FILE.search(row) or "](" in row for row in rows)


def test_the_links_of_the_readme_are_absolute() -> None:
    """PyPI shows the README too, where relative links lead nowhere; pictures need their bytes."""
    text = README.read_text(encoding="utf-8")
    relative = [link for link in _links(README) if not link.startswith(_ABSOLUTE)]
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text)
    assert relative == []
    assert pictures
    assert all(picture.startswith(_ABSOLUTE[1]) for picture in pictures)


def test_the_addresses_of_the_project_are_pages_of_one_repository() -> None:
    """PyPI shows them next to the README; files that they name exist."""
    urls = PROJECT["urls"]
    assert {"Homepage", "Documentation", "Changelog", "Issues", "Source"} <= urls.keys()
    assert all(url.startswith(SOURCE) for url in urls.values())
    files = [url for url in urls.values() if url.startswith(_ABSOLUTE)]
    assert files
    assert all(_target(README, url).is_file() for url in files)


def test_every_page_is_found_from_the_index() -> None:
    """And the index from the README."""
    assert INDEX in _targets(README)
    found = {INDEX}
    rest = [INDEX]
    while rest:
        new = {page for page in _targets(rest.pop()) if page.suffix == ".md"} - found
        found |= new
        rest.extend(new)
    assert {page for page in PAGES if page not in found and page != README} == set()


def test_the_readme_is_one_screen() -> None:
    """Details have pages of their own."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LINES_OF_A_SCREEN


_FILE = re.compile(r"`((?:tuner|tests|spaces|templates|playbooks|studies|loadgen)/[^`\s]+\.\w+)`")
"""The path of a file of the project in code."""
_PLACEHOLDER = re.compile(r"[A-Z]{2,}|\*|…|\{")


def _there(name: str) -> bool:
    return (ROOT / name).exists()


def _commands(text: str) -> Iterator[str]:
    """Yield the calls of tuner in code and in the cells of tables."""
    for match in _COMMAND.finditer(text):
        line = _ENDS.sub("", _COMMENT.sub("", match[1])).strip()
        # Prose that begins a line with the word, and names of settings.
        if re.match(r"tuner [a-z]+(?: |$)", line) and (match[0][0] == "`" or _is_code(text, match)):
            yield line


def _is_code(text: str, match: re.Match[str]) -> bool:
    start = text.rfind("\n", 0, match.start(1)) + 1
    return text[:start].count("```") % 2 == 1 or text[start:].startswith("    ")


def _parse(line: str) -> None:
    """Raise UsageError if a command line does not fit the tree of commands."""
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="tuner")
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            break
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]}")
        context = click.Context(found, parent=context, info_name=words.pop(0))
        command = found
    if words and _takes_a_value(command, words[-1]):
        # Prose names an option without its value: `tuner doctor --config`.
        words.pop()
    values, rest, _ = command.make_parser(context).parse_args(args=list(words))
    if rest:
        raise click.UsageError(f"unexpected argument {rest[0]}")
    for parameter in command.params:
        value = values.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)


def _takes_a_value(command: click.Command, word: str) -> bool:
    return any(
        isinstance(parameter, click.Option) and word in parameter.opts and not parameter.is_flag
        for parameter in command.params
    )


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _links(page: Path) -> Iterator[str]:
    """Yield the links of a page to files of the repository."""
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(_ABSOLUTE) or not re.match(r"[a-z]+:", link):
            yield link


def _targets(page: Path) -> set[Path]:
    return {_target(page, link.partition("#")[0]) for link in _links(page)}


def _target(page: Path, path: str) -> Path:
    """Return the file of a link, whether it is relative or an address of the repository."""
    for prefix in _ABSOLUTE:
        if path.startswith(prefix):
            return ROOT / path.removeprefix(prefix)
    return (page.parent / path).resolve()


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
