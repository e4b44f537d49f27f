"""Hosts for ``tuner apply`` without a network: their files, their server's judgement, a record."""

from __future__ import annotations

import fnmatch
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.app.recommended import Recommended, recommended
from tuner.hosts.inventory import Host
from tuner.judge.ablation import Ablation, Check
from tuner.judge.results import StudyResult, evaluate
from tuner.own.home import Home
from tuner.own.nginx.tree import parse, write
from tuner.own.patch import exported, plain
from tuner.record.changes import changes_of
from tuner.record.model import AblationProtocol, Contrast
from tuner.space.configuration import Value
from tuner.stats.paired import estimate
from tuner.stats.verdict import VerdictKind
from tuner.testing.sample_record import sample_record

MAIN = "/etc/nginx/nginx.conf"
SITE = "/etc/nginx/conf.d/shop.conf"
TEXT = """\
# as it always was
worker_processes 1;
events {
    worker_connections 768;
}
http {
    keepalive_timeout 65;
    include conf.d/*.conf;
}
"""
SHOP = """\
server {
    listen 80;
    root /srv/shop;
}
"""
TUNED = TEXT.replace("keepalive_timeout 65;", "keepalive_timeout 65;\n    sendfile on;")
PROXY = """\
upstream app {
    server 127.0.0.1:8000;
}
server {
    listen 80;
    location / {
        proxy_pass http://app;
    }
    location /admin { deny all; }
}
"""


@dataclass
class FakeHost:
    """Files by path, and a server that refuses what holds ``bad``."""

    texts: dict[str, str] = field(default_factory=lambda: {MAIN: TEXT, SITE: SHOP})
    judged: list[Mapping[str, bytes]] = field(default_factory=list)
    """The files of each validation by its server."""
    namespaces: bool = True

    def read(self, path: str) -> bytes:
        """Implement ``Channel``."""
        if path not in self.texts:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.texts[path].encode("utf-8", "surrogateescape")

    def matches(self, pattern: str) -> list[str]:
        """Implement ``Channel``."""
        return sorted(fnmatch.filter(self.texts, pattern))

    def which(self, name: str) -> str | None:
        """Implement ``Channel``."""
        return f"/usr/sbin/{name}"

    def overlaid(
        self, contents: Mapping[str, bytes], command: Sequence[str], program: str = ""
    ) -> Mapping[str, Any]:
        """Implement ``Channel``."""
        assert (list(command), program) == (["/usr/sbin/nginx", "-t"], "")
        self.judged.append(contents)
        if not self.namespaces:
            return {"unavailable": "unshare: Operation not permitted"}
        bad = [path for path, content in contents.items() if b"bad" in content]
        said = f"[emerg] unknown directive in {bad[0]}:1" if bad else "syntax is ok"
        return {"code": len(bad), "said": said}


def no_home(host: Host, program: str) -> Home:
    """Nobody asks for a Caddy here."""
    raise AssertionError((host, program))


def host(name: str = "web") -> Host:
    """Return a host of an inventory."""
    return Host(name, {"ansible_host": f"{name}.example"})


BEFORE: dict[str, Value] = {"keepalive_requests": 1000, "proxy_http_version": "1.0"}
AFTER: dict[str, Value] = {
    "keepalive_requests": 100_000,
    "proxy_http_version": "1.1",
    "upstream_keepalive": 32,
}
"""Settings of a study of the lab."""


@functools.cache
def _evaluated() -> StudyResult:
    """Return a study whose verdict is better; drawing one takes seconds."""
    return evaluate(sample_record(name="mine", trials=3))


def evaluated(kind: str) -> StudyResult:
    """Return a study with that verdict."""
    study = _evaluated()
    assert study.verdict is not None
    return replace(study, verdict=replace(study.verdict, kind=VerdictKind(kind)))


def lab_study(kind: str = "better", tuned: dict[str, Value] | None = None) -> StudyResult:
    """Return a study of the lab."""
    return _with(evaluated(kind), {"values": BEFORE}, {"values": AFTER if tuned is None else tuned})


def own_study(kind: str = "better", tuned: str = TUNED) -> StudyResult:
    """Return a study of the user's own files, ``TEXT`` and ``SHOP``, of which one was changed."""
    resolved = plain(write(parse(MAIN, FakeHost()).directives))
    more = exported("0123", {MAIN: TEXT}, {MAIN: tuned}, MAIN, "nginx -t")
    study = _with(evaluated(kind), {"text": resolved}, {"more": more})
    definition = {**study.record.definition, "config": MAIN}
    return replace(study, record=replace(study.record, definition=definition))


def _with(study: StudyResult, before: dict[str, Any], after: dict[str, Any]) -> StudyResult:
    """Return the study with other fields of its baseline and of its candidate."""
    record = study.record
    assert study.candidate is not None
    found = dict(record.configurations)
    found[record.baseline] = replace(found[record.baseline], **before)
    found[study.candidate] = replace(found[study.candidate], **after)
    return replace(study, record=replace(record, configurations=found))


def ablated_study() -> StudyResult:
    """Return a study of the lab whose ablation found that one of two changes keeps the gain."""
    kept = {**BEFORE, "keepalive_requests": 100_000}
    study = lab_study(tuned={**kept, "proxy_http_version": "1.1"})
    configurations = study.record.configurations
    tuned = configurations[study.candidate or ""]
    least = replace(tuned, digest="00000000cafe", values=kept)
    protocol = AblationProtocol(
        frozen_unix_s=0.0,
        digest="",
        confirmation="",
        contrasts=tuple(
            Contrast((name,), "a", "b") for name in ("keepalive_requests", "proxy_http_version")
        ),
        blocks=6,
        rounds=4,
        window_s=1.0,
        alpha=0.05,
        margin=0.03,
    )
    ratio = estimate([math.log(0.5)] * 6)
    check = Check(least.digest, 6, estimate([0.0] * 6), ratio, keeps=True)
    return replace(
        study,
        record=replace(study.record, configurations={**configurations, least.digest: least}),
        changes=changes_of(configurations[study.record.baseline], tuned),
        ablation=Ablation(protocol, (), (check,), least.digest, is_over=True),
    )


def given(
    study: StudyResult, accepted: str | None = None, *, candidate: bool = False
) -> Recommended:
    """Return what is applied of a study."""
    return recommended(study, "mine", accepted, candidate=candidate)
