"""``tuner workload``: from a log to a workload, checked and shown."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tuner
from tests.reading.test_access_log import line
from tuner.workload.arrivals import Profile
from tuner.workload.workload import load_workload

LOG = "\n".join(
    [line("GET", "/", second=n % 3) for n in range(8)] + ["not a request", line("GET", "/a.js")]
)


def test_a_log_becomes_a_workload_that_a_study_reads(tuner: Tuner) -> None:
    """Standard error summarises the log and names unreadable lines by their number."""
    Path("access.log").write_text(LOG)
    done = tuner("workload", "from-log", "access.log", "--output", "shop.yaml")
    assert (done.code, done.out) == (0, "")
    assert "9 requests, 4.5/s on average, at most 4 in one second" in done.err
    assert "access.log:9: not in a known format" in done.err
    assert [r.path for r in load_workload("shop.yaml").requests] == ["/", "/a.js"]
    checked = tuner("workload", "check", "shop.yaml")
    assert (checked.code, checked.out) == (0, "ok: access, 2 requests, http/1.1, cleartext\n")


def test_packed_logs_are_read_and_several_are_one(tuner: Tuner) -> None:
    """Without --output the YAML is standard output."""
    Path("access.log").write_text(LOG)
    Path("access.log.1.gz").write_bytes(gzip.compress(LOG.encode()))
    done = tuner("workload", "from-log", "access.log.1.gz", "access.log", "--quiet")
    assert done.code == 0
    assert '{path: "/", weight: 16}' in done.out


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"


@pytest.mark.parametrize("serve", ["site", "backend"])
def test_secrets_of_a_log_are_not_in_what_is_made_of_it(tuner: Tuner, serve: str) -> None:
    """They are counted by kind, the lab answers what they became, and nobody else may read it."""
    uuid = "123e4567-e89b-12d3-a456-426614174000"
    targets = [
        f"/reset/{JWT}",
        f"/u/{uuid}/cart",
        f"/x.css?session={JWT}&q=blue",
        "/u/a%40b.org",
    ]
    Path("access.log").write_text(
        "\n".join([line("GET", target) for target in targets] + [f"not a request {JWT}"])
    )
    Path("shop.yaml").touch(0o644)
    done = tuner(
        *("workload", "from-log", "access.log", "--output", "shop.yaml", "--as", serve),
        *("--instants", "shop.instants"),
    )
    assert done.code == 0
    assert (
        "redacted  2 values of queries, 1 JSON Web Tokens, 1 UUIDs, 1 e-mail addresses" in done.err
    )
    made = Path("shop.yaml").read_text()
    for secret in (JWT, JWT[:20], uuid, "a@b", "a%40b", "blue"):
        assert secret not in made + done.err
    workload = load_workload("shop.yaml")
    paths = {"/reset/JWT", "/u/UUID/cart", "/x.css?session=&q=", "/u/EMAIL"}
    assert {request.path for request in workload.requests} == paths
    if serve == "site":
        assert {file.path for file in workload.site} == {path.partition("?")[0] for path in paths}
    for name in ("shop.yaml", "shop.instants"):
        assert Path(name).stat().st_mode & 0o777 == 0o600


def test_a_format_is_given_or_read_from_a_configuration(tuner: Tuner) -> None:
    """Both read lines that are not recognised, and the summary names the format."""
    Path("access.log").write_text("192.0.2.7|1760097336|GET /a HTTP/2.0|200|500\n" * 3)
    of = "$remote_addr|$msec|$request|$status|$body_bytes_sent"
    Path("nginx.conf").write_text(
        f"events {{}} http {{ log_format mine '{of}'; access_log /x/access.log mine; }}"
    )
    given = tuner("workload", "from-log", "access.log", "--format", of)
    read = tuner("workload", "from-log", "access.log", "--config", "nginx.conf")
    assert (given.code, read.code) == (0, 0)
    assert given.out == read.out
    assert "format    --format" in given.err
    assert "format    log_format mine" in read.err
    both = tuner("workload", "from-log", "access.log", "--config", "nginx.conf", "--format", of)
    assert both.code == 2
    assert "leave one out" in both.err


def test_a_refusal_shows_the_line_without_its_secrets(tuner: Tuner) -> None:
    """The refusal lists the fields that were read and the options that define a format."""
    Path("access.log").write_text(f"10/Oct/2025:13:55:36 GET /a?q=blue {JWT}\n")
    done = tuner("workload", "from-log", "access.log")
    assert done.code == 2
    assert "    10/Oct/2025:13:55:36 GET /a?q= JWT" in done.err
    assert "understood: a time 10/Oct/2025:13:55:36, a method GET" in done.err
    assert "--config /etc/nginx/nginx.conf" in done.err
    assert JWT not in done.err


def test_values_of_queries_are_kept_if_asked_for(tuner: Tuner) -> None:
    """But for what looks like a secret."""
    Path("access.log").write_text(line("GET", f"/x.css?v=12&session={JWT}"))
    done = tuner("workload", "from-log", "access.log", "--keep-query")
    assert '"/x.css?v=12&session=JWT"' in done.out


def test_instants_can_be_replayed(tuner: Tuner) -> None:
    """Instants ascend, spread within the seconds that the log gives."""
    Path("access.log").write_text(LOG)
    done = tuner(
        *("workload", "from-log", "access.log", "--output", "shop.yaml"),
        *("--instants", "shop.instants"),
    )
    assert done.code == 0
    instants = [float(text) for text in Path("shop.instants").read_text().splitlines()]
    assert len(instants) == 9
    assert instants == sorted(instants)
    shown = tuner("workload", "show", "shop.yaml")
    assert "as recorded" in shown.out


def test_arrivals_are_fitted_and_drawn(tuner: Tuner) -> None:
    """The rates of the log become a profile, and a picture shows both."""
    burst = [line("GET", "/", second=n % 60) for n in range(300)]
    burst += [line("GET", "/", second=n % 6) for n in range(600)]
    Path("access.log").write_text("\n".join(burst))
    done = tuner(
        *("workload", "from-log", "access.log", "--output", "shop.yaml"),
        *("--arrival", "fitted", "--plot", "arrivals.svg"),
    )
    assert done.code == 0
    assert "times that of independent arrivals" in done.err
    arrival = load_workload("shop.yaml").arrival
    assert isinstance(arrival, Profile)
    assert max(step.start for step in arrival.steps) > 10 * min(s.start for s in arrival.steps)
    picture = Path("arrivals.svg").read_text()
    assert "requests in a second" in picture
    assert "workload" in picture
    assert Path("arrivals.svg").stat().st_mode & 0o777 == 0o600
    wrong = tuner("workload", "from-log", "access.log", "--plot", "arrivals.pdf")
    assert wrong.code == 2
    assert "neither .svg nor .png" in wrong.err


def test_a_workload_is_shown_with_shares_and_right_answers(tuner: Tuner) -> None:
    """For people, and as JSON."""
    shown = tuner("workload", "show", "https")
    assert "h2 over TLS, 8 streams on each connection" in shown.out
    assert "100.00%  GET     200, 1,024 B, hash" in shown.out
    data = json.loads(tuner("workload", "show", "https", "--json").out)
    assert (data["protocol"], data["tls"], data["streams"]) == ("http2", True, 8)
    assert data["requests"][0]["share"] == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 of 0 lines are not requests: no lines"),
        (b"a\nb\n", "2 of 2 lines are not requests: access.log:1: not in a known format"),
        (line("GET", "/x", 500).encode(), "the lab can serve none of its requests (statuses"),
    ],
)
def test_a_log_without_anything_to_ask_is_refused(tuner: Tuner, content: bytes, words: str) -> None:
    """Exit code 2, and why."""
    Path("access.log").write_bytes(content)
    done = tuner("workload", "from-log", "access.log")
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("from-log", "missing.log"), "missing.log: cannot be read: No such file"),
        (("from-log", "broken.gz"), "broken.gz: cannot be read: "),
        (("check", "wrong.yaml"), "wrong.yaml:2: "),
        (("show", "nothing"), "there is no workload 'nothing'"),
    ],
)
def test_what_cannot_be_read_is_said(tuner: Tuner, arguments: tuple[str, ...], words: str) -> None:
    """With file and line."""
    Path("broken.gz").write_bytes(gzip.compress(LOG.encode())[:-12])
    Path("wrong.yaml").write_text("workload: x\nsite: {}\nrequests: []\n")
    done = tuner("workload", *arguments)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
