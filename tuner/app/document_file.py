"""Documents for other tools, on standard output or in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tuner.app.writing import writing
from tuner.errors import HostError
from tuner.judge.results import evaluate
from tuner.outputs.documents import check_document, render_document
from tuner.outputs.formats import DocumentChoice
from tuner.record.check import reading
from tuner.record.model import Record


def write_document(choice: DocumentChoice, opened: Sequence[tuple[Record, Path]]) -> None:
    """Print a document, or write it to its file.

    Args:
        choice: the document.
        opened: records, each with the folder of its results.

    Raises:
        DefinitionError: an option does not apply to the records.
        HostError: no contest of a run has begun, or the file cannot be written.
        StoreError: a record cannot be read, or lacks what the format needs.
    """
    if not opened:
        raise HostError("no contest of this run has begun; there is nothing to write")
    studies = [evaluate(record) for record, _ in opened]
    check_document(choice, studies)
    with reading(f"the record of {opened[0][0].name!r}"):
        text = render_document(choice, studies, [folder for _, folder in opened])
    if choice.out is None:
        click.echo(text, nl=False)
        return
    with writing(choice.out):
        choice.out.write_text(text, encoding="utf-8")
