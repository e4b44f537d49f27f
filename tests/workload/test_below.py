"""A workload below another path asks for its own answers there."""

from __future__ import annotations

import hashlib

from tuner.workload.below import below, moved_below
from tuner.workload.site import content
from tuner.workload.workload import load_workload


def test_a_path_goes_below_a_prefix_with_one_slash() -> None:
    """With or without one at the end of the prefix."""
    assert below("/app/", "/x?y=1") == below("/app", "/x?y=1") == "/app/x?y=1"


def test_the_answers_below_a_path_are_checked_too() -> None:
    """Files move along, and the expected hashes are those of the moved files."""
    moved = moved_below("/app/", load_workload("static"))
    answers = {file.path: hashlib.sha256(content(file)).hexdigest() for file in moved.site}
    assert {one.path: one.expect_sha256 for one in moved.requests} == answers
    assert list(answers) == ["/app/index.html"]
    proxy = load_workload("proxy")
    (request,) = moved_below("/app", proxy).requests
    assert request.path == f"/app{proxy.requests[0].path}"
    assert request.expect_sha256 == proxy.requests[0].expect_sha256


def test_the_root_moves_nothing() -> None:
    """`--location /` is the workload as it is."""
    assert moved_below("/", load_workload("static")) == load_workload("static")
