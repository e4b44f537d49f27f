"""Studies and comparisons that a program runs as the commands run them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Unpack

from tuner.api.options import CompareOptions, OptimizeOptions
from tuner.api.study_view import Study
from tuner.app import comparing, optimizing
from tuner.app.caller import Caller
from tuner.app.matches import check_match
from tuner.app.option_words import command_line, overrides
from tuner.app.progress import RunProgress
from tuner.errors import DefinitionError, Interrupted
from tuner.reading.located import did_you_mean
from tuner.store.storage import Say


def optimize(
    *,
    study: str | Path | None = None,
    resume: bool = False,
    wait: bool = False,
    foreign: bool = False,
    metrics: str | None = None,
    progress: Say | None = None,
    **options: Unpack[OptimizeOptions],
) -> Study:
    """Search for a better configuration, then prove whether it is one.

    Writes the results to ``studies/NAME/`` of the current folder, as ``tuner optimize`` does.

    Args:
        study: name or path of a study file; None for the default one.
        resume: whether to resume an interrupted study: the named one, or the newest.
        wait: whether to wait for cores that another study uses, instead of an error.
        foreign: whether to accept a record that another user or machine made.
        metrics: address that serves OpenMetrics of the running study.
        progress: called with each line of the progress; None: nothing is reported.
        **options: options of the study, by their names in a study file.

    Raises:
        TunerError: an option is wrong, or the host, the generator or the record failed.
        KeyboardInterrupt: the user stopped it; the record keeps what was measured.
    """
    given = _plain(options, OptimizeOptions.__annotations__)
    words = command_line(
        "optimize", (), _flags(given, study=study, resume=resume, foreign=foreign, metrics=metrics)
    )
    caller = Caller(RunProgress(progress), words, wait=wait, foreign=foreign)
    with _running(caller):
        return Study(
            optimizing.optimize(
                given, caller, study_file=_text(study), resume=resume, metrics=metrics
            )
        )


def compare(
    a: str | Path,
    b: str | Path,
    *more: str | Path,
    study: str | Path | None = None,
    ladder: bool = False,
    resume: bool = False,
    wait: bool = False,
    foreign: bool = False,
    metrics: str | None = None,
    progress: Say | None = None,
    **options: Unpack[CompareOptions],
) -> Study:
    """Compare B with A in randomised blocks under a frozen protocol.

    Writes the results to ``studies/NAME/`` of the current folder, as ``tuner compare`` does.

    Args:
        a: a configuration (``stock``, ``distro``, ``hand``, ``own``, or a file), or a server.
        b: the configuration or server that the verdict is about.
        more: further servers; the verdict is then about the last one.
        study: name or path of a study file; None for the default one.
        ladder: whether to compare servers at rising rates too.
        resume: whether to resume an interrupted comparison of A and B.
        wait: whether to wait for cores that another study uses, instead of an error.
        foreign: whether to accept a record that another user or machine made.
        metrics: address that serves OpenMetrics of the running comparison.
        progress: called with each line of the progress; None: nothing is reported.
        **options: options of the comparison, by their names in a study file.

    Raises:
        TunerError: an option is wrong, or the host, the generator or the record failed.
        KeyboardInterrupt: the user stopped it; the record keeps what was measured.
    """
    given = _plain(options, CompareOptions.__annotations__)
    arms = (str(a), str(b), *map(str, more))
    flags = _flags(
        given, study=study, ladder=ladder, resume=resume, foreign=foreign, metrics=metrics
    )
    caller = Caller(
        RunProgress(progress), command_line("compare", arms, flags), wait=wait, foreign=foreign
    )
    wanted = comparing.WantedComparison(arms, given, _text(study), ladder=ladder, metrics=metrics)
    with _running(caller):
        found = comparing.compare(wanted, caller, resume=resume)
    if found.contest:
        check_match(found.record, arms)
    return Study(found)


@contextlib.contextmanager
def _running(caller: Caller) -> Iterator[None]:
    """Release the caller's locks at the end, and raise KeyboardInterrupt for any interruption."""
    with caller.locks:
        try:
            yield
        except Interrupted as stopped:
            raise KeyboardInterrupt(str(stopped)) from stopped


def _plain(options: Mapping[str, Any], known: Mapping[str, object]) -> dict[str, object]:
    """Return the given options with paths as text.

    Raises:
        DefinitionError: a name is unknown.
    """
    for name in options:
        if name not in known:
            raise DefinitionError(
                f"unknown option {name!r}{did_you_mean(name, known)}; allowed: {', '.join(known)}"
            )
    return {name: _text(value) for name, value in overrides(options).items()}


def _flags(given: Mapping[str, object], **flags: object) -> dict[str, object]:
    """Return the options of the equal command line."""
    return {**{name: _text(flag) for name, flag in flags.items() if flag}, **given}


def _text(value: Any) -> Any:
    """Return a value with paths as text."""
    if isinstance(value, list):
        return [_text(item) for item in value]
    return str(value) if isinstance(value, Path) else value
