"""Notes for the user before any measurement, repeated in the report."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.generators.generator import LoadGenerator, WatchesStalls
from tuner.goals.goals import Goals
from tuner.hosts import local
from tuner.hosts.core_speed import SLICE_S, speed_lost_beside, times_by_core
from tuner.judge.claimable import (
    ESTIMATED,
    P99,
    CoreSpeed,
    CoreStalls,
    change_of_speed,
    from_stalls,
)
from tuner.machine.facts import CoreSplit, HostFacts
from tuner.machine.placement import place, shared_core
from tuner.machine.topology import Topology
from tuner.measurement.instrument import Instrument
from tuner.space.kernel import is_kernels
from tuner.space.space import Space
from tuner.workload.workload import Workload

NOISE_S = 2.0
_SPEED_S = 1.5
NO_SCHEDSTAT = (
    "this kernel does not report how long a server waits for its core (no /proc/PID/schedstat), so"
    " tuner cannot distinguish another process on the server's cores from the server's own work"
)
"""Note on a kernel built without CONFIG_SCHED_INFO."""
KEPT_STALLS = (
    "stalls are kept (--stalls): every latency is raw and includes the host's stalls; expect more"
    " noise"
)
"""Note on a study that excludes nothing."""


def preflight_notes(
    host: HostFacts,
    cores: CoreSplit,
    workload: Workload,
    generator: LoadGenerator,
    space: Space,
    *,
    goals: Goals = P99,
    watch: bool = True,
) -> tuple[str, ...]:
    """Return notes on limits of a study from host, tool and workload."""
    notes = []
    if cores.shared:
        notes.append(
            "one core only: server and generator share it, so they disturb each other, and tuner"
            " cannot detect stalls; figures are raw, so do not trust small differences"
        )
    if cores.backend_shares:
        notes.append("the backend shares the server's cores: its work is part of every figure")
    if not host.realtime:
        notes.append(
            "no real-time priority (run as root, or grant CAP_SYS_NICE to tuner-loadgen): tuner"
            " detects stalls of the generator's cores only, not of the server's; expect more noise"
        )
    if host.file_limit < 2 * workload.connections + 64:
        notes.append(f"the limit of open files, {host.file_limit}, is barely enough")
    notes += [f"parameter {name} left out: it {reason}" for name, reason in space.left_out]
    notes += [
        f"parameter {name} is on the never-list ({reason}); enabled by --force"
        for name, reason in space.forced
    ]
    notes += _tool_notes(generator.instrument, workload)
    if watch and isinstance(generator, WatchesStalls):
        notes += noise_notes(generator, goals)
    return tuple(notes)


def kernel_note(space: Space, lease_s: float) -> str:
    """Return a note on changes of the kernel's settings, and their end."""
    names = [p.name for p in space.parameters if is_kernels(p.name)]
    return (
        f"{len(names)} settings of the host's kernel are part of every configuration: tuner sets"
        " them before each window, in which only one instance runs, and restores them at the end;"
        f" the target restores them by itself after {lease_s:.0f} s without a heartbeat"
    )


def halting_note(refusal: str) -> str:
    """Return a note on idle CPUs that halt on a virtual host."""
    return (
        "idle CPUs halt, and a busy hypervisor delays their wake-ups: expect more noise, most with"
        f" an arm that needs little CPU time; they cannot poll instead ({refusal})"
    )


def in_place_note(lease_s: float) -> str:
    """Return a note on changes of the host's service in place, and their end."""
    return (
        "in place: tuner stops and starts the target's own service with changed files for every"
        " window, which affects its users, and restores its files and state at the end; the target"
        f" restores them by itself after {lease_s:.0f} s without a heartbeat"
    )


def shared_load_note(members: Sequence[str], clock_error_ns: int) -> str:
    """Return a note on the generators of a load, and on what does not hold over all of them."""
    return (
        f"{len(members)} generators share the load, each with an equal part: {', '.join(members)};"
        f" their clocks agree within {clock_error_ns / 1e3:,.0f} µs, so arms have windows of their"
        " own instead of slices, and stalls exclude a span around them instead of busy cycles"
    )


def _tool_notes(tool: Instrument, workload: Workload) -> list[str]:
    """Return notes on limits of another load generator's figures."""
    if not tool.label:
        return []
    notes = [
        f"{tool.load} offers the load: {tool.label}; it checks {tool.checks}",
        (
            f"{tool.load} does not report when requests were due, so tuner cannot exclude stalls:"
            " every latency is raw"
        ),
    ]
    if workload.arrival != "constant" and "open" in tool.modes:
        notes.append(
            f"{tool.load} paces each connection evenly; the workload's {workload.arrival} arrivals"
            " are not offered"
        )
    return notes


def watched_stalls(generator: WatchesStalls) -> tuple[CoreStalls, ...]:
    """Watch the host for two seconds and return the stalls of each core."""
    seen = generator.stalls(NOISE_S)
    # Only the real-time ticker preempts other programs; without it, spinning detects more.
    detector = "ticker" if seen["realtime"] else "spin"
    return tuple(
        CoreStalls(
            cpu=core["cpu"],
            per_s=core[detector]["count"] / NOISE_S,
            share=core[detector]["share"],
            longest_us=core[detector]["longest_us"],
        )
        for core in seen["cpus"]
    )


def speeds_here() -> tuple[CoreSpeed, ...]:
    """Time fixed work on this machine's cores for a server; return how their speeds change.

    Raises:
        HostError: one of the cores may not be used.
    """
    found = times_by_core(place(local.facts().layout, backend=False).server, _SPEED_S)
    return tuple(CoreSpeed(cpu, change_of_speed(times), SLICE_S) for cpu, times in found.items())


def speed_lost_to_generator(
    generator: WatchesStalls, topology: Topology, cores: CoreSplit
) -> float | None:
    """Return the share of its speed that the server loses while the generator spins here.

    It is measured if they run on threads of one core, and otherwise None.

    Raises:
        HostError: the server's CPU may not be used.
    """
    theirs = set(shared_core(topology, cores)) - set(cores.generator)
    return speed_lost_beside(generator.stalls, min(theirs)) if theirs else None


def noise_notes(generator: WatchesStalls, goals: Goals = P99) -> list[str]:
    """Return a note if the host's stalls limit what a study can claim; see `judge.claimable`."""
    found = from_stalls(watched_stalls(generator), goals)
    return [] if found.grade == "fine" else [f"{ESTIMATED}{found.words}"]
