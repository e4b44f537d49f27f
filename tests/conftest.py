"""Settings of every test."""

from __future__ import annotations

import fcntl
import gc
import itertools
import os
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.store.database import Database, binaries, database
from tuner.hosts.locks import VARIABLE

# The same examples in every run, and no judgement by the clock: this machine may be busy.
settings.register_profile("tuner", deadline=None, derandomize=True, database=None)
# `make roam` looks at new examples, which may find what nobody has seen yet.
settings.register_profile("roam", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("tuner")

# A shell that starts tests in the background has SIGINT ignored, here and in what they start
# (POSIX, Shell Command Language, 2.11); some tests interrupt what they test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# As in the commands (tuner/cli/__init__.py), and before a test imports NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_COUNT = itertools.count()
TESTS = Path(__file__).parent
FLEET = TESTS / "fleet"


REAL_ROOMS = {
    **dict.fromkeys(("generators", "integration", "servers", "vm"), "measures"),
    **dict.fromkeys(("app", "fleet", "hosts"), "changes"),
}
"""Scopes of test files that measure on this machine, or change hosts, by their rooms.

The tests of the other rooms may start a server, but judge no time.
"""
ONLY_DEPLOY = (
    *("hosts/test_ansible.py", "hosts/test_deployer.py", "hosts/test_hostile_values.py"),
    *("servers/test_contract.py", "servers/test_proposals.py"),
)
"""Files of those rooms that start servers and measure nothing."""

HALVED = "campaign/test_campaign.py"
"""A file with a tenth of all the work, of which its tests share little: two workers have it."""


def scope_of(file: str) -> str:
    """Return the scope of a test file: a kind of tests that run one by one, or the file itself."""
    scope = REAL_ROOMS.get(Path(file).parent.name, file)
    return file if file.endswith(ONLY_DEPLOY) else scope


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests on remote hosts: making hosts in namespaces needs root."""
    for item in items:
        if item.path.is_relative_to(FLEET):
            item.add_marker(pytest.mark.root)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the collected tests out of garbage collection: they stay to the end.

    The collector visited their 300,000 objects again and again, a tenth of a worker's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist is published without types
    """The schedule of a parallel run (``make test``): whole files, and two kinds one by one.

    Tests that measure run one after another, because studies own the machine's cores, and so do
    tests that change this host or hosts in namespaces. Each other file but ``HALVED`` runs as a
    whole, since its tests share fixtures.
    xdist's own ``loadgroup`` loses its groups under pytest 9.2: xdist 3.8 writes them into
    ``Item._nodeid``, which pytest no longer reads.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        half = f" {zlib.crc32(test.encode()) % 2}" if file.endswith(HALVED) else ""
        return scope_of(file) + half


LOCKED = {"measures": TESTS / "integration", "changes": FLEET}
"""The folder that a test of each kind locks while it runs."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run tests of a kind one by one across sessions: root's tests run in one of their own."""
    folder = LOCKED.get(scope_of(str(item.path)))
    if folder is None:
        return (yield)
    held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        return (yield)
    finally:
        # Explicitly, because a child that the test left may have inherited the open file.
        fcntl.flock(held, fcntl.LOCK_UN)
        os.close(held)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Use the schedule above, whichever ``--dist`` asks for several workers."""
    return ByFile(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Locks of the cores that are this session's own: other sessions may run at the same time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[Database]:
    """One server for all tests of the session."""
    if binaries() is None:
        pytest.skip("no PostgreSQL here: install the package postgresql (.ci/require postgresql)")
    with database() as made:
        yield made


@pytest.fixture
def url(server: Database) -> str:
    """An empty database of its own."""
    return server.create(f"test{next(_COUNT)}")
