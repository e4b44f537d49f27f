"""A service in place: where it is asked, and what of a configuration can be sent to its host.

The same for all servers. Nothing is carried over into a lab.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.errors import DefinitionError
from tuner.own.bound import BoundSpace
from tuner.workload.wire import Tls
from tuner.workload.workload import Request, Workload

_ANYWHERE = ("", "*", "0.0.0.0", "::")  # noqa: S104 - read, never listened on
_PLAIN_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Socket:
    """An address at which the server answers."""

    address: str
    """Empty: on every address of the host."""
    port: int


def socket_of(address: str, port: int) -> Socket | str:
    """Return the socket, or why another host cannot ask there."""
    address = "" if address in _ANYWHERE else address
    if address == "localhost" or address.startswith("127.") or address == "::1":
        return "the load comes from another host, and this is the loopback"
    if ":" in address:
        return "a server with IPv6 only cannot be tuned in place"
    return Socket(address, port)


def askable(names: Sequence[str]) -> str:
    """Return the first name that a server can be asked for; empty: none."""
    return next((name for name in names if _PLAIN_NAME.fullmatch(name)), "")


def asked_by(workload: Workload, name: str) -> Workload:
    """Return the workload, asking for that name where it names none itself."""
    if not name:
        return workload
    wire = workload.wire
    if wire.tls is not None and wire.tls.server_name == Tls().server_name:
        wire = replace(wire, tls=replace(wire.tls, server_name=name))
    requests = tuple(_named(each, name) for each in workload.requests)
    return replace(workload, wire=wire, requests=requests)


def sent(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts by their paths without the first slash, as an instance at ``/`` has them.

    Raises:
        DefinitionError: one of them is not UTF-8, so that it could not be sent as it is.
    """
    for path, text in texts.items():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DefinitionError(
                "holds bytes that are not UTF-8; a file that is changed in place has to be one",
                path=path,
            ) from None
    return {path.removeprefix("/"): text for path, text in texts.items()}


def refuse_raised(bound: BoundSpace, file: str) -> None:
    """Nothing, if the load can be put to the service as it is.

    Raises:
        DefinitionError: it has room for less.
    """
    for name, (said, needed) in bound.raised.items():
        raise DefinitionError(
            f"{name} is {said}, and this load needs {needed}; ask over fewer connections"
            " (--connections), or raise it on the host first",
            path=file,
        )


def _named(request: Request, name: str) -> Request:
    if any(header.lower() == "host" for header, _ in request.headers):
        return request
    return replace(request, headers=(("Host", name), *request.headers))
