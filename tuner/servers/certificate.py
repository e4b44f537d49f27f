"""A certificate for the instances of a lab, signed by the lab's own authority.

Both are new for every study and last as long as its lab. They use P-256, as most sites do, because
handshakes with RSA would mostly measure RSA.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass

_VALID_DAYS = 30
_NAMES = ("localhost",)
_ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate chain as PEM texts."""

    ca: str
    """Certificate of the authority, which the load generator trusts."""
    chain: str
    """Certificate of the server."""
    key: str


def make_certificate(name: str = "localhost") -> Certificate:
    """Return an authority and its certificate for the name, ``localhost`` and the loopback."""
    # Imported here, because it takes noticeable time that cleartext must not spend.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def begun(subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            # An hour of grace for a target with a slow clock.
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=_VALID_DAYS))
        )

    authority = named("tuner lab")
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = begun(authority, ca_key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    names = [x509.DNSName(entry) for entry in dict.fromkeys((name, *_NAMES))]
    addresses = [x509.IPAddress(ipaddress.ip_address(entry)) for entry in _ADDRESSES]
    leaf = (
        begun(named(name), key.public_key())
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    pem = serialization.Encoding.PEM
    return Certificate(
        ca=ca.sign(ca_key, hashes.SHA256()).public_bytes(pem).decode(),
        chain=leaf.sign(ca_key, hashes.SHA256()).public_bytes(pem).decode(),
        key=key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )
