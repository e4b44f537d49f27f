"""The lab's backend for FastCGI, uwsgi, SCGI and gRPC, which is part of ``tuner-loadgen``.

Like the Nginx behind other proxies it gives each request its answer after its time.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tuner.hosts.deployer import InstanceSpec
from tuner.paths import loadgen_binary
from tuner.servers.ground import LIVE_PATH, TargetGround
from tuner.workload.answers import Answer, answer_text
from tuner.workload.workload import Workload

LABEL = "native-backend"
_FILE = "answers.json"
_PID_FILE = "run/backend.pid"
# It has no option to leave the foreground: the shell does that, and waits until it listens.
_START = (
    '"$@" > logs/error.log 2>&1 & pid=$!; while [ ! -s run/backend.pid ]; do'
    " kill -0 $pid 2> /dev/null || { cat logs/error.log; exit 1; }; sleep 0.01; done"
)


def instance(workload: Workload, ground: TargetGround, port: int) -> InstanceSpec:
    """Return the workload's backend as an isolated instance.

    Args:
        workload: a workload with a backend.
        ground: layout with the path of ``tuner-loadgen`` as its ``binary``.
        port: port of the backend.
    """
    directory = ground.backends_dir / LABEL
    address = f"{ground.backend_address}:{port}"
    command = (ground.binary, "backend", str(directory / _FILE), "--listen", address)
    threads = ("--threads", str(len(ground.backend_cpus)))
    pid_file = str(directory / _PID_FILE)
    return InstanceSpec(
        instance=LABEL,
        directory=str(directory),
        files={_FILE: answers_text(workload)},
        folders=("run", "logs"),
        validate=(*command, "--check"),
        start=("sh", "-c", _START, LABEL, *command, *threads, "--pid-file", pid_file),
        pid_file=pid_file,
        live_url=f"http://{address}{LIVE_PATH}",
        live_token=LABEL,
        environment={},
        cpus=ground.backend_cpus,
        error_log=str(directory / "logs" / "error.log"),
    )


def answers_text(workload: Workload) -> str:
    """Return the file of answers of ``tuner-loadgen backend``.

    Raises:
        ValueError: the workload has no backend.
    """
    backend = workload.backend
    if backend is None:
        raise ValueError(workload.name)
    answers = [_answer(one.answer) for one in workload.requests if one.answer is not None]
    largest = max((int(str(one["size"])) for one in answers), default=0)
    text = backend.body or answer_text()[:largest]
    return json.dumps(
        {
            "live_path": LIVE_PATH,
            "live_token": LABEL,
            "content_type": backend.content_type,
            "text": text.decode(),
            "other": None if backend.own_answers else {"size": len(text)},
            "answers": answers,
        }
    )


@contextlib.contextmanager
def running(workload: Workload, folder: Path) -> Iterator[str]:
    """Run the backend on this machine, and yield its address.

    Args:
        workload: a workload with a backend.
        folder: folder for its file.
    """
    answers = folder / _FILE
    answers.write_text(answers_text(workload), encoding="utf-8")
    command = (str(loadgen_binary()), "backend", str(answers), "--threads", "1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
            # "listening on ADDRESS", or nothing from a process that failed.
            yield process.stdout.readline().strip().rpartition(" ")[2]
        finally:
            process.terminate()


def _answer(answer: Answer) -> dict[str, object]:
    return {
        "status": answer.status,
        "size": len(answer.body or b""),
        "times_us": [round(time_s * 1e6) for time_s in answer.times_s],
        "messages": answer.messages,
        "every_us": round(answer.every_s * 1e6),
    }
