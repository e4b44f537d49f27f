"""A PostgreSQL of its own for the tests: real, in a temporary folder, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECRET = "open-sesame-7"  # noqa: S105 - of a database that lives for seconds


def binaries() -> Path | None:
    """Folder of the newest PostgreSQL of this system; None if there is none."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@dataclass
class Database:
    """A server in a folder, on a port of the loopback."""

    folder: Path
    port: int
    bin: Path

    def url(self, database: str = "postgres") -> str:
        """Return the URL for ``--storage``, with the password."""
        return f"postgresql+psycopg://tuner:{SECRET}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """Return a new, empty database; its URL."""
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "tuner", database)
        return self.url(database)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        # Whether a power failure would lose the last windows is not what is tested.
        options += " -c fsync=off -c max_connections=400 -c shared_buffers=64MB"
        self.run(
            "pg_ctl",
            "-D",
            str(self.folder / "data"),
            "-w",
            "-o",
            options,
            "-l",
            str(self.folder / "log"),
            "start",
        )

    def stop(self, mode: str = "fast") -> None:
        """End the server; ``immediate`` is what a crash is to its clients."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", mode, "stop")

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs, as an unprivileged user if this is root."""
        subprocess.run(
            [str(self.bin / program), *arguments],
            check=True,
            capture_output=True,
            env={**os.environ, "PGPASSWORD": SECRET, "LC_ALL": "C"},
            cwd=self.folder,
            timeout=120,
            user=_user(),
        )


@contextlib.contextmanager
def database() -> Iterator[Database]:
    """A running server, removed with all that it held."""
    found = binaries()
    assert found is not None
    folder = Path(tempfile.mkdtemp(prefix="tuner-pg-"))
    if _user() is not None:
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    made = Database(folder, _free_port(), found)
    (folder / "password").write_text(SECRET)
    (folder / "password").chmod(0o644)
    try:
        made.run(
            "initdb",
            "-D",
            str(folder / "data"),
            "-U",
            "tuner",
            "-E",
            "UTF8",
            "-A",
            "scram-sha-256",
            "--pwfile",
            str(folder / "password"),
            "--no-sync",
        )
        made.start()
        yield made
    finally:
        with contextlib.suppress(subprocess.SubprocessError):
            made.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> str | None:
    return "nobody" if os.geteuid() == 0 else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
