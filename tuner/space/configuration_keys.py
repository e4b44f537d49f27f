"""The keys of a configuration's file: one shape for the reader and for the JSON schema."""

from __future__ import annotations

from tuner.machine.facts import SERVER_NAMES
from tuner.reading.shape import AnyText, Entries, Keys, OneWord
from tuner.space.parameter import BASELINES

BASELINE = OneWord(BASELINES, "Baseline with the values of other parameters [stock].")
CONFIGURATION = Keys(
    {"space": AnyText("Space of the values, such as nginx/static.")},
    {
        "server": OneWord(SERVER_NAMES, "Server of the space."),
        "baseline": BASELINE,
        "values": Entries(AnyText(), "Values by parameter."),
    },
    about="A configuration of tuner: values for the parameters of one space.",
)
"""A configuration's file."""
