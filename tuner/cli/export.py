"""``tuner export``: write the configuration that a study recommends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from tuner.app import results
from tuner.app.results import write_files
from tuner.app.session import open_store
from tuner.app.writing import writing
from tuner.cli import complete, options
from tuner.errors import DefinitionError
from tuner.export import PATCH_NAME, export_files
from tuner.judge.results import StudyResult, evaluate
from tuner.paths import STUDIES
from tuner.words.terminal import say_data

_EPILOG = """
\b
Examples:
  tuner export quickstart
  tuner export quickstart --output /tmp/nginx
  tuner export quickstart --candidate
  tuner export quickstart --format role --output roles
  tuner export quickstart --format compose --output lab
  tuner export quickstart --results studies/results/quickstart
  tuner export https-proxy-500 --results studies/results/https-proxy-500
  tuner export mine --diff | patch -p0 -d /etc/nginx
"""
_FORMATS = {
    "config": "",
    "ansible": "ansible",
    "role": "role",
    "compose": "compose",
}
"""Export formats, and the folder of each below the study's; empty: ``_folder``."""


@click.command(epilog=_EPILOG)
@click.argument("name", shell_complete=complete.studies)
@options.storage
@click.option(
    "--output",
    metavar="FOLDER",
    type=Path,
    help="Write to FOLDER [a folder in studies/NAME/].",
    shell_complete=complete.folders,
)
@click.option(
    "--candidate",
    is_flag=True,
    help="Write the tuned configuration with all its changes, even if its verdict is not better.",
)
@click.option("--diff", is_flag=True, help="Print the patch of your own files and write nothing.")
@click.option(
    "--minimal",
    is_flag=True,
    help="Write the changes that an ablation found to be needed, and fail without an ablation.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(_FORMATS)),
    default="config",
    help="Write the server's file, Ansible variables, a role, or Docker Compose [config].",
)
@click.option(
    "--results",
    "kept",
    metavar="FOLDER",
    type=Path,
    help="Archive report.md, charts, configurations and a small record in FOLDER; below a folder"
    " results/, its README.md lists them.",
    shell_complete=complete.folders,
)
def command(
    name: str,
    *,
    storage: str | None,
    output: Path | None,
    candidate: bool,
    diff: bool,
    minimal: bool,
    kind: str,
    kept: Path | None,
) -> None:
    """Write the configuration that the study NAME recommends.

    Recommends the tuned configuration if the verdict is "better", and the baseline otherwise. After
    an ablation, recommends the smallest difference that keeps the gain. Writes to the folder best,
    or to baseline, candidate or minimal. Every format names its origin: study, hash, verdict.
    """
    if storage is None and results.is_run(STUDIES / name, name):
        _export_run(name, output, kept)
        return
    study = evaluate(open_store(name, storage, writing=False).record())
    if diff:
        patch = export_files(study, candidate=candidate, minimal=minimal).get(PATCH_NAME)
        if patch is None:
            click.echo(_without_patch(study), nl=False, err=True)
        else:
            say_data(patch)
        return
    if kept is not None:
        from tuner.export.results import write_results

        with writing(kept):
            written = _listed(write_results([study], kept), kept)
        _print(written)
        return
    own = _FORMATS[kind] or _folder(study, candidate=candidate, minimal=minimal)
    files = _maker(kind)(study, candidate=candidate, minimal=minimal)
    _write(files, output, name, own)


def _folder(study: StudyResult, *, candidate: bool, minimal: bool) -> str:
    """Return the folder for a configuration, which says what it is."""
    if minimal:
        return "minimal"
    if candidate and study.candidate not in {None, study.recommended}:
        return "candidate"
    return "best" if study.has_recommendation else "baseline"


def _export_run(name: str, output: Path | None, kept: Path | None) -> None:
    """Write the configurations of a run, or its results with ``--results``."""
    from tuner.export.results import write_results
    from tuner.export.run import run_files

    found = [evaluate(record) for record in results.read_run(STUDIES / name)]
    if not found:
        raise DefinitionError(
            f"{name!r} was interrupted before its first comparison ended", path="NAME"
        )
    if kept is not None:
        with writing(kept):
            written = _listed(write_results(found, kept), kept)
        _print(written)
        return
    _write(run_files(results.contests_of(found)), output, name, "configurations")


def _write(files: Mapping[str, str | bytes], output: Path | None, name: str, own: str) -> None:
    """Write files to ``output`` or to the study's subfolder ``own``, and print their paths."""
    if output is None:
        # Names start at the study's folder, so that no link below it can lead elsewhere.
        written = write_files(STUDIES / name, {f"{own}/{file}": files[file] for file in files})
    else:
        written = write_files(output, files)
    for path in written:
        click.echo(path)


def _listed(written: list[Path], kept: Path) -> list[Path]:
    """Update the index of a folder called results, and return all written paths."""
    from tuner.export.index import write_index

    index = write_index(kept.parent) if kept.parent.name == "results" else None
    return [*written, *([index] if index else [])]


def _print(paths: list[Path]) -> None:
    for path in paths:
        click.echo(path)


def _maker(kind: str) -> Callable[..., Mapping[str, str | bytes]]:
    makers: dict[str, Callable[..., Mapping[str, str | bytes]]] = {
        "config": export_files,
        "ansible": _variables,
        "role": _role,
        "compose": _compose,
    }
    return makers[kind]


def _variables(study: StudyResult, **chosen: bool) -> Mapping[str, str | bytes]:
    from tuner.export.ansible import variables

    return variables(study, **chosen)


def _role(study: StudyResult, **chosen: bool) -> Mapping[str, str | bytes]:
    from tuner.export.ansible import role

    return role(study, **chosen)


def _compose(study: StudyResult, **chosen: bool) -> Mapping[str, str | bytes]:
    from tuner.export.compose import compose

    return compose(study, **chosen)


def _without_patch(study: StudyResult) -> str:
    if not study.record.definition.get("config"):
        raise DefinitionError(
            "the study did not tune your own configuration (--config), so there is no patch",
            path="--diff",
        )
    return "no changes: the recommendation is your configuration\n"
