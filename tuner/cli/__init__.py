"""The command line: thin commands, one error handler, exit codes as in ``tuner.errors``.

Commands are imported when they are called, so that ``tuner --help`` costs no more than click.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click

from tuner import __version__
from tuner.errors import Interrupted, TunerError

_COMMANDS = {
    "worker": "Share a study with other workers, each on a host of its own.",
    "proxy": "Serve a storage to many workers by gRPC.",
    "optimize": "Search, then prove: is there a better configuration for this workload?",
    "compare": "Prove one configuration against another, under the same protocol.",
    "ablate": "Take a winner apart: which changes matter, and which can be left out.",
    "replicate": "Confirm a study's winner again, on another day or another host.",
    "run": "Run a published experiment here: stock, published and tuned side by side.",
    "ladder": "Latency against rate: the knee, and the highest rate within a limit.",
    "measure": "Measure one configuration, without any claim.",
    "report": "Write a study's report again, or set several side by side.",
    "dashboard": "Open a study's record in optuna-dashboard.",
    "export": "Write a study's configuration, with where it comes from.",
    "apply": "Put a study's recommendation on the hosts of an inventory, one by one.",
    "rollback": "Give those hosts their own files back.",
    "studies": "List the studies that ship with tuner and those in this folder.",
    "workload": "Make a workload from an access log, check or show one.",
    "space": "Show, check and explain what may be searched.",
    "doctor": "Say whether this machine can measure, or what a configuration has plainly wrong.",
}

_EPILOG = """
\b
Examples:
  tuner optimize --server nginx --objective p99
  tuner optimize --study studies/proxy.yaml --time 20m --name proxy-before-release
  tuner compare before.yaml after.yaml --fail-if worse
  tuner ablate quickstart && tuner export quickstart --minimal
  tuner report quickstart

\b
Exit codes:
  0   done                        3   host, server, generator or record failed
  2   wrong option, file, value   4   the verdict matched --fail-if
  1   doctor --config found something wrong
  130 interrupted; everything that was measured is kept, go on with --resume
"""


class _Commands(click.Group):
    """Commands that are imported when called, listed without being imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"tuner.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="tuner")
def cli() -> None:
    """Find the best web server configuration for your workload, and prove that it is better."""


def main() -> NoReturn:
    """Run the command line and end the process."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Ignored under nohup, and it stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminated)
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as wrong:
        wrong.show()
        code = 2
    except (KeyboardInterrupt, click.Abort, Interrupted) as stopped:
        _say((str(stopped) or "interrupted") + way_on(sys.argv[1:]))
        code = Interrupted.exit_code
    except TunerError as error:
        _say(str(error))
        code = error.exit_code
    except BrokenPipeError:
        # Whoever read our output has had enough; nothing is wrong.
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted("terminated")


def way_on(words: Sequence[str]) -> str:
    """How a command that was stopped is gone on with; empty where there is nothing to go on with.

    Args:
        words: of the command line.
    """
    name = next((word for word in words if word in _COMMANDS), "")
    command = cli.get_command(click.Context(cli), name)
    if name == "worker":
        return "; everything that was measured is kept, the same line goes on"
    if command and any(parameter.name == "resume" for parameter in command.params):
        return "; everything that was measured is kept, go on with --resume"
    return ""


def _say(text: str) -> None:
    from tuner.words.terminal import wrapped

    lines = wrapped(f"tuner: {text}", 0, 2) if "\n" not in text else [f"tuner: {text}"]
    click.echo("\n".join(lines), err=True)
