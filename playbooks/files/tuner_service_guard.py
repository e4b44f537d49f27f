#!/usr/bin/python3
"""Change the files of a service for a limited time, and always restore them byte for byte.

    tuner_service_guard.py FOLDER change    apply the change from JSON on standard input
    tuner_service_guard.py FOLDER renew     extend the time limit
    tuner_service_guard.py FOLDER keep      make the change permanent; store the old files
    tuner_service_guard.py FOLDER restore   restore the old files and the service's state now
                                            (restore OWNER: only this owner's change; a trailing
                                            space matches by prefix)
    tuner_service_guard.py FOLDER watch     restore them when the time limit ends

The old files are on the disk, and the watching process runs, before the first file is changed. So a
killed caller or a lost connection leaves the host in its original state after the time limit.
FOLDER/log lists all actions.

Only Python's standard library, 3.8 or newer, is used: the program runs on the target.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse

import tuner_guard
from tuner_guard import GuardError, boot_id, now_s, replace

PATIENCE_S = 60.0
PROOF_S = 10.0
SAID = 4000
UNITS = "/etc/systemd/"
USUAL_ADMIN = "localhost:2019"
"""Where Caddy is administered unless it says otherwise (caddyserver.com/docs/api)."""


class Guard(tuner_guard.Guard):
    """The files that were found, and the service that reads them."""

    def left_s(self, saved):
        """Implement ``tuner_guard.Guard``: the files outlive the kernel, its clock does not."""
        left_s = super().left_s(saved)
        return left_s if left_s is None or saved["boot"] == boot_id() else 0.0

    def backup(self, number):
        """Where the old content of a file is kept."""
        return os.path.join(self.folder, f"{number}.old")

    # --- commands ---------------------------------------------------------------------------

    def change(self, asked):
        """Make the files these, validate them, let the service take them over, see that it has.

        What an earlier call changed and this one does not name is as it was found.

        Returns:
            ``state``: ``live``, ``refused`` (the validator's words; the files are as before the
            call) or ``failed`` (the service does not run with them; likewise).

        Raises:
            GuardError: somebody else's change is under way, something else wrote to the files,
                those of the last call did not stay until this one (``continues``), or nothing of
                what is wanted can be done here.
        """
        unit, left_out = unit_wanted(asked)
        variables = unit.get("variables", {})
        texts = {**asked["files"], **unit.get("files", {})}
        with self.locked():
            saved = self.mine(asked)
            # Before the service is restarted, since then that process is gone.
            like = Likeness(asked["like"]) if asked.get("like") else None
            for path in texts:
                if path not in saved["files"]:
                    saved["files"][path] = self.keep_old(path, len(saved["files"]))
            before = {path: read(path) for path in saved["files"]}
            refuse_others(saved, before)
            refuse_unexpected(asked.get("expected", {}), before)
            wanted = {path: self.old_content(old) for path, old in saved["files"].items()}
            wanted.update({path: text.encode() for path, text in texts.items()})
            # Only a new process has another environment.
            changes_unit = any(is_of_unit(p) and wanted[p] != before[p] for p in wanted)
            how = "restart" if changes_unit else asked["how"]
            self.write_down(saved, wanted, asked["lease_s"])
            if asked["watched"]:
                self.start_watching()
            try:
                self.put_all(wanted, saved)
            except OSError as error:
                self.back_to(before, saved, asked["lease_s"])
                raise GuardError(f"{error.filename or ''}: {error.strerror}") from error
            code, said = run(saved["validate"], like)
            if code != 0:
                self.back_to(before, saved, asked["lease_s"])
                return {"state": "refused", "message": said}
            if not saved.get("taken_over"):
                saved["taken_over"] = True
                self.save(saved)
            code, said = take_over(saved, how)
            if code == 0:
                said = unproved(asked["live"], like) or unset(saved["service"], variables)
            if code != 0 or said:
                self.back_to(before, saved, asked["lease_s"])
                take_over(saved, how)
                return {"state": "failed", "message": said}
            self.write_down(saved, wanted, asked["lease_s"])
            self.log("{} changed {}".format(saved["owner"], ", ".join(texts)))
            return {"state": "live", "message": left_out}

    def mine(self, asked):
        """The state of this owner, begun if there is none."""
        saved = self.load()
        if saved is not None and saved["owner"] != asked["owner"]:
            left_s = self.left_s(saved)
            if left_s is None or left_s > 0:
                raise GuardError(
                    "{} is changed by {} already; roll that back first (tuner rollback), or wait"
                    " until its time is over".format(", ".join(saved["files"]), saved["owner"])
                )
            self.put_back(saved, "the time limit of {} was over".format(saved["owner"]))
            saved = None
        if saved is not None:
            return saved
        if asked["continues"]:
            raise GuardError(
                "the old files were put back meanwhile, so what was measured since does not"
                f" count: {self.last_words()}"
            )
        return {
            "owner": asked["owner"],
            "service": asked["service"],
            "validate": asked["validate"],
            "was_active": is_active(asked["service"]),
            "taken_over": False,
            "files": {},
            "put": {},
            "since": time.time(),
        }

    def write_down(self, saved, contents, lease_s):
        """Record the files' new content and its time limit on the disk, before they change."""
        put = {path: digest(content) for path, content in contents.items()}
        saved.update(put=put, deadline=now_s() + lease_s, boot=boot_id())
        self.save(saved)

    def keep_old(self, path, number):
        """Copy a file's content, and note what else is to be put back."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return {"there": False, "folders": missing(os.path.dirname(path))}
        linked = True
        try:
            # The file itself under a second name: putting it back then needs no room on the disk.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.backup(number))
            os.link(os.path.realpath(path), self.backup(number))
        except OSError:
            replace(self.backup(number), read(path), mode=0o600)
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

    def old_content(self, old):
        """Return a file's original content; None if there was no file."""
        return read(self.backup(old["number"])) if old["there"] else None

    def put_all(self, contents, saved):
        """Write the files that differ; None: there is to be none."""
        for path, content in contents.items():
            if read(path) == content:
                continue
            if content is None:
                os.unlink(path)
            else:
                put(path, content, saved["files"][path])

    def back_to(self, before, saved, lease_s):
        """Restore the content of the files before this call."""
        self.put_all(before, saved)
        self.write_down(saved, before, lease_s)

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

    def restore_of(self, owner):
        """As ``restore``, unless what is changed is another's."""
        with self.locked():
            saved = self.load()
        if saved is None:
            return []
        holder = saved["owner"]
        if holder != owner and not (owner.endswith(" ") and holder.startswith(owner)):
            return []
        return self.restore(f"requested by {holder}")

    def put_back(self, saved, reason):
        """The old files, byte for byte, with owner, mode and time; then the service."""
        back = []
        for path, old in saved["files"].items():
            content, found = self.old_content(old), read(path)
            if found != content:
                back.append(path)
                self.keep_found(path, found, saved)
            if content is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            elif old["linked"]:
                give_back(self.backup(old["number"]), os.path.realpath(path))
            else:
                put(path, content, old)
                os.utime(path, ns=(time.time_ns(), old["mtime_ns"]))
        for folder in (each for old in saved["files"].values() for each in old.get("folders", ())):
            # Gone already, or something else lies there by now.
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        # What the validator refused, the service has never seen, unless it was started since.
        if saved.get("taken_over", True) or saved["boot"] != boot_id():
            self.give_service_back(saved)
        os.unlink(self.state)
        for old in saved["files"].values():
            if old["there"]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.backup(old["number"]))
        self.log("put back: {} ({})".format(", ".join(back) or "nothing differed", reason))
        return back

    def give_service_back(self, saved):
        """The service as it was found, with its own files.

        Raises:
            GuardError: it does not start with them.
        """
        if not saved["was_active"]:
            reread_units(saved)
            control(saved["service"], "stop")
            return
        code, said = take_over(saved, "restart")
        if code != 0:
            self.log(f"the files are back, but {saved['service']} does not start: {said}")
            raise GuardError(f"the files are back, but the service does not start: {said}")

    def keep_found(self, path, found, saved):
        """Keep what something else wrote to a file meanwhile: it is about to be replaced."""
        if found is None or digest(found) == saved.get("put", {}).get(path, digest(found)):
            return
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        kept = os.path.join(self.folder, f"{os.path.basename(path)}.{at}")
        with contextlib.suppress(OSError):
            replace(kept, found, mode=0o600)
        self.log(f"something else had changed {path}; what stood there is in {kept}")


def read(path):
    """A file's content; None where there is none."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def digest(content):
    """Return a hash of a file's content; empty for a missing file."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


def missing(folder):
    """Return the folders to create for a folder to exist, the innermost first."""
    found = []
    while not os.path.exists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def refuse_others(saved, found):
    """Nothing, if every file is as the last call left it.

    Raises:
        GuardError: something else wrote to it.
    """
    changed = [path for path, seen in saved["put"].items() if digest(found[path]) != seen]
    if changed:
        raise GuardError(
            "something else changed {} while {} had the service; nothing more is tried, and the"
            " files are put back as they were found".format(", ".join(changed), saved["owner"])
        )


def refuse_unexpected(expected, found):
    """Raise if a file is not as it was when the change was planned.

    Raises:
        GuardError: something wrote to it since.
    """
    changed = [path for path, seen in expected.items() if digest(found.get(path)) != seen]
    if changed:
        raise GuardError(
            "{} changed since this was planned; nothing is changed, plan again".format(
                ", ".join(changed)
            )
        )


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
    """The content, with owner, mode and attributes as they were; through a link if it is one."""
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if old["there"]:
        replace(path, content, old["uid"], old["gid"], old["mode"], like=path)
    else:
        replace(path, content)


class Likeness:
    """As whom a process runs: account, environment, folder."""

    def __init__(self, pid):
        with open(f"/proc/{pid}/status", encoding="utf-8") as stream:
            rows = dict(line.rstrip("\n").split(":\t", 1) for line in stream if ":\t" in line)
        self.uid, self.gid = int(rows["Uid"].split()[1]), int(rows["Gid"].split()[1])
        self.groups = [int(word) for word in rows["Groups"].split()]
        self.environment = environment_of(pid)
        # systemd's, who would take our command for the service.
        self.environment.pop("NOTIFY_SOCKET", None)
        self.folder = os.readlink(f"/proc/{pid}/cwd")

    def become(self):
        """Take the account's identity, in a child before it runs a command."""
        if os.geteuid() == 0:
            os.setgroups(self.groups)
            os.setgid(self.gid)
            os.setuid(self.uid)


def environment_of(pid):
    """The environment that a process was started with."""
    with open(f"/proc/{pid}/environ", "rb") as stream:
        pairs = [row.split(b"=", 1) for row in stream.read().split(b"\0")]
    return {os.fsdecode(pair[0]): os.fsdecode(pair[1]) for pair in pairs if len(pair) > 1}


def options_like(like):
    """Return options of ``subprocess`` to run a command as that process; None: as this one."""
    if like is None:
        return {}
    return {"env": like.environment, "cwd": like.folder, "preexec_fn": like.become}


def run(command, like=None):
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
                **options_like(like),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, str(error)
        said.seek(0)
        return done.returncode, said.read()[-SAID:].strip()


def control(service, verb):
    """``systemctl`` where systemd runs, else ``service``."""
    if systemd_runs():
        return run(["systemctl", verb, service])
    return run([shutil.which("service") or "/usr/sbin/service", service, verb])


def is_active(service):
    """Return whether the service runs."""
    verb = "is-active" if systemd_runs() else "status"
    return control(service, verb)[0] == 0


def systemd_runs():
    """Return whether services are controlled with ``systemctl`` (sd_booted(3))."""
    return os.path.isdir("/run/systemd/system")


def is_of_unit(path):
    """Return whether a file configures how systemd starts a service."""
    return path.startswith(UNITS)


def reread_units(saved):
    """Let systemd see what a change says of a unit, if it says anything."""
    if any(is_of_unit(path) for path in saved["files"]):
        run(["systemctl", "daemon-reload"])


def unit_wanted(asked):
    """Return the changes to the service's unit, and in words those that are impossible here.

    Raises:
        GuardError: without it nothing is left to be done.
    """
    if not asked["unit"] or systemd_runs():
        return asked["unit"], ""
    words = "without systemd the environment of {} stays as it is".format(asked["service"])
    if not asked["files"]:
        raise GuardError(f"{words}, and nothing else is to be changed")
    return {}, words


def unset(service, variables):
    """Which variable the service's process does not have, in words; empty: it has them all."""
    if not variables:
        return ""
    _, pid = run(["systemctl", "show", "--property=MainPID", "--value", service])
    try:
        found = environment_of(pid)
    except OSError as error:
        return f"the environment of {service} cannot be read: {error.strerror}"
    for name, value in variables.items():
        if found.get(name) != value:
            return (
                "{} is {} in the process of {}, not {}: something else of its unit says so".format(
                    name, found.get(name, "not set"), service, value
                )
            )
    return ""


def take_over(saved, how):
    """Let the service run with what the files say now."""
    service = saved["service"]
    reread_units(saved)
    if systemd_runs():
        # It counts starts, and refuses more than five in ten seconds (systemd.unit(5),
        # StartLimitBurst); this forgets them (systemctl(1)).
        control(service, "reset-failed")
    code, said = control(service, how if is_active(service) else "start")
    if code == 0 and not is_active(service):
        return 1, said or "the service ended at once"
    return code, said


def unproved(live, like=None):
    """Why the service is not taken to run with the new files; empty if it has shown that it does.

    Args:
        live: ``url`` and ``host`` to ask, and the ``token`` that only the new files answer; or
            ``adapted``, see ``not_running``; empty: nothing is asked.
        like: as whom the service runs.
    """
    if not live:
        return ""
    if "adapted" in live:
        return not_running(live["adapted"], like)
    answer = awaited(lambda: asked_of(live["url"], live["host"]), live["token"])
    if answer == live["token"]:
        return ""
    said = "nothing" if answer is None else repr(answer[:200])
    return "{} ({}) answers {} instead of {!r} after {:g} s".format(
        live["url"], live["host"], said, live["token"], PROOF_S
    )


def not_running(command, like):
    """Return why Caddy does not run with the new files; empty if its admin endpoint proves it.

    Args:
        command: prints the files as JSON. Messages do not quote it, because it has values of the
            environment.
        like: the process of Caddy, for its account and environment.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=True,
            **options_like(like),
        )
        wanted = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"{command[0]} does not print the files as JSON: {type(error).__name__}"
    admin = wanted.get("admin") or {}
    usual = (like.environment if like else {}).get("CADDY_ADMIN") or USUAL_ADMIN
    address = admin.get("listen") or usual
    if admin.get("disabled"):
        return "its admin endpoint is off (admin off), so nothing proves its configuration"
    running = awaited(lambda: administered(address), wanted)
    if running == wanted:
        return ""
    if running is None:
        return f"its admin endpoint at {address} does not answer within {PROOF_S:g} s"
    return (
        f"the running configuration, from the admin endpoint at {address}, differs from the files"
    )


def awaited(ask, wanted):
    """Ask until the answer is the wanted one or time is up; return the last answer."""
    deadline = time.monotonic() + PROOF_S
    found = ask()
    while found != wanted and time.monotonic() < deadline:
        time.sleep(0.01)
        found = ask()
    return found


def administered(address):
    """Return the running configuration from Caddy; None while it does not answer.

    Args:
        address: address in Caddy's notation: ``localhost:2019``,
            ``unix//run/caddy/admin.sock|0200``.
    """
    network, _, rest = address.partition("/") if "/" in address else ("tcp", "", address)
    if network.startswith("unix"):
        connection = http.client.HTTPConnection("127.0.0.1", timeout=1)
        path = rest.partition("|")[0]
    else:
        host, _, port = rest.rpartition(":")
        connection = http.client.HTTPConnection(
            host.strip("[]") if host not in ("", "0.0.0.0", "[::]") else "127.0.0.1",  # noqa: S104 - asked, not listened on
            int(port) if port.isdigit() else 2019,
            timeout=1,
        )
        path = ""
    try:
        if path:
            connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.sock.settimeout(1)
            connection.sock.connect(path)
        connection.request("GET", "/config/")
        answer = connection.getresponse()
        return json.loads(answer.read()) if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def asked_of(url, host):
    """The body that a server answers under a name; None while there is none."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=1)
    try:
        if parts.scheme == "https":
            # The token proves what runs; its certificate is the load generator's matter.
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            plain = socket.create_connection((parts.hostname, parts.port), timeout=1)
            connection.sock = context.wrap_socket(plain, server_hostname=host)
        connection.request("GET", parts.path, headers={"Host": host})
        return connection.getresponse().read(SAID).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def answer(guard, command, *more):
    """Carry out a command; what it has to say."""
    if command == "change":
        return guard.change(json.load(sys.stdin))
    if command == "restore":
        restored = guard.restore_of(more[0]) if more else guard.restore("asked to")
        return {"restored": restored}
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
    if len(sys.argv) not in (3, 4) or sys.argv[2] not in commands:
        sys.exit(__doc__)
    tuner_guard.report(lambda: answer(Guard(sys.argv[1]), *sys.argv[2:]))


if __name__ == "__main__":
    main()
