"""The script that draws the charts of a report: Vega, Vega-Lite and Vega-Embed in one file.

    python -m release.charts NODE_MODULES

Joins the files that these projects publish on npm, from a folder that `npm ci` filled. `make
charts` runs it. The result is in the repository, so that neither a build nor a report needs npm.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from release.components import CHARTS, TOP

SCRIPT = TOP / "tuner" / "report" / "page" / "vega.js"
# In this order: each one defines the global name that the next one uses.
PACKAGES = ("vega", "vega-lite", "vega-embed")


def heads() -> list[str]:
    """Return the comment that precedes each part of the script."""
    wanted = json.loads((CHARTS / "package.json").read_text(encoding="utf-8"))["dependencies"]
    return [f"// {name} {wanted[name]}, see THIRD-PARTY-NOTICES.txt" for name in PACKAGES]


def main(node_modules: Path) -> None:
    """Write the script anew."""
    parts = []
    for name, head in zip(PACKAGES, heads(), strict=True):
        built = (node_modules / name / "build" / f"{name}.min.js").read_text(encoding="utf-8")
        lines = [line for line in built.splitlines() if not line.startswith("//# sourceMappingURL")]
        parts += [head, *lines]
    SCRIPT.write_text("\n".join([*parts, ""]), encoding="utf-8")
    print(f"{SCRIPT.relative_to(TOP)}: {SCRIPT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
