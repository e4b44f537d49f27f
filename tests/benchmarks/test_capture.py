"""Captures: which packets belong to which request, and what is refused."""

from __future__ import annotations

import struct

import pytest

from benchmarks.capture import exchanges

SERVER = 8080
NS, US = 0xA1B23C4D, 0xA1B2C3D4
SECOND = 1_000_000_000


def packet(source: int, destination: int, payload: int, *, options: int = 12) -> bytes:
    """An Ethernet frame with IPv4 and TCP headers, its payload cut off as a short snap does."""
    tcp_header = 20 + options
    total = 20 + tcp_header + payload
    ip = struct.pack(">BBHHHBBH8x", 0x45, 0, total, 0, 0, 64, 6, 0)
    tcp = struct.pack(">HHIIBBHHH", source, destination, 0, 0, tcp_header // 4 << 4, 0, 0, 0, 0)
    return bytes(12) + b"\x08\x00" + ip + tcp + bytes(options)


def savefile(
    *packets: tuple[int, bytes], magic: int = NS, order: str = "<", link: int = 1
) -> bytes:
    """Return a capture of frames at instants in ns."""
    tick_ns = 1 if magic == NS else 1_000
    text = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 96, link)
    for at_ns, frame in packets:
        seconds, rest_ns = divmod(at_ns, SECOND)
        text += struct.pack(order + "IIII", seconds, rest_ns // tick_ns, len(frame), len(frame))
        text += frame
    return text


def ask(client: int, at_ns: int) -> tuple[int, bytes]:
    """Return a request's packet."""
    return at_ns, packet(client, SERVER, 60)


def answer(client: int, at_ns: int) -> tuple[int, bytes]:
    """Return a response's packet."""
    return at_ns, packet(SERVER, client, 1_200)


def test_a_response_ends_with_its_last_packet_before_the_next_request() -> None:
    """A response in two packets ends with the second; the next request begins anew."""
    found = exchanges(
        savefile(
            ask(5000, 0), answer(5000, 30), answer(5000, 45), ask(5000, 100), answer(5000, 120)
        ),
        SERVER,
    )
    assert found.sent_unix_ns.tolist() == [0, 100]
    assert found.took_ns.tolist() == [45, 20]


def test_connections_are_separated_by_the_client_s_port() -> None:
    """Requests that overlap get the responses of their own connections, in the order of sending."""
    found = exchanges(
        savefile(ask(5000, 0), ask(5001, 10), answer(5001, 25), answer(5000, 70)), SERVER
    )
    assert found.took_ns.tolist() == [70, 15]


def test_acknowledgements_and_strangers_do_not_count() -> None:
    """Packets without payload, of other ports and of other protocols leave the figures alone."""
    arp = bytes(12) + b"\x08\x06" + bytes(46)
    found = exchanges(
        savefile(
            (0, packet(5000, SERVER, 0)),
            ask(5000, 10),
            (12, packet(SERVER, 5000, 0)),
            (14, packet(7000, 9000, 500)),
            (16, arp),
            answer(5000, 40),
            (41, packet(5000, SERVER, 0, options=0)),
        ),
        SERVER,
    )
    assert found.sent_unix_ns.tolist() == [10]
    assert found.took_ns.tolist() == [30]


def test_a_request_without_an_answer_is_left_out() -> None:
    """A request without an answer at the end of the capture has no duration."""
    assert not len(exchanges(savefile(ask(5000, 0)), SERVER).took_ns)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [NS, US])
def test_both_byte_orders_and_resolutions_are_read(order: str, magic: int) -> None:
    """The magic number says which of the four forms the file has."""
    at_ns = 1_700_000_000 * SECOND
    text = savefile(
        ask(5000, at_ns + 2_000), answer(5000, at_ns + 50_000), magic=magic, order=order
    )
    found = exchanges(text, SERVER)
    assert found.sent_unix_ns.tolist() == [at_ns + 2_000]
    assert found.took_ns.tolist() == [48_000]


def test_a_capture_that_was_cut_short_is_read_as_far_as_it_goes() -> None:
    """A packet that is not whole is not guessed at."""
    text = savefile(ask(5000, 0), answer(5000, 30), ask(5000, 50), answer(5000, 90))
    assert exchanges(text[:-10], SERVER).took_ns.tolist() == [30]


def test_a_window_takes_the_requests_sent_in_it() -> None:
    """The start belongs to a window, the end to the next."""
    found = exchanges(
        savefile(
            *(p for at in (9, 10, 19, 20) for p in (ask(at, at * SECOND), answer(at, 99 * SECOND)))
        ),
        SERVER,
    )
    assert found.between(10.0, 10.0).sent_unix_ns.tolist() == [10 * SECOND, 19 * SECOND]


@pytest.mark.parametrize("text", [b"", b"GET / HTTP/1.1\r\n" * 3, savefile(link=113)])
def test_other_files_are_refused(text: bytes) -> None:
    """No figure is made of what is not such a capture."""
    with pytest.raises(ValueError, match=r"capture|link type"):
        exchanges(text, SERVER)
