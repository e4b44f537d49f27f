"""The lines of a haproxy.cfg that are carried over into the lab."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.own.haproxies import SHORT
from tuner.own.haproxy.lab import HaproxyLabSlot, carry
from tuner.own.haproxy.serving import serving
from tuner.own.haproxy.tree import LineEdit, edited, parse

SLOT = HaproxyLabSlot(
    address="127.0.0.1:18080",
    backends=("127.0.0.1:1", "127.0.0.1:2"),
    tls_dir="",
    protocol="http1",
    live_path="/.tuner/live",
    token="abc",  # noqa: S106 - the digest of a configuration
    readable=lambda path: path != "/root/503.http",
)
LISTEN = SHORT + "listen web\n    bind :80\n"


def carried(more: str, slot: HaproxyLabSlot = SLOT, text: str = LISTEN) -> list[str]:
    """Return the lab's lines from ``listen`` on, and the notes."""
    found = serving(parse(f"{text}{more}", "haproxy.cfg"), tls=bool(slot.tls_dir), proxied=True)
    made = carry(found, slot)
    rows = [row.strip() for row in made.text.splitlines()]
    assert len(rows) == len(made.lines)
    return rows[rows.index("listen web") + 1 :] + list(made.notes)


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("server a 10.0.0.1:80 check inter 2s weight 3", ["server a 127.0.0.1:1 weight 3"]),
        ("server-template a 3 x.test:80 maxconn 9", ["server a1 127.0.0.1:1 maxconn 9"]),
        ("default-server check maxconn 9", ["default-server maxconn 9"]),
        ("default-server check", []),
        ('server a b:1 maxconn "${MOST}"', ['server a 127.0.0.1:1 maxconn "${MOST}"']),
        ("stick-table type ip size 1k peers mine expire 9s", ["stick-table type ip size"]),
        ('http-request set-header X "${A} \'b\'"  # as ever',
         ['http-request set-header X "${A} \'b\'"  # as ever']),
        ("errorfile 503 /etc/503.http", ["errorfile 503 /etc/503.http"]),
        ("errorfile 503 /root/503.http",
         ["haproxy.cfg:8: errorfile is not carried over: /root/503.http cannot be read"]),
        ("log-format %r", []),
        ("option httplog", []),
        ("log 10.0.0.9 local0", ["log fd@4"]),
    ],
)  # fmt: skip
def test_a_line_in_the_lab(line: str, rows: list[str]) -> None:
    """Servers are the lab's backend; what belongs to the host is left out."""
    passing = "    server z c:1\n" if not line.startswith("server") else ""
    made = carried(f"    {line}\n{passing}")
    plain = [row for row in carried(passing or "    server a c:1\n") if "server" not in row]
    new = [row for row in made if row not in plain and not row.startswith("server z")]
    assert len(new) == len(rows), new
    assert all(row.startswith(start) for row, start in zip(new, rows, strict=True)), new


def test_servers_take_the_labs_backends_in_turn() -> None:
    """And stay the user's where that is wanted."""
    three = "".join(f"    server s{n} 10.0.0.{n}:80\n" for n in (1, 2, 3))
    rows = [row for row in carried(three) if row.startswith("server")]
    assert [row.rpartition(":")[2] for row in rows] == ["1", "2", "1"]
    kept = carried(three, replace(SLOT, backends=()))
    assert "server s3 10.0.0.3:80" in kept


def test_the_lab_has_its_own_certificate_and_proof() -> None:
    """The options of the address say how it is served; those of the host are left out."""
    text = LISTEN.replace(":80", ":443 ssl crt /etc/a.pem alpn h2 interface eth0 accept-proxy")
    rows = carried("    server s c:1\n", replace(SLOT, tls_dir="/lab/tls"), text)
    assert rows[0] == "bind 127.0.0.1:18080 ssl alpn h2 crt /lab/tls/site.pem"
    assert any("string abc if '{' path /.tuner/live '}'" in row for row in rows)
    assert any("bind accept-proxy is not carried over" in row for row in rows)


@pytest.mark.parametrize(
    ("text", "edit", "after"),
    [
        ("a\nb", LineEdit(2, "c"), "a\nc\n"),
        ("a\r\nb\r\n", LineEdit(1, "c"), "c\r\nb\r\n"),
        ("a\nb\n", LineEdit(1, ""), "b\n"),
        ("a\nb", LineEdit(2, "c", follows=True), "a\nb\nc\n"),
        ("a\n", LineEdit(0, "c", follows=True), "c\na\n"),
        ("a\x0bb\nc\n", LineEdit(2, "d"), "a\x0bb\nd\n"),
    ],
)
def test_an_edit_changes_its_line_alone(text: str, edit: LineEdit, after: str) -> None:
    """Ends of lines stay as they are; only a line feed ends one."""
    assert edited(text, [edit]) == after
