"""The settings that change are those that the patch, its files and an apply set."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePath

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.own.test_table import space
from tuner.own.bound import BoundSpace
from tuner.own.nginx.edits import change_texts
from tuner.own.nginx.serving import NginxServing, serving
from tuner.own.nginx.table import bind, changes
from tuner.own.nginx.tree import parse
from tuner.own.patch import APPLIED, exported
from tuner.record.changes import changes_between
from tuner.space.configuration import Configuration, Value
from tuner.space.parameter import Parameter

LINES = {
    "sendfile": ("sendfile on;", "sendfile off;"),
    "tcp_nopush": ("tcp_nopush on;",),
    "gzip": ("gzip on;", "gzip off;"),
    "gzip_comp_level": ("gzip_comp_level 5;",),
    "open_file_cache": ("open_file_cache max=200 inactive=20s;", "open_file_cache off;"),
    "open_file_cache_valid": ("open_file_cache_valid 7s;",),
    "open_file_cache_min_uses": ("open_file_cache_min_uses 3;",),
    "sendfile_max_chunk": ("sendfile_max_chunk 1m;",),
    "access_log": ("access_log off;", "access_log /var/log/nginx/access.log;"),
}
"""Settings that depend on each other; the user's file may say those that have no effect."""
SPACE = space("static")


def served(folder: Path) -> tuple[NginxServing, BoundSpace]:
    """Return what a configuration serves, and the space bound to it."""
    tree = parse(folder / "nginx.conf")
    reached = serving(tree, ["/index.html"], server_name="", tls=False, proxied=False)
    return reached, bind(SPACE, reached)


def some_value(draw: st.DrawFn, found: Parameter) -> Value:
    """Return any value of a parameter."""
    if found.kind == "boolean":
        return draw(st.booleans())
    if found.kind == "choice":
        return draw(st.sampled_from(found.choices))
    return draw(st.sampled_from([*found.special, *found.defaults.values(), found.low, found.high]))


@st.composite
def files(draw: st.DrawFn) -> str:
    """Return a configuration that says some of the settings."""
    said = [draw(st.sampled_from(["", *texts])) for texts in LINES.values()]
    lines = "\n".join(f"    {line}" for line in said if line)
    return f"events {{}}\nhttp {{\n{lines}\n    server {{ listen 80; root /srv; }}\n}}\n"


def test_what_the_user_wrote_counts_once_it_has_an_effect(tmp_path: Path) -> None:
    """A level of compression stays theirs where only compression itself is switched on."""
    lines = "gzip off; gzip_comp_level 5; sendfile on; server { listen 80; root /srv; }"
    (tmp_path / "nginx.conf").write_text(f"events {{}} http {{ {lines} }}")
    reached, bound = served(tmp_path)
    on = bound.space.complete({"gzip": True}, bound.baseline)
    assert on.values["gzip_comp_level"] == 5
    edits = list(changes(bound, reached, on, reference=bound.baseline))
    (text,) = change_texts(reached.tree, edits).values()
    assert "gzip on; gzip_comp_level 5;" in text


@given(files(), st.data())
@settings(max_examples=60)
def test_patch_and_files_set_what_changes(text: str, data: st.DataObject) -> None:
    """Read again, the patched files say the tuned values, and other values for the changes alone.

    So do those of a smaller difference.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "nginx.conf").write_text(text)
        reached, bound = served(folder)
        wanted = data.draw(
            st.composite(
                lambda draw: bound.space.propose(
                    [found for found in bound.space.searched() if draw(st.booleans())],
                    bound.baseline,
                    lambda found: some_value(draw, found),
                )
            )()
        )
        dormant = bound.space.inactive(bound.baseline)
        found = changes_between(bound.baseline.values, wanted.values, dormant)
        kept = {change.name for change in found if data.draw(st.booleans())}
        for configuration in (wanted, bound.space.exchange(bound.baseline, wanted, kept)):
            _check(folder, text, reached, bound, configuration)


def _check(
    folder: Path, text: str, reached: NginxServing, bound: BoundSpace, configuration: Configuration
) -> None:
    dormant = bound.space.inactive(bound.baseline)
    expected = changes_between(bound.baseline.values, configuration.values, dormant)
    edits = list(changes(bound, reached, configuration, reference=bound.baseline))
    texts = change_texts(reached.tree, edits)
    main = reached.tree.file
    more = exported(configuration.digest, reached.tree.texts, texts, main, "nginx -t")
    assert bool(more) == bool(expected)
    for key, copy in more.items():
        if key.startswith(f"{APPLIED}/"):
            (folder / PurePath(key).name).write_text(copy)
    _, again = served(folder)
    (folder / "nginx.conf").write_text(text)
    active = configuration.values
    assert {name: again.configured[name] for name in active} == active
    other = {name for name in active if again.configured[name] != bound.configured[name]}
    raised = bound.raised.keys()
    assert other - raised == {change.name for change in expected} - raised
