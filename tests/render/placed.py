"""Placement of the rendered instance in the tests of every server's templates."""

from __future__ import annotations

from dataclasses import replace

from tuner.render.render import Placement

LAB = Placement(
    listen="127.0.0.1:18080",
    server_name="localhost",
    root="/srv/site",
    run_dir="/srv/run",
    log_dir="/srv/logs",
    digest="0123456789ab",
    live_path="/.tuner/live",
)
PLACEMENT = replace(LAB, upstreams=("127.0.0.1:19000",), cpu_mask="10", user="www")
"""With everything that a placement can say."""
