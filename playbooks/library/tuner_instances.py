#!/usr/bin/python
"""Ansible module: run a set of isolated server instances side by side, each proved live.

One module run does the whole deployment of a block, because the cost of a block is the
number of tasks: three tasks of any kind cost more than a second.

Only Python's standard library, 3.8 or newer, is used: the module runs on the target.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import pwd
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.parse

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.tuner_caller import CallerGoneError, heeded
from ansible.module_utils.tuner_files import code_of
from ansible.module_utils.tuner_folders import own_folder, refuse_planted
from ansible.module_utils.tuner_processes import belongs_to, is_named, pids_of

DOCUMENTATION = r"""
module: tuner_instances
short_description: Run isolated server instances side by side
description:
  - Stops every process that lives in O(lab) and removes the folder's contents, then (with
    O(state=present)) writes, validates and starts O(instances) and waits until each one answers
    with its own token.
  - A configuration that the validator refuses is reported as V(refused), with the validator's
    words, and does not keep the others from being started.
options:
  lab:
    description: Absolute folder that belongs to these instances alone.
    type: path
    required: true
  state:
    description: Whether instances run afterwards, or nothing does.
    type: str
    choices: [present, absent]
    default: present
  user:
    description: Unprivileged account to run as when the module itself runs as root.
    type: str
    default: ""
  timeout_s:
    description: How long an instance may take to become live, and to stop.
    type: float
    default: 10
  instances:
    description: What to run, each in a folder of its own.
    type: list
    elements: dict
    default: []
    suboptions:
      instance: {type: str, required: true, description: Label.}
      directory: {type: path, required: true, description: Folder in O(lab).}
      files: {type: dict, required: true, description: Text by relative path.}
      folders: {type: list, elements: str, default: [], description: Folders to make.}
      validate: {type: list, elements: str, required: true, description: Command.}
      start: {type: list, elements: str, required: true, description: Command.}
      pid_file: {type: path, required: true, description: Where the main process writes its id.}
      live_url: {type: str, required: true, description: Answers with the token.}
      live_token: {type: str, required: true, description: What it must answer.}
      environment: {type: dict, default: {}, description: Added to the environment.}
      cpus: {type: list, elements: int, default: [], description: CPUs to be confined to.}
      open_files: {type: int, default: 0, description: Least limit of open files, if allowed.}
      live_header: {type: str, default: "", description: Header that holds the token.}
      live_socket: {type: str, default: "", description: Administration socket.}
      live_request: {type: str, default: "", description: A path or a line; its answer there
        holds the token.}
"""

INSTANCE = {
    "instance": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "files": {"type": "dict", "required": True},
    "folders": {"type": "list", "elements": "str", "default": []},
    "validate": {"type": "list", "elements": "str", "required": True},
    "start": {"type": "list", "elements": "str", "required": True},
    "pid_file": {"type": "path", "required": True},
    "live_url": {"type": "str", "required": True},
    "live_token": {"type": "str", "required": True},
    "environment": {"type": "dict", "default": {}},
    "cpus": {"type": "list", "elements": "int", "default": []},
    "open_files": {"type": "int", "default": 0},
    "live_header": {"type": "str", "default": ""},
    "live_socket": {"type": "str", "default": ""},
    "live_request": {"type": "str", "default": ""},
}
ARGUMENTS = {
    "lab": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "user": {"type": "str", "default": ""},
    "timeout_s": {"type": "float", "default": 10.0},
    "instances": {"type": "list", "elements": "dict", "default": [], "options": INSTANCE},
}
UNTOLD: dict[str, object] = {"invocation": {}}
"""Part of a result that replaces the module's arguments, which hold whole configurations.

They must not be in a log, and ansible-runner drops a result that is too long.
"""
POLL_S = 0.005
PRIORITY = -20
"""Niceness of every instance: what else runs on the host is not to be measured, so it waits.

Not allowed without privileges; the instances are then scheduled like everything else.
"""
INHERITED = ("GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "NGINX", "NOTIFY_SOCKET", "TMPDIR")
"""Variables of the caller that would change an instance: Go's runtime (pkg.go.dev/runtime), the
sockets that Nginx takes over (nginx.org/en/docs/control.html), systemd's (sd_notify(3)), and a
folder of the caller's that is closed to the instance's account."""
SAID = 4000
"""Limit for a server's output, characters; enough for its message, but not for a log."""
CONFIGURATION = 1 << 20
"""Limit for a configuration read from a socket, bytes; those of instances are far smaller."""


def processes_of(lab):
    """Ids of the processes that belong to the lab's folder, and of all that came from them."""
    parents, named = {}, set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stream:
                fields = stream.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] == "Z":
            continue
        parents[int(entry)] = int(fields[1])
        with contextlib.suppress(OSError):
            if belongs_to(entry, lab):
                named.add(int(entry))
    mine = {pid for pid in named if not is_ancestor(pid)}
    while True:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        if not more:
            return mine
        mine |= more


def is_ancestor(pid):
    """Return whether this is the module's own process or one above it; neither may be stopped."""
    current = os.getpid()
    while current > 1:
        if current == pid:
            return True
        with open(f"/proc/{current}/stat", encoding="utf-8", errors="replace") as stream:
            current = int(stream.read().rsplit(")", 1)[1].split()[1])
    return False


def stop_all(lab, timeout_s):
    """Stop all processes of the lab with SIGTERM, and with SIGKILL after the time limit."""
    running = processes_of(lab)
    stopped = len(running)
    for number, patience in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, timeout_s)):
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience
        while running and time.monotonic() < deadline:
            time.sleep(POLL_S)
            running = processes_of(lab)
        if not running:
            return stopped
    raise RuntimeError(f"processes {sorted(running)} of {lab} do not end")


def confined(instance, account):
    """Return the function that sets CPUs, priority, file limit and account in a server's child."""

    def prepare():
        if instance["cpus"]:
            os.sched_setaffinity(0, instance["cpus"])
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < instance["open_files"]:
            # Only root may raise it, and nobody beyond fs.nr_open.
            with contextlib.suppress(ValueError, OSError):
                wanted = instance["open_files"]
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
                hard = wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if account is not None:
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)

    return prepare


@contextlib.contextmanager
def running(command, instance, account):
    """A command that runs as the instance would, and the file it speaks to; ended beyond this."""
    environment = {k: v for k, v in os.environ.items() if k not in INHERITED}
    environment.update({str(k): str(v) for k, v in instance["environment"].items()})
    # Memory rather than a pipe: a daemon that keeps the descriptor must not keep us waiting.
    # No file in the folder, where the instance's account could have put a link.
    memory = os.memfd_create("said")
    with os.fdopen(memory, "w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            # A server that does not daemonise must not end with its terminal.
            start_new_session=True,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=instance["directory"],
            env=environment,
            preexec_fn=confined(instance, account),  # noqa: PLW1509 - there are no threads here
        )
        try:
            yield process, said
        finally:
            # Where it ended by itself, what it left is a daemon, which is meant to stay.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def outcome(process, said, deadline):
    """Wait until then at the longest; (exit code, what it said)."""
    code = process.wait(max(0.0, deadline - time.monotonic()))
    said.seek(0)
    return code, said.read(SAID).strip()


def run_all(name, instances, account, timeout_s):
    """Run a named command of all instances at once; return the ``outcome`` of each.

    Each has a few processes and mostly waits, and most hosts have several cores; the time limit
    suffices for one after another on a single core. All end if one cannot be started or exceeds
    the limit.
    """
    deadline = time.monotonic() + timeout_s * len(instances)
    with contextlib.ExitStack() as stack:
        commands = [
            stack.enter_context(running(instance[name], instance, account))
            for instance in instances
        ]
        return [outcome(process, said, deadline) for process, said in commands]


def write(instance, account):
    """Create the instance's folder anew, private to its account."""
    root = instance["directory"]
    # A configuration may have passwords, and the folder has a certificate's key.
    os.makedirs(root, mode=0o700)
    made = [root]
    for folder in instance["folders"]:
        os.makedirs(os.path.join(root, folder), exist_ok=True)
        made.append(os.path.join(root, folder))
    for name, text in instance["files"].items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        made.append(path)
    if account is not None:
        for path in made:
            os.chown(path, account.pw_uid, account.pw_gid)


def connect_socket(path):
    """A connection to a Unix socket."""
    # By way of the folder's descriptor: the path of a socket ends after 108 bytes (unix(7)).
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(1)
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        return connection
    finally:
        os.close(folder)


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("127.0.0.1", timeout=1)
        self.path = path

    def connect(self):
        """Implement ``HTTPConnection.connect``."""
        self.sock = connect_socket(self.path)


def connect(url):
    """A connection to where the URL points."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=1)
    # The token proves which instance answers; its certificate is the load generator's matter.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=1, context=context)


def ask(connection, path, header, limit):
    """Return the answer there, from the body or a header; None without an answer."""
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(limit).decode(errors="replace").strip()
        return answer.getheader(header, "") if header else body
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def administered(path, request):
    """Return an administration socket's answer to a path or a line; None without one."""
    if request.startswith("/"):
        return ask(SocketConnection(path), request, "", CONFIGURATION)
    try:
        with connect_socket(path) as connection:
            connection.sendall(f"{request}\n".encode())
            with connection.makefile("r", encoding="utf-8", errors="replace") as stream:
                return stream.read(CONFIGURATION)
    except OSError:
        return None


def proved(instance):
    """Return whether the instance has proved its configuration, and the error if it runs another.

    (False, None) while it does not answer.
    """
    url, token = instance["live_url"], instance["live_token"]
    path = urllib.parse.urlsplit(url).path
    answer = ask(connect(url), path, instance["live_header"], SAID)
    if answer is not None and answer != token:
        # Not to be waited out: two servers that share a port (SO_REUSEPORT) take turns, and
        # sooner or later the right one would answer.
        return False, (
            f"{url} answers {answer[:200]!r} instead of {token!r}: another server holds the port"
        )
    if answer is None or not instance["live_socket"]:
        return answer is not None, None
    running = administered(instance["live_socket"], instance["live_request"])
    if running is not None and token not in running:
        return False, "the running configuration, from {}, is not {!r}".format(
            instance["live_socket"], token
        )
    return running is not None, None


def prove(instance, timeout_s):
    """Wait until the instance answers with its token; what is wrong if it does not."""
    deadline = time.monotonic() + timeout_s
    done, wrong = False, None
    while time.monotonic() < deadline:
        if not done:
            done, wrong = proved(instance)
        # nghttpx answers before it writes its id.
        if wrong or (done and is_named(instance["pid_file"])):
            return wrong
        time.sleep(POLL_S)
    if done:
        return "it answers, but writes no process id to {}".format(instance["pid_file"])
    return "nothing answers at {} within {:g} s".format(instance["live_url"], timeout_s)


def prefer(pid):
    """Give the process's scheduling group the priority that the process has.

    A daemon is in a session of its own, and with autogroups (sched(7)) niceness counts between
    the processes of one session only.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w") as stream:
        stream.write(str(PRIORITY))


def deploy(instances, account, timeout_s):
    """Write and validate all, then start all, then prove all: the state of each."""
    for instance in instances:
        write(instance, account)
    states = []
    validated = run_all("validate", instances, account, timeout_s)
    for instance, (code, said) in zip(instances, validated):
        outcome = "live" if code == 0 else "refused"
        states.append({"instance": instance["instance"], "state": outcome, "message": said})
    waiting = [
        (instance, state) for instance, state in zip(instances, states) if state["state"] == "live"
    ]
    started = run_all("start", [instance for instance, _ in waiting], account, timeout_s)
    for (_, state), (code, said) in zip(waiting, started):
        if code != 0:
            state.update(state="failed", message=said or f"exit code {code}, no words")
    digests: dict[tuple[int, int], str] = {}
    for instance, state in waiting:
        if state["state"] == "live":
            wrong = prove(instance, timeout_s)
            if wrong is None:
                pids = pids_of(instance["pid_file"])
                state.update(message="", pids=pids, code=code_of(pids[0], digests))
                prefer(pids[0])
            else:
                state.update(state="failed", message=wrong)
    return states


def main():
    """Carry out what the task asks for."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    lab, instances = module.params["lab"], module.params["instances"]
    present = module.params["state"] == "present"
    for instance in instances:
        if not instance["directory"].startswith(lab.rstrip("/") + "/"):
            module.fail_json(msg="{} is not inside {}".format(instance["directory"], lab), **UNTOLD)
    if module.check_mode:
        module.exit_json(changed=present or bool(processes_of(lab)), instances=[], **UNTOLD)
    try:
        result = carry_out(module.params)
    except (OSError, RuntimeError, KeyError, subprocess.SubprocessError) as error:
        module.fail_json(msg=f"{type(error).__name__}: {error}", **UNTOLD)
    else:
        module.exit_json(**result, **UNTOLD)


def carry_out(params):
    """Stop what runs in the lab, then start what is wanted; the module's result."""
    lab, timeout_s, user = params["lab"], params["timeout_s"], params["user"]
    account = pwd.getpwnam(user) if user and os.geteuid() == 0 else None
    refuse_planted(lab)
    stopped = stop_all(lab, timeout_s)
    existed = os.path.isdir(lab)
    shutil.rmtree(lab, ignore_errors=True)
    if params["state"] == "absent":
        return {"changed": existed or stopped > 0, "stopped": stopped, "instances": []}
    own_folder(lab, 0o755)
    # Whoever stops the lab stops this deployment with it: see processes_of.
    os.chdir(lab)
    try:
        with heeded():
            states = deploy(params["instances"], account, timeout_s)
    except CallerGoneError:
        stop_all(lab, timeout_s)
        shutil.rmtree(lab, ignore_errors=True)
        raise
    return {"changed": True, "stopped": stopped, "instances": states}


if __name__ == "__main__":
    main()
