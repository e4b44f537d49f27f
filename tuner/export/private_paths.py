"""A record without the folders of its user's own programs.

A server that is installed in a home folder or a virtual environment has a path of one person's
machine, which does not help the readers of a published report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

import msgspec

from tuner.record.model import Record
from tuner.store.signature import made_here, sign, sign_beginning

_OF_THE_SYSTEM = (
    *("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/"),
    *("/snap/", "/nix/store/", "/gnu/store/"),
)
"""Folders that are alike on many machines."""


def without_private_paths(record: Record) -> Record:
    """Return the record with the names of programs and libraries in place of private paths.

    Of several with one name, as much of the path stays as differs. A record that this
    user made is signed again.
    """
    private = {
        path
        for path in _paths(record)
        if path.startswith("/") and not path.startswith(_OF_THE_SYSTEM)
    }
    if not private:
        return record
    names = {path: _name(path, private) for path in sorted(private, key=len, reverse=True)}
    found = msgspec.convert(_replaced(msgspec.to_builtins(record), names), Record, str_keys=True)
    if made_here(record) != "here":
        return found
    return replace(found, signed=sign(replace(found, signed=sign_beginning(found))))


def _paths(record: Record) -> Iterator[str]:
    """Yield the paths of programs and libraries in a record."""
    servers = [record.server, *(host.server for host in record.hosts.values())]
    if record.contest is not None:
        servers += record.contest.servers
        yield from (contender.program for contender in record.contest.contenders)
    yield from (server.binary for server in servers)
    yield from record.code
    for host in record.hosts.values():
        yield from host.code


def _name(path: str, others: Collection[str]) -> str:
    """Return the shortest end of a path that no other has."""
    parts = PurePosixPath(path).parts
    for count in range(1, len(parts)):
        end = "/".join(parts[-count:])
        if sum(other.endswith(f"/{end}") for other in others) == 1:
            return end
    return path


def _replaced(data: object, names: Mapping[str, str]) -> object:
    """Return JSON data with the names in every text."""
    if isinstance(data, dict):
        return {_replaced(key, names): _replaced(value, names) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_replaced(value, names) for value in data]
    if isinstance(data, str) and "/" in data:
        for path, name in names.items():
            data = data.replace(path, name)
    return data
