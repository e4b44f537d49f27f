"""What holds for every test."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.store.database import Database, binaries, database

# A test never judges by the clock: this machine may be busy.
settings.register_profile("tuner", deadline=None)
settings.load_profile("tuner")

# A shell that starts tests in the background has SIGINT ignored, here and in what they start
# (POSIX, Shell Command Language, 2.11); some tests interrupt what they test.
signal.signal(signal.SIGINT, signal.default_int_handler)

_COUNT = itertools.count()


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
