"""The study's record as plain data, the only source of reports and exports.

The store writes it in parts while the study runs and reads it as a whole. Reports use no other
data, so every figure can be recomputed offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from tuner.machine.facts import CoreSplit, HostFacts, ServerFacts
from tuner.measurement.gates import Gates
from tuner.measurement.instrument import NATIVE, Instrument
from tuner.measurement.stalls import KEEP, StallRule
from tuner.measurement.window import Measurement
from tuner.record.contenders import Contest, Evidence
from tuner.space.configuration import Configuration, Value
from tuner.stats.margin import Margin
from tuner.stats.sequential import Stakes

SCHEMA_VERSION = 1

Phase = Literal[
    "capacity",
    "aa",
    "search",
    "confirm",
    "starts",
    "load-points",
    "ablate",
    "minimal",
    "contest",
    "ladder",
]
BlockState = Literal["running", "complete", "invalid", "failed"]
TrialState = Literal["racing", "dropped", "infeasible", "complete"]
TrialOrigin = Literal["baseline", "hand", "proposed"]


# Without slots, for the configuration that is kept.
@dataclass(frozen=True)
class ConfigurationRecord:
    """One configuration with its text as it would be exported."""

    space: str
    """Name of the space of the values."""
    digest: str
    values: Mapping[str, Value]
    text: str
    """The configuration file, rendered for export (not for the lab)."""
    file_name: str = "nginx.conf"
    """Usual name of that file."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Texts of further files of an export, by name."""
    kernel: Mapping[str, str] = field(default_factory=dict)
    """Kernel settings by name; empty unless they are part of the study."""
    inactive: Mapping[str, Value] = field(default_factory=dict)
    """Values that settings without effect here take when they become active; empty in records of
    older versions."""
    units: Mapping[str, Literal["bytes", "seconds"]] = field(default_factory=dict)
    """Units of the values that are sizes or times; empty in records of older versions."""

    @cached_property
    def configuration(self) -> Configuration:
        """The configuration itself, of the same digest."""
        return Configuration.of(self.space, self.values)


@dataclass(frozen=True, slots=True)
class BlockInstance:
    """One instance of a block."""

    instance: str
    """Label, unique in the block; the baseline's is ``baseline``."""
    digest: str
    trial: int | None
    """Number of its trial; None for the baseline and in A/A blocks."""
    state: Literal["planned", "live", "refused", "failed", "dropped"]
    message: str
    """The server's message if refused or failed; the reason if dropped."""
    slot: int | None = None
    """Position in the deployment, 0-based: see ``tuner.stats.slots``; None in older records."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a block for a search, in some hundred bytes."""

    losses: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By the objective's text, then by instance; see ``tuner.judge.scoring.block_losses``."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """The baseline's own figure, signed ln, by the objective's text; NaN without one."""
    excess: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By the limit's text, then by instance; see ``tuner.judge.scoring.block_excess``."""
    bad: tuple[str, ...] = ()
    """Instances that failed the load."""


@dataclass(frozen=True, slots=True)
class Block:
    """Instances measured together, with their windows in the order of measurement."""

    number: int
    """0-based over the whole study, in order of time."""
    phase: Phase
    index: int
    """0-based within the phase; a repeated block keeps its index."""
    seed: int
    state: BlockState
    reason: str
    """Why it is invalid or failed; empty otherwise."""
    started_unix_s: float
    ended_unix_s: float
    instances: tuple[BlockInstance, ...]
    windows: tuple[Measurement, ...]
    host: str = ""
    """Name of its host in a shared study."""
    figures: Figures | None = None
    """Figures of a block of the search that was read without its windows."""

    @property
    def took_s(self) -> float:
        """Return its wall-clock time in seconds."""
        return self.ended_unix_s - self.started_unix_s


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration in the search.

    ``losses`` holds, for each block it completed, ln(level / baseline's level) over the block's
    rounds (``tuner.judge.scoring.block_losses``), signed so that negative is better.
    """

    number: int
    digest: str
    origin: TrialOrigin
    state: TrialState
    losses: Mapping[int, float]
    """By block number."""
    message: str
    second: Mapping[int, float] = field(default_factory=dict)
    """The same for the second objective; empty if there is one only."""
    excess: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Excess over each limit by its text and block; 0 or less is within the limit."""
    effects: tuple[float, ...] = ()
    """For each objective the signed log ratio to the baseline, estimated from all arms of all
    blocks of the search; empty if it was not measured."""
    host: str = ""
    """Name of the host that began it in a shared study."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of the baseline before the search."""

    capacity_per_s: float
    """Closed-loop throughput of the baseline: the lowest of several windows."""
    generator_bound: bool
    """The generator was the bottleneck: the server's capacity is at least ``capacity_per_s``."""
    rate_per_s: float
    """The load point of the whole study."""
    rate_source: str
    """``70 % of the baseline's capacity``, or ``--rate``."""
    sigma_d: float
    """Standard deviation of a block difference of two identical instances, ln units."""
    sigma_d_upper: float
    """80 % upper confidence limit of ``sigma_d``, for the number of blocks."""
    degrees_of_freedom: int
    half_width: float
    """Half-width of the 95 % interval of the A/A ratio, as a share: the noise of the host."""
    minimum_detectable_effect: float
    """Reduction that the planned blocks see (interval without 1) with 80 % probability, at the
    upper limit of ``sigma_d``, as a share (0.05 = 5 %)."""
    correlation: float
    """Correlation between windows of neighbouring instances in a round."""
    warnings: tuple[str, ...]
    second_sigma_d: float = 0.0
    """The same as above for the second objective; 0 without one."""
    second_half_width: float = 0.0
    second_minimum_detectable_effect: float = 0.0
    effective_share: float = 0.0
    """Effective samples per request; 0 in records of earlier versions."""
    slice_ms: float = 0.0
    """Length of the slices in which arms share a window, ms; 0: separate windows."""
    level: int | None = None
    """Outstanding requests above which a busy cycle begins; None in earlier records."""
    busy_share: float | None = None
    """Busy share of the server's cores at the load point, with a backend that shares them; None if
    unknown, and in earlier records."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The frozen confirmation: written before its first block, with time and hash."""

    frozen_unix_s: float
    digest: str
    """SHA-256 of the canonical JSON of all other fields but ``frozen_unix_s``, 12 hex digits."""
    estimand: str
    baseline: str
    candidate: str
    """Digests of both configurations."""
    objective: str
    rate_per_s: float
    blocks: int
    rounds: int
    window_s: float
    seed: int
    alpha: float
    margin: float
    stall_rule: StallRule | None
    gates: Gates
    second: str = ""
    """The second objective; both are judged, with Holm's correction."""
    second_margin: float = 0.0
    constraints: tuple[str, ...] = ()
    """Limits that the candidate must meet for the verdict *better*."""
    rivals: tuple[str, ...] = ()
    """Digests of further finalists in the same blocks as ``candidate``."""
    beside: tuple[str, ...] = ()
    """Digests of further baselines in the same blocks; the verdict uses ``baseline``."""
    sequential_rho: float | None = None
    """None for a fixed number of ``blocks``. Otherwise a parameter of the looks (see
    ``tuner.stats.sequential``) after every block, with at most ``blocks``."""
    sequential_sigma_d: float | None = None
    """Noise of a block's difference for the looks, ln units; None in records of earlier versions:
    their test does not bound the influence of a block."""
    looks_level: float | None = None
    """Part of ``alpha`` for the looks before the last block; the exact test after it has the rest.
    None in records of earlier versions: a look after the last block too, all of them at ``alpha``.
    """
    precision: float | None = None
    """A look ends the confirmation if a claim is safe and its interval reaches no further than this
    share to either side of its middle; None in records of earlier versions: if a claim is safe."""
    margin_symmetric: bool = False
    """True if the margins are symmetric in logarithms, from 1 / (1 + margin) to 1 + margin; False
    in records of earlier versions: from 1 - margin to 1 + margin."""
    evidence: Evidence = "typical"
    """Basis of *better*; "typical" in records of earlier versions."""

    @property
    def band(self) -> Margin:
        """The margin of the first objective."""
        return Margin(self.margin, self.margin_symmetric)

    @property
    def stakes(self) -> Stakes | None:
        """The parameters of the sequential test; None for a fixed number of blocks."""
        if self.sequential_rho is None:
            return None
        looks = Stakes(self.sequential_rho, self.sequential_sigma_d)
        if self.looks_level is None:
            return looks
        return replace(looks, share=self.looks_level / self.alpha, last=self.blocks)

    @property
    def second_band(self) -> Margin:
        """The margin of the second objective."""
        return Margin(self.second_margin, self.margin_symmetric)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Digests of all finalists, the search's winner first."""
        return (self.candidate, *self.rivals)


@dataclass(frozen=True, slots=True)
class Contrast:
    """One changed setting, or several that can change only together."""

    names: tuple[str, ...]
    reverted: str | None
    """Digest of the tuned configuration with the baseline's value; None if that is the same."""
    added: str | None
    """Digest of the baseline with the tuned value; None if that is the same."""


@dataclass(frozen=True, slots=True)
class AblationProtocol:
    """The frozen plan and rules of an ablation."""

    frozen_unix_s: float
    digest: str
    """As ``Protocol.digest``."""
    confirmation: str
    """Digest of the protocol whose winner is taken apart."""
    contrasts: tuple[Contrast, ...]
    blocks: int
    """Number of blocks of the contrasts, and of each check of a smaller difference."""
    rounds: int
    window_s: float
    alpha: float
    """Level of each family of contrasts, by Holm; and of all checks together, in equal parts."""
    margin: float
    """A smaller difference keeps the gain if it loses less than this share."""
    objective: str = ""
    """The objective with the gain; empty: the first."""


@dataclass(frozen=True, slots=True)
class Original:
    """The confirmation that a study repeats."""

    study: str
    protocol: str
    """Digest of its frozen protocol."""
    host: str
    started_unix_s: float
    objective: str
    verdict: str
    ratio: float
    low: float
    high: float | None
    """Upper end of the 95 % interval; None if it had none."""
    blocks: int


@dataclass(frozen=True, slots=True)
class StudyHost:
    """One of several hosts of a study, with its own worker."""

    name: str
    generator: str
    """Name and version of its load generator."""
    host: HostFacts
    server: ServerFacts
    cores: CoreSplit
    notes: tuple[str, ...]
    joined_unix_s: float
    calibration: Calibration | None = None
    """Calibration on this host, with its own load point."""
    protocol: Protocol | None = None
    """Protocol of the confirmation on this host, frozen before its first block."""
    ended_unix_s: float | None = None
    """Time at which its confirmation ended."""
    code: Mapping[str, str] = field(default_factory=dict)
    """As ``Record.code``."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A change of a host's own service, or its rollback."""

    host: str
    unix_s: float
    what: Literal["applied", "rolled back"]
    files: tuple[str, ...]
    """Absolute paths there."""
    owner: str
    """Study and configuration; empty for a manual rollback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStart:
    """Facts of a study at its start."""

    name: str
    definition: Mapping[str, object]
    """The resolved study definition: every option with its value, as written to YAML."""
    tuner_version: str
    command: str
    """The command line that started the study."""
    generator: str
    """Name and version of the load generator."""
    host: HostFacts
    server: ServerFacts
    cores: CoreSplit
    notes: tuple[str, ...]
    """Notes of preflight: shared cores, no real-time priority, a noisy host."""
    started_unix_s: float
    baseline: str
    """Digest of the baseline."""
    instrument: Instrument = NATIVE
    """Quality of the figures of ``generator``."""
    asked: Mapping[str, object] = field(default_factory=dict)
    """Options of a command with several studies, for its resumption."""


@dataclass(frozen=True, slots=True)
class RecordSignatures:
    """Keyed hashes by which a user knows a record of their own; see ``tuner.store.signature``."""

    begun: str = ""
    """Signature of its beginning, 64 hex digits; empty in records of earlier versions."""
    whole: str = ""
    """Signature of all measurements at the end of the last measuring command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(StudyStart):
    """A whole study; in a shared one, generator to notes are those of one host."""

    schema_version: int
    ended_unix_s: float | None
    configurations: Mapping[str, ConfigurationRecord]
    calibration: Calibration | None
    trials: tuple[Trial, ...]
    blocks: tuple[Block, ...]
    protocol: Protocol | None
    importance: Mapping[str, float]
    """Parameter importance from the search (PED-ANOVA), shares; empty if not computable."""
    ablation: AblationProtocol | None = None
    original: Original | None = None
    """The confirmation that this study replicates, if it is a replication."""
    applied: tuple[Applied, ...] = ()
    """Changes made on hosts, in order."""
    contest: Contest | None = None
    """Set if several servers or configurations meet in common blocks."""
    hosts: Mapping[str, StudyHost] = field(default_factory=dict)
    """The hosts of a shared study, in the order of joining; empty for a single host."""
    here: str = ""
    """Name of the host that the record was read for; empty: no particular host."""
    chosen: tuple[str, ...] = ()
    """Digests to confirm on all hosts; empty until the end of a search on several hosts."""
    search_ended: bool = False
    """True if the time of a search on several hosts is over."""
    signed: RecordSignatures = RecordSignatures()
    code: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the servers' programs and libraries, by path; empty if unknown, and in records of
    earlier versions."""

    @property
    def keeps_stalls(self) -> bool:
        """True if the study keeps requests that stalls touched in its figures."""
        return self.definition.get("stalls") == KEEP

    @property
    def leaves_out_stalls(self) -> bool:
        """True if latencies exclude requests that stalls touched."""
        return self.instrument.tells_stalls and not self.cores.shared and not self.keeps_stalls

    @property
    def busy(self) -> frozenset[int]:
        """Numbers of the trials in running blocks."""
        return frozenset(
            instance.trial
            for block in self.blocks
            if block.state == "running"
            for instance in block.instances
            if instance.trial is not None
        )
