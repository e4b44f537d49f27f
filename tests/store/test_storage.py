"""Storages by their URL: who may share them, what they say, and how long they are waited for."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.phases.rig import STOCK
from tests.store.database import SECRET, Database, database
from tuner.cli.report import command
from tuner.errors import DefinitionError, StoreError
from tuner.store.storage import open_storage, refuse_unshared, scrubbed
from tuner.store.store import Store
from tuner.testing.lab import SimulatedHost


def test_a_restarted_database_is_waited_for_and_said() -> None:
    """A write waits for a restarted database and arrives; both states are reported."""
    said: list[str] = []
    with database() as server:

        def say(text: str) -> None:
            if not said:
                server.start()
            said.append(text)

        header = SimulatedHost().header("x", STOCK, "p99")
        store = Store.create(server.url(), header, say=say)
        server.stop("immediate")
        store.set_importance({"fast": 1.0})
        assert Store.open(server.url(), "x").record().importance == {"fast": 1.0}
    assert any("does not answer" in text and "retrying in" in text for text in said)
    assert said[-1] == "the storage answers again"
    assert not any(SECRET in text for text in said)


def test_a_database_that_starts_is_waited_for_while_it_is_opened() -> None:
    """PostgreSQL refuses connections for seconds after a crash; any other refusal is final."""
    refusals = ["the database system is starting up", 'role "tuner" does not exist']
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener, list(refusals)), daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        url = f"postgresql+psycopg://tuner@127.0.0.1:{port}/x?gssencmode=disable&sslmode=disable"
        with pytest.raises(StoreError, match=refusals[1]):
            open_storage(url, said.append)
        thread.join()
    assert len(said) == 1
    assert refusals[0] in said[0]
    assert "retrying for up to 60 s" in said[0]


def refuse(listener: socket.socket, reasons: list[str]) -> None:
    """Refuse connections in PostgreSQL's protocol, each for another reason (ErrorResponse)."""
    for reason in reasons:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1024)
            fields = "".join(f"{field}\0" for field in ("SFATAL", "C57P03", f"M{reason}")) + "\0"
            message = fields.encode()
            connection.sendall(b"E" + (len(message) + 4).to_bytes(4, "big") + message)


def test_workers_that_begin_in_the_same_instant_all_get_the_storage(url: str) -> None:
    """All of them create the tables; one can."""
    assert opened_at_once(url, 2) == ["", ""]


def test_a_new_file_opened_by_several_at_once_serves_all(tmp_path: Path) -> None:
    """SQLite says in other words than PostgreSQL that somebody else created a table."""
    for number in range(2):
        assert opened_at_once(f"sqlite:///{tmp_path}/{number}.db", 4) == [""] * 4


def opened_at_once(url: str, count: int) -> list[str]:
    """Return the exception of each of several processes that open the storage at the same time."""
    # Importing what Optuna needs takes seconds: one process does it, and the others are its forks.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "optuna.storages._rdb.storage"])
    together, answers = context.Barrier(count), context.SimpleQueue()
    processes = [
        context.Process(target=open_together, args=(url, together, answers)) for _ in range(count)
    ]
    for process in processes:
        process.start()
    said = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return said


def open_together(url: str, together: Barrier, answers: SimpleQueue[str]) -> None:
    """Open the storage when all have come, and answer with the exception, or ""."""
    together.wait()
    try:
        open_storage(url)
    except Exception:  # noqa: BLE001 - the test shows it
        answers.put(traceback.format_exc())
    else:
        answers.put("")


@pytest.mark.parametrize("url", [None, "sqlite:///record.db", "sqlite:////mnt/nfs/record.db"])
def test_sqlite_is_refused_for_several_hosts_with_the_way_out(url: str | None) -> None:
    """With the reason, and both storages that serve."""
    with pytest.raises(DefinitionError, match=r"cannot share.*postgresql\+psycopg://.*grpc://"):
        refuse_unshared(url)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_proxy_ends_when_it_is_asked_to(url: str, number: signal.Signals) -> None:
    """A signal ends the proxy with exit code 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", "proxy", "--listen", address],
        env={**os.environ, "TUNER_STORAGE": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "serving" in process.stderr.readline()
        open_storage(f"grpc://{address}")
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert said.splitlines()[-1] == "the proxy has stopped"


def test_a_proxy_that_is_not_there_is_said_at_once() -> None:
    """With how to start one."""
    with pytest.raises(StoreError, match=r"no proxy answers at 127\.0\.0\.1:1; .*tuner proxy"):
        open_storage("grpc://127.0.0.1:1")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("postgresql+psycopg://me:pw@db/x", "postgresql+psycopg://me:***@db/x"),
        ("a postgresql://me:p:w@db/x b", "a postgresql://me:***@db/x b"),
        ("postgresql://me@db/x?password=pw&a=1", "postgresql://me@db/x?password=***&a=1"),
        ("postgresql://me@db/x", "postgresql://me@db/x"),
        ("http://127.0.0.1:80/a@b", "http://127.0.0.1:80/a@b"),
    ],
)
def test_a_password_is_taken_out_of_any_text(text: str, clean: str) -> None:
    """And nothing else is."""
    assert scrubbed(text) == clean


def test_a_wrong_password_is_said_without_it(server: Database) -> None:
    """At once, and not asked again: it will not become right."""
    url = server.url().replace(SECRET, "hunter2-not-it")
    said: list[str] = []
    with pytest.raises(StoreError) as raised:
        open_storage(url, said.append)
    assert said == []
    assert "hunter2" not in str(raised.value)
    assert "***" in str(raised.value)


def test_a_password_on_the_command_line_is_refused_with_the_ways_out() -> None:
    """A process list would show it; in the environment it is taken."""
    url = "postgresql+psycopg://me:hunter2@127.0.0.1:1/x"
    reported = CliRunner().invoke(command, ["x", "--storage", url]).exception
    assert isinstance(reported, DefinitionError)
    assert "TUNER_STORAGE" in str(reported)
    assert "PGPASSFILE" in str(reported)
    assert "hunter2" not in str(reported)
    taken = CliRunner().invoke(command, ["x"], env={"TUNER_STORAGE": url}).exception
    assert isinstance(taken, StoreError)
    assert "cannot be opened" in str(taken)


_LITTLE_MEMORY = """
pages = int(open('/proc/self/statm').read().split()[0])
limit, room = resource.RLIMIT_AS, pages * resource.getpagesize() + (64 << 20)
"""
_FEW_FILES = """
limit, room = resource.RLIMIT_NOFILE, len(os.listdir('/proc/self/fd')) + 4
"""


@pytest.mark.parametrize(
    ("room", "error"), [(_LITTLE_MEMORY, "MemoryError"), (_FEW_FILES, "OSError")]
)
def test_a_proxy_without_room_for_its_connection_is_refused(room: str, error: str) -> None:
    """Where gRPC would abort the process, with no word about the reason."""
    program = f"""
import os, resource, optuna, grpc
from tuner.store.storage import open_storage
{room}
resource.setrlimit(limit, (room, room))
try:
    open_storage('grpc://127.0.0.1:1')
except {error}:
    print('refused')
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
