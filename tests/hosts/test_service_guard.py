"""The program that lends a service's files restores them after every kind of end."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.access import ACL, access_list
from tests.hosts.test_kernel_guard import eventually, kill, runs
from tuner.paths import data_dir

PROGRAM = data_dir("playbooks") / "files" / "tuner_service_guard.py"
SERVICE = """\
#!/bin/sh
# In the place of service(8) and systemctl(1): a service that runs while a file is there.
case "$*" in
    *start*) touch {folder}/runs ;;
    *stop*) rm -f {folder}/runs ;;
    *reset-failed*) ;;
    *) test -e {folder}/runs; exit ;;
esac
echo "$*" >>{folder}/asked
"""


@dataclass(frozen=True)
class Guarded:
    """The program, a folder of configuration files, and a service that reads them."""

    folder: Path
    owner: str = "study"

    @property
    def guard(self) -> Path:
        """Return the folder of the program's state."""
        return self.folder / "guard"

    def file(self, name: str) -> Path:
        """Return one of the service's files."""
        return self.folder / "etc" / name

    def call(self, *command: str, **asked: Any) -> dict[str, Any]:
        """Return the answer of the program."""
        done = subprocess.run(
            [sys.executable, "-B", str(PROGRAM), str(self.guard), *command],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"},
        )
        assert done.stderr == ""
        found: dict[str, Any] = json.loads(done.stdout)
        assert (done.returncode != 0) == ("failed" in found)
        return found

    def change(
        self,
        files: dict[str, str],
        *,
        lease_s: float = 100.0,
        continues: bool = False,
        live: dict[str, str] | None = None,
        unit: dict[str, dict[str, str]] | None = None,
    ) -> dict[str, Any]:
        """Let the service run with other texts; those that hold ``bad`` are refused."""
        return self.call(
            "change",
            owner=self.owner,
            service="it",
            validate=["sh", "-c", f"! grep -r bad {self.folder}/etc"],
            how="restart",
            files={str(self.file(name)): text for name, text in files.items()},
            lease_s=lease_s,
            watched=True,
            continues=continues,
            live=live or {},
            unit=unit or {},
        )

    def texts(self) -> dict[str, tuple[str, int]]:
        """Return the texts and times of the files."""
        etc = self.folder / "etc"
        return {p.name: (p.read_text(), p.stat().st_mtime_ns) for p in sorted(etc.iterdir())}

    def unit(self) -> dict[str, dict[str, str]]:
        """Return a change of the service's unit."""
        return {"files": {str(self.file("unit.conf")): "[Service]"}, "variables": {"GOGC": "400"}}

    @property
    def log(self) -> str:
        """Return the log of the program."""
        return (self.guard / "log").read_text()

    @property
    def watcher(self) -> int:
        """The process that would put all back."""
        return int((self.guard / "watch.lock").read_text())


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guarded]:
    """Two files and a service that runs; nothing left running afterwards."""
    for name in ("etc", "bin", "guard"):
        (tmp_path / name).mkdir()
    for name in ("service", "systemctl"):
        (tmp_path / "bin" / name).write_text(SERVICE.format(folder=tmp_path))
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "systemd-run").symlink_to("/bin/false")
    (tmp_path / "runs").touch()
    found = Guarded(tmp_path)
    for name in ("main", "more"):
        found.file(name).write_text(f"the {name} file\n")
    yield found
    with contextlib.suppress(AssertionError, FileNotFoundError):
        found.call("restore")


def test_the_next_files_replace_the_last_ones(guard: Guarded) -> None:
    """Files that are no longer named return to their first text; new files are removed."""
    before = guard.texts()
    guard.change({"main": "one", "new": "of one", "new.d/more": "of one", "new.d/most": "of one"})
    assert guard.file("new.d/more").read_text() == "of one"
    guard.change({"more": "two"}, continues=True)
    assert guard.file("main").read_text() == "the main file\n"
    assert guard.file("more").read_text() == "two"
    assert not guard.file("new").exists()
    guard.call("restore")
    assert guard.texts() == before
    assert not (guard.guard / "saved.json").exists()


def test_a_refusal_leaves_what_ran(guard: Guarded) -> None:
    """A refusal reports the validator's words and leaves the service untouched."""
    guard.change({"main": "one"})
    asked = (guard.folder / "asked").read_text()
    found = guard.change({"main": "bad", "more": "two"}, continues=True)
    assert found["state"] == "refused"
    assert "bad" in found["message"]
    assert guard.file("main").read_text() == "one"
    assert guard.file("more").read_text() == "the more file\n"
    assert (guard.folder / "asked").read_text() == asked
    assert guard.change({"main": "three"}, continues=True)["state"] == "live"


def test_what_does_not_prove_itself_does_not_stay(guard: Guarded) -> None:
    """Nothing answers with the token: the files are as before, and the service read them again."""
    before = guard.texts()
    live = {"url": "http://127.0.0.1:9/live", "host": "it", "token": "0123"}
    found = guard.change({"main": "one"}, live=live)
    assert found["state"] == "failed"
    assert "answers nothing instead of '0123'" in found["message"]
    guard.call("restore")
    assert guard.texts() == before
    assert (guard.folder / "asked").read_text().count("restart") == 3


def test_without_systemd_an_environment_is_not_set(guard: Guarded) -> None:
    """Without systemd an environment is skipped with a message; alone, it is a failure."""
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs here: what is said without it was not tested")
    words = "without systemd the environment of it stays as it is"
    assert guard.change({"main": "one"}, unit=guard.unit())["message"] == words
    assert not guard.file("unit.conf").exists()
    assert guard.change({}, unit=guard.unit())["failed"].startswith(words)


def test_missed_restorations_are_reported(guard: Guarded) -> None:
    """The target put the files back by itself: what was measured since does not count."""
    before = guard.texts()
    guard.change({"main": "one"}, lease_s=1.0)
    eventually(lambda: guard.texts() == before)
    eventually(lambda: not (guard.guard / "saved.json").exists())
    found = guard.change({"main": "two"}, continues=True)
    assert "put back meanwhile" in found["failed"]
    assert "nobody renewed the time; lent to study" in found["failed"]
    assert guard.texts() == before


def test_what_somebody_else_wrote_is_not_lost(guard: Guarded) -> None:
    """Another's text is never overwritten; a restore keeps a copy of it."""
    before = guard.texts()
    guard.change({"main": "one"})
    guard.file("main").write_text("an emergency\n")
    found = guard.change({"main": "two"}, continues=True)
    assert "something else changed" in found["failed"]
    assert guard.file("main").read_text() == "an emergency\n"
    guard.call("restore")
    assert guard.texts() == before
    (kept,) = guard.guard.glob("main.*")
    assert kept.read_text() == "an emergency\n"
    assert str(kept) in guard.log


def test_another_start_of_the_host_ends_the_loan(guard: Guarded) -> None:
    """Files outlive a reboot: the next owner gets the host as it was found by the first."""
    before = guard.texts()
    guard.change({"main": "one"})
    kill(guard.watcher)
    state = guard.guard / "saved.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "boot": "another"}))
    other = replace(guard, owner="other")
    assert other.change({"more": "two"})["state"] == "live"
    assert guard.file("main").read_text() == "the main file\n"
    other.call("restore")
    assert guard.texts() == before


def test_only_the_owner_restores_its_own(guard: Guarded) -> None:
    """Restoring for one study leaves another study's change alone."""
    guard.change({"main": "one"})
    assert guard.call("restore", "other") == {"restored": []}
    assert guard.file("main").read_text() == "one"
    assert "is changed by study already" in replace(guard, owner="other").change({})["failed"]
    assert guard.call("restore", "study") == {"restored": [str(guard.file("main"))]}


def test_a_study_restores_what_any_of_its_configurations_changed(guard: Guarded) -> None:
    """A name with a trailing space matches all of a study's owners, and no other study's."""
    mine = replace(guard, owner="study 0123")
    mine.change({"main": "one"})
    assert guard.call("restore", "stud ") == {"restored": []}
    assert guard.call("restore", "study") == {"restored": []}
    assert guard.call("restore", "study ") == {"restored": [str(guard.file("main"))]}


def test_a_service_that_has_seen_nothing_new_is_not_restarted(guard: Guarded) -> None:
    """All that was tried was refused: nothing is to be taken back but a file."""
    before = guard.texts()
    assert guard.change({"main": "bad"})["state"] == "refused"
    assert guard.call("restore") == {"restored": []}
    assert guard.texts() == before
    assert not (guard.folder / "asked").exists()


def test_nobody_else_can_read_a_file_before_it_has_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new text takes the old one's place with its permissions, and as a draft has no others."""
    module = runpy.run_path(str(PROGRAM.with_name("tuner_guard.py")))
    old, seen = tmp_path / "main", []

    def noted(draft: str, path: str) -> None:
        seen.append(Path(draft).stat().st_mode & 0o777)
        Path(draft).rename(path)

    monkeypatch.setattr(os, "replace", noted)
    (tmp_path / "main.tuner-new").touch(0o666)
    module["replace"](str(old), b"a password", mode=0o640)
    assert seen == [0o640]
    assert old.stat().st_mode & 0o777 == 0o640


def test_an_access_list_and_a_label_stay(guard: Guarded) -> None:
    """With the new text, after it stays for good, and with the old text again."""
    main = guard.file("main")
    try:
        os.setxattr(main, ACL, access_list(reader=65_534))
        os.setxattr(main, "user.label", b"of the owner")
    except OSError as error:
        pytest.skip(f"the file system of {main} has no access lists: {error}")
    before = attributes(main)
    assert before[ACL] == access_list(reader=65_534)
    guard.change({"main": "one"})
    guard.change({"main": "two"}, continues=True)
    assert main.read_text() == "two"
    assert attributes(main) == before
    guard.call("keep")
    guard.call("restore")
    assert main.read_text() == "the main file\n"
    assert attributes(main) == before


def attributes(path: Path) -> dict[str, bytes]:
    """Return the extended attributes of a file, by name."""
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


def test_a_service_that_was_stopped_is_stopped_again(guard: Guarded) -> None:
    """A restore stops a service that was stopped before, and ends the watcher."""
    (guard.folder / "runs").unlink()
    guard.change({"main": "one"})
    assert (guard.folder / "runs").exists()
    watcher = guard.watcher
    assert runs(watcher)
    guard.call("restore")
    assert not (guard.folder / "runs").exists()
    eventually(lambda: not runs(watcher))
