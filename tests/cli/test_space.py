"""``tuner space``: what is bound here, a sound space and a wrong one, and single parameters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.hosts.nginxes import NGINX, needs_nginx
from tuner.cli.space import command
from tuner.errors import DefinitionError

pytestmark = needs_nginx if NGINX else [pytest.mark.skip(reason="no nginx on this machine")]

MINE = """\
space: nginx/mine
server: nginx
template: nginx/static
parameters:
  worker_processes: {type: integer, range: [1, 4], default: 1}
  worker_connections: {type: integer, range: [512, 4096], default: 512}
"""


def run(*arguments: str) -> Result:
    """Return the command; errors meant for the user come back as ``exception``."""
    return CliRunner().invoke(command, arguments)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A small space of a user's own."""
    path = tmp_path / "mine.yaml"
    path.write_text(MINE, encoding="utf-8")
    return path


def test_what_is_bound_here_is_shown() -> None:
    """Ranges and baselines, and what the workload makes pointless, with the reason."""
    text = run("show", "nginx/static").output
    assert re.search(r"sendfile_max_chunk +yes +128k to 8m bytes, or 0 +2m +2m", text)
    assert re.search(r"worker_connections +no: at least 128", text)
    assert re.search(r"http2_chunk_size +is for http2; the workload is http1, cleartext", text)


def test_a_narrow_terminal_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lines for each parameter where the table is too wide; reasons are broken."""
    monkeypatch.setattr("tuner.cli.space.output_width", lambda: 79)
    text = run("show", "nginx/static").output
    assert max(map(len, text.splitlines())) <= 79
    assert "sendfile_max_chunk: yes\n    128k to 8m bytes, or 0; stock 2m, distro 2m" in text
    assert "is for http2; the workload is http1, cleartext" in text


def test_the_same_for_programs() -> None:
    """Under HTTPS, as if a newer version were here."""
    done = run("show", "nginx/static", "--workload", "https", "--assume", "1.29.7", "--json")
    shown = json.loads(done.output)
    by_name = {parameter["name"]: parameter for parameter in shown["parameters"]}
    assert by_name["ssl_buffer_size"]["range"] == [4096, 16384]
    assert by_name["worker_processes"]["apply"] == "restart"
    assert shown["server"]["version"] == "1.29.7"
    assert "http3_stream_buffer_size" in shown["unused"]


def test_parameters_without_effect_for_one_reason_share_a_line() -> None:
    """Those of protocols that only a configuration of one's own speaks."""
    lines = run("show", "nginx/proxy").output.splitlines()
    (line,) = (line for line in lines if "uwsgi_buffer_size" in line)
    assert line.startswith("  7 parameters")
    assert "is for upstreams that speak uwsgi; these speak http: uwsgi_buffering, uwsgi" in line


def test_a_parameter_is_explained() -> None:
    """In every space that has it; one that cannot be here with the reason."""
    text = run("explain", "upstream_keepalive_requests").output
    assert "effect     only where upstream_keepalive is not 0" in text
    assert "written    as keepalive_requests" in text
    text = run("explain", "upstream_keepalive_timeout").output
    assert "trades     Longer than a backend keeps a connection itself" in text
    assert "not shown  No connection of the lab is idle for that long" in text
    assert "not here   it is for http3" in run("explain", "quic_gso").output
    text = run("explain", "fastcgi_keep_conn").output
    assert "trades     Each connection that is kept holds a process of PHP-FPM" in text
    assert "not shown  The lab's backend serves any number of connections" in text
    error = run("explain", "sendfil").exception
    assert isinstance(error, DefinitionError)
    assert "did you mean 'sendfile'?" in str(error)


def test_a_sound_space_is_accepted_by_the_server(mine: Path) -> None:
    """Baselines and random configurations, by ``nginx -t``."""
    done = run("check", str(mine), "--samples", "10", "--quiet")
    assert done.exit_code == 0
    assert "10 proposed, 0 refused: 0.0%" in done.output


def test_what_the_server_refuses_is_said_in_its_words(mine: Path, tmp_path: Path) -> None:
    """The share, and exit code 2."""
    mine.write_text(MINE.replace("nginx/static", "bad.conf.j2"), encoding="utf-8")
    (tmp_path / "bad.conf.j2").write_text(
        '{% extends "nginx/static.conf.j2" %}\n'
        "{% block http %}{{ super() }}    wrong {{ p.worker_processes }};\n{% endblock %}\n",
        encoding="utf-8",
    )
    done = run("check", str(mine), "--samples", "3", "--json", "--quiet")
    assert isinstance(done.exception, DefinitionError)
    assert "nginx refuses 3 of 3 proposals and 3 of 3 baselines" in str(done.exception)
    (words,) = json.loads(done.output)["reasons"]
    assert 'unknown directive "wrong"' in words


def test_a_template_that_cannot_be_written_is_no_refusal_of_the_server(
    mine: Path, tmp_path: Path
) -> None:
    """A template that cannot be rendered is a mistake with its line."""
    mine.write_text(MINE.replace("nginx/static", "bad.conf.j2"), encoding="utf-8")
    (tmp_path / "bad.conf.j2").write_text(
        '{% extends "nginx/static.conf.j2" %}\n'
        "{% block http %}{{ super() }}\n    read_ahead {{ text.read_ahed }};\n{% endblock %}\n",
        encoding="utf-8",
    )
    with pytest.raises(DefinitionError, match=r"bad.conf.j2:3: .*{{ text.read_ahed }}"):
        raise run("check", str(mine), "--quiet").exception or AssertionError


def test_a_value_that_reaches_too_far_is_no_refusal_of_the_server(
    mine: Path, tmp_path: Path
) -> None:
    """Nor left to a draw that meets it; the way out is said."""
    mine.write_text(MINE.replace("nginx/static", "far.conf.j2"), encoding="utf-8")
    (tmp_path / "far.conf.j2").write_text(
        '{% extends "nginx/static.conf.j2" %}\n'
        "{% block http %}{{ super() }}\n"
        "{% if p.worker_connections > 4000 %}\n    etag off;\n{% endif %}\n{% endblock %}\n",
        encoding="utf-8",
    )
    with pytest.raises(DefinitionError, match=r"far.conf.j2: etag is never .*--force etag"):
        raise run("check", str(mine), "--samples", "0").exception or AssertionError


def test_a_mistake_is_answered_at_its_line(mine: Path) -> None:
    """Before anything is put to the server."""
    mine.write_text(MINE.replace("[1, 4]", "[4, 1]"), encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"mine.yaml:5: range: the range is empty here"):
        raise run("check", str(mine)).exception or AssertionError
