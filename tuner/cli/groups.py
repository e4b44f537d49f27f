"""Options in the order in which users need them, by theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

OTHERS = "Output and more"
GROUPS: Mapping[str, Sequence[str]] = {
    "Most used": (
        *("server", "objective", "workload", "config", "access_log", "server_name"),
        *("time", "rate", "name", "resume", "inventory"),
    ),
    "Goals": ("slo", "constraint", "margin", "choose", "limit", "fail_if"),
    "Load": ("connections", "load", "stalls"),
    "Programs and CPUs": (
        "server_binary",
        "generator_cpus",
        "server_cpus",
        "backend_cpus",
        "idle_cpus",
    ),
    "Your own configuration": (
        *("location", "root", "prefix", "env_file", "keep_upstreams", "in_place"),
    ),
    "Search": ("space", "layer", "only", "allow", "force", "sampler", "trials", "seed"),
    "Confirmation": ("baseline", "finalists", "sequential", "ablate"),
    "Studies and records": ("study_file", "storage", "foreign", "wait"),
}
"""Names of parameters by theme; the theme ``OTHERS`` has all that are in none."""
_FEWEST = 12
"""Number of options from which on a command groups them."""


Row = tuple[str, str]
"""An option as ``--help`` writes it, and its sentence."""


class GroupedCommand(click.Command):
    """A command that lists many options by theme in its ``--help``."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; a short list stays one."""
        for title, rows in by_theme(self, ctx):
            with formatter.section(title):
                formatter.write_dl(rows)


def by_theme(command: click.Command, ctx: click.Context) -> list[tuple[str, list[Row]]]:
    """Return the options of a command by theme; those of a short list are all in one."""
    rows = {
        parameter.name or "": row
        for parameter in command.get_params(ctx)
        # Since click 8.5.1 an argument has a row too, with its name alone.
        if isinstance(parameter, click.Option)
        and (row := parameter.get_help_record(ctx)) is not None
    }
    if len(rows) < _FEWEST or not isinstance(command, GroupedCommand):
        return [("Options", list(rows.values()))]
    found = [
        (title, [rows.pop(name) for name in names if name in rows])
        for title, names in GROUPS.items()
    ]
    return [(title, listed) for title, listed in (*found, (OTHERS, list(rows.values()))) if listed]
