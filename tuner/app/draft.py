"""The draft of a study: four answers as a study file, tried out before it is written."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuner.app import own_server
from tuner.app.caller import Caller
from tuner.app.dry_run import Rehearsal, baselines, rehearse, take_cores
from tuner.app.log_drafts import LogDrafts
from tuner.app.log_formats import configured_formats
from tuner.app.log_workload import read_logs, write_private
from tuner.app.preflight import preflight
from tuner.app.writing import writing
from tuner.definition.study import BASE_STUDY, load_study
from tuner.errors import DefinitionError
from tuner.own.catalog import READERS
from tuner.own.installed import InstalledServer, installed
from tuner.paths import temporary
from tuner.servers import catalog
from tuner.store.storage import Say
from tuner.workload.log_mix import Mix

NONE = "none"
"""The answer for a study without a configuration, or without a log."""
USUAL_SLO = "p99<10ms"
USUAL_TIME = "10m"
_LAB = "proxy"
"""Built-in workload for the lab, where stock settings lose most."""
_OF_OWN = ("static", "proxy")
"""Built-in workloads to try with a configuration, in this order."""
_PLAIN = re.compile(
    r"/[A-Za-z0-9._/-]+|[a-z][a-z0-9.-]{2,}\.yaml|p[0-9.]+|[0-9]+[smh]|(?!false)[a-z]{5,}"
)
"""Texts that are the same text in YAML without quotes."""
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers from which a study is made."""

    server: str
    config: str
    """Path of the configuration; ``none`` for that of the lab."""
    access_log: str
    """Path of the log; ``none`` for a built-in workload."""
    objective: str
    output: Path
    """Path of the study file."""
    slo: str = ""
    """Latency limit of the objective ``capacity``."""
    time: str = USUAL_TIME
    options: Mapping[str, object] = field(default_factory=dict)
    """Further keys of the study, such as ``server_name``."""

    @property
    def workload(self) -> Path:
        """Path of the workload file that a log becomes."""
        return self.output.with_name(f"{self.output.stem}-workload.yaml")


@dataclass(frozen=True, slots=True)
class Draft:
    """A study that was tried out and not yet written."""

    answers: Answers
    study: str
    """Text of the study file."""
    mix: Mix | None
    """Workload of the log; None for a built-in one."""
    rehearsal: Rehearsal

    @property
    def files(self) -> tuple[Path, ...]:
        """Paths to write."""
        return (self.answers.output, *([self.answers.workload] if self.mix else []))

    def write(self) -> None:
        """Write the files.

        Raises:
            HostError: a file cannot be written.
        """
        remedy = "name another file with --output"
        if self.mix is not None:
            with writing(self.answers.workload, remedy):
                write_private(self.answers.workload, [self.mix.text])
        with writing(self.answers.output, remedy):
            self.answers.output.write_text(self.study, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Suggestions:
    """The usual answers on this machine."""

    servers: tuple[InstalledServer, ...]

    @classmethod
    def here(cls) -> Suggestions:
        """Return the suggestions for this machine."""
        return cls(installed())

    @property
    def server(self) -> str:
        """The server of the first configuration found; the default one without any."""
        return self.servers[0].server if self.servers else next(iter(catalog.SERVERS))

    def config(self, server: str) -> str:
        """Return the configuration of a server; ``none`` without one."""
        return next((found.main for found in self.servers if found.server == server), NONE)

    def access_log(self, server: str, config: str, folder: Path = Path("/var/log")) -> str:
        """Return the newest access log with content; ``none`` without one.

        The logs that the configuration names come first, then those in the server's usual folder.

        Args:
            server: name of the server.
            config: path of its configuration, or ``none``.
            folder: folder of the logs of all servers.
        """
        for paths in (_configured_logs(server, config), (folder / server).glob("*access*.log")):
            with contextlib.suppress(OSError):
                found = [path for path in paths if _has_lines(path)]
                if found:
                    return str(max(found, key=lambda path: path.stat().st_mtime))
        return NONE


def _configured_logs(server: str, config: str) -> list[Path]:
    """Return the access logs that a configuration names; mistakes in it are found later."""
    if config == NONE or server not in READERS:
        return []
    try:
        return [Path(path) for path in READERS[server].access_logs(config)]
    except (DefinitionError, OSError):
        return []


def _has_lines(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0 and os.access(path, os.R_OK)


def draft(answers: Answers, caller: Caller, say: Say | None) -> Draft:
    """Return the study for the answers, with what it would measure.

    With a log the workload has its requests. The configuration decides whether files or a backend
    answer, and which part of a log if the lab can answer only a part.

    Args:
        answers: the answers.
        caller: holder of this machine's cores.
        say: shows a line of progress while a log is read; None for none.

    Raises:
        DefinitionError, HostError: the study could not run, as its preflight says.
    """
    _check(answers)
    take_cores(None, caller)
    problem: DefinitionError | None = None
    for workload, mix in _workloads(answers, say):
        text = _text(answers, workload)
        try:
            return Draft(answers, text, mix, _rehearsed(answers, text, mix))
        except DefinitionError as error:
            problem = problem or error
    assert problem is not None  # noqa: S101 - every answer has a workload to try
    if answers.access_log == NONE:
        raise problem
    raise DefinitionError(
        f"{problem.message}; or leave out the log: --access-log {NONE}",
        path=problem.path,
        line=problem.line,
    )


def _check(answers: Answers) -> None:
    """Raise DefinitionError for an answer that no study can have, with its option.

    Raises:
        DefinitionError: there is one.
    """
    if answers.output.suffix not in _SUFFIXES:
        raise DefinitionError(
            f"{answers.output} does not end with .yaml, as a study does", path="--output"
        )
    load_study(BASE_STUDY, _options(answers))


def _options(answers: Answers) -> dict[str, object]:
    """Return the answers as options of a study, without its workload."""
    given = {"server": answers.server, "objective": answers.objective, "time": answers.time}
    own = {} if answers.config == NONE else {"config": answers.config}
    return {**given, **own, **answers.options, "slo": answers.slo or None}


def _workloads(answers: Answers, say: Say | None) -> Iterator[tuple[str, Mix | None]]:
    """Yield workloads to try, best first: the name or file for the study, and the log's mix."""
    if answers.access_log == NONE:
        names = _OF_OWN if answers.config != NONE else (_LAB,)
        yield from ((name, None) for name in names)
        return
    log = Path(answers.access_log)
    tally, _ = read_logs([log], config=_with_formats(answers), say=say)
    own = load_study(BASE_STUDY, _options(answers))
    wishes = own_server.wishes(own) if own.config and own.server in READERS else None
    drafts = LogDrafts(tally, log, own.server, wishes, own.location)
    yield from ((answers.workload.name, mix) for mix in drafts.mixes())


def _with_formats(answers: Answers) -> Path | None:
    """Return the configuration if it defines formats of logs; mistakes in it are found later."""
    config = Path(answers.config)
    try:
        return config if configured_formats(config, Path(answers.access_log)) else None
    except DefinitionError:
        return None


def _text(answers: Answers, workload: str) -> str:
    """Return the text of the study file."""
    keys: dict[str, object] = {"server": answers.server}
    if answers.config != NONE:
        keys["config"] = str(Path(answers.config).absolute())
    keys |= answers.options
    keys |= {"workload": workload, "objective": answers.objective}
    if answers.slo:
        keys["slo"] = answers.slo
    keys |= {"time": answers.time}
    lines = [
        f"# tuner optimize --study {answers.output.name}; docs/studies.md describes the keys.",
        *(f"{key}: {_value(value)}" for key, value in keys.items()),
        "# A long confirmation of a single objective ends once its claim is safe and precise.",
        "sequential: auto",
    ]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    """Return a value in YAML; JSON's strings, numbers and lists are YAML's too."""
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)


def _rehearsed(answers: Answers, text: str, mix: Mix | None) -> Rehearsal:
    """Return what the study would measure, read from its files in a temporary folder."""
    with temporary("init") as name:
        study = Path(name) / answers.output.name
        study.write_text(text, encoding="utf-8")
        if mix is not None:
            write_private(study.with_name(answers.workload.name), [mix.text])
        try:
            found = preflight(load_study(study), watch=False)
            return rehearse("optimize", found, baselines(found), added=_shares(answers, mix))
        except DefinitionError as error:
            raise _at_home(error, name, answers.output.parent) from error


def _shares(answers: Answers, mix: Mix | None) -> dict[str, str]:
    """Return the row about the part of the log that a workload stands for."""
    if mix is None:
        return {}
    total = mix.covered + sum(count for _, count in mix.left_out)
    lost = "".join(f"; left out, {count / total:.1%}: {why}" for why, count in mix.left_out)
    return {"log": f"{mix.covered / total:.1%} of {answers.access_log}{lost}"}


def _at_home(error: DefinitionError, folder: str, home: Path) -> DefinitionError:
    """Return an error of a file in a temporary folder with the name that the file will have."""
    path, message = error.path, error.message.replace(f"{folder}/", "")
    if path is not None and path.startswith(f"{folder}/"):
        path = str(home / path.removeprefix(f"{folder}/"))
    return DefinitionError(message, path=path, line=error.line)
