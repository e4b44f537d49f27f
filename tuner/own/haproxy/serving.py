"""The part of HAProxy's configuration that a workload reaches: one frontend and its backends.

Conditions (ACLs) are HAProxy's to evaluate: the lab keeps them, and one request of each kind shows
where they lead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tuner.errors import DefinitionError
from tuner.own.haproxy.tree import CLIENT_SIDE, SERVER_SIDE, HaproxySection, HaproxyTree
from tuner.reading.haproxy_text import HaproxyLine

_REDIRECTS = (("redirect", "scheme", "https"), ("http-request", "redirect", "scheme", "https"))


@dataclass(frozen=True, slots=True)
class HaproxyServing:
    """The frontend of a workload, with the backends that it names."""

    tree: HaproxyTree
    frontend: HaproxySection
    """A frontend, or a listen section, which is both."""
    backends: tuple[HaproxySection, ...]
    tls: bool
    """True if it is asked over TLS."""

    @property
    def where(self) -> str:
        """``/etc/haproxy/haproxy.cfg:12``."""
        return f"{self.tree.file}:{self.frontend.head.number}"

    def reread(self, tree: HaproxyTree) -> HaproxyServing:
        """Return the same frontend and backends in a changed text of the configuration."""
        heads = {section.head.words: section for section in tree.sections}
        return replace(
            self,
            tree=tree,
            frontend=heads[self.frontend.head.words],
            backends=tuple(heads[section.head.words] for section in self.backends),
        )

    @property
    def bindings(self) -> tuple[HaproxyLine, ...]:
        """The addresses of the frontend over TCP that speak TLS, or do not, as the workload."""
        return tuple(
            line
            for line in self.frontend.own("bind")
            if ("ssl" in line.words) == self.tls and not is_quic(line)
        )


def is_quic(line: HaproxyLine) -> bool:
    """Return whether an address is one for HTTP/3."""
    return len(line.words) > 1 and line.words[1].startswith(("quic4@", "quic6@"))


def serving(tree: HaproxyTree, *, name: str = "", tls: bool, proxied: bool) -> HaproxyServing:
    """Return the frontend that a workload reaches.

    Args:
        tree: the configuration.
        name: name of the frontend; empty for the first that answers.
        tls: whether the workload asks over TLS.
        proxied: whether it needs a proxy.

    Raises:
        DefinitionError: there is none; at file and line.
    """
    if not proxied:
        raise DefinitionError(
            "HAProxy serves no files; name a workload with a backend: --workload proxy",
            path="--workload",
        )
    found = [each for each in tree.of(*CLIENT_SIDE) if next(each.own("bind"), None)]
    if name:
        found = [each for each in found if each.name == name]
    fitting = [each for each in found if each.serves_http and _answers(each)]
    if not fitting:
        raise DefinitionError(_lacking(tree, found, name), path=tree.file)
    section, over_tls = _choice(tree, fitting, tls=tls)
    return HaproxyServing(tree, section, tuple(_backends(tree, section)), over_tls)


def _lacking(tree: HaproxyTree, found: list[HaproxySection], name: str) -> str:
    """Return why no frontend can be tuned."""
    known = [each.name for each in tree.of(*CLIENT_SIDE)]
    if name and not found:
        return f"has no frontend {name!r}; it has: {', '.join(known) or 'none'}"
    if not found:
        return "has no frontend with a bind line"
    modes = [each.label for each in found if not each.serves_http]
    if modes:
        return f"{modes[0]} is not in mode http, and the lab's workloads are HTTP"
    return f"{found[0].label} passes no request on to a server"


def _answers(section: HaproxySection) -> bool:
    """Return whether a section passes requests on to servers."""
    if any(section.own("disabled")):
        return False
    if section.kind == "listen" and section.servers:
        return True
    return section.has("default_backend") or section.has("use_backend")


def _choice(
    tree: HaproxyTree, found: list[HaproxySection], *, tls: bool
) -> tuple[HaproxySection, bool]:
    """Return the first section that answers the workload, and whether it does so over TLS."""
    for section in found:
        kinds = {"ssl" in line.words for line in section.own("bind") if not is_quic(line)}
        redirects = any(next(section.own(*words), None) for words in _REDIRECTS)
        if tls and True in kinds:
            return section, True
        if not tls and False in kinds and not redirects:
            return section, False
    secure = [each for each in found if any("ssl" in line.words for line in each.own("bind"))]
    if secure and not tls:
        return secure[0], True
    section = found[0]
    raise DefinitionError(
        f"{section.label} has no bind line with ssl, and the workload asks over TLS; choose another"
        " workload (--workload) or frontend (--server-name)"
        if tls
        else f"{section.label} redirects to https, and no frontend speaks it",
        path=tree.file,
        line=section.head.number,
    )


def _backends(tree: HaproxyTree, frontend: HaproxySection) -> Iterator[HaproxySection]:
    """Yield the sections with the servers of a frontend; all, if names are made up at run time."""
    if frontend.kind == "listen":
        yield frontend
    lines = (*frontend.all("default_backend"), *frontend.own("use_backend"))
    names = {line.words[1] for line in lines if len(line.words) > 1}
    dynamic = any("%[" in name for name in names)
    for section in tree.of(*SERVER_SIDE):
        if section is not frontend and (section.name in names or dynamic):
            yield section
