"""The examples of the documentation work."""

from __future__ import annotations

import re
from pathlib import Path

from tests.spaces import load_space
from tuner.definition.study import load_study
from tuner.render.render import EXPORT, render
from tuner.space.space import Space
from tuner.workload.arrivals import Profile
from tuner.workload.workload import load_workload

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(name: str) -> list[str]:
    """Return the examples of one page, in order."""
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(r"```(?:yaml|jinja)\n(.*?)```", text, re.DOTALL)


def bind(path: Path) -> Space:
    """Return a space on four cores."""
    return load_space(str(path), server_cores=4)


def test_the_space_that_is_shown(tmp_path: Path) -> None:
    """The documented space binds, and the shipped template renders it."""
    (tmp_path / "mine.yaml").write_text(blocks("spaces.md")[0], encoding="utf-8")
    space = bind(tmp_path / "mine.yaml")
    text = render(space.template, space.baseline("hand"), space, EXPORT)
    assert "worker_processes 4;" in text
    assert "sendfile_max_chunk 2m;" in text


def test_the_template_that_is_shown(tmp_path: Path) -> None:
    """One block adds a directive to what is shipped."""
    space_text, template, _ = blocks("spaces.md")
    parameter = "  read_ahead: {type: integer, range: [0, 4k], unit: bytes, default: 512}\n"
    space_text = space_text.replace("template: nginx/static", "template: mine.conf.j2")
    space_text = space_text.replace("parameters:\n", f"parameters:\n{parameter}")
    (tmp_path / "mine.yaml").write_text(space_text, encoding="utf-8")
    (tmp_path / "mine.conf.j2").write_text(template, encoding="utf-8")
    space = bind(tmp_path / "mine.yaml")
    text = render(space.template, space.baseline("stock"), space, EXPORT)
    assert "    read_ahead 512;" in text
    assert "    sendfile off;" in text


def test_the_configuration_that_is_shown(tmp_path: Path) -> None:
    """The configuration in the page sets its values on top of the packaged ones."""
    (tmp_path / "c.yaml").write_text(blocks("spaces.md")[2], encoding="utf-8")
    space = load_space("nginx/static", server_cores=4)
    values = space.read_configuration(tmp_path / "c.yaml").values
    assert (values["worker_processes"], values["tcp_nopush"]) == (4, True)


def test_the_workloads_that_are_shown(tmp_path: Path) -> None:
    """A site, a backend, and a backend with answers of its own."""
    site, tls, instants, rates, backend, answers, grpc = blocks("workloads.md")
    (tmp_path / "site.yaml").write_text(site, encoding="utf-8")
    (tmp_path / "backend.yaml").write_text(f"workload: api\n{backend}", encoding="utf-8")
    (tmp_path / "day.txt").write_text("0\n1\n2\n", encoding="utf-8")
    (tmp_path / "more.yaml").write_text(
        f"workload: api\n{tls}{instants}{backend}", encoding="utf-8"
    )
    (tmp_path / "rates.yaml").write_text(f"workload: api\n{rates}{backend}", encoding="utf-8")
    (tmp_path / "answers.yaml").write_text(f"workload: api\n{answers}", encoding="utf-8")
    (tmp_path / "grpc.yaml").write_text(grpc, encoding="utf-8")
    assert load_workload(str(tmp_path / "answers.yaml")).requests[1].answer
    assert load_workload(str(tmp_path / "grpc.yaml")).speaks_grpc
    assert len(load_workload(str(tmp_path / "site.yaml")).requests) == 4
    assert load_workload(str(tmp_path / "more.yaml")).wire.streams == 8
    assert isinstance(load_workload(str(tmp_path / "rates.yaml")).arrival, Profile)
    assert load_workload(str(tmp_path / "backend.yaml")).requests[1].method == "POST"


def test_the_study_that_is_shown(tmp_path: Path) -> None:
    """The study in the page is read with the workload in the same folder."""
    (tmp_path / "study.yaml").write_text(blocks("studies.md")[0], encoding="utf-8")
    (tmp_path / "shop.yaml").write_text(blocks("workloads.md")[0], encoding="utf-8")
    assert load_study(tmp_path / "study.yaml").time_s == 1200
