"""Files of logs: packed in either way, and the formats of a configuration."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from tuner.app.log_files import log_lines
from tuner.app.log_formats import configured_formats
from tuner.errors import DefinitionError

TEXT = b"one\r\ntwo \xc3\xa9 \xff\n" + b"x" * 300_000 + b"\nlast"


def packed(folder: Path, how: str) -> Path:
    """Return a log with this content, packed or not."""
    path = folder / f"access.{how}"
    if how == "zst":
        done = subprocess.run(("zstd", "-q", "-c"), input=TEXT, capture_output=True, check=True)
        path.write_bytes(done.stdout)
    else:
        path.write_bytes(gzip.compress(TEXT) if how == "gz" else TEXT)
    return path


@pytest.mark.parametrize("how", ["log", "gz", "zst"])
def test_lines_are_the_same_packed_or_not(tmp_path: Path, how: str) -> None:
    """Numbered; bytes that are not UTF-8 are replaced, and the last line needs no line feed."""
    lines = list(log_lines(packed(tmp_path, how), None))
    assert [number for number, _ in lines] == [1, 2, 3, 4]
    assert [lines[at][1] for at in (0, 1, 3)] == ["one", "two é \ufffd", "last"]
    assert set(lines[2][1]) == {"x"}
    assert len(lines[2][1]) <= 1 << 19


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_a_packed_file_that_ends_early_is_an_error(tmp_path: Path, how: str) -> None:
    """Half a log would be another workload."""
    path = packed(tmp_path, how)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DefinitionError, match="cannot be read: "):
        list(log_lines(path, None))


def test_without_a_program_zstandard_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the way out."""
    path = packed(tmp_path, "zst")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DefinitionError, match="apt install zstd"):
        list(log_lines(path, None))


CONFIGURATION = """
events {}
http {
    log_format short '$remote_addr [$time_local] "$request" $status';
    log_format long escape=json '{"t":"$msec","r":"$request","s":"$status",'
                                '"b":"$body_bytes_sent","u":"$upstream_response_time"}';
    include sites/*.conf;
}
"""


def test_formats_of_a_configuration_come_with_its_includes(tmp_path: Path) -> None:
    """The log's own format first, by the name of its file before rotation."""
    (tmp_path / "sites").mkdir()
    (tmp_path / "nginx.conf").write_text(CONFIGURATION)
    site = "server { listen 80; access_log /var/log/nginx/shop.log short; }"
    (tmp_path / "sites" / "shop.conf").write_text(site)
    formats = configured_formats(tmp_path / "nginx.conf", Path("/old/shop.log.2.gz"))
    assert [one.name for one in formats] == ["log_format short", "log_format long"]
    formats = configured_formats(tmp_path / "nginx.conf", Path("other.log"))
    assert [(one.name, one.json_escaped) for one in formats] == [
        ("log_format long", True),
        ("log_format short", False),
    ]


def test_a_caddyfile_has_no_formats(tmp_path: Path) -> None:
    """Caddy's own formats need no definition, and the message says so."""
    with pytest.raises(DefinitionError, match="leave out --config"):
        configured_formats(tmp_path / "Caddyfile", Path("access.log"))
