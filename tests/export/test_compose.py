"""The lab as Docker Compose: every file that it mounts is there, and the load is the study's."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from tuner.errors import DefinitionError
from tuner.export.compose import compose
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import write_files
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
        assert path in files or any(name.startswith(f"{path}/") for name in files)
    assert services["load"]["depends_on"] == ["server", "backend"]
    assert services["backend"]["network_mode"] == "service:server"
    backend = files["backend/nginx.conf"]
    assert isinstance(backend, str)
    assert "127.0.0.1:8080" in backend
    assert study.record.calibration
    rate = str(round(study.record.calibration.rate_per_s))
    assert rate in services["load"]["command"]


def test_what_caddy_reads_from_its_environment_is_given_to_it(study: StudyResult) -> None:
    """A parameter of Go's runtime stands in no Caddyfile."""
    record = study.record
    server = replace(record.server, name="caddy")
    with_more = {
        digest: replace(known, file_name="Caddyfile", more={"caddy.env": "GOGC=200\n"})
        for digest, known in record.configurations.items()
    }
    files = compose(replace(study, record=replace(record, server=server, configurations=with_more)))
    text = files["compose.yaml"]
    assert isinstance(text, str)
    assert files["server/caddy.env"] == "GOGC=200\n"
    assert yaml.safe_load(text)["services"]["server"]["env_file"] == ["./server/caddy.env"]


@pytest.mark.parametrize(
    ("name", "file", "path"),
    [
        ("haproxy", "haproxy.cfg", "/usr/local/etc/haproxy/haproxy.cfg"),
        ("apache", "apache2.conf", "/usr/local/apache2/conf/httpd.conf"),
    ],
)
def test_the_file_lies_where_the_image_reads_it(
    study: StudyResult, name: str, file: str, path: str
) -> None:
    """The images of HAProxy and Apache have it in another folder than the packages."""
    server = replace(study.record.server, name=name)
    configurations = {
        digest: replace(known, file_name=file)
        for digest, known in study.record.configurations.items()
    }
    record = replace(study.record, server=server, configurations=configurations)
    text = compose(replace(study, record=record))["compose.yaml"]
    assert isinstance(text, str)
    (volume,) = yaml.safe_load(text)["services"]["server"]["volumes"]
    assert volume == f"./server/{file}:{path}:ro"


def test_an_option_of_the_command_line_reaches_the_container(study: StudyResult) -> None:
    """Envoy's number of threads stands in no file, and its images' tags begin with a letter."""
    server = replace(study.record.server, name="envoy")
    configurations = {
        digest: replace(known, file_name="envoy.yaml", more={"envoy.env": "CONCURRENCY=3\n"})
        for digest, known in study.record.configurations.items()
    }
    record = replace(study.record, server=server, configurations=configurations)
    text = compose(replace(study, record=record))["compose.yaml"]
    assert isinstance(text, str)
    found = yaml.safe_load(text)["services"]["server"]
    assert found["image"] == f"envoyproxy/envoy:v{server.version}"
    assert found["env_file"] == ["./server/envoy.env"]
    # Compose would replace a single dollar sign by a variable of its own.
    assert found["command"][-1].endswith("$${CONCURRENCY:+--concurrency $$CONCURRENCY}")


@pytest.mark.parametrize("name", ["nginx", "envoy"])
def test_compose_takes_the_file(study: StudyResult, tmp_path: Path, name: str) -> None:
    """Without a variable set, and with the load among the services, by Compose's own reading."""
    tool = _compose_command()
    server = replace(study.record.server, name=name)
    write_files(tmp_path, compose(replace(study, record=replace(study.record, server=server))))
    environment = {k: v for k, v in os.environ.items() if k != "TUNER_LOADGEN"}
    run = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    done = run([*tool, "config", "--services"], check=False)
    assert done.returncode == 0, done.stderr
    assert {"server", "backend"} <= set(done.stdout.split())


def _compose_command() -> list[str]:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, "version"], check=False, capture_output=True)
            if done.returncode == 0:
                return command
    pytest.skip("neither `docker compose` nor docker-compose is installed")


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
