#!/usr/bin/python3
"""Change network settings of this host's kernel for a limited time, and always restore them.

    tuner_kernel_guard.py FOLDER look      print settings, and whether they can be changed
    tuner_kernel_guard.py FOLDER apply     settings as JSON on standard input; renews the time limit
    tuner_kernel_guard.py FOLDER restore   restore the old values now
    tuner_kernel_guard.py FOLDER watch     put them back once nobody renews the time limit

The old values are on disk, and the watching process holds its lock, before the first setting is
changed. So a caller that is killed, or a connection that is lost, leaves the host as it was found
after the time limit; what was done stands in FOLDER/log. FOLDER belongs on a file system that does
not outlive the kernel (/run): after a reboot there is nothing to put back.

Only Python's standard library, 3.8 or newer, is used: the program runs on the target.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import sys

import tuner_guard
from tuner_guard import GuardError, boot_id, namespace, now_s

SETTING = re.compile(r"net\.(core|ipv4)\.[a-z0-9_]+")
REFUSALS = (errno.EINVAL, errno.ERANGE, errno.ENOENT)
"""Errors of a write to an existing setting that blame the value (ENOENT: no such algorithm).

Anything else (EACCES, EROFS) is the host's fault, and no configuration's.
"""


def path_of(name):
    """Where the kernel keeps a setting.

    Raises:
        GuardError: it is none that may be changed here.
    """
    if not SETTING.fullmatch(name):
        raise GuardError(f"{name!r} is not a setting of net.core or net.ipv4")
    return "/proc/sys/" + name.replace(".", "/")


def read(name):
    """A setting's value, its fields separated by one blank."""
    with open(path_of(name), encoding="ascii") as stream:
        return " ".join(stream.read().split())


def write(name, text):
    """Change a setting, in one write as the kernel wants it."""
    descriptor = os.open(path_of(name), os.O_WRONLY)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)


def look(names):
    """Values by name, what is missing with the reason, and who asks; nothing is changed."""
    texts, missing = {}, {}
    for name in names:
        try:
            texts[name] = read(name)
        except OSError:
            missing[name] = f"is not there: Linux {os.uname().release}, or this network namespace"
            continue
        # Mode and file system, both: as root, access(2) looks at the file system alone.
        path = path_of(name)
        if not (os.access(path, os.W_OK) and os.stat(path).st_mode & 0o200):
            missing[name] = "cannot be changed here: a container, or a network namespace of its own"
    return {
        "texts": texts,
        "missing": missing,
        "root": os.geteuid() == 0,
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    }


def put(name, text):
    """Change a setting and read it back; what the kernel says against it, or nothing."""
    if read(name) == text:
        return ""
    try:
        write(name, text)
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        return f"{name}: the kernel refuses {text!r} ({error.strerror})"
    found = read(name)
    return "" if found == text else f"{name}: the kernel made {found!r} of {text!r}"


class Guard(tuner_guard.Guard):
    """The settings that were found, and those that hold now."""

    def load(self):
        """The state, or None where nothing is changed."""
        saved = super().load()
        if saved is None:
            return None
        if saved["boot"] != boot_id():
            self.log("the host was started anew since, which put everything back")
            os.unlink(self.state)
            return None
        if saved["namespace"] != namespace():
            raise GuardError(
                f"{self.state} is about another network namespace ({saved['namespace']}, this is"
                f" {namespace()}); wait until its time limit is over, or restore it there"
            )
        return saved

    def apply(self, owner, lease_s, settings, continues):
        """Apply settings until the next call, or until the time limit ends.

        Settings of an earlier call that this one does not name are restored. If the kernel refuses
        or alters a value, the call reports it and restores all old values.

        Returns:
            The kernel's objections to the settings; empty if they apply.

        Raises:
            GuardError: the settings of the last call do not hold any more, or are another's.
        """
        with self.locked():
            saved = self._mine(owner, continues)
            for name in settings:
                if name not in saved["values"]:
                    saved["values"][name] = read(name)
            saved["deadline"] = now_s() + lease_s
            self.save(saved)
            self.start_watching()
            wanted = dict(saved["values"], **settings)
            reported = self._hold(saved, wanted)
            saved["applied"] = {name: read(name) for name in wanted}
            saved["deadline"] = now_s() + lease_s
            self.save(saved)
        return "; ".join(reported)

    def _hold(self, saved, wanted):
        """Change all or nothing; what the kernel says against it."""
        reported = []
        try:
            reported = [words for words in (put(*item) for item in wanted.items()) if words]
        except OSError as error:
            self.put_back(saved, "a setting cannot be written")
            raise GuardError(f"the kernel's settings cannot be written: {error}") from error
        if reported:
            for name, text in saved["values"].items():
                put(name, text)
        return reported

    def _mine(self, owner, continues):
        saved = self.load()
        if saved is not None and saved["owner"] != owner:
            if now_s() < saved["deadline"]:
                left_s = saved["deadline"] - now_s()
                raise GuardError(
                    f"the kernel's settings are lent to {saved['owner']} for another {left_s:.0f} s"
                    " at most; only one study at a time can change them"
                )
            self.put_back(saved, f"the time limit of {saved['owner']} was over")
            saved = None
        if saved is None:
            if continues:
                raise GuardError(
                    "the kernel's old settings were put back meanwhile, so what was measured since"
                    f" does not count: {self.last_words()}"
                )
            self.log(f"{owner} borrows the kernel's settings")
            return {
                "owner": owner,
                "boot": boot_id(),
                "namespace": namespace(),
                "values": {},
                "applied": {},
                "deadline": 0.0,
            }
        changed = [
            f"{name} is {read(name)!r}, was {text!r}"
            for name, text in saved["applied"].items()
            if read(name) != text
        ]
        if changed and continues:
            # Taken as it is from now on, so that the next call can go on.
            saved["applied"] = {name: read(name) for name in saved["applied"]}
            self.save(saved)
            raise GuardError(f"something else changed the kernel's settings: {'; '.join(changed)}")
        return saved

    def put_back(self, saved, reason):
        """Implement ``tuner_guard.Guard``."""
        back = [name for name, text in saved["values"].items() if read(name) != text]
        reported = []
        for name, text in saved["values"].items():
            try:
                reported.append(put(name, text))
            except OSError as error:
                reported.append(f"{name}: {error.strerror}")
        wrong = [words for words in reported if words]
        if wrong:
            self.log(f"could not put back: {'; '.join(wrong)} ({reason})")
            raise GuardError(f"could not put back: {'; '.join(wrong)}")
        values = (
            ", ".join(f"{name} = {saved['values'][name]}" for name in back) or "nothing differed"
        )
        self.log(f"put back: {values} ({reason})")
        os.unlink(self.state)
        return back


def answer(guard, command):
    """Carry out a command; what it has to say."""
    if command == "watch":
        guard.watch()
        return {}
    if command == "restore":
        return {"restored": guard.restore("asked to")}
    asked = json.load(sys.stdin)
    if command == "look":
        return look(asked["names"])
    message = guard.apply(
        asked["owner"], asked["lease_s"], asked["settings"], asked.get("continues", False)
    )
    return {"state": "refused" if message else "applied", "message": message}


def main():
    """Exit code 1 and the words as JSON if the host is not as it has to be."""
    if len(sys.argv) != 3 or sys.argv[2] not in ("look", "apply", "restore", "watch"):
        sys.exit(__doc__)
    if sys.argv[2] != "look":
        os.makedirs(sys.argv[1], mode=0o700, exist_ok=True)
    tuner_guard.report(lambda: answer(Guard(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
