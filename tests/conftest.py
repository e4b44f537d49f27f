"""What holds for every test."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

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

_COUNT = itertools.count()
FLEET = Path(__file__).parent / "fleet"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tell the parallel run (``make test``) which tests must not run at the same time.

    What needs real servers or hosts runs one after another, as on a machine without xdist: studies
    own the machine's cores. Everything else stays with its file, which shares its fixtures.
    """
    for item in items:
        remote = item.path.is_relative_to(FLEET)
        if remote:
            item.add_marker(pytest.mark.root)
        if item.get_closest_marker("xdist_group") is None:
            real = remote or item.get_closest_marker("integration") is not None
            file = str(item.path.relative_to(config.rootpath))
            item.add_marker(pytest.mark.xdist_group("real" if real else file))


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Locks of the cores that are this session's own: other sessions may run beside it."""
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
