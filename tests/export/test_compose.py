"""The lab as Docker Compose: every file that it mounts is there, and the load is the study's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from tuner.errors import DefinitionError
from tuner.export.compose import compose
from tuner.report.result import StudyResult, evaluate
from tuner.testing.sample_record import sample_record


@pytest.fixture(scope="module")
def study() -> StudyResult:
    """A study of a proxy with a better configuration."""
    return evaluate(sample_record("better"))


def test_what_is_mounted_is_there(study: StudyResult) -> None:
    """Server, backend and load share one network; the proxy finds its backend where it looks."""
    files = compose(study)
    text = files["compose.yaml"]
    assert isinstance(text, str)
    services = yaml.safe_load(text)["services"]
    assert set(services) == {"server", "backend", "load"}
    assert services["server"]["image"] == f"nginx:{study.record.server.version}"
    mounted = [volume.split(":")[0] for name in services for volume in services[name]["volumes"]]
    for path in (volume.removeprefix("./") for volume in mounted if volume.startswith("./")):
        assert path in files or any(name.startswith(f"{path}/") for name in files) or path == "site"
    assert services["backend"]["network_mode"] == "service:server"
    backend = files["backend/nginx.conf"]
    assert isinstance(backend, str)
    assert "127.0.0.1:8080" in backend
    assert study.record.calibration
    rate = str(round(study.record.calibration.rate_per_s))
    assert rate in services["load"]["command"]


def test_it_says_where_it_comes_from(study: StudyResult) -> None:
    """Study, hash and verdict, in the file and on the container."""
    text = compose(study)["compose.yaml"]
    assert isinstance(text, str)
    assert study.candidate
    assert study.candidate in text
    labels = yaml.safe_load(text)["services"]["server"]["labels"]
    assert labels == {"org.tuner.study": study.record.name, "org.tuner.verdict": "better"}


def test_a_server_without_an_image_is_refused(study: StudyResult) -> None:
    """The message names what can be had instead."""
    server = replace(study.record.server, name="nghttpx")
    with pytest.raises(DefinitionError, match="no official image of nghttpx; use --format role"):
        compose(replace(study, record=replace(study.record, server=server)))
