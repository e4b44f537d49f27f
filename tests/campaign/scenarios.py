"""Commands of the campaign: what begins them, what resumes them, and where they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Lab = Literal["simulated", "database", "here", "hosts"]
"""A simulated host, with a file or with a PostgreSQL for its record; or real servers and the real
generator, in a network namespace of this host or on hosts that are reached by SSH.
"""

_SHORT = ("--study", "static", "--time", "10s", "--rate", "600", "--quiet")
_REAL = ("--objective", "p50", "--time", "4s", "--rate", "200", "--stalls", "keep", "--quiet")
_RUN = ("run", "https-proxy-500")
_EVERYWHERE = frozenset({"disk", "strace", "locks"})
_SIMULATED = _EVERYWHERE | {"program", "dashboard"}
PROGRAM = "server-program"
"""File name of a server's program that a fault may replace."""
_REALLY = _EVERYWHERE | {"servers", "here", "network", "generator"}
WORKLOAD = """\
workload: mine
connections: 8
site: [{path: /index.html, size: 1k}]
requests: [{path: /index.html}]
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command with the line that resumes it."""

    name: str
    begin: Sequence[str]
    resume: Sequence[str]
    after: Scenario | None = None
    """A command that must have ended in the folder before."""
    study: Path = Path("studies/mine")
    """Folder of the study that the command measures."""
    lab: Lab = "simulated"
    offers: frozenset[str] = _SIMULATED
    """Properties that faults may need."""
    disk: str = "24M"
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Files that the user gives to it."""
    program: str = ""
    """Name of the server of which it has a copy as its program; empty: a simulated server, or the
    one that is installed."""
    judged: bool = True
    """True if it ends with a verdict."""
    says: bool = True
    """True if it prints the verdict's sentence, if there is one study."""
    undone: bool = False
    """True if ``resume`` undoes the command."""
    anew: bool = False
    """True if each command begins another study; ``study`` is the beginning of their names."""

    @property
    def extends(self) -> bool:
        """True if the command adds to a study that another one began."""
        return self.after is not None and self.after.study == self.study


_OPTIMIZE = Scenario(
    "optimize",
    ("optimize", *_SHORT, "--trials", "1", "--name", "mine"),
    ("optimize", "--resume", "--name", "mine", "--quiet"),
)
SIMULATED = (
    _OPTIMIZE,
    Scenario(
        "compare",
        ("compare", "stock", "hand", *_SHORT, "--name", "mine"),
        ("compare", "stock", "hand", "--resume", "--name", "mine", "--quiet"),
    ),
    Scenario(
        "ladder",
        ("ladder", "nginx:stock", "nginx:hand", *_SHORT, "--name", "mine"),
        ("ladder", "nginx:stock", "nginx:hand", "--resume", "--name", "mine", "--quiet"),
    ),
    Scenario(
        "run",
        (*_RUN, "--server", "nginx", "--case", "20B", "--time", "30s", "--quiet", "--name", "mine"),
        (*_RUN, "--resume", "--name", "mine", "--quiet"),
    ),
    Scenario(
        "replicate",
        ("replicate", "mine", "--name", "again", "--time", "10s", "--quiet"),
        ("replicate", "mine", "--resume", "--name", "again", "--quiet"),
        after=_OPTIMIZE,
        study=Path("studies/again"),
    ),
    Scenario(
        "ablate",
        ("ablate", "mine", "--time", "10s", "--quiet"),
        ("ablate", "mine", "--time", "10s", "--quiet"),
        after=_OPTIMIZE,
        says=False,
    ),
    Scenario(
        "own workload",
        ("compare", "stock", "hand", *_SHORT, "--workload", "mine.yaml", "--name", "mine"),
        ("compare", "stock", "hand", "--resume", "--name", "mine", "--quiet"),
        offers=_SIMULATED | {"inputs"},
        inputs={"mine.yaml": WORKLOAD},
    ),
)


_MEASURE: dict[str, Any] = {
    "study": Path("studies/measure-"),
    "lab": "here",
    "disk": "160M",
    "judged": False,
    "anew": True,
}


def _here(server: str) -> tuple[Scenario, ...]:
    """Return the commands with real instances of a server."""
    one = ("measure", "stock", "--server", server, *_REAL)
    two = ("compare", "stock", "hand", "--server", server, *_REAL, "--name", "mine")
    behind = ("measure", "stock", "--server", server, "--workload", "proxy", *_REAL)
    return (
        Scenario(f"measure {server}", one, one, offers=_REALLY, **_MEASURE),
        Scenario(
            f"measure {server} as a proxy", behind, behind, offers=_REALLY | {"backend"}, **_MEASURE
        ),
        Scenario(
            f"compare {server}",
            (*two, "--server-binary", PROGRAM),
            ("compare", "stock", "hand", "--resume", "--name", "mine"),
            lab="here",
            offers=_REALLY | {"program"},
            program=server,
            disk="160M",
        ),
    )


_WITH_KERNEL = ("measure", "hand", "--server", "nginx", "--layer", "kernel", *_REAL)
_KERNEL = Scenario(
    "measure with the kernel", _WITH_KERNEL, _WITH_KERNEL, offers=_REALLY, **_MEASURE
)
HERE = (*_here("nginx"), *_here("caddy"), _KERNEL)
_WORKER = ("worker", "mine", *_SHORT, "--trials", "1", "--host", "a")
DATABASE = (
    Scenario(
        "worker",
        _WORKER,
        _WORKER,
        study=Path("studies/mine/a"),
        lab="database",
        offers=_EVERYWHERE | {"network", "database"},
    ),
    Scenario(
        "worker through a proxy",
        _WORKER,
        _WORKER,
        study=Path("studies/mine/a"),
        lab="database",
        offers=_EVERYWHERE | {"network", "database", "proxy"},
    ),
)
_AWAY = ("--inventory", "{inventory}")
_PAGE = """\
workload: page
connections: 8
site: own
requests: [{path: /page.html}]
"""
_ON_HOSTS = frozenset({"network", "servers", "hosts", "names", "generator"})


def _hosts() -> tuple[Scenario, ...]:
    """Return the commands that change hosts."""
    away = ("measure", "stock", *_AWAY, *_REAL)
    service = ("--workload", "page.yaml", "--in-place", "restarts-my-service")
    in_place = ("optimize", "--study", "static", *_AWAY, *service)
    return (
        Scenario("measure by SSH", away, away, offers=_ON_HOSTS, **{**_MEASURE, "lab": "hosts"}),
        Scenario(
            "optimize in place",
            (*in_place, *_REAL, "--trials", "1", "--name", "mine"),
            ("optimize", "--resume", "--name", "mine", "--quiet"),
            lab="hosts",
            offers=_ON_HOSTS,
            inputs={"page.yaml": _PAGE},
        ),
        Scenario(
            "apply",
            ("apply", "mine", *_AWAY, "--yes", "--probes", "10"),
            ("rollback", "mine", *_AWAY),
            after=_OPTIMIZE,
            lab="hosts",
            offers=_ON_HOSTS - {"generator"},
            judged=False,
            undone=True,
        ),
    )


HOSTS = _hosts()
SCENARIOS = (*SIMULATED, *DATABASE, *HERE, *HOSTS)
