"""The bill of materials of a wheel: CycloneDX 1.6 in JSON, for `.dist-info/sboms/` (PEP 770)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from release.components import Component

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_NAMESPACE = uuid.UUID("6f7ac1b6-8a35-5b0e-9a4f-3f9f0b6b2f7c")


def write_sbom(
    path: Path, name: str, version: str, groups: Mapping[str, Sequence[Component]]
) -> None:
    """Write the bill of materials of one wheel.

    The same wheel gets the same file, so it has no time, and its serial number follows from it.

    Args:
        path: the file; its folder exists.
        name: the package's name on PyPI.
        version: its version.
        groups: components by the part of the wheel that contains them, such as the generator.
    """
    package = f"pkg:pypi/{name}@{version}"
    document = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": package,
                "name": name,
                "version": version,
                "purl": package,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": [
            {
                "type": "application",
                "bom-ref": part,
                "name": part,
                "version": version,
                "components": [_entry(component) for component in components],
            }
            for part, components in groups.items()
        ],
        "dependencies": [
            {"ref": package, "dependsOn": list(groups)},
            *(
                {"ref": part, "dependsOn": [component.purl for component in components]}
                for part, components in groups.items()
            ),
        ],
    }
    text = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, text)}"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _entry(component: Component) -> dict[str, object]:
    algorithm, digest = component.digest
    return {
        "type": "library",
        "bom-ref": component.purl,
        "name": component.name,
        "version": component.version,
        "purl": component.purl,
        "licenses": [{"expression": component.licence}],
        "hashes": [{"alg": algorithm, "content": digest}],
    }
