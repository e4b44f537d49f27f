"""The configuration that a study recommends, as files with provenance.

A pure function of the study's result. Unless the verdict is *better*, the recommendation is the
baseline: a configuration that is not shown to be better is exported only on request. After an
ablation it holds only the changes that keep the gain (``tuner.judge.recommendation``).
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.errors import DefinitionError
from tuner.judge.results import StudyResult
from tuner.judge.taken_apart import ablation_sentence, left_out_sentence
from tuner.reading.printable import comment_line
from tuner.record.model import ConfigurationRecord
from tuner.space.kernel import SYSCTL_FILE, sysctl_file
from tuner.space.space import configuration_yaml

VALUES_NAME = "configuration.yaml"
PATCH_NAME = "own.patch"


def export_files(
    study: StudyResult, *, candidate: bool = False, minimal: bool = False
) -> dict[str, str]:
    """Return files by name: the server's own configuration, and the values for ``--baseline``.

    Args:
        study: the result.
        candidate: whether to export the tuned configuration with all its changes, better or not.
        minimal: whether to export the smallest difference that keeps the gain, or nothing.

    Returns:
        Empty if the record holds no configuration.

    Raises:
        DefinitionError: no smaller difference is shown to keep the gain.
    """
    chosen = choose(study, candidate=candidate, minimal=minimal)
    if chosen is None:
        return {}
    lines = provenance(study, chosen)
    # JSON has no comments; the values' file has the provenance of both.
    head = "" if chosen.file_name.endswith(".json") else comment(lines)
    files = {
        chosen.file_name: head + chosen.text,
        **chosen.more,
        VALUES_NAME: configuration_yaml(chosen.configuration, lines),
    }
    found = study.record.configurations.get(study.record.baseline)
    kernel = sysctl_file(chosen.kernel, found.kernel if found else {}, lines)
    return {**files, SYSCTL_FILE: kernel} if kernel else files


def choose(
    study: StudyResult, *, candidate: bool = False, minimal: bool = False
) -> ConfigurationRecord | None:
    """Choose the configuration to export, by the rules of ``export_files``.

    Returns:
        None if it is not in the record.
    """
    digest = study.recommended
    if minimal:
        digest = _minimal(study)
    elif candidate and study.candidate:
        digest = study.candidate
    return study.record.configurations.get(digest)


def archived(study: StudyResult) -> dict[str, bool]:
    """Return the folders of an archive's configurations, each with ``candidate`` of `choose`.

    The tuned configuration is the one of the claim. What an ablation recommends instead has a
    folder of its own, called as in the folder of the study.
    """
    if study.candidate is None:
        return {"baseline": False}
    smaller = study.has_recommendation and study.recommended != study.candidate
    return {"tuned": True, **({"best": False} if smaller else {})}


def comment(lines: Sequence[str]) -> str:
    """Return lines as comments in the style of most configuration languages."""
    return "".join(f"{comment_line(line)}\n" for line in lines)


def _minimal(study: StudyResult) -> str:
    if study.ablation is None:
        raise DefinitionError(
            f"the winner was not taken apart; run: tuner ablate {study.record.name}",
            path="--minimal",
        )
    if study.ablation.minimal is None:
        raise DefinitionError(ablation_sentence(study), path="--minimal")
    return study.ablation.minimal


def provenance(study: StudyResult, chosen: ConfigurationRecord) -> list[str]:
    """Return the provenance of a configuration: study, hash, verdict."""
    record = study.record
    protocol = f", protocol {record.protocol.digest}" if record.protocol else ""
    roles = {
        record.baseline: "the baseline itself",
        study.candidate: "the tuned configuration",
    }
    role = roles.get(chosen.digest, "the smallest difference that keeps the gain")
    why = [ablation_sentence(study), left_out_sentence(study)] if chosen.digest not in roles else []
    return [
        (
            f"From tuner {record.tuner_version}, study {record.name}{protocol}:"
            f" {role}, configuration {chosen.digest}."
        ),
        study.sentence,
        *why,
        (
            f"Holds for {record.server.words}, this workload, rate and host;"
            " measure again elsewhere. Paths, ports and the user are examples: fit them to yours."
        ),
    ]
