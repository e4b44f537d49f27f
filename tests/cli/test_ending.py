"""The end of a command whose environment is broken."""

from __future__ import annotations

import errno
import gzip
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy

from tests.cli.conftest import Tuner
from tuner.app.writing import cannot_write, writing
from tuner.cli import unforeseen
from tuner.errors import EXIT_BUG, HostError, InstrumentError, StoreError
from tuner.generators import native
from tuner.generators.place import LocalGeneratorHost
from tuner.hosts import local
from tuner.servers import nginx

TOP = Path(__file__).parents[2]
URL = "postgresql+psycopg://tuner:hunter2@db/tuner"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which ``tuner`` is this tree's."""
    tuner = f"{shlex.quote(sys.executable)} -m tuner"
    return subprocess.run(
        ["bash", "-c", line.replace("tuner", tuner, 1)],
        cwd=TOP,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )


def broken(*_: object) -> None:
    """Raise what no handler expects, with a password in its text."""
    raise ZeroDivisionError(f"cannot divide {URL}")


def test_a_bug_is_one_line_and_a_file_with_the_details(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 70; the file is its owner's alone and holds the traceback without passwords."""
    monkeypatch.setattr(nginx, "detect", broken)
    monkeypatch.setenv("PGPASSWORD", "sesame")
    done = tuner("optimize", "--workload", "sesame.yaml", "--workload", "static")
    assert done.code == EXIT_BUG
    line = re.fullmatch(
        r"tuner failed with an unexpected error: ZeroDivisionError: cannot divide (\S+); details in"
        r" (\S+) \(please report it\)\n",
        done.err,
    )
    assert line is not None, done.err
    path = Path(line[2])
    assert path.parent == tmp_path / "state" / "tuner" / "errors"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "tuner optimize" in text
    assert "test_ending.py" in text
    for secret in ("hunter2", "sesame"):
        assert secret not in text + done.err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("can't start new thread"), "no thread can be started"),
    ],
)
def test_too_little_memory_is_the_hosts(
    error: Exception, words: str, tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3, the way out, and how to resume; no bug of tuner."""

    def exhausted(*_: object) -> None:
        raise error

    monkeypatch.setattr(nginx, "detect", exhausted)
    done = tuner("optimize")
    assert done.code == 3
    said = " ".join(done.err.split())
    assert said.startswith(f"tuner: {words}; end other programs")
    assert said.endswith("resume with --resume")


def test_a_library_without_memory_for_a_thread_prints_no_traceback(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as gRPC, which drops the exception; its own error follows."""

    class Dropping:
        def __del__(self) -> None:
            raise RuntimeError("can't start new thread")

    def without_a_thread(*_: object) -> None:
        Dropping()
        raise StoreError("no proxy answers")

    monkeypatch.setattr(nginx, "detect", without_a_thread)
    done = tuner("optimize")
    assert done.code == 3
    first, _, last = done.err.rpartition("tuner: ")
    assert " ".join(first.split()).startswith("tuner: no thread can be started; end other programs")
    assert last == "no proxy answers\n"


def test_a_folder_that_is_removed_meanwhile_is_named(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 3 and the topmost folder; a missing file in a folder that is there is a bug."""
    gone = tmp_path / "studies" / "mine"
    monkeypatch.setattr(nginx, "detect", lambda: (gone / "work" / "ca.pem").write_text(""))
    done = tuner("optimize")
    assert done.code == 3
    said = " ".join(done.err.split())
    assert said == (
        f"tuner: {gone.parent} has been removed while tuner used it; start the command again"
    )
    gone.mkdir(parents=True)
    monkeypatch.setattr(nginx, "detect", (gone / "ca.pem").read_text)
    assert tuner("optimize").code == EXIT_BUG


def test_a_records_broken_disk_is_the_hosts(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's words and how to resume, though Optuna has hidden them; no bug of tuner."""

    def unreadable(*_: object) -> None:
        reason = sqlite3.OperationalError("disk I/O error")
        hidden = sqlalchemy.exc.OperationalError("SELECT 1", None, reason)
        raise optuna.exceptions.StorageInternalError("invalid data in the commit") from hidden

    monkeypatch.setattr(nginx, "detect", unreadable)
    done = tuner("optimize")
    assert done.code == 3
    said = " ".join(done.err.split())
    assert said.startswith("tuner: the record cannot be read or written: disk I/O error; look at")
    assert said.endswith("resume with --resume")


def test_a_library_without_room_in_memory_is_the_hosts(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The C library uses the same words for a lack of memory and for a file system with noexec."""

    def unmapped(*_: object) -> None:
        raise ImportError("/lib/_rust.abi3.so: failed to map segment from shared object")

    monkeypatch.setattr(nginx, "detect", unmapped)
    done = tuner("optimize")
    assert done.code == 3
    said = " ".join(done.err.split())
    assert said.startswith("tuner: /lib/_rust.abi3.so: failed to map segment")
    assert "if memory is short, end other programs or raise the limit (ulimit -v)" in said


def test_too_few_open_files_are_the_hosts(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a library turns the error into one of its own: Alembic asserts that a file exists."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def exhausted(*_: object) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        raise AssertionError

    monkeypatch.setattr(nginx, "detect", exhausted)
    try:
        done = tuner("optimize")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert done.code == 3
    assert done.err.startswith("tuner: too many open files; raise the limit (ulimit -n)")


def test_where_no_file_can_be_written_the_line_says_where_it_happened(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last frames take the file's place."""
    monkeypatch.setattr(nginx, "detect", broken)
    monkeypatch.setattr(unforeseen, "_folders", lambda: iter([Path("/proc/no/such")]))
    done = tuner("optimize")
    assert done.code == EXIT_BUG
    assert re.search(r"; at tests/cli/test_ending\.py:\d+ < tuner/\S+:\d+ < ", done.err)
    assert len(done.err.splitlines()) == 1


def test_ctrl_c_during_an_import_is_an_interruption() -> None:
    """Exit code 130 and no traceback, wherever it comes."""
    program = (
        "import sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Slow())\n"
        "sys.argv = ['tuner', 'studies']\n"
        "from tuner.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("again", [False, True], ids=["once", "again in the hook"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_a_finalizer_still_ends_the_command(
    number: signal.Signals, again: bool
) -> None:
    """Python drops the exception of a finalizer, and would print a traceback."""
    program = (
        "import os, signal, sys, time\n"
        # Under nohup, SIGHUP is ignored here and in what is started from here.
        f"signal.signal({int(number)}, signal.SIG_DFL)\n"
        "from tuner.cli import ending\n"
        "class Collected:\n"
        "    def __del__(self):\n"
        f"        os.kill(os.getpid(), {int(number)})\n"
        "def main(**_):\n"
        "    Collected()\n"
        "    time.sleep(20)\n"
        "later = ending._raise_later\n"
        "def interrupted_later(words):\n"
        "    ending._raise_later = later\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    later(words)\n"
        f"if {again}:\n"
        "    ending._raise_later = interrupted_later\n"
        "ending.cli.main = main\n"
        "sys.argv = ['tuner', 'studies']\n"
        "sys.exit(ending.run())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=False
    )
    words = "interrupted" if number == signal.SIGINT else "terminated"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"tuner: {words}\n")


def test_numpy_starts_no_threads_on_the_cores_that_are_measured() -> None:
    """A command computes in one thread."""
    program = (
        "import os, sys, types\n"
        "def run():\n"
        "    import numpy as np\n"
        "    np.ones((500, 500)) @ np.ones((500, 500))\n"
        "    print(len(os.listdir('/proc/self/task')))\n"
        "    return 0\n"
        "sys.modules['tuner.cli.ending'] = types.SimpleNamespace(run=run)\n"
        "from tuner.cli import main\n"
        "main()\n"
    )
    environment = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TOP,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """``tuner --help | head -c 1``: nothing is printed about it."""
    done = shell("set -o pipefail; tuner workload show static | head -c 1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("line", ["tuner --help", "tuner schema space", "tuner --version"])
@pytest.mark.parametrize(
    ("to", "reason"), [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")]
)
def test_output_that_goes_nowhere_is_an_error(line: str, to: str, reason: str) -> None:
    """Exit code 3 and one line on standard error, as other programs do."""
    done = shell(f"{line} >{to}")
    assert done.returncode == 3
    assert done.stderr.startswith(f"tuner: standard output: cannot be written: {reason}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("to", ["/dev/full", "&-"])
def test_messages_that_go_nowhere_do_not_hide_the_result(to: str) -> None:
    """Standard output and the exit code stay what they are."""
    assert shell(f"tuner --version 2>{to}").returncode == 0
    assert shell(f"tuner report nope 2>{to}").returncode == 2


def test_a_command_goes_on_when_nobody_reads_its_messages(tmp_path: Path) -> None:
    """Ctrl-C ends the ``tee`` of ``tuner optimize 2>&1 | tee log`` before the report is written."""
    report = tmp_path / "report"
    program = (
        "import sys\n"
        "from tuner.cli import streams\n"
        "streams.prepare()\n"
        "for _ in range(9_000): print('writing the report', file=sys.stderr)\n"
        f"open({str(report)!r}, 'w').close()"
    )
    line = shlex.join([sys.executable, "-c", program]) + " 2>&1 | head -c 1"
    subprocess.run(["bash", "-c", line], cwd=TOP, check=True, capture_output=True)
    assert report.exists()


def test_a_closed_stream_is_no_place_for_a_record(tmp_path: Path) -> None:
    """A file that is opened next must not get number 1, where child processes would write."""
    program = (
        "import os, sys\n"
        "from tuner.cli import streams\n"
        "streams.prepare()\n"
        f"sys.exit(os.open({str(tmp_path / 'record')!r}, os.O_CREAT | os.O_WRONLY) <= 2)"
    )
    line = shlex.join([sys.executable, "-c", program]) + " <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], cwd=TOP, check=False).returncode == 0


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "xx_XX.nonsense", "LANG": "yy"},
        {"LC_ALL": "POSIX"},
    ],
    ids=lambda locale: ",".join(locale.values()),
)
def test_a_locale_without_the_characters_gets_the_nearest_ones(locale: dict[str, str]) -> None:
    """No ``UnicodeEncodeError``: what ASCII lacks is written with what it has."""
    done = shell("tuner report nämö", **locale)
    assert done.returncode == 2
    assert "no study called" in done.stderr
    program = (
        "from tuner.cli import streams\n"
        "streams.prepare()\n"
        "print('p99 \\u2264 5 \\u00b5s \\u2026 \\u6f22 \\udcff', flush=True)"
    )
    plain = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TOP,
        env={**os.environ, **locale},
        capture_output=True,
        check=True,
    ).stdout
    assert plain in (
        b"p99 <= 5 us ... \\u6f22 \xff\n",
        "p99 ≤ 5 µs … 漢 ".encode() + b"\xff\n",
    )


def test_a_full_disk_is_said_with_its_file_and_the_way_out(tmp_path: Path) -> None:
    """``No space left on device`` is the host's; any other reason has its own remedy."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(cannot_write(full, "report.md", "choose --output")) == (
        "report.md: cannot be written: No space left on device; make room there"
    )
    (tmp_path / "file").write_text("")
    refused = r"file/x: cannot be written: Not a directory; a file is"
    with pytest.raises(HostError, match=refused), writing("x"):
        (tmp_path / "file" / "x").mkdir()


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    """The current folder may be removed while a shell stands in it."""
    (tmp_path / "gone").mkdir()
    line = f"cd {shlex.quote(str(tmp_path / 'gone'))}; rmdir ../gone; tuner report x.json --quiet"
    done = shell(line, PYTHONPATH=str(TOP))
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 3)


def catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal (proc(5))."""
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def test_a_terminated_command_says_so() -> None:
    """SIGTERM while it works: exit code 130, one line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", "workload", "from-log", "-"],
        cwd=TOP,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    while not catches(process.pid, signal.SIGTERM):
        os.sched_yield()
    process.terminate()
    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "tuner: terminated\n")


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")]
)
def test_a_signal_during_an_import_is_no_bug(
    number: signal.Signals, words: str, tmp_path: Path
) -> None:
    """An extension module that is stopped halfway raises an error of its own, as NumPy does."""
    (tmp_path / "extension.py").write_text(
        "import os, time\n"
        "try:\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    time.sleep(60)\n"
        "except BaseException:\n"
        "    raise ImportError('core failed to import') from None\n"
    )
    program = (
        "import sys, tuner.cli.ending as ending\n"
        "def main(**_): import extension\n"
        "ending.cli.main = main\n"
        "sys.argv[1:] = ['doctor']\n"
        "sys.exit(ending.run())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, f"tuner: {words}\n")


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing can be made in the current folder, not even by root."""
    make, opened = Path.mkdir, Path.open

    def refuse(path: Path) -> None:
        if tmp_path in (path.absolute(), *path.absolute().parents) and "state" not in path.parts:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def mkdir(path: Path, *given: Any, **named: Any) -> None:
        refuse(path)
        make(path, *given, **named)

    def open_(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        if set(mode) & set("wax"):
            refuse(path)
        return opened(path, mode, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", mkdir)
        patch.setattr(Path, "open", open_)
        yield


@pytest.mark.usefixtures("host", "read_only")
@pytest.mark.parametrize("command", ["optimize", "measure"])
def test_a_folder_that_is_not_writable_is_refused_with_the_way_out(
    tuner: Tuner, command: str
) -> None:
    """Exit code 3, before anything is measured."""
    done = tuner(command, "--time", "10s", "--rate", "600", "--name", "mine", "--quiet")
    assert done.code == 3
    assert done.err == (
        "tuner: studies/mine: cannot be written: Read-only file system; results go to studies/ in"
        " the current folder; run tuner in another folder\n"
    )


def test_a_workload_that_cannot_be_written_names_the_option(tuner: Tuner) -> None:
    """``-o`` and ``--instants`` into a folder that is not there."""
    line = '1.2.3.4 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 612 "-" "-"\n'
    Path("access.log").write_text(line)
    for option in ("--output", "--instants"):
        done = tuner("workload", "from-log", "access.log", option, "nowhere/shop")
        assert done.code == 3
        assert done.err == (
            "tuner: nowhere/shop: cannot be written: No such file or directory; name another file"
            f" with {option}\n"
        )


def test_an_access_log_given_as_workload_is_refused_with_the_line_that_converts_it(
    tuner: Tuner,
) -> None:
    """No matter how it is named, plain, JSON or packed; and its lines are not repeated."""
    plain = '1.2.3.4 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 612 "-" "-"\n' * 1000
    object_ = '{"ts": 1.5, "request": {"method": "GET", "uri": "/"}, "status": 200, "size": 9}\n'
    for name, content in (
        ("access.log", plain.encode()),
        ("./access.txt", plain.encode()),
        ("access.json.log", object_.encode()),
        ("access.log.gz", gzip.compress(plain.encode())),
    ):
        Path(name).write_bytes(content)
        done = tuner("optimize", "--workload", name)
        assert done.code == 2
        assert done.err == (
            f"tuner: {Path(name)}: is an access log; make a workload of it: tuner workload from-log"
            f" {Path(name)} -o mine.yaml\n"
        )


def test_a_wrong_value_is_repeated_in_part(tuner: Tuner) -> None:
    """80 characters of it at most, and its length."""
    Path("s.yaml").write_text("a" * 5_000)
    done = tuner("optimize", "--study", "s.yaml")
    assert done.code == 2
    assert done.err == (
        f"tuner: s.yaml:1: expected a mapping, found '{'a' * 79}…' (5,000 characters)\n"
    )
    for options in (("--objective", "b" * 5_000), ("--time", "b" * 5_000), ("--slo", "b" * 5_000)):
        done = tuner("optimize", "--objective", "capacity", *options)
        assert done.code == 2
        assert len(done.err) < 500, done.err


def test_more_connections_than_the_limits_allow_are_refused(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limit of open files, or by the range of ports, before anything is started."""
    facts = local.facts()
    monkeypatch.setattr(local, "facts", lambda: replace(facts, file_limit=20_000))
    done = tuner("measure", "--connections", "100000")
    assert done.code == 2
    assert "tuner: --connections: 100,000 connections need 100,064 open files" in done.err
    assert "ulimit -n 100064" in done.err
    monkeypatch.setattr(local, "facts", lambda: replace(facts, file_limit=1 << 20))
    done = tuner("measure", "--connections", "100000")
    assert done.code == 2
    assert "ip_local_port_range" in done.err
    assert not Path("studies").exists()


def test_samples_that_the_generator_could_not_write_are_its_error() -> None:
    """With the generator's own reason."""
    line: dict[str, object] = {
        "stalls": {},
        "samples": None,
        "warnings": ["samples: Too many open files"],
    }
    with pytest.raises(InstrumentError, match="could not write its samples: samples: Too many"):
        native._window(line, LocalGeneratorHost(Path("x")))


def test_a_busy_port_of_the_dashboard_is_said(
    tuner: Tuner, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3, with the address and the option that changes it."""
    extra = types.ModuleType("optuna_dashboard")
    monkeypatch.setattr(extra, "wsgi", lambda _url: None, raising=False)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", extra)
    shutil.copytree(done, "studies/mine")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        ended = tuner("dashboard", "mine", "--port", str(port))
    assert ended.code == 3
    assert f"the dashboard cannot listen on 127.0.0.1:{port}: Address already in use" in ended.err
    assert "use another --port or --host" in ended.err
