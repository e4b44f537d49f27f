"""The live view of a study on a terminal: drawn between windows, never during one.

Rich draws on request without its own thread here: a thread that wakes during a window would disturb
the measurement. Past events scroll by above, as plain lines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tuner.reading.printable import printable
from tuner.words.terminal import duration, own_codes

if TYPE_CHECKING:
    from rich.table import Table

_LEAST_S = 0.1
"""Least time between two drawings, to limit them with short windows."""


class LiveView:
    """A few lines at the bottom of the terminal.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        # Imported here, because it takes some 60 ms that `tuner --help` must not spend.
        from rich.console import Console
        from rich.live import Live

        self._clock = clock
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._begun = False
        self._phase = ""
        self._phase_start = clock()
        self._expected_s = 0.0
        self._window = ""
        self._best = ""
        self._drawn = -1.0

    def phase(self, title: str, expected_s: float) -> None:
        """Show the beginning of a phase."""
        self._phase = printable(title)
        self._phase_start, self._expected_s = self._clock(), expected_s
        self._window = ""
        self._draw(now=True)

    def left(self, left_s: float) -> None:
        """Correct the remainder of the phase."""
        self._expected_s = self._clock() - self._phase_start + left_s
        self._draw()

    def window(self, text: str) -> None:
        """Show the window that ended."""
        self._window = printable(text)
        self._draw()

    def best(self, text: str) -> None:
        """Show the leading configuration."""
        self._best = printable(text)
        self._draw()

    def say(self, line: str) -> None:
        """Print a permanent line above the view, which may contain tuner's own ANSI styles."""
        from rich.text import Text

        with own_codes():
            self._console.print(Text.from_ansi(line), overflow="fold")

    def close(self) -> None:
        """Remove the view; the lines stay."""
        if self._begun:
            with own_codes():
                self._live.stop()
            self._begun = False

    def _draw(self, *, now: bool = False) -> None:
        passed = self._clock()
        if not now and passed - self._drawn < _LEAST_S:
            return
        self._drawn = passed
        with own_codes():
            if not self._begun:
                self._live.start()
                self._begun = True
            self._live.update(self._view(), refresh=True)

    def _view(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        elapsed_s = self._clock() - self._phase_start
        left_s = self._expected_s - elapsed_s
        total = max(self._expected_s, 1e-9)
        view = Table.grid(padding=(0, 2, 0, 0))
        view.add_column(style="dim", no_wrap=True)
        view.add_column(no_wrap=True, overflow="ellipsis")
        bar = Table.grid(padding=(0, 2, 0, 0))
        bar.add_row(
            ProgressBar(total=total, completed=min(elapsed_s, total), width=32),
            Text(f"{duration(left_s)} left" if left_s >= 1 else "about to end"),
        )
        view.add_row("phase", Text(self._phase, style="bold"))
        view.add_row("", bar)
        if self._window:
            view.add_row("block", Text(self._window))
        if self._best:
            view.add_row("best", Text(self._best))
        return view
