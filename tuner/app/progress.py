"""Progress of a run: for a function, or on standard error.

Standard error shows a live view on a terminal, and a line per step anywhere else. Nothing is
reported during a window: the generator waits for tuner between two windows.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import click

from tuner.app.live import LiveView
from tuner.outputs.phase_now import PhaseNow
from tuner.reading.printable import printable_lines
from tuner.words.terminal import duration, say_styled, wrapped

_CLOCK_WIDTH = 8
"""Width of `` 0:00`` and the space after it."""


class RunProgress:
    """Progress of a run, line by line, for a function.

    Args:
        say: called with each line; None: nothing is reported.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._clock = clock
        self._phase = ""
        self._phase_began = self._phase_ends = clock()
        self._expected_s = 0.0

    @property
    def silent(self) -> bool:
        """True if nobody sees the progress."""
        return self._say is None

    @property
    def now(self) -> PhaseNow | None:
        """Phase and its expected remainder, by the last step; None before the first phase."""
        if not self._phase:
            return None
        return PhaseNow(self._phase, max(0.0, self._phase_ends - self._clock()))

    def live(self) -> contextlib.AbstractContextManager[None]:
        """Show a live view inside the block, where there is one."""
        return contextlib.nullcontext()

    def facts(self, titled: Mapping[str, str]) -> None:
        """Report facts of the study by their titles, before it starts."""
        for title, text in titled.items():
            self._line(f"{title}: {text}")

    def phase(self, title: str, expected_s: float) -> None:
        """Implement ``Progress.phase``."""
        self._phase, self._phase_began, self._expected_s = title, self._clock(), expected_s
        self._phase_ends = self._phase_began + expected_s
        self._line(f"{title}, about {duration(expected_s)}", bold=len(title))

    def step(self, text: str, left_s: float) -> None:
        """Implement ``Progress.step``: the remainder is scaled to the pace of the phase so far."""
        left_s *= self._pace(left_s)
        self._phase_ends = self._clock() + left_s
        self._line(f"  {text}" + (f"; {duration(left_s)} left" if left_s >= 1 else ""))

    def note(self, text: str) -> None:
        """Implement ``Progress.note``."""
        self._line(f"  {text}")

    def command(self, text: str) -> None:
        """Report a note that ends with a command, in one line for copying."""
        self._line(f"  {text}", whole=True)

    def window(self, text: str) -> None:
        """Implement ``Progress.window``: only a live view shows it."""

    def best(self, text: str) -> None:
        """Implement ``Progress.best``: only a live view shows it."""

    def _pace(self, left_s: float) -> float:
        """Return how many times as long as planned the phase has taken so far; at least 1.

        Longer rounds and repeated blocks of a noisy host are likely to go on.

        Args:
            left_s: planned duration of the remainder.
        """
        planned_s = self._expected_s - left_s
        took_s = self._clock() - self._phase_began
        return max(1.0, took_s / planned_s) if planned_s > 0 else 1.0

    def _line(self, text: str, *, bold: int = 0, whole: bool = False) -> None:  # noqa: ARG002 - for terminals
        """Report one line.

        Args:
            text: the message; leading spaces indent it.
            bold: number of characters at its beginning that are the title.
            whole: whether to leave wrapping to the terminal.
        """
        if self._say is not None:
            self._say(printable_lines(text).strip())


class TerminalProgress(RunProgress):
    """Progress on standard error, so that results can be piped."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__()
        self._quiet = quiet
        self._view: LiveView | None = None
        self._start = time.monotonic()

    @property
    def silent(self) -> bool:
        """True with ``--quiet``."""
        return self._quiet

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """Show a live view inside the block, on a terminal without ``--quiet``."""
        if self._quiet or not sys.stderr.isatty():
            yield
            return
        self._view = LiveView()
        try:
            yield
        finally:
            view, self._view = self._view, None
            view.close()

    def facts(self, titled: Mapping[str, str]) -> None:
        """Print facts of the study by their titles, wrapped next to them."""
        for title, text in titled.items() if not self._quiet else ():
            first, *rest = wrapped(text, 11, 11)
            click.echo(f"{title:<10} {first}", err=True)
            for line in rest:
                click.echo(line, err=True)

    def phase(self, title: str, expected_s: float) -> None:
        """Implement ``Progress.phase``."""
        super().phase(title, expected_s)
        if self._view:
            self._view.phase(title, expected_s)

    def step(self, text: str, left_s: float) -> None:
        """Implement ``Progress.step``."""
        super().step(text, left_s)
        if self._view:
            self._view.left(self._phase_ends - self._clock())

    def window(self, text: str) -> None:
        """Implement ``Progress.window``."""
        if self._view:
            self._view.window(text)

    def best(self, text: str) -> None:
        """Implement ``Progress.best``."""
        if self._view:
            self._view.best(text)

    def _line(self, text: str, *, bold: int = 0, whole: bool = False) -> None:
        """Print one line; on a terminal it is wrapped with a hanging indent."""
        if self._quiet:
            return
        text = printable_lines(text)
        passed = time.monotonic() - self._start
        clock = f"{int(passed // 60):3d}:{int(passed % 60):02d}"
        depth = len(text) - len(text.lstrip())
        indent = _CLOCK_WIDTH + depth + 2
        first, *rest = [text] if whole else wrapped(text, _CLOCK_WIDTH, indent)
        lines = [
            click.style(clock, dim=True) + f"  {click.style(first[:bold], bold=True)}{first[bold:]}"
        ]
        lines += rest
        for line in lines:
            if self._view:
                self._view.say(line)
            else:
                say_styled(line, err=True)
