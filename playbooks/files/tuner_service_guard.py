#!/usr/bin/python3
"""Change the files of a service for a while, and put them back byte for byte whatever happens.

    tuner_service_guard.py FOLDER change    what is wanted, as JSON on standard input
    tuner_service_guard.py FOLDER renew     lend for another while
    tuner_service_guard.py FOLDER keep      the files stay as they are; the old ones are kept too
    tuner_service_guard.py FOLDER restore   put the old files and the service's state back now
    tuner_service_guard.py FOLDER watch     put them back once nobody renews

The old files are on the disk, and the watching process runs, before the first file is changed. So a
caller that is killed, or a connection that is lost, leaves the host as it was found after the time
limit. What was done stands in FOLDER/log.

Only Python's standard library, 3.8 or newer, is used: the program runs on the target.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import tuner_guard
from tuner_guard import GuardError, boot_id, now_s, replace

PATIENCE_S = 60.0
SAID = 4000


class Guard(tuner_guard.Guard):
    """The files that were found, and the service that reads them."""

    def left_s(self, saved):
        """See ``tuner_guard.Guard``: the files outlive the kernel, its clock does not."""
        left_s = super().left_s(saved)
        return left_s if left_s is None or saved["boot"] == boot_id() else 0.0

    def backup(self, number):
        """Where the old content of a file is kept."""
        return os.path.join(self.folder, f"{number}.old")

    # --- commands ---------------------------------------------------------------------------

    def change(self, asked):
        """Replace files, validate, let the service take them over.

        Returns:
            ``state``: ``live``, ``refused`` (the validator's words; the files are as before the
            call) or ``failed`` (the service does not run with them; likewise).

        Raises:
            GuardError: somebody else's change is under way.
        """
        with self.locked():
            saved = self.mine(asked)
            before = {path: read(path) for path in asked["files"]}
            for path in asked["files"]:
                if path not in saved["files"]:
                    saved["files"][path] = self.keep_old(path, len(saved["files"]))
            saved.update(deadline=now_s() + asked["lease_s"], boot=boot_id())
            self.save(saved)
            if asked["watched"]:
                self.start_watching()
            try:
                for path, content in asked["files"].items():
                    put(path, content.encode(), saved["files"][path])
            except OSError as error:
                self.back_to(before, saved)
                raise GuardError(f"{error.filename or ''}: {error.strerror}") from error
            code, said = run(saved["validate"])
            if code != 0:
                self.back_to(before, saved)
                return {"state": "refused", "message": said}
            code, said = take_over(saved["service"], asked["how"])
            if code != 0:
                self.back_to(before, saved)
                take_over(saved["service"], asked["how"])
                return {"state": "failed", "message": said}
            saved.update(deadline=now_s() + asked["lease_s"], boot=boot_id())
            self.save(saved)
            self.log("{} changed {}".format(saved["owner"], ", ".join(asked["files"])))
            return {"state": "live", "message": ""}

    def mine(self, asked):
        """The state of this owner, begun if there is none."""
        saved = self.load()
        if saved is not None and saved["owner"] != asked["owner"]:
            raise GuardError(
                "{} is changed by {} already; roll that back first (tuner rollback), or wait until"
                " its time is over".format(", ".join(saved["files"]), saved["owner"])
            )
        if saved is None:
            saved = {
                "owner": asked["owner"],
                "service": asked["service"],
                "validate": asked["validate"],
                "was_active": is_active(asked["service"]),
                "files": {},
                "deadline": 0.0,
                "since": time.time(),
            }
        return saved

    def keep_old(self, path, number):
        """Copy a file's content, and note what else is to be put back."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return {"there": False}
        linked = True
        try:
            # The file itself under a second name: putting it back then needs no room on the disk.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.backup(number))
            os.link(os.path.realpath(path), self.backup(number))
        except OSError:
            replace(self.backup(number), read(path))
            linked = False
        return {
            "there": True,
            "number": number,
            "linked": linked,
            "mode": found.st_mode & 0o7777,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "mtime_ns": found.st_mtime_ns,
        }

    def back_to(self, before, saved):
        """What stood in the files before this call."""
        for path, content in before.items():
            if read(path) == content:
                continue
            if content is None:
                os.unlink(path)
            else:
                put(path, content, saved["files"][path])

    def renew(self, lease_s):
        """Lend for another while.

        Raises:
            GuardError: the old files were put back meanwhile.
        """
        with self.locked():
            saved = self.load()
            if saved is None:
                raise GuardError("the old files were put back meanwhile")
            saved.update(deadline=now_s() + lease_s, boot=boot_id())
            self.save(saved)

    def keep(self):
        """No time limit any more; ``restore`` still knows the old files."""
        with self.locked():
            saved = self.load()
            if saved is not None:
                saved["deadline"] = None
                self.save(saved)
                self.log("{} stays".format(", ".join(saved["files"])))
        self.dismiss()

    def put_back(self, saved, reason):
        """The old files, byte for byte, with owner, mode and time; then the service."""
        back = []
        for path, old in saved["files"].items():
            content = read(self.backup(old["number"])) if old["there"] else None
            if read(path) != content:
                back.append(path)
            if content is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            elif old["linked"]:
                give_back(self.backup(old["number"]), os.path.realpath(path))
            else:
                put(path, content, old)
                os.utime(path, ns=(time.time_ns(), old["mtime_ns"]))
        if saved["was_active"]:
            code, said = take_over(saved["service"], "restart")
            if code != 0:
                self.log(f"the files are back, but {saved['service']} does not start: {said}")
                raise GuardError(f"the files are back, but the service does not start: {said}")
        else:
            control(saved["service"], "stop")
        os.unlink(self.state)
        for old in saved["files"].values():
            if old["there"]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.backup(old["number"]))
        self.log("put back: {} ({})".format(", ".join(back) or "nothing differed", reason))
        return back


def read(path):
    """A file's content; None where there is none."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def give_back(kept, path):
    """The old file in the place of the new one, under both its names until the state is gone."""
    draft = path + ".tuner-new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    os.link(kept, draft)
    if os.path.exists(path) and os.path.samefile(draft, path):
        os.unlink(draft)  # rename(2) does nothing between two names of one file
    else:
        os.replace(draft, path)


def put(path, content, old):
    """The content, with owner and mode as they were; through a link if it is one."""
    path = os.path.realpath(path)
    replace(path, content)
    if old["there"]:
        os.chown(path, old["uid"], old["gid"])
        os.chmod(path, old["mode"])


def run(command):
    """Exit code, and what was said."""
    # Memory rather than a pipe: a daemon that keeps the descriptor must not keep us waiting.
    with os.fdopen(os.memfd_create("said"), "w+", encoding="utf-8", errors="replace") as said:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, str(error)
        said.seek(0)
        return done.returncode, said.read()[-SAID:].strip()


def control(service, verb):
    """``systemctl`` where systemd runs, else ``service``."""
    if os.path.isdir("/run/systemd/system"):
        return run(["systemctl", verb, service])
    return run([shutil.which("service") or "/usr/sbin/service", service, verb])


def is_active(service):
    """Whether the service runs."""
    verb = "is-active" if os.path.isdir("/run/systemd/system") else "status"
    return control(service, verb)[0] == 0


def take_over(service, how):
    """Let the service run with what the files say now."""
    code, said = control(service, how if is_active(service) else "start")
    if code == 0 and not is_active(service):
        return 1, said or "the service ended at once"
    return code, said


def answer(guard, command):
    """Carry out a command; what it has to say."""
    if command == "change":
        return guard.change(json.load(sys.stdin))
    if command == "restore":
        return {"restored": guard.restore("asked to")}
    if command == "renew":
        guard.renew(json.load(sys.stdin)["lease_s"])
    elif command == "keep":
        guard.keep()
    else:
        guard.watch()
    return {}


def main():
    """Exit code 1 and the words as JSON if the host is not as it has to be."""
    commands = ("change", "renew", "keep", "restore", "watch")
    if len(sys.argv) != 3 or sys.argv[2] not in commands:
        sys.exit(__doc__)
    tuner_guard.tell(lambda: answer(Guard(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
