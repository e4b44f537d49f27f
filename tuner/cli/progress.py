"""Progress on the terminal: a line per step, and on a terminal a status line between them.

Nothing is printed while a window runs: the generator waits for tuner between two windows, and
only then is there a turn.
"""

from __future__ import annotations

import sys
import time

import click


class TerminalProgress:
    """Progress for people, on standard error so that results can be piped."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._start = time.monotonic()
        self._phase = ""
        self._phase_start = self._start
        self._expected_s = 0.0

    def phase(self, title: str, expected_s: float) -> None:
        """See ``Progress.phase``."""
        self._phase, self._phase_start = title, time.monotonic()
        self._expected_s = expected_s
        self._line(click.style(title, bold=True) + f", about {duration(expected_s)}")

    def step(self, text: str, left_s: float) -> None:
        """See ``Progress.step``."""
        self._line(f"  {text}" + (f"; {duration(left_s)} left" if left_s >= 1 else ""))

    def note(self, text: str) -> None:
        """See ``Progress.note``."""
        self._line(f"  {text}")

    def window(self, text: str) -> None:
        """See ``Progress.window``."""
        if self._live and not self._quiet:
            left_s = self._expected_s - (time.monotonic() - self._phase_start)
            left = f"; {duration(left_s)} left" if left_s >= 1 else ""
            click.echo(f"\r\x1b[K  {self._phase}: {text}{left}", nl=False, err=True)

    def _line(self, text: str) -> None:
        if not self._quiet:
            erase = "\r\x1b[K" if self._live else ""
            passed = time.monotonic() - self._start
            clock = click.style(f"{int(passed // 60):3d}:{int(passed % 60):02d}", dim=True)
            click.echo(f"{erase}{clock}  {text}", err=True)


def duration(seconds: float) -> str:
    """Seconds as people say them: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
