"""The noise of this machine, measured with a real server in its own lab for some seconds."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tuner.app.preflight import preflight
from tuner.app.progress import TerminalProgress
from tuner.app.server_binary import KEY
from tuner.app.session import create_store, open_bench
from tuner.definition.study import BASE_STUDY, load_study
from tuner.phases.host_noise import HostNoise, measure_noise


def measure_here(server: str, *, time_s: float, program: str = "") -> HostNoise:
    """Measure identical instances of a server with its stock configuration.

    All files are in a temporary folder, which is removed afterwards.

    Args:
        server: name of an installed server.
        time_s: length of the study in question.
        program: path of the server's program; empty for the installed one.

    Raises:
        HostError, InstrumentError: it cannot be measured here; the message has the reason.
    """
    asked = {"server": server, "baseline": "stock", KEY: program or None}
    definition = load_study(BASE_STUDY, asked)
    found = preflight(definition, watch=False)
    progress = TerminalProgress()
    with tempfile.TemporaryDirectory(prefix="tuner-doctor-") as name:
        folder = Path(name)
        store = create_store(found, folder)
        with progress.live(), open_bench(found, folder, progress, store) as (bench, _):
            return measure_noise(bench, time_s)
