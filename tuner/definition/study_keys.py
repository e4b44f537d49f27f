"""The keys of a study's file: one shape for the reader and for the JSON schema of editors.

Keys that are options of the command line have their sentence there (``tuner schema study``).
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from tuner.definition.sampler_names import SAMPLERS
from tuner.goals.metric import PERCENTILE
from tuner.goals.objective import CAPACITY, PLAIN
from tuner.machine.facts import SERVER_NAMES
from tuner.machine.idle import IDLE_CPUS
from tuner.measurement.instrument import LOADS
from tuner.measurement.stalls import STALLS
from tuner.reading.shape import (
    AnyText,
    Decimal,
    Either,
    Keys,
    OneWord,
    OnOff,
    Percentage,
    TimeSpan,
    Whole,
    one_or_more,
)
from tuner.space.parameter import BASELINES, OWN
from tuner.stats.margin import LEAST_MARGIN, MOST_MARGIN

MOST_FINALISTS = 8
"""Limit for finalists; with more, their tests would need more blocks than the search saves."""
PUBLISHED = "published"
KERNEL_LAYER = "kernel"
IN_PLACE = "restarts-my-service"
"""Consent that a study in place needs, as the value of its option."""
CPU_KEYS = ("generator_cpus", "server_cpus", "backend_cpus")
"""Keys with numbers of CPUs, which belong to one host."""
Ablate = Literal["auto", "off"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FILE = AnyText(pattern=re.compile(r".*\.ya?ml"))
_NAMES = one_or_more(AnyText())
"""Names in a list, or separated by commas."""

OBJECTIVE = Either(
    (
        OneWord(("p99", "p99.9", *PLAIN, CAPACITY)),
        AnyText(pattern=PERCENTILE),
        AnyText(pattern=re.compile(rf"{CAPACITY} at .+")),
    )
)
SERVER = OneWord(SERVER_NAMES)
TRIALS = Whole(1, 1_000_000)
TIME = TimeSpan(1, 30 * 86_400)
RATE = Decimal(1, 1e7)
CONNECTIONS = Whole(1, 100_000)
SEED = Whole(0, 2**32 - 1)
EFFECT = Decimal(0.001, 1, "Change that the study plans to claim with a probability of 80 %.")
MARGIN = Percentage(LEAST_MARGIN, MOST_MARGIN)
LOAD = OneWord(LOADS)
STALLS_KEPT = OneWord(STALLS)
IDLE = OneWord(IDLE_CPUS)
FINALISTS = Whole(1, MOST_FINALISTS)
ABLATE: OneWord[Ablate] = OneWord(get_args(Ablate))

STUDY = Keys(
    optional={
        "name": AnyText(pattern=NAME),
        "summary": AnyText("One line for lists."),
        "server": SERVER,
        "space": AnyText(),
        "workload": AnyText(),
        "objective": one_or_more(OBJECTIVE),
        "baseline": one_or_more(Either((OneWord((*BASELINES, OWN, PUBLISHED)), _FILE))),
        "trials": TRIALS,
        "time": TIME,
        "rate": RATE,
        "connections": CONNECTIONS,
        "allow": _NAMES,
        "seed": SEED,
        "storage": AnyText(),
        "effect": EFFECT,
        "margin": MARGIN,
        "slo": AnyText(),
        "constraint": one_or_more(AnyText()),
        "choose": AnyText(),
        "sequential": Either((OneWord(("auto",)), OnOff())),
        "finalists": FINALISTS,
        "ablate": ABLATE,
        "only": _NAMES,
        "load": LOAD,
        "stalls": STALLS_KEPT,
        "idle_cpus": IDLE,
        "published": AnyText("File of the baseline 'published'.", _FILE.pattern),
        "force": _NAMES,
        "layer": Either((OneWord((KERNEL_LAYER,)), _FILE)),
        "inventory": AnyText(),
        "sampler": OneWord(SAMPLERS),
        **{key: AnyText() for key in CPU_KEYS},
        "config": AnyText(),
        "server_name": AnyText(),
        "location": AnyText(pattern=re.compile(r"/.*")),
        "root": AnyText(),
        "prefix": one_or_more(AnyText(pattern=re.compile(r"/[^=]*=.+"))),
        "env_file": AnyText(),
        "keep_upstreams": OnOff(),
        "in_place": OneWord((IN_PLACE,)),
        "server_binary": AnyText(),
    },
    about="A study of tuner: which configuration is best for a server, a workload and a goal.",
)
"""A study's file; all keys are optional."""
