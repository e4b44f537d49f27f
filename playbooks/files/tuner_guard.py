"""Common code of a target's guards, which lend something of the host's and give it back.

What was found is on the disk, and a watching process holds its lock, before anything is changed. So
a caller that is killed, or a connection that is lost, leaves the host as it was found after the
time limit. What was done stands in FOLDER/log.

It uses only Python's standard library, 3.8 or newer, because it runs on the target with the guard.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

PATIENCE_S = 10.0
AGAIN_S = 10.0
LOOK_AGAIN = signal.SIGUSR1
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, LOOK_AGAIN)


class GuardError(Exception):
    """The host is not as it has to be; the words say how."""


class Guard:
    """The state in one folder: what was found, whose it is, until when it is lent.

    The state has ``owner`` and ``deadline``, in seconds of ``now_s``; None: without a limit.
    """

    def __init__(self, folder):
        self.folder = folder
        self.state = os.path.join(folder, "saved.json")
        self.alive = os.path.join(folder, "watch.lock")

    def put_back(self, saved, reason):
        """Make the host what it was, forget the state, say so in the log; what was put back.

        Raises:
            GuardError, OSError: that did not work; the state is kept.
        """
        raise NotImplementedError

    # --- state ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self):
        """Nobody else changes the state or the host meanwhile."""
        with open(os.path.join(self.folder, "lock"), "w", encoding="ascii") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def load(self):
        """The state, or None where nothing is changed."""
        try:
            with open(self.state, encoding="utf-8") as stream:
                return json.load(stream)
        except FileNotFoundError:
            return None

    def save(self, saved):
        """Put the state on the disk before anything relies on it."""
        replace(self.state, json.dumps(saved, indent=1).encode())

    def left_s(self, saved):
        """Seconds until the time limit; None: there is none."""
        return None if saved["deadline"] is None else saved["deadline"] - now_s()

    def log(self, words):
        """Log an action; failures of the log are ignored."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        path = os.path.join(self.folder, "log")
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as stream:
            stream.write(f"{now} {words}\n")

    def last_words(self):
        """The last line of the log."""
        try:
            with open(os.path.join(self.folder, "log"), encoding="utf-8") as stream:
                return stream.read().strip().rpartition("\n")[2]
        except FileNotFoundError:
            return "nothing"

    def restore(self, reason):
        """Put everything back, if anything is lent; may be called any number of times.

        Returns:
            What was put back, by name.
        """
        with self.locked():
            saved = self.load()
            back = self.put_back(saved, reason) if saved is not None else []
        self.dismiss()
        return back

    # --- the watching process ---------------------------------------------------------------

    def watch(self):
        """Sleep until the time limit, look whether it was renewed, else put everything back.

        Asked to end (SIGTERM), it puts everything back at once.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        with open(self.alive, "a+", encoding="ascii") as stream:
            if not patiently(lambda: try_lock(stream)):
                return  # another one watches
            stream.truncate(0)
            stream.write(str(os.getpid()))
            stream.flush()
            asked, ended = None, False
            while True:
                ended = ended or (asked is not None and asked.si_signo != LOOK_AGAIN)
                with self.locked():
                    sleep_s = self.look_after(ended=ended)
                    if sleep_s is None:
                        # Before the state's lock, so that its holder can rely on the state.
                        fcntl.flock(stream, fcntl.LOCK_UN)
                        return
                # Sleep without interruption: nothing may run during a measurement.
                asked = signal.sigtimedwait(SIGNALS, sleep_s)

    def look_after(self, *, ended):
        """Check the state once; return the time to sleep, or None to end the watch."""
        saved = self.load()
        left_s = None if saved is None else self.left_s(saved)
        if left_s is None:
            return None
        if left_s > 0 and not ended:
            return left_s
        why = "the watching process was ended" if ended else "nobody renewed the time"
        try:
            self.put_back(saved, f"{why}; lent to {saved['owner']}")
        except (GuardError, OSError) as error:
            self.log(f"could not put back, trying again: {error}")
            return AGAIN_S
        return None

    def start_watching(self):
        """One watching process, which nothing that ends here takes along.

        Raises:
            GuardError: it does not start.
        """
        if self.watched():
            return
        command = [sys.executable, "-B", os.path.abspath(sys.argv[0]), self.folder, "watch"]
        if not (has_systemd() and systemd_run(command)):
            subprocess.Popen(
                command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        if not patiently(self.watched):
            raise GuardError("the process that would put everything back does not start")

    def watched(self):
        """Return whether a watching process lives; it holds the lock as long as it does."""
        with open(self.alive, "a", encoding="ascii") as stream:
            return not try_lock(stream)

    def dismiss(self):
        """Let the watching process see that it has nothing to do any more, and end."""
        if not self.watched():
            return
        with open(self.alive, encoding="ascii") as stream:
            pid = stream.read().strip()
        if pid.isdigit():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), LOOK_AGAIN)
        patiently(lambda: not self.watched())


def try_lock(stream):
    """Take a lock unless somebody holds it; released as the file is closed."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def patiently(holds):
    """Wait until something holds, for a while; whether it does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def now_s():
    """Seconds since the host was started, those in which it slept too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id():
    """Which start of the host this is."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()


def namespace():
    """Which network namespace this is."""
    return os.readlink("/proc/self/ns/net")


def replace(path, content, uid=-1, gid=-1, mode=0o644, *, like=None):
    """Write a file in one step: the old content or the new one, never half of it.

    Args:
        path: of the file.
        content: bytes.
        uid: owner; -1: this account.
        gid: group; likewise.
        mode: permissions.
        like: a file that gives its access list and security label to the new one, or None.
    """
    draft = path + ".tuner-new"
    try:
        # Private until the owner is set, because the replaced file may have passwords.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, 0o600)
            stream.write(content)
            os.fchown(descriptor, uid, gid)
            os.fchmod(descriptor, mode)
            if like is not None:
                copy_attributes(like, descriptor)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    os.replace(draft, path)


def copy_attributes(source, target):
    """Give a file another one's extended attributes, with its POSIX ACL and SELinux label.

    After the mode, because a change of the mode changes an ACL (acl(5)).
    """
    with contextlib.suppress(OSError):
        for name in os.listxattr(source):
            # Some belong to the kernel or to another file system.
            with contextlib.suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))


def has_systemd():
    """Return whether systemd can run the watching process.

    It may end a login's own processes with the login.

    What it starts is in the namespace of process 1, which must be this one.
    """
    try:
        here = os.readlink("/proc/1/ns/net") == namespace()
    except OSError:
        return False
    return here and os.path.isdir("/run/systemd/system") and shutil.which("systemd-run") is not None


def systemd_run(command):
    """Start a process outside of this login; whether that worked."""
    options = ["--quiet", "--collect", "--description=puts back what tuner changed"]
    done = subprocess.run(
        ["systemd-run", *options, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


def report(answer):
    """Print the result of a command as JSON; on failure print the reason with exit code 1."""
    try:
        found = answer()
    except (GuardError, OSError) as error:
        sys.stdout.write(json.dumps({"failed": str(error)}) + "\n")
        sys.exit(1)
    sys.stdout.write(json.dumps(found) + "\n")
