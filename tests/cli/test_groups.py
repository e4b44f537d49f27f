"""The options of commands that have many, by theme."""

from __future__ import annotations

import click
import pytest

from tuner.cli.commands import cli
from tuner.cli.groups import GROUPS, OTHERS, GroupedCommand
from tuner.paths import data_dir

CONTEXT = click.Context(cli)
GROUPED = {
    name: command
    for name in cli.list_commands(CONTEXT)
    if isinstance(command := cli.get_command(CONTEXT, name), GroupedCommand)
}


@pytest.mark.parametrize("name", GROUPED)
def test_help_lists_every_option_once(name: str) -> None:
    """In its theme, and nowhere else."""
    command = GROUPED[name]
    said, _, _ = command.get_help(click.Context(command)).partition("Examples:")
    first_words = [line.split()[0].rstrip(",") for line in said.splitlines() if line.split()]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert first_words.count(min(option.opts, key=len)) == 1, option.opts


def test_arguments_are_not_among_the_options() -> None:
    """Usage and description name them."""
    assert "  NAME\n" not in GROUPED["worker"].get_help(click.Context(GROUPED["worker"]))


def test_the_most_used_options_come_first() -> None:
    """Before all others, which end with the output's."""
    titles = [*GROUPS, OTHERS]
    said = GROUPED["optimize"].get_help(click.Context(GROUPED["optimize"])).splitlines()
    assert [line.rstrip(":") for line in said if line.rstrip(":") in titles] == titles


def test_every_grouped_name_is_an_option_of_some_command() -> None:
    """A theme names no option that has gone."""
    known = {option.name for command in GROUPED.values() for option in command.params}
    assert {name for names in GROUPS.values() for name in names} <= known


@pytest.mark.parametrize("name", ["", *cli.list_commands(CONTEXT)])
def test_the_help_fits_into_80_columns(name: str) -> None:
    """Examples too: a terminal would break them within a word."""
    command = cli.get_command(CONTEXT, name) if name else cli
    assert command is not None
    context = click.Context(command, CONTEXT, info_name=name, terminal_width=80)
    said = command.get_help(context)
    assert [line for line in said.splitlines() if len(line) > 80] == []


def test_services_come_last_in_the_list_of_commands() -> None:
    """Few users start a worker or a proxy."""
    assert list(cli.list_commands(CONTEXT))[-2:] == ["worker", "proxy"]


def test_help_names_every_workload() -> None:
    """As they lie in ``studies/workloads``."""
    said = GROUPED["optimize"].get_help(click.Context(GROUPED["optimize"]))
    listed = (
        " ".join(said.split())
        .replace("- ", "-")
        .partition("a YAML file, or ")[2]
        .partition(" [")[0]
    )
    shipped = (data_dir("studies") / "workloads").glob("*.yaml")
    assert set(listed.split(", ")) == {file.stem for file in shipped}
