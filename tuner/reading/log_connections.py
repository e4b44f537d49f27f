"""Connections of a log: requests on each, and how many are open at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.reading.log_entry import LogEntry

_MOST_OPEN = 20_000
"""Limit for connections in memory; beyond it the one that was silent longest counts as closed."""


@dataclass(slots=True)
class LogConnections:
    """Counts of connections, in bounded memory."""

    requests: int = 0
    """Requests with a connection in the log."""
    opened: int = 0
    lifetime_s: float = 0.0
    """Time from the first to the last request, of all closed connections."""
    _open: dict[str, tuple[float, float]] = field(default_factory=dict)
    """First and last request of each, the silent ones first."""

    def add(self, entry: LogEntry) -> None:
        """Count a request that has a connection."""
        self.requests += 1
        at = entry.unix_s
        known = self._open.pop(entry.connection, None)
        if known is None or entry.nth == 1:
            # A number or port that begins anew is another connection.
            if known is not None:
                self.lifetime_s += known[1] - known[0]
            self.opened += 1
            known = (at, at)
        self._open[entry.connection] = (min(known[0], at), max(known[1], at))
        if len(self._open) > _MOST_OPEN:
            silent = self._open.pop(next(iter(self._open)))
            self.lifetime_s += silent[1] - silent[0]

    @property
    def requests_each(self) -> float:
        """Mean number of requests on a connection; 0 if the log has no connections."""
        return self.requests / self.opened if self.opened else 0.0

    def open_at_a_time(self, span_s: float) -> float:
        """Return the mean number of connections between their first and last request.

        By Little's law it is the rate of new connections times their lifetime. The time that a
        client keeps an idle connection after its last request is in no log.
        """
        still = sum(last - first for first, last in self._open.values())
        return (self.lifetime_s + still) / span_s if span_s > 0 else 0.0
