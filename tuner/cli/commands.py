"""The commands, each imported when it is called.

``tuner --help`` therefore imports little more than click.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from tuner import __version__

_COMMANDS = {
    "init": "Ask four questions and write a study.",
    "optimize": "Search for a better configuration and prove whether it is one.",
    "compare": "Compare two configurations or servers under a frozen protocol.",
    "ablate": "Find the changes of a winner that matter.",
    "replicate": "Confirm a study's winner again, on another day or host.",
    "run": "Run a published experiment on this machine.",
    "ladder": "Measure latency at rising rates.",
    "measure": "Measure one configuration, without a claim.",
    "report": "Write a study's report again, or compare several studies.",
    "dashboard": "Open a study's record in optuna-dashboard.",
    "export": "Write the configuration that a study recommends.",
    "apply": "Apply a study's configuration to the hosts of an inventory.",
    "rollback": "Restore the files that apply replaced.",
    "studies": "List the shipped studies and those in this folder.",
    "workload": "Make a workload from an access log; check or show one.",
    "space": "Show, check and explain the parameters of a space.",
    "schema": "Print the JSON schema of a study or another file, for an editor.",
    "doctor": "Check this machine, or find mistakes in a configuration.",
    "worker": "Share a study with workers on other hosts.",
    "proxy": "Serve a storage to workers through gRPC.",
}

_RESUMED_BY_SAME_COMMAND = ("worker", "ablate")

_EPILOG = """
\b
Examples:
  tuner optimize --server nginx --objective p99
  tuner optimize --study studies/proxy.yaml --time 20m --name before-release
  tuner compare before.yaml after.yaml --fail-if worse
  tuner ablate quickstart && tuner export quickstart
  tuner report quickstart

\b
Exit codes:
  0    done
  1    doctor --config found something wrong
  2    wrong option, file or value
  3    host, server, generator, record or output failed
  4    the verdict matched --fail-if
  70   a bug in tuner; the message names a file with the details
  130  interrupted; all measurements are kept; the message says how to resume
"""


class _Commands(click.Group):
    """A group that imports a command when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"tuner.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command without importing any."""
        named = (item for item in _COMMANDS.items() if item[0].startswith(incomplete))
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=about) for name, about in named] + options

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
    """Find the best web server configuration for a workload and prove that it is better."""


def resume_command(words: Sequence[str]) -> str:
    """Return a hint on resuming an interrupted command; empty if it cannot be resumed.

    Args:
        words: arguments of the command line.
    """
    if "--dry-run" in words:
        return ""
    name = next((word for word in words if word in _COMMANDS), "")
    command = cli.get_command(click.Context(cli), name)
    if name in _RESUMED_BY_SAME_COMMAND:
        return "; all measurements are kept; run the same command again to resume"
    if command and any(parameter.name == "resume" for parameter in command.params):
        return "; all measurements are kept; resume with --resume"
    return ""
