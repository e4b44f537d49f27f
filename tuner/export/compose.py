"""The lab as Docker Compose: server, backend and load, for a trial on another machine.

Measurements there include the container's network, file system and scheduler limits, so they are
not comparable with the study's figures.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

import yaml

from tuner.errors import DefinitionError
from tuner.export.configuration import choose, comment, provenance
from tuner.judge.results import StudyResult
from tuner.machine.facts import ServerFacts
from tuner.render.render import EXPORT, render_backend
from tuner.servers import backend as lab_backend
from tuner.servers.catalog import server as server_of
from tuner.servers.usual_place import UsualPlace
from tuner.workload.below import moved_below
from tuner.workload.site import generate
from tuner.workload.workload import Workload, load_workload

_PORT = 8080
"""Port of the server on the machine that runs Compose."""
_BACKEND_PORT = 8080
"""Port of the backend in the network of the server."""


def compose(
    study: StudyResult, *, candidate: bool = False, minimal: bool = False
) -> dict[str, str | bytes]:
    """Return ``compose.yaml`` and all files that it mounts, by path.

    Returns:
        Empty if the record holds no configuration.

    Raises:
        DefinitionError: the study's workload does not exist any more, or its server has no image.
    """
    chosen = choose(study, candidate=candidate, minimal=minimal)
    if chosen is None:
        return {}
    server = study.record.server
    place = server_of(server.name).usual_place
    if not place.image:
        raise DefinitionError(
            f"there is no official image of {server.name}; use --format role", path="--format"
        )
    definition = study.record.definition
    asked = load_workload(str(definition.get("workload", "")))
    workload = moved_below(str(definition.get("location") or ""), asked)
    lines = provenance(study, chosen)
    if workload.wire.tls is not None:
        raise DefinitionError(
            "a study over TLS needs a certificate, which Compose lacks; use --format role",
            path="--format",
        )
    files: dict[str, str | bytes] = {
        f"server/{place.file}": comment(lines) + chosen.text,
        **{f"server/{file}": text for file, text in chosen.more.items()},
        **{f"site/{path}": body for path, body in generate(workload).items()},
    }
    services: dict[str, object] = {"server": _server(study, place, files)}
    if workload.backend is not None:
        services["backend"] = _backend()
        listen = f"127.0.0.1:{_BACKEND_PORT}"
        placement = replace(EXPORT, listen=listen, upstreams=(), run_dir="/tmp")  # noqa: S108 - in a container of its own
        files[f"backend/{lab_backend.SERVER.file_name}"] = render_backend(workload, placement)
    services["load"] = _load(study, workload)
    text = yaml.safe_dump({"services": _literal(services)}, sort_keys=False, width=96)
    return {"compose.yaml": comment(lines) + _HOW + text, **files}


class _Interpolated(str):
    """A trusted text in which Compose replaces variables."""

    __slots__ = ()


def _literal(value: object) -> object:
    """Escape data for Compose, which reads ``$`` as the start of a variable.

    https://docs.docker.com/reference/compose-file/interpolation/
    """
    if isinstance(value, dict):
        return {key: _literal(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_literal(each) for each in value]
    if isinstance(value, str):
        return str(value) if isinstance(value, _Interpolated) else value.replace("$", "$$")
    return value


_HOW = (
    "#\n# docker compose up                   serves at http://localhost:8080/\n"
    "# TUNER_LOADGEN=$(command -v tuner-loadgen) docker compose run --rm load\n"
)


def _server(study: StudyResult, place: UsualPlace, files: Collection[str]) -> dict[str, object]:
    volumes = [f"./server/{place.file}:{place.image_path or place.path}:ro"]
    if any(path.startswith("site/") for path in files):
        volumes.append("./site:/var/www/html:ro")
    has_environment = f"server/{place.environment}" in files
    return {
        "image": f"{place.image}:{place.image_version}{_tag(study.record.server)}",
        "ports": [f"127.0.0.1:{_PORT}:80"],
        "volumes": volumes,
        **({"env_file": [f"./server/{place.environment}"]} if has_environment else {}),
        **({"command": list(place.image_command)} if place.image_command else {}),
        "ulimits": {"nofile": {"soft": 65536, "hard": 65536}},
        "labels": {
            "org.tuner.study": study.record.name,
            "org.tuner.verdict": str(study.verdict.kind) if study.verdict else "none",
        },
    }


def _tag(server: ServerFacts) -> str:
    """Return a server's version as the tag of its image.

    Raises:
        DefinitionError: the record is of a product with other images, or the text would name
            another image.
    """
    if server.product:
        raise DefinitionError(
            f"the record is of {server.product}, and the images are of {server.name}; use --format"
            " role",
            path="--format",
        )
    if not re.fullmatch(r"\w[\w.-]{0,127}", server.version, re.ASCII):
        raise DefinitionError(
            f"the record's server has the version {server.version!r}, which no image has; use"
            " --format role",
            path="--format",
        )
    return server.version


def _backend() -> dict[str, object]:
    """Return the backend in the server's network, so that the exported address is valid."""
    place = lab_backend.SERVER.usual_place
    return {
        "image": f"{place.image}:stable",
        "network_mode": "service:server",
        "volumes": [f"./backend/{place.file}:{place.path}:ro"],
    }


def _load(study: StudyResult, workload: Workload) -> dict[str, object]:
    """Return the study's load on one path; ``tuner workload show`` has the whole mix."""
    calibration = study.record.calibration
    rate = round(calibration.rate_per_s) if calibration else 1000
    path = workload.requests[0].path if workload.requests else "/"
    # Compose evaluates the variables of all services, so none may be required.
    binary = _Interpolated("${TUNER_LOADGEN:-./tuner-loadgen}:/usr/local/bin/tuner-loadgen:ro")
    return {
        "image": "debian:stable-slim",
        "profiles": ["load"],
        "network_mode": "service:server",
        "depends_on": ["server", *(["backend"] if workload.backend else [])],
        "volumes": [binary],
        "command": [
            "tuner-loadgen",
            "run",
            f"http://127.0.0.1{path}",
            "-R",
            str(rate),
            "-c",
            str(workload.connections),
            "-d",
            "10s",
        ],
    }
