"""Workloads of an access log to try with a configuration, best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tuner.app.log_workload import write_private
from tuner.errors import DefinitionError
from tuner.own.catalog import READERS
from tuner.own.server import OwnOptions
from tuner.paths import temporary
from tuner.reading.log_tally import LogTally
from tuner.servers import catalog
from tuner.workload.below import moved_below
from tuner.workload.log_mix import Mix, Serve, make_mix
from tuner.workload.workload import Workload, load_workload

_MOST_KINDS = 50


@dataclass(frozen=True, slots=True)
class LogDrafts:
    """The workloads that a log may become."""

    tally: LogTally
    log: Path
    server: str
    wishes: OwnOptions | None
    """The configuration that answers; None for that of the lab."""
    location: str = ""
    """Path below which the requests go."""

    def mixes(self) -> Iterator[Mix]:
        """Yield the whole log for files or a backend, then the part that one site answers.

        The lab answers with files or with a backend, and many a site needs both. A part without the
        requests for the rest can still be measured; the larger part comes first.

        Raises:
            DefinitionError: the lab can serve none of its requests.
        """
        whole = {mix.text: mix for mix in map(self._mix, (None, *get_args(Serve)))}
        fit = [mix for mix in whole.values() if mix.requests]
        if not fit:
            raise DefinitionError("the lab can serve none of its requests", path=str(self.log))
        yield from fit
        if self.wishes is not None:
            parts = [self._part(serve, self.wishes) for serve in get_args(Serve)]
            yield from sorted((mix for mix in parts if mix.requests), key=lambda mix: -mix.covered)

    def _mix(self, serve: Serve | None, without: Container[str] = ()) -> Mix:
        name = self.log.name.split(".")[0] or "log"
        return make_mix(
            self.tally,
            name=name,
            source=self.log.name,
            serve=serve,
            top=_MOST_KINDS,
            without=without,
        )

    def _part(self, serve: Serve, wishes: OwnOptions) -> Mix:
        """Return the kinds of requests that the site with most of them answers."""
        mix = self._mix(serve)
        if not mix.requests:
            return mix
        workload = moved_below(self.location, _loaded(mix))
        reader = READERS[self.server]
        program = catalog.server(self.server).detect().binary if reader.reads_with_program else ""
        sites = reader.sites_of(wishes, workload, program)
        shares: Counter[str] = Counter()
        for request, site in zip(workload.requests, sites, strict=True):
            shares[site] += int(1_000 * request.weight)
        del shares[""]
        chosen = shares.most_common(1)[0][0] if shares else ""
        lost = {
            kind for kind, site in zip(mix.kinds, sites, strict=True) if site != chosen or not site
        }
        return self._mix(serve, lost)


def _loaded(mix: Mix) -> Workload:
    with temporary("init") as name:
        file = Path(name) / "workload.yaml"
        write_private(file, [mix.text])
        return load_workload(str(file))
