"""The lab's own certificate, as a client sees it."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from tuner.servers.certificate import Certificate, make_certificate


@pytest.fixture(scope="module")
def made() -> Certificate:
    """One for a name of its own."""
    return make_certificate("shop.test")


def shake(made: Certificate, folder: Path, name: str, trusted: str) -> None:
    """One handshake with a client that asks for a name and trusts an authority."""
    (folder / "cert.pem").write_text(made.chain)
    (folder / "key.pem").write_text(made.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(there, server_side=True).close()
        except OSError:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client = ssl.create_default_context(cadata=trusted)
        client.wrap_socket(here, server_hostname=name).close()
    finally:
        here.close()
        thread.join()


@pytest.mark.parametrize("name", ["shop.test", "localhost", "127.0.0.1"])
def test_a_client_that_trusts_the_lab_accepts_it(
    made: Certificate, tmp_path: Path, name: str
) -> None:
    """By its name, and on the loopback."""
    shake(made, tmp_path, name, made.ca)


def test_no_other_name_and_no_other_authority(made: Certificate, tmp_path: Path) -> None:
    """Verification is real, so a workload's ``verify`` means something."""
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake(made, tmp_path, "other.test", made.ca)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(made, tmp_path, "shop.test", make_certificate().ca)
