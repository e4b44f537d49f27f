"""The kernel's part of a configuration: settings of the whole host.

Its parameters have the kernel's own names (``net.core.somaxconn``), and their dots set them apart.
They are part of the configuration like any other: searched, recorded, in the digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tuner.errors import DefinitionError
from tuner.reading.printable import comment_line
from tuner.space.configuration import Configuration, Value
from tuner.space.never import refusal
from tuner.space.parameter import Parameter, same
from tuner.space.space import Space

LAYER = "kernel"
"""Value of ``--layer``, and server of a kernel space."""
BUILT_IN = "kernel/net"
OPEN_FILES = "limits.nofile"
"""RLIMIT_NOFILE of the instances: a floor, the same for all."""
SYSCTL_FILE = "90-tuner.conf"

_SETTING = re.compile(r"net\.(core|ipv4)\.[a-z0-9_]+(\.max)?")
_MAX = ".max"
"""Suffix for the last field of a setting of three fields (least, default, most)."""
_PORTS = "net.ipv4.ip_local_port_range"
_ALGORITHM = "net.ipv4.tcp_congestion_control"
ALGORITHMS = "net.ipv4.tcp_available_congestion_control"


@dataclass(frozen=True, slots=True)
class KernelState:
    """The settings of a target before any change."""

    texts: Mapping[str, str]
    """By the kernel's name, with fields separated by one space."""
    missing: Mapping[str, str]
    """Settings that are missing or read-only, with the reason."""


def setting_of(parameter: str) -> str:
    """Return the kernel's name: ``net.ipv4.tcp_rmem`` for ``net.ipv4.tcp_rmem.max``."""
    return parameter.removesuffix(_MAX)


def is_kernels(parameter: str) -> bool:
    """Return whether a parameter belongs to the kernel."""
    return "." in parameter


def server_part(configuration: Configuration) -> Configuration:
    """Return the server's part of a configuration, for its template."""
    own = {name: value for name, value in configuration.items if not is_kernels(name)}
    return Configuration.of(configuration.space, own)


def settings_of(configuration: Configuration, seen: KernelState | None) -> dict[str, str]:
    """Return the kernel settings of a configuration, as the kernel writes them.

    Args:
        configuration: a configuration of a space joined with a kernel's.
        seen: source of fields without a parameter.
    """
    if seen is None:
        return {}
    return {
        setting_of(name): _text(name, value, seen.texts[setting_of(name)])
        for name, value in configuration.items
        if is_kernels(name) and name != OPEN_FILES
    }


def open_files(configuration: Configuration) -> int:
    """Return the floor of RLIMIT_NOFILE; 0 without one."""
    value = configuration.values.get(OPEN_FILES, 0)
    return value if isinstance(value, int) else 0


def checked(space: Space) -> Space:
    """Return the space unchanged if it is a valid kernel space.

    Raises:
        DefinitionError: a parameter is on the never-list, or not one of the kernel's network.
    """
    if space.server != LAYER:
        raise DefinitionError(
            f"{space.name} is a space of {space.server}, not of the kernel", path="--layer"
        )
    for parameter in space.parameters:
        name = setting_of(parameter.name)
        why = refusal(LAYER, name)
        if why:
            raise DefinitionError(
                f"{name} is never tuned: {why}; take it out", path=str(space.path)
            )
        if parameter.name != OPEN_FILES and not _SETTING.fullmatch(parameter.name):
            raise DefinitionError(
                f"{parameter.name!r} is not a setting of net.core or net.ipv4, the"
                " tunable parts of the kernel; take it out",
                path=str(space.path),
            )
    return space


def joined(space: Space, kernel: Space, seen: KernelState) -> Space:
    """Return a server's space followed by the kernel's parameters.

    The baselines ``stock`` and ``distro`` keep the kernel as it is: the server runs on it today,
    and tuner restores it afterwards. ``hand`` has the file's values.

    Raises:
        DefinitionError: see ``checked``.
    """
    kept: list[Parameter] = []
    left_out = [*space.left_out, *kernel.left_out]
    for parameter in checked(kernel).parameters:
        reason = seen.missing.get(setting_of(parameter.name), "")
        bound = parameter if reason else _as_found(parameter, seen)
        if isinstance(bound, Parameter) and not reason:
            kept.append(bound)
        else:
            left_out.append((parameter.name, reason or str(bound)))
    return replace(
        space,
        parameters=(*space.parameters, *kept),
        orders=(*space.orders, *kernel.orders),
        left_out=tuple(left_out),
    )


def sysctl_file(
    settings: Mapping[str, str], found: Mapping[str, str], comment_lines: Iterable[str]
) -> str:
    """Return the changed settings in the format of sysctl.d(5); empty if there are none."""
    changed = {name: text for name, text in settings.items() if found.get(name) != text}
    if not changed:
        return ""
    lines = [comment_line(line) for line in comment_lines]
    lines += [
        "#",
        f"# Install it as /etc/sysctl.d/{SYSCTL_FILE}, run: sysctl --system",
        "# and restart the server: some settings apply only to new sockets.",
    ]
    for name, text in sorted(changed.items()):
        was = f"  # was {found[name]}" if name in found else ""
        # sysctl.d(5) has comments only on lines of their own.
        lines += [was.strip()] * bool(was) + [f"{name} = {text}"]
    return "\n".join(lines) + "\n"


def _as_found(parameter: Parameter, seen: KernelState) -> Parameter | str:
    """Return the parameter with the host's value as its default, or why it is unavailable here."""
    text = seen.texts[setting_of(parameter.name)]
    try:
        value = _value(parameter, text)
    except ValueError:
        return f"has the unknown value {text!r} here"
    hand = parameter.defaults["hand"]
    if same(hand, parameter.defaults["stock"]):
        hand = value
    bound = replace(parameter, defaults={"stock": value, "distro": value, "hand": hand})
    if parameter.name == _ALGORITHM:
        # Another choice would load a module, which stays loaded.
        offered = tuple(c for c in bound.choices if c in seen.texts.get(ALGORITHMS, "").split())
        bound = replace(bound, choices=offered)
    if bound.kind == "choice" and value not in bound.choices:
        bound = replace(bound, choices=(*bound.choices, str(value)))
    if bound.kind == "choice" and len(bound.choices) < 2:
        return f"has no choice here but {text}"
    return bound


def _value(parameter: Parameter, text: str) -> Value:
    fields = text.split()
    if parameter.kind == "boolean":
        return {"0": False, "1": True}[text] if text in ("0", "1") else _not_understood(text)
    if parameter.kind == "choice":
        return "-".join(fields)
    if parameter.name.endswith(_MAX) and len(fields) == 3:
        return int(fields[2])
    return int(text)


def _not_understood(text: str) -> bool:
    raise ValueError(text)


def _text(name: str, value: Value, found: str) -> str:
    """Return a value in the kernel's format."""
    if isinstance(value, bool):
        return str(int(value))
    if name == _PORTS:
        return str(value).replace("-", " ")
    if name.endswith(_MAX):
        return " ".join([*found.split()[:2], str(value)])
    return str(value)
