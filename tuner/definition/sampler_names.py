"""Names of the samplers that may make a search's proposals, as ``--sampler`` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.errors import DefinitionError, quoted
from tuner.reading.located import Node, did_you_mean

AUTO = "auto"
"""tuner's own search (``tuner.search.propose``)."""
SAMPLERS = (AUTO, "tpe", "gp", "cmaes", "nsgaii", "qmc", "random")
ONE_OBJECTIVE = ("cmaes",)
"""Samplers that know no second objective."""
_CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_code(sampler: str) -> bool:
    """Return whether a sampler is a class of the user's own, ``MODULE:CLASS``."""
    return ":" in sampler


def named_code(options: Mapping[str, object]) -> str:
    """Return the class that the user's options name; empty for none.

    Args:
        options: options of the command line, by name, and not those of a file or a record.
    """
    sampler = options.get("sampler")
    return sampler if isinstance(sampler, str) and is_code(sampler) else ""


def read_sampler(node: Node, *, from_option: bool, objectives: int) -> str:
    """Return the name of a sampler, or ``MODULE:CLASS``.

    Args:
        node: the option, or the key of a file.
        from_option: whether it is an option. A file names no class, because tuner would import it
            and files come from others.
        objectives: number of objectives of the study.

    Raises:
        DefinitionError: the sampler is unknown, or it cannot serve the study.
    """
    text = node.text()
    if is_code(text):
        if not _CODE.fullmatch(text):
            raise node.error(f"{quoted(text)} does not name a class; write MODULE:CLASS")
        if not from_option:
            raise node.error(
                f"{quoted(text)} is code, which tuner imports only if the command line names it;"
                f" write: --sampler {text}"
            )
        return text
    if text not in SAMPLERS:
        raise node.error(
            f"unknown sampler {quoted(text)}; allowed: {', '.join(SAMPLERS)}, MODULE:CLASS"
            f"{did_you_mean(text, SAMPLERS)}"
        )
    if objectives > 1 and text in ONE_OBJECTIVE:
        raise node.error(f"{text} searches for one objective; leave out the second, or the sampler")
    return text


def check_code(sampler: str, given: str, study: str) -> None:
    """Raise DefinitionError if a class would be imported that the user has not named.

    Args:
        sampler: sampler of the study's definition, which may come from a record.
        given: class that the user names now; empty for none.
        study: name of the study.

    Raises:
        DefinitionError: the definition names a class, and the user does not, or names another.
    """
    if is_code(given) and sampler != given:
        raise DefinitionError(
            f"{study!r} was begun with the sampler {sampler}; leave the option out",
            path="--sampler",
        )
    if is_code(sampler) and sampler != given:
        raise DefinitionError(
            f"{study!r} was begun with --sampler {sampler}, which is code; tuner imports it only if"
            " the command line names it: add the option",
            path="--sampler",
        )
