"""One request of each kind to the configurations of a run that is not started.

On this machine the server runs for a moment; on other hosts Ansible starts it in a lab, as for a
block; and a service in place answers as it is. Another protocol than HTTP/1.1, and another host
than this machine, are the native generator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tuner.app.preflight import Preflight
from tuner.app.session import ReadyLab, instance_of, ready_lab
from tuner.errors import HostError
from tuner.generators.generator import (
    Endpoint,
    LoadGenerator,
    Next,
    WindowPlan,
    WindowSpec,
    members_of,
)
from tuner.hosts.deployer import InstanceSpec
from tuner.measurement.window import RawWindow
from tuner.own.server import InPlaceServer
from tuner.paths import temporary
from tuner.servers.ground import TargetGround
from tuner.servers.moment import TriedRequest, most_frequent, tried_out, with_reason
from tuner.space.configuration import Configuration
from tuner.space.kernel import server_part
from tuner.space.parameter import OWN
from tuner.workload.wire import unlike
from tuner.workload.workload import Request, Workload

AnswersByName = Mapping[str, tuple[TriedRequest, ...]]
"""Answers by the name of the configuration; none if it was not asked."""

_MOST_ASKED = 40
"""Limit for the kinds of requests through the generator, which is a process for each."""
_RATE_PER_S = 100.0
_WINDOW_S = 0.01
"""Constant arrivals at this rate make one request."""
_STATUS = "status_"
"""Prefix of the generator's errors about a status."""
_OK = 200
_CONTENT_ERRORS = {"wrong_length": "another length", "wrong_sha256": "other content"}
"""Descriptions of the generator's errors about a body; the status is the expected one."""


def answers(found: Preflight, configurations: Mapping[str, Configuration]) -> AnswersByName:
    """Return the answers of configurations to one request of each kind.

    Args:
        found: preflight of the run.
        configurations: the configurations by name.

    Raises:
        HostError: a server does not start.
        InstrumentError: the generator failed.
    """
    if isinstance(found.own, InPlaceServer):
        return _of_the_service(found, found.own, configurations)
    # No setting of the kernel is changed for it.
    plain = {name: server_part(each) for name, each in configurations.items()}
    if found.definition.inventory:
        return _there(replace(found, kernel=None), plain)
    return {name: _here(found, each) for name, each in plain.items()}


def _here(found: Preflight, configuration: Configuration) -> tuple[TriedRequest, ...]:
    def make(ground: TargetGround, port: int) -> InstanceSpec:
        ground = replace(ground, cpus=found.cores.server)
        return found.adapter.instance("server", configuration, found.space, ground, port)

    def send(request: Request, port: int) -> TriedRequest:
        endpoint = Endpoint("server", f"127.0.0.1:{port}")
        return asked_through(generator, unverified, request, endpoint)

    workload = found.workload
    generator = found.premises.generator("native", found.cores)
    # The certificate was made a moment ago.
    tls = workload.wire.tls and replace(workload.wire.tls, verify=False)
    unverified = replace(workload, wire=replace(workload.wire, tls=tls))
    if workload.wire.protocol == "http1":
        return tried_out(make, found.server, workload, found.backend)
    return tried_out(make, found.server, workload, found.backend, ask_over=send, most=_MOST_ASKED)


def _there(found: Preflight, configurations: Mapping[str, Configuration]) -> AnswersByName:
    """Return the answers on the hosts of an inventory.

    Raises:
        HostError: a server does not start.
    """
    with temporary("rehearsal") as name, ready_lab(found, Path(name)) as ready:
        program = ready.lab.runnable(found.server.binary)
        ground = replace(ready.ground, binary=program)
        ports = ready.lab.free_ports(len(configurations))
        specs = {
            name: instance_of(found, ground, f"c{number}", configuration, port)
            for number, ((name, configuration), port) in enumerate(
                zip(configurations.items(), ports, strict=True)
            )
        }
        states = ready.lab.deployer.deploy(tuple(specs.values()))
        for state in states.values():
            if state.state != "live":
                raise HostError(f"the server does not start: {state.message}")
        return {
            name: _of_instance(ready, spec, f"{ready.lab.address}:{port}")
            for (name, spec), port in zip(specs.items(), ports, strict=True)
        }


def _of_instance(ready: ReadyLab, spec: InstanceSpec, address: str) -> tuple[TriedRequest, ...]:
    def last_line() -> str:
        lines = ready.lab.read_log(spec.error_log).decode(errors="replace").splitlines()
        return lines[-1] if lines else ""

    found = _all(ready.found, Endpoint(spec.instance, address))
    return tuple(with_reason(one, last_line) for one in found)


def _of_the_service(
    found: Preflight, own: InPlaceServer, configurations: Mapping[str, Configuration]
) -> AnswersByName:
    """Return the answers of the host's own service, which has the user's values."""
    runs = found.space.baseline(OWN).digest
    with found.premises.service().unchanged(own.socket) as address:
        of_service = _all(found, Endpoint("service", address))
    return {
        name: of_service if configuration.digest == runs else ()
        for name, configuration in configurations.items()
    }


def _all(found: Preflight, endpoint: Endpoint) -> tuple[TriedRequest, ...]:
    """Return the answers of an endpoint on another host."""
    ask = partial(asked_through, found.generator, found.workload, endpoint=endpoint)
    return tuple(ask(request) for request in most_frequent(found.workload, _MOST_ASKED))


def asked_through(
    generator: LoadGenerator, workload: Workload, request: Request, endpoint: Endpoint
) -> TriedRequest:
    """Send a request to an endpoint; return its answer.

    Generators that share a load send one each. The generator compares the body with the expected
    one and does not report its size.

    Args:
        generator: the native generator.
        workload: the workload, for its connections.
        request: the request.
        endpoint: the running instance.

    Raises:
        InstrumentError: the generator failed.
    """
    generators = max(1, len(members_of(generator)))
    expected = _OK if request.expect_status is None else request.expect_status
    single = replace(
        workload,
        requests=(replace(request, expect_status=expected),),
        connections=generators,
        arrival="constant",
        # It opens no second connection after a single request.
        wire=replace(workload.wire, streams=1, requests_per_connection=None),
    )
    window = WindowSpec(
        window_id="one",
        instance=endpoint.instance,
        mode="open",
        rate_per_s=generators * _RATE_PER_S,
        seed=1,
        warmup_s=0.0,
        duration_s=_WINDOW_S,
    )
    found: list[RawWindow] = []

    def keep(window: RawWindow) -> Next:
        found.append(window)
        return Next()

    generator.run(WindowPlan(single, (endpoint,), (window,)), keep)
    return _answer(request, expected, found[0], workload)


def _answer(request: Request, expected: int, window: RawWindow, workload: Workload) -> TriedRequest:
    """Return the answer that a window of one request had."""
    other = [kind for kind in window.errors if kind.startswith(_STATUS)]
    if other:
        return TriedRequest(request, int(other[0].removeprefix(_STATUS)))
    wrong = [words for kind, words in _CONTENT_ERRORS.items() if kind in window.errors]
    if wrong:
        return TriedRequest(request, expected, wrong=f"it has {wrong[0]}")
    if window.completed:
        negotiated = unlike(workload.wire, window.protocol, window.agreed)
        return TriedRequest(request, expected, request.expect_length, wrong=negotiated)
    reason = ", ".join(kind.replace("_", " ") for kind in window.errors)
    return TriedRequest(request, None, reason=reason or f"after {workload.timeout_s:g} s")
