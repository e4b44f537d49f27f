"""Facts in a report about host, method and limits: name and value, in every form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from tuner.definition.sampler_names import AUTO
from tuner.judge.load_point import windows_alone
from tuner.judge.results import StudyResult
from tuner.judge.support import LEAST_STARTS
from tuner.machine.facts import ServerFacts
from tuner.machine.idle import UNKNOWN_OR_NONE
from tuner.measurement.bottleneck import busy_share
from tuner.measurement.gates import Gates
from tuner.measurement.stalls import StallRule
from tuner.measurement.window import Measurement
from tuner.record.contenders import Evidence, server_words
from tuner.record.model import Original, Protocol, Record, TrialState
from tuner.stats.words import counted
from tuner.words.figures import figure, moment, ratio, setting, significant

Facts = list[tuple[str, str]]


def baseline_name(study: StudyResult) -> str:
    """Return the baseline's name: ``stock``, ``distro``, ``hand``, a file, or its digest."""
    return baseline_names(study)[0]


def baseline_names(study: StudyResult) -> list[str]:
    """Return the names of the baselines, the study's own first."""
    names = study.record.definition.get("baseline", study.record.baseline)
    return [str(name) for name in names] if isinstance(names, list | tuple) else [str(names)]


def host_facts(study: StudyResult) -> Facts:
    """Hardware, kernel, topology and versions."""
    record = study.record
    host = record.host
    servers = record.contest.servers if record.contest else [record.server]
    return [
        *(("Server", f"{one.words} ({one.binary}){_arms_of(record, one)}") for one in servers),
        ("Host", host.hostname),
        ("CPU", f"{host.cpu_model}, {len(host.cpus)} in use"),
        ("Cores", record.cores.words),
        ("Memory", f"{significant(host.memory_bytes / 2**30)} GiB"),
        ("System", f"{host.distribution}, kernel {host.kernel}"),
        ("Virtualisation", host.virtualisation),
        ("Open files, backlog", f"{host.file_limit:,}, somaxconn {host.somaxconn:,}"),
        ("Real-time ticker", "allowed" if host.realtime else "not allowed: no server stalls seen"),
        ("Generator", record.generator),
        ("tuner", record.tuner_version),
    ]


def _arms_of(record: Record, server: ServerFacts) -> str:
    """Return the arms of a program, if arms of one server have different ones."""
    known = record.contest.contenders if record.contest else ()
    labels = [arm.label for arm in known if arm.program and arm.program == server.binary]
    return f": {', '.join(labels)}" if labels else ""


def method_facts(study: StudyResult) -> Facts:
    """Return the facts of the method, from the frozen protocol if there is one."""
    record = study.record
    calibration, protocol = record.calibration, record.protocol
    facts = _question(study)
    windows, tool = _windows(study), record.instrument
    if study.goals.mode == "open":
        facts.append(("Latency", "from the intended send time to the last byte, open loop"))
    if any(window.first_byte for window in windows):
        facts.append(("Time to first byte", "from the intended send time, likewise"))
    elif tool.load != "native":
        facts.append(("Time to first byte", f"not reported by {tool.load}"))
    facts.append(("Load", f"{tool.load}: {tool.label}" if tool.label else tool.load))
    facts.append(("Answers", f"checked for {tool.checks}"))
    if calibration:
        bound = " at least (the generator was the bottleneck)" * calibration.generator_bound
        facts += [
            ("Baseline's capacity", figure(calibration.capacity_per_s, "/s") + bound),
            ("Offered rate", f"{figure(calibration.rate_per_s, '/s')}, {calibration.rate_source}"),
        ]
    if windows:
        first = windows[0]
        requests = sum(window.completed for window in windows)
        if study.contest is None:
            achieved = sum(window.completed_per_s for window in windows) / len(windows)
            facts.append(("Achieved rate", figure(achieved, "/s")))
        facts += [
            ("Connections", f"{first.connections}, {first.protocol}"),
            *_wire(windows),
            ("Windows", f"{len(windows)} of {first.duration_s:.3g} s, {requests:,} requests"),
            *_slices(windows),
            *_idle(windows),
            ("Generator", _generator(windows)),
        ]
    if protocol:
        facts.append(("Stall rule", _stall_rule(protocol.stall_rule, record)))
    return facts


def _question(study: StudyResult) -> Facts:
    """Return the objectives and limits of a study, or the claims of a contest."""
    if study.contest is not None:
        figures = dict.fromkeys(row.objective.words for row in study.contest.compared)
        words = "exact paired tests over the blocks, adjusted by Holm for all claims of a case"
        return [("Claims", f"{', '.join(figures)} of every pair: {words}")] if figures else []
    facts = [
        ("Objective" if place == 0 else "Second objective", f"{goal.words} in {goal.unit}")
        for place, goal in enumerate(study.goals.objectives)
    ]
    if study.goals.second:
        facts.append(("Choice", study.goals.choice.words))
    return facts + [("Constraint", limit.text) for limit in study.goals.constraints]


def _windows(study: StudyResult) -> list[Measurement]:
    """Return the windows that the claims rest on."""
    if study.contest is not None:
        return [window for block in study.contest.blocks for window in block.windows]
    return [window for block in study.used for window in (*block.baseline, *block.candidate)]


def servers_in_words(record: Record) -> str:
    """Return the measured servers with their versions."""
    found = record.contest.servers if record.contest else [record.server]
    return " and ".join(server_words(found))


def protocol_facts(study: StudyResult) -> Facts:
    """Return the frozen protocol, field by field; empty if none was frozen."""
    protocol, original = study.record.protocol, study.record.original
    if protocol is None:
        return []
    gates = protocol.gates
    return [
        ("Frozen", f"{moment(protocol.frozen_unix_s)}, hash {protocol.digest}"),
        ("Estimand", protocol.estimand),
        ("Baseline", f"{baseline_name(study)} ({protocol.baseline})"),
        *(
            ("Further baseline", f"{name} ({digest})")
            for name, digest in zip(baseline_names(study)[1:], protocol.beside, strict=False)
        ),
        ("Candidate", ", ".join(protocol.candidates)),
        ("Objective", " and ".join(filter(None, (protocol.objective, protocol.second)))),
        *(("Constraint", text) for text in protocol.constraints),
        ("Rate", figure(protocol.rate_per_s, "/s")),
        ("Blocks", _analysis(protocol)),
        ("Rounds and window", f"{protocol.rounds} of {protocol.window_s:.3g} s per arm and block"),
        ("Seed", str(protocol.seed)),
        ("α", _level(protocol)),
        ("Margin", f"±{100 * protocol.margin:.1f} %"),
        ("Basis of better", _BASES[protocol.evidence]),
        (
            "A window is valid if",
            (
                f"errors ≤ {100 * gates.error_share:g} %, achieved within"
                f" {100 * gates.rate_error:g} % of offered, at least {gates.samples_needed:,}"
                f" {_samples(protocol.stall_rule, gates)},"
                f" generator's send lag ≤ {100 * gates.send_lag_share:g} % of the p99"
            ),
        ),
        *([("Repeats", _original(original))] if original else []),
    ]


def _original(original: Original) -> str:
    return (
        f"study {original.study} (protocol {original.protocol}) of"
        f" {moment(original.started_unix_s)} on {original.host}: {original.verdict},"
        f" ratio of {original.objective} {original.ratio:.3f},"
        f" {counted(original.blocks, 'block')}"
    )


_BASES: dict[Evidence, str] = {
    "typical": "the typical block alone",
    "whole": "the typical block; all requests together and the worst starts must not contradict it",
    "starts": (
        "the typical block; all requests together and the worst starts must not contradict it, and"
        f" better needs {LEAST_STARTS} starts of each arm"
    ),
}


def _analysis(protocol: Protocol) -> str:
    if protocol.sequential_rho is None:
        return f"{protocol.blocks}, one analysis after the last"
    looks, rho = f"sequential: at most {protocol.blocks}", f"ρ = {protocol.sequential_rho:.3g}"
    if protocol.looks_level is None:
        return f"{looks}, an always-valid analysis after each, until a claim is safe ({rho})"
    rest = protocol.alpha - protocol.looks_level
    return (
        f"{looks}, an always-valid look after each at {protocol.looks_level:.0%} until a claim is"
        f" safe and its interval within ±{protocol.precision or 0:.0%} ({rho}), and an exact test"
        f" after the last at {rest:.0%}"
    )


def _level(protocol: Protocol) -> str:
    count = len(protocol.candidates)
    words = f"{protocol.alpha:g}, two-sided"
    if count > 1:
        words += (
            f"; {count} finalists: intervals of {100 * (1 - protocol.alpha / count):.3g} % each"
            " (Bonferroni), which hold at once; p adjusted by Holm"
        )
    if protocol.beside:
        words += (
            "; the claim is against the first baseline; the others are secondary, a family of"
            " their own: p adjusted by Holm, simultaneous intervals"
        )
    return words


def claimable_effect(study: StudyResult) -> float:
    """Return the reduction that the plan claims with 80 % probability; NaN before calibration."""
    calibration, protocol = study.record.calibration, study.record.protocol
    if calibration is None:
        return math.nan
    margin = protocol.band if protocol else study.goals.margin
    return margin.claimable(calibration.minimum_detectable_effect)


def aa_facts(study: StudyResult) -> Facts:
    """Return the facts of the noise from calibration; empty before it."""
    calibration = study.record.calibration
    if calibration is None:
        return []
    seen = calibration.minimum_detectable_effect
    return [
        ("Noise of a block's ratio", f"{100 * calibration.sigma_d:.1f} % (σ_d)"),
        (
            "Its upper limit",
            (
                f"{100 * calibration.sigma_d_upper:.1f} % (80 % confidence,"
                f" {calibration.degrees_of_freedom} degrees of freedom)"
            ),
        ),
        ("Half-width of the A/A interval", figure(calibration.half_width, "share")),
        ("Seen with 80 % probability", f"{figure(seen, 'share')} and more (interval without 1)"),
        (
            "Claimed with 80 % probability",
            f"{figure(claimable_effect(study), 'share')} and more (interval beyond the margin)",
        ),
        ("Correlation of neighbours", f"{calibration.correlation:.2f}"),
    ]


def definition_facts(study: StudyResult) -> Facts:
    """Return the resolved study definition, option by option."""
    return [(str(name), _option(value)) for name, value in study.record.definition.items()]


def allowed_trades(study: StudyResult) -> list[str]:
    """Return the trades that the user allowed by name."""
    allowed = study.record.definition.get("allow") or []
    return [str(name) for name in allowed] if isinstance(allowed, list | tuple) else [str(allowed)]


def search_summary(study: StudyResult) -> str:
    """Summarize the number of trials and their outcomes."""
    counts = Counter(trial.state for trial in study.trials)
    parts = [f"{counts[state]} {word}" for state, word in _STATE_WORDS.items() if counts[state]]
    sampler = str(study.record.definition.get("sampler", AUTO))
    proposed = "" if sampler == AUTO else f" Sampler: {sampler}."
    return f"{counted(len(study.trials), 'trial')}: {', '.join(parts)}.{proposed}"


_STATE_WORDS: dict[TrialState, str] = {
    "complete": "complete",
    "dropped": "dropped early",
    "infeasible": "infeasible",
    "racing": "unfinished",
}


def scope(study: StudyResult) -> str:
    """Return for whom the figures hold: rate, CPU share, host; empty without a confirmation."""
    calibration, windows = study.record.calibration, [w for b in study.used for w in b.baseline]
    if calibration is None or not windows:
        return ""
    record, parts = study.record, []
    if study.objective.at_one_rate:
        parts.append(f"at {figure(calibration.rate_per_s, '/s')} ({calibration.rate_source})")
    # The source of the rate has the share that calibration saw, often minutes before.
    busy = busy_share(windows, record.cores, windows_alone(record))
    if busy is not None:
        parts.append(f"with the baseline's cores {figure(busy, 'share')} busy")
    parts.append(f"for {record.server.words} on {record.host.hostname}")
    return f"The figures hold for the typical block of {len(study.used)}, {', '.join(parts)}."


def limits(study: StudyResult) -> list[str]:
    """Return the scope of the claim, and what this study cannot know."""
    record = study.record
    rate = figure(record.calibration.rate_per_s, "/s") if record.calibration else "this rate"
    where = f"{servers_in_words(record)} on {record.host.hostname}"
    workload = record.definition.get("workload", "this one")
    scope = (
        f"The figures hold for this workload ({workload}), at {rate}, for {where}, on the day they"
        " were measured. Another rate, request mix, kernel or machine is another question."
    )
    descriptive = (
        "Other percentiles, resources and load points are descriptive: they were not claimed"
        " beforehand, and their intervals are not adjusted for their number."
    )
    space = (
        "Only the parameters of the space were varied; the best configuration of all may lie"
        " outside it."
    )
    known = [scope] if study.contest else [scope, descriptive, space]
    if study.verdict:
        known.insert(
            1,
            "It is one confirmation on one host. Only a replication on another day or host can"
            " show whether it carries over.",
        )
    if study.whole is not None:
        share = figure(study.whole.most_hidden_share, "share")
        known.append(
            f"With {counted(study.whole.starts, 'start')} of each arm, a kind of start that comes"
            f" in {share} is missed with a probability of 5 %."
        )
    longest = max(
        (window.duration_s for block in record.blocks for window in block.windows), default=0.0
    )
    if longest:
        known.append(
            f"No window lasted longer than {longest:.3g} s, so slow effects (memory growth, full"
            " logs, cold caches) were not seen."
        )
    latency = study.objective.quantile is not None and study.contest is None
    if latency and record.keeps_stalls:
        known.append("Every latency is raw, as was wanted: stalls of the host are in it.")
    elif latency and not record.leaves_out_stalls:
        known.append(
            "Every latency is raw: stalls of the host are in it, and cannot be separated from"
            " the server's own time."
        )
    elif latency:
        known.append(
            "The claim is on stall-free latency: what stalls of the host add comes on top. The raw"
            " percentiles are shown next to it."
        )
    if study.goals.mode == "open" and any(window.polled for window in _windows(study)):
        known.append(_where_cpus_halt(study))
    if record.host.virtualisation not in UNKNOWN_OR_NONE:
        known.append(
            f"The host is virtual ({record.host.virtualisation}): its neighbours and true topology"
            " are unknown."
        )
    return known


def _where_cpus_halt(study: StudyResult) -> str:
    """Return the limit of claims that were measured with idle CPUs that poll."""
    words = (
        "Idle CPUs polled. Where they halt, a request that finds the CPU idle waits for its wake-up"
        " too, and ratios of latencies are usually closer to 1"
    )
    if math.isfinite(study.halting):
        seen = f"one block with CPUs that halted had a ratio of {ratio(study.halting)}"
        return f"{words}: {seen} (seen, not claimed)."
    return f"{words}."


def changes_title(study: StudyResult) -> str:
    """Return the title of the settings table: advice, or a mere account."""
    if study.verdict is None:
        return "What the front-runner changes (not confirmed)"
    return "What to change" if study.has_recommendation else "What was tried (no advice)"


def _generator(windows: Sequence[Measurement]) -> str:
    busy = max(window.generator_busy_share for window in windows)
    words = f"at most {100 * busy:.0f} % busy"
    if all(window.mode == "closed" for window in windows):
        return words
    lags = [window.send_lag.p99_us for window in windows if window.send_lag.count]
    lag = f"p99 of its send lag at most {figure(max(lags), 'µs')}" if lags else "send lag unknown"
    return f"{words}, {lag}"


def _wire(windows: Sequence[Measurement]) -> Facts:
    """Return the agreed terms and the cost of connections; empty in quiet cleartext."""
    facts: Facts = []
    agreed = [window.agreed for window in windows]
    names = [
        ", ".join(dict.fromkeys(getattr(found, what) for found in agreed if getattr(found, what)))
        for what in ("tls_version", "cipher", "group")
    ]
    if any(names):
        full, resumed = sum(a.full for a in agreed), sum(a.resumed for a in agreed)
        words = f"; handshakes: {full:,} in full, {resumed:,} resumed" if full + resumed else ""
        facts.append(("TLS", ", ".join(filter(None, names)) + words))
    opened, again = sum(a.handshakes for a in agreed), sum(w.reconnects for w in windows)
    if opened or again:
        slowest = max(a.handshake_p99_us for a in agreed)
        facts.append(
            (
                "Opened while measuring",
                f"{max(opened, again):,} connections, p99 at most {figure(slowest, 'µs')}",
            )
        )
    blocked = sum(a.blocked for a in agreed)
    if blocked:
        longest = max(a.blocked_p99_us for a in agreed)
        facts.append(
            (
                "Waited for their connection",
                (
                    f"{blocked:,} requests could not be written at once, p99 at most"
                    f" {figure(longest, 'µs')}: the client's own time"
                ),
            )
        )
    return facts


def _option(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_option, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_option(entry)}" for name, entry in value.items())
    return setting(value) if value is None or isinstance(value, bool) else str(value)


def _slices(windows: Sequence[Measurement]) -> list[tuple[str, str]]:
    """Return how the arms shared the windows; empty for windows of single arms."""
    lengths = _slice_lengths(windows)
    if not lengths:
        return []
    frozen = sum(window.frozen for window in windows)
    stopped = "servers not at turn were stopped"
    if not frozen:
        stopped = "none was stopped: on another host, or with too many threads to stop in time"
    elif frozen < len(windows):
        stopped = f"{stopped} in {frozen} of {len(windows)} windows"
    words = f"the arms took turns in shared windows, in slices of {lengths}"
    return [("Slices", f"{words}, in an order drawn for each set; {stopped}")]


def _idle(windows: Sequence[Measurement]) -> list[tuple[str, str]]:
    """Return how idle CPUs waited; empty if they halted, as they do by default."""
    polled = sum(window.polled for window in windows)
    if not polled:
        return []
    part = f" in {polled} of {len(windows)} windows" * (polled < len(windows))
    return [("Idle CPUs", f"polled{part}, so the hypervisor did not delay their wake-ups")]


def order_words(study: StudyResult) -> str:
    """Return how the arms of a block took turns, as the rest of a sentence about them."""
    lengths = _slice_lengths(_windows(study))
    if not lengths:
        return "are measured in random order"
    return f"share windows in slices of {lengths}, in an order drawn for each set"


def _slice_lengths(windows: Sequence[Measurement]) -> str:
    """Return the lengths of the windows' slices: ``20 ms``; empty without slices."""
    lengths = sorted({window.slice_ms for window in windows if window.slice_ms})
    return f"{' and '.join(f'{each:g}' for each in lengths)} ms" if lengths else ""


def _samples(rule: StallRule | None, gates: Gates) -> str:
    """Return what the gates demand of a window's samples."""
    if rule is None or rule.level is not None:
        return "effective samples"
    touched = f"at most {100 * gates.excluded_share:g} % of requests touched by stalls"
    return f"stall-free samples, {touched}"


def _stall_rule(rule: StallRule | None, record: Record) -> str:
    if rule is None and not record.instrument.tells_stalls:
        return f"off: {record.instrument.load} reports no single requests; all latencies are raw"
    if rule is None and record.keeps_stalls:
        return "off, as was wanted: stalls are kept, and all latencies are raw"
    if rule is None:
        return "off: server and generator share a core"
    if rule.level is not None:
        above = f" above {rule.level} outstanding requests" if rule.level else ""
        return (
            f"requests in busy cycles{above} with a stall of more than {rule.gap_us} µs are left"
            " out, and the others weighted by the chance that a cycle of their length holds none"
        )
    drain = f" and {rule.recovery:g} times its length" if rule.recovery else ""
    return (
        f"requests intended from {rule.before_us:,} µs before a stall of more than {rule.gap_us} µs"
        f" to {rule.after_us:,} µs{drain} after it are left out"
    )
