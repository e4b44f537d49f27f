"""``tuner init``: four questions, and the study that their answers make."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from tuner.app.caller import Caller
from tuner.app.draft import NONE, USUAL_SLO, USUAL_TIME, Answers, Draft, Suggestions, draft
from tuner.app.dry_run import show
from tuner.app.option_words import overrides
from tuner.app.printing import print_json
from tuner.cli import complete, options
from tuner.cli.callers import as_caller
from tuner.cli.groups import GroupedCommand
from tuner.errors import DefinitionError
from tuner.goals.goals import parse_goals
from tuner.machine.facts import SERVER_NAMES

_CAPACITY = "capacity"
_EPILOG = """
\b
Examples:
  tuner init
  tuner init --server nginx --config /etc/nginx/nginx.conf
  tuner init --yes --server nginx --config /etc/nginx/nginx.conf \\
    --access-log /var/log/nginx/access.log --objective p99 --output shop.yaml
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.option(
    "--server",
    metavar="NAME",
    help=f"Tune this server: {', '.join(SERVER_NAMES)} [asks].",
    shell_complete=complete.servers,
)
@click.option(
    "--config",
    metavar="FILE|none",
    help="Tune the server configuration in FILE, or that of the lab [asks].",
    shell_complete=complete.words("none", files=".conf"),
)
@click.option(
    "--access-log",
    metavar="FILE|none",
    help="Take the requests from this log, or from a built-in workload [asks].",
    shell_complete=complete.words("none", files=".log"),
)
@click.option(
    "--objective",
    metavar="NAME",
    help="Judge by p99 or another percentile, throughput, capacity, cpu or memory [asks].",
    shell_complete=complete.objectives,
)
@click.option("--slo", metavar="LIMIT", help=f"Latency limit of capacity [{USUAL_SLO}].")
@click.option(
    "--server-name",
    metavar="NAME",
    help="Tune this server of the configuration [its default server].",
)
@click.option(
    "--location",
    metavar="PATH",
    help="Send the requests below PATH, such as /app/ [as the workload has them].",
)
@options.copies
@click.option(
    "--time", metavar="T", default=USUAL_TIME, help=f"Limit the study to this time [{USUAL_TIME}]."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write the study to FILE [SERVER.yaml].",
    metavar="FILE",
)
@click.option("--yes", is_flag=True, help="Ask nothing, and replace existing files.")
@options.output
@options.wait
@as_caller
def command(
    *,
    caller: Caller,
    server: str | None,
    config: str | None,
    access_log: str | None,
    objective: str | None,
    output: Path | None,
    slo: str | None,
    time: str,
    yes: bool,
    as_json: bool,
    **more: object,
) -> None:
    """Ask for server, configuration, access log and goal, and write a study.

    Suggests what it finds on this machine. Before it writes anything, it shows the site, the
    location of each request, the load, the parameters to search and the time, and sends the
    configuration one request of each kind. Writes the study's YAML, and with an access log the
    workload next to it. `tuner optimize --study FILE` runs the study.
    """
    suggested = Suggestions.here()
    asks = sys.stdin.isatty() and not yes
    given = _Given(server, config, access_log, objective, slo, output)
    if given.missing and not asks:
        raise DefinitionError(
            f"{'--yes asks nothing' if yes else 'no terminal to ask'}, so the four answers must be"
            f" given; write: {_line(given.suggested(suggested))}",
            path=given.missing[0],
        )
    answers = replace(
        given.asked(suggested) if asks else given.suggested(suggested),
        time=time,
        options=_absolute(overrides(more)),
    )
    say = None if caller.progress.silent else lambda text: click.echo(text, err=True)
    try:
        made = draft(answers, caller, say)
    except DefinitionError:
        if asks:
            # The refusal that follows often names an option to add.
            click.echo(f"again      {_line(answers)}", err=True)
        raise
    if as_json:
        made.rehearsal.check()
    else:
        show([made.rehearsal], as_json=False, dry=False)
    _confirm(made, asks=asks, yes=yes)
    made.write()
    if as_json:
        print_json(_as_data(made))
        return
    for path in made.files:
        click.echo(f"written    {path}")
    click.echo(f"run        tuner optimize --study {shlex.quote(str(answers.output))}")


@dataclass(frozen=True, slots=True)
class _Given:
    """The answers among the options; None for a question to ask."""

    server: str | None
    config: str | None
    access_log: str | None
    objective: str | None
    slo: str | None
    output: Path | None

    @property
    def missing(self) -> list[str]:
        """Options of the questions without an answer."""
        answers = {
            "--server": self.server,
            "--config": self.config,
            "--access-log": self.access_log,
            "--objective": self.objective,
        }
        return [name for name, value in answers.items() if value is None]

    def suggested(self, here: Suggestions) -> Answers:
        """Return the answers, with suggestions for the missing ones."""
        server = self.server or here.server
        config = self.config or here.config(server)
        return self._answers(
            server,
            config,
            self.access_log or here.access_log(server, config),
            self.objective or "p99",
            self.slo,
        )

    def asked(self, here: Suggestions) -> Answers:
        """Return the answers, and ask for the missing ones."""
        for found in here.servers:
            click.echo(f"found      {found.words}", err=True)
        server = self.server or click.prompt(
            "Server", default=here.server, type=click.Choice(SERVER_NAMES), err=True
        )
        config = self.config or click.prompt(
            f"Configuration to tune ({NONE}: tune the lab's)",
            default=here.config(server),
            value_proc=_file,
            err=True,
        )
        access_log = self.access_log or click.prompt(
            f"Access log with its requests ({NONE}: a built-in workload)",
            default=here.access_log(server, config),
            value_proc=_file,
            err=True,
        )
        objective = self.objective or click.prompt(
            "Goal (p99, p99.9, throughput, capacity, cpu, memory)",
            default="p99",
            value_proc=_goal,
            err=True,
        )
        slo = self.slo
        if objective == _CAPACITY and not slo:
            slo = click.prompt("Latency limit", default=USUAL_SLO, value_proc=_limit, err=True)
        return self._answers(server, config, access_log, objective, slo)

    def _answers(
        self, server: str, config: str, access_log: str, objective: str, slo: str | None
    ) -> Answers:
        if objective == _CAPACITY:
            slo = slo or USUAL_SLO
        output = self.output or Path(f"{server}.yaml")
        return Answers(server, config, access_log, objective, output, slo or "")


def _file(text: str) -> str:
    """Check the answer to a question for a file."""
    if text != NONE and not Path(text).expanduser().is_file():
        raise click.BadParameter(f"{text} is not a file")
    return text if text == NONE else str(Path(text).expanduser())


def _goal(text: str) -> str:
    """Check the answer to the question for the goal."""
    return _parsed(text, text, USUAL_SLO if text == _CAPACITY else "")


def _limit(text: str) -> str:
    """Check the answer to the question for a latency limit."""
    return _parsed(text, _CAPACITY, text)


def _parsed(text: str, objective: str, slo: str) -> str:
    try:
        parse_goals((objective,), slo=slo)
    except DefinitionError as error:
        raise click.BadParameter(error.message) from None
    return text


def _absolute(more: dict[str, object]) -> dict[str, object]:
    """Return options with absolute paths, because a study's paths are relative to its folder."""
    made = dict(more)
    if "env_file" in made:
        made["env_file"] = str(Path(str(made["env_file"])).absolute())
    copies = made.get("prefix")
    if isinstance(copies, list):
        pairs = (str(each).partition("=") for each in copies)
        made["prefix"] = [f"{path}={Path(copy).absolute()}" for path, _, copy in pairs]
    return made


def _confirm(made: Draft, *, asks: bool, yes: bool) -> None:
    """Ask before files are written, and before existing ones are replaced.

    Raises:
        DefinitionError: a file exists, and there is nobody to ask.
    """
    there = [str(path) for path in made.files if path.exists()]
    if there and not asks and not yes:
        raise DefinitionError(
            f"{' and '.join(there)} exist{'s' * (len(there) == 1)}; name another file, or replace"
            " it with --yes",
            path="--output",
        )
    if asks:
        names = " and ".join(map(str, made.files))
        question = f"Replace {' and '.join(there)}" if there else f"Write {names}"
        click.confirm(f"{question}?", default=not there, abort=True, err=True)


def _line(answers: Answers) -> str:
    """Return the command line that gives the answers."""
    words = {
        "--server": answers.server,
        "--config": answers.config,
        "--access-log": answers.access_log,
        "--objective": answers.objective,
        "--output": str(answers.output),
    }
    if answers.slo:
        words["--slo"] = answers.slo
    return shlex.join(["tuner", "init", *(word for pair in words.items() for word in pair)])


def _as_data(made: Draft) -> dict[str, object]:
    workload = str(made.answers.workload) if made.mix else None
    return {
        "study": str(made.answers.output),
        "workload": workload,
        "plan": made.rehearsal.as_dict(),
    }
