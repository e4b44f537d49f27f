"""Requirements of a parameter on server, host and workload.

docs/spaces.md describes the format.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from tuner.errors import quoted
from tuner.reading.located import Node, parse_integer, parse_size
from tuner.space.facts import SpaceFacts
from tuner.workload.wire import PROTOCOLS
from tuner.workload.workload import BACKEND_PROTOCOLS

WORKLOAD_KEYS = (
    *("tls", "protocol", "proxied", "upstream"),
    *("response_bytes", "request_bytes", "streams", "connections"),
)
SERVER_KEYS = ("version", "module", "openssl", "kernel", "kernel_tls")

_VERSION = re.compile(r"(<=?|>=?)\s*([0-9]+(?:\.[0-9]+)*)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Unavailable(Exception):  # noqa: N818 - not an error: the parameter is left out for a reason
    """A parameter that cannot exist here, or has no effect.

    Args:
        reason: continues "it …".
        workload: whether the workload is the reason, and not the server.
        itself: whether the reason is its own, and not that of a parameter it depends on.
    """

    def __init__(self, reason: str, *, workload: bool = False, itself: bool = True) -> None:
        self.workload = workload
        self.itself = itself
        super().__init__(reason)


def require(node: Node, facts: SpaceFacts) -> None:
    """Check a parameter's ``requires``.

    Raises:
        Unavailable: a requirement is not met.
        DefinitionError: the file is wrong, with its line.
    """
    keys = node.mapping(optional=(*SERVER_KEYS, *WORKLOAD_KEYS))
    _workload(keys, facts)
    if "version" in keys:
        _versions(keys["version"], facts.server_version, "version", facts.version)
    if "openssl" in keys:
        known = ".".join(map(str, facts.openssl)) or "built without it"
        _versions(keys["openssl"], facts.openssl, "OpenSSL", known)
    if "kernel" in keys:
        known = ".".join(map(str, facts.kernel)) or "not known"
        _versions(keys["kernel"], facts.kernel, "Linux", known)
    if "kernel_tls" in keys and keys["kernel_tls"].boolean() and not facts.kernel_tls:
        raise Unavailable("needs the kernel's TLS, which is not loaded (as root: modprobe tls)")
    for module in _words(keys["module"]) if "module" in keys else ():
        if module not in facts.modules:
            raise Unavailable(f"needs the module {module}, which is not built in")


def require_workload(node: Node, facts: SpaceFacts) -> None:
    """Check the conditions on the workload under ``when``; raise as ``require`` does."""
    _workload(node.mapping(optional=WORKLOAD_KEYS), facts)


def version_holds(node: Node, condition: str, version: tuple[int, ...]) -> bool:
    """Return whether a condition such as ``>= 1.9.10`` holds; commas join several.

    Raises:
        DefinitionError: the text is not a condition, with the node's line.
    """
    return all(_version_holds(node, part.strip(), version) for part in condition.split(","))


def _version_holds(node: Node, condition: str, version: tuple[int, ...]) -> bool:
    match = _VERSION.fullmatch(condition)
    if match is None:
        raise node.error(f"{quoted(condition)} is not a condition on the version such as >= 1.9.10")
    wanted = tuple(int(part) for part in match[2].split("."))
    # 1.22 and 1.22.0 are the same version.
    length = max(len(wanted), len(version))
    here = version + (0,) * (length - len(version))
    return _COMPARE[match[1]](here, wanted + (0,) * (length - len(wanted)))


def _versions(node: Node, version: tuple[int, ...], what: str, known: str) -> None:
    condition = node.text()
    holds = version_holds(node, condition, version)
    if not version or not holds:
        raise Unavailable(f"needs {what} {condition}; this is {known}")


def _workload(keys: Mapping[str, Node], facts: SpaceFacts) -> None:
    if "tls" in keys and keys["tls"].boolean() != facts.tls:
        wanted = "cleartext" if facts.tls else "TLS"
        raise Unavailable(f"is for {wanted}; the workload is {facts.wire}", workload=True)
    if "protocol" in keys:
        allowed = [item.one_of(PROTOCOLS) for item in _items(keys["protocol"])]
        if facts.protocol not in allowed:
            wanted = " or ".join(allowed)
            raise Unavailable(f"is for {wanted}; the workload is {facts.wire}", workload=True)
    if "proxied" in keys and keys["proxied"].boolean() != facts.proxied:
        wanted = "without" if facts.proxied else "with"
        raise Unavailable(f"is for workloads {wanted} a backend", workload=True)
    if "upstream" in keys:
        spoken = [item.one_of(BACKEND_PROTOCOLS) for item in _items(keys["upstream"])]
        if not set(spoken) & {*facts.upstream}:
            wanted = " or ".join(spoken)
            raise Unavailable(
                f"is for upstreams that speak {wanted}; these speak {' and '.join(facts.upstream)}",
                workload=True,
            )
    numbers = {
        "response_bytes": facts.response_bytes,
        "request_bytes": facts.request_bytes,
        "streams": facts.streams,
        "connections": facts.connections,
    }
    for name, here in numbers.items():
        if name in keys:
            _bounded(keys[name], name, here)


def _bounded(node: Node, name: str, here: int) -> None:
    keys = node.mapping(optional=("above", "below"))
    if not keys:
        raise node.error("write {above: …}, {below: …} or both")
    parse = parse_size if name.endswith("_bytes") else parse_integer
    for relation, limit in keys.items():
        try:
            number = parse(limit.text())
        except ValueError as error:
            raise limit.error(str(error)) from None
        if not (here > number if relation == "above" else here < number):
            what = name.replace("_", " ")
            raise Unavailable(
                f"is for {what} {relation} {limit.text()}; the workload has {here}", workload=True
            )


def _words(node: Node) -> tuple[str, ...]:
    return tuple(item.text() for item in _items(node))


def _items(node: Node) -> tuple[Node, ...]:
    """Return the items of a list, or a single text as a list of one."""
    return node.sequence() if isinstance(node.content, tuple) else (node,)
