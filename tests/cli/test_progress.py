"""Progress on a terminal and elsewhere: what is said, and when it is drawn."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import threading

import pytest

from tuner.app.progress import RunProgress, TerminalProgress

_STUDY = """
from tuner.app.progress import TerminalProgress
import threading
progress = TerminalProgress(quiet={quiet})
with progress.live():
    progress.phase("search: 3 blocks", 60.0)
    progress.window("window 1 of 12, stalls touched 4.2% of the requests")
    assert threading.active_count() == 1, threading.enumerate()
    progress.best("85.3% of the baseline's (3 looks, not a claim), from 81.0% to 90.2%")
    progress.step("block 4: 7 configurations tried", 40.0)
    progress.phase("confirmation: 12 blocks", 90.0)
progress.note("writing the report")
"""


def on_a_terminal(program: str) -> str:
    """Run a program whose standard error is a terminal of 100 columns; what it wrote there."""
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    with subprocess.Popen([sys.executable, "-c", program], stderr=side, env=environment) as process:
        os.close(side)
        parts = []
        while select.select([main], [], [], 30)[0]:
            try:
                part = os.read(main, 65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        assert process.wait() == 0
    os.close(main)
    return b"".join(parts).decode()


def test_long_lines_go_on_below_the_text() -> None:
    """Broken between words at the terminal's width, set in, nothing of them lost."""
    words = "block invalid, repeated whole: " + "the host stalled, and stalled again; " * 5
    program = (
        "from tuner.app.progress import TerminalProgress\n"
        f"TerminalProgress().note({words!r})\n"
        "TerminalProgress().phase('a title', 60.0)\n"
    )
    seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", on_a_terminal(program))
    first, *rest, last = seen.rstrip().replace("\r", "").split("\n")
    assert max(map(len, (first, *rest))) < 100
    assert len(rest) >= 2
    assert all(re.match(r" {12}\S", line) for line in rest)
    assert " ".join(f"{first} {' '.join(rest)}".split()[1:]) == words.strip()
    assert last.endswith("a title, about 1 min")


def test_a_command_is_never_broken() -> None:
    """A command is one line that can be copied; only the terminal breaks it."""
    words = "resume with: tuner compare nginx:stock caddy:stock --resume --name " + "a" * 60
    program = (
        f"from tuner.app.progress import TerminalProgress\nTerminalProgress().command({words!r})\n"
    )
    assert words in on_a_terminal(program)


def test_a_terminal_shows_where_the_study_is() -> None:
    """Phase, block, stalls, the best with its spread and the time left; no thread draws it."""
    seen = on_a_terminal(_STUDY.format(quiet=False))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    for words in (
        "search: 3 blocks",
        "left",
        "from 81.0% to 90.2%",
        "block 4: 7 configurations tried; 40 s left",
        "confirmation: 12 blocks",
        "writing the report",
    ):
        assert words in plain, words
    # The view is gone in the end: its last lines were erased, and the cursor is shown again.
    assert seen.rindex("\x1b[?25h") < seen.rindex("writing the report")


def test_quiet_says_nothing() -> None:
    """Neither lines nor a view."""
    assert on_a_terminal(_STUDY.format(quiet=True)) == ""


def test_elsewhere_there_are_plain_lines(capfd: pytest.CaptureFixture[str]) -> None:
    """A line per phase and step, without control characters, and none per window."""
    # Another test of the same process may have left some.
    before = set(threading.enumerate())
    progress = TerminalProgress()
    with progress.live():
        progress.phase("search", 60.0)
        progress.window("window 1 of 12")
        progress.best("85 %")
        progress.step("block 1", 0.0)
        assert before.issuperset(threading.enumerate())
    lines = capfd.readouterr().err.splitlines()
    said = [re.sub(r"^ *[0-9]+:[0-9]{2}  ", "", line) for line in lines]
    assert said == ["search, about 1 min", "  block 1"]
    assert before.issuperset(threading.enumerate())


def test_the_time_left_follows_the_pace() -> None:
    """Blocks that take twice their planned time are expected to go on like that."""
    now_s, said = 0.0, list[str]()
    progress = RunProgress(said.append, clock=lambda: now_s)
    progress.phase("confirmation: 3 blocks", 60.0)
    for block in (1, 2, 3):
        now_s += 40.0
        progress.step(f"block {block} of 3", 60.0 - 20.0 * block)
        assert progress.now is not None
        assert progress.now.left_s == (3 - block) * 40.0
    assert said == [
        "confirmation: 3 blocks, about 1 min",
        "block 1 of 3; 1 min 20 s left",
        "block 2 of 3; 40 s left",
        "block 3 of 3",
    ]


def test_a_phase_without_a_plan_keeps_its_own_time_left() -> None:
    """A step that is not part of the expected duration has no pace."""
    progress = RunProgress(clock=lambda: 5.0)
    progress.phase("search", 0.0)
    progress.step("search block 1", 12.0)
    assert progress.now is not None
    assert progress.now.left_s == 12.0


def test_help_does_not_load_the_view() -> None:
    """Rich is loaded by what draws, not by `tuner --help`."""
    program = (
        "import sys; sys.argv = ['tuner', '--help']\n"
        "from tuner.cli.commands import cli\n"
        "cli.main(standalone_mode=False)\n"
        "sys.exit('rich' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
