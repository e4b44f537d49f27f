"""Texts that are kept beside the tests."""

from __future__ import annotations

import os
from pathlib import Path


def check_golden(file: Path, text: str) -> None:
    """Compare a text with the kept one; ACCEPT_GOLDEN=1 writes it anew."""
    if os.environ.get("ACCEPT_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), (
        f"{file.name} differs; look at it, then accept it with ACCEPT_GOLDEN=1"
    )
