"""``--in-place`` on the command line: only for those who say that they know what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tuner
from tuner.app.own_server import completed
from tuner.definition.study import load_study
from tuner.workload.workload import load_workload

WORDS = "restarts-my-service"
WORKLOAD = "workload: page\nsite: own\nrequests: [{path: /}]\n"


@pytest.mark.parametrize("given", [(), ("yes",)])
def test_without_the_words_it_is_refused(tuner: Tuner, given: tuple[str, ...]) -> None:
    """The message and the help describe the effect, and the words that confirm it."""
    done = tuner("optimize", "--in-place", *given, "--inventory", "hosts.yml")
    assert done.code == 2
    assert "stopped and started with an experimental configuration" in done.err
    assert f"write: --in-place {WORDS}" in done.err
    shown = " ".join(tuner("optimize", "--help").out.split())
    assert "affects its users" in shown
    assert WORDS in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "name both hosts with --inventory hosts.yml"),
        (
            ("--inventory", "hosts.yml", "--server", "apache"),
            "supports nginx and caddy, not yet apache; leave it out to tune in the lab, with a",
        ),
        (("--inventory", "hosts.yml", "--workload", "static"), "`site: own`"),
        (("--inventory", "hosts.yml", "--layer", "kernel"), "--layer: the kernel's settings"),
        (("--inventory", "hosts.yml", "--root", "/srv"), "--root: the service keeps its files"),
        (("--inventory", "hosts.yml", "--config", "nginx.conf"), "--config: in place this is"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    tuner: Tuner, options: tuple[str, ...], words: str
) -> None:
    """Before any host is asked."""
    Path("page.yaml").write_text(WORKLOAD)
    done = tuner("optimize", "--workload", "page.yaml", "--in-place", WORDS, *options)
    assert done.code == 2
    assert words in done.err


def test_a_server_whose_files_are_not_read_needs_a_workload_with_content(tuner: Tuner) -> None:
    """Without the option too; the advice names only what is accepted next."""
    Path("page.yaml").write_text(WORKLOAD)
    done = tuner("optimize", "--workload", "page.yaml", "--server", "apache")
    assert done.code == 2
    assert "does not read the configuration of apache yet; name a workload that" in done.err


def test_several_workers_have_no_common_baseline_in_place(tuner: Tuner) -> None:
    """Each service has files of its own; the storage is not asked."""
    Path("page.yaml").write_text(WORKLOAD)
    Path("mine.yaml").write_text(f"workload: page.yaml\nin_place: {WORDS}\n")
    storage = "postgresql+psycopg://nowhere.invalid/tuner"
    done = tuner("worker", "x", "--study", "mine.yaml", "--storage", storage)
    assert done.code == 2
    assert "tune one host" in done.err


def test_the_baseline_is_what_the_host_has(tmp_path: Path) -> None:
    """Without further words: the packaged main file there, and the record gives the same again."""
    (tmp_path / "page.yaml").write_text(WORKLOAD)
    given = {
        "in_place": WORDS,
        "workload": str(tmp_path / "page.yaml"),
        "inventory": "hosts.yml",
    }
    definition = load_study(overrides=given)
    made = completed(definition, load_workload(definition.workload))
    assert (made.config, made.baseline) == ("/etc/nginx/nginx.conf", "own")
    assert load_study(overrides=made.as_dict()) == made
