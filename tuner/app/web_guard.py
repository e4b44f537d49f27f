"""Access to the metrics of a study and to the dashboard over HTTP.

On the loopback address every user of the machine may. A web page could still reach it by DNS
rebinding, so the Host header must be an address or the listener's own name. On any other address a
request needs a token too.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import re
import secrets
from dataclasses import dataclass

from tuner.errors import DefinitionError

TOKEN_VARIABLE = "TUNER_TOKEN"  # noqa: S105 - a name
_BEARER = "Bearer "
_USABLE = re.compile(r"[A-Za-z0-9._~-]{16,}")
"""Characters that need no escape in a URL, a header and a cookie (RFC 3986, 2.3)."""


@dataclass(frozen=True, slots=True)
class ServiceToken:
    """The token that requests must have."""

    text: str
    given: bool
    """True if the user's environment has it, so that nothing prints it."""

    def is_in(self, authorization: str) -> bool:
        """Return whether an Authorization header has the token (RFC 6750, 2.1)."""
        return authorization.startswith(_BEARER) and self.equals(
            authorization.removeprefix(_BEARER)
        )

    def equals(self, text: str) -> bool:
        """Return whether a text is the token, in constant time."""
        return hmac.compare_digest(text.encode(), self.text.encode())

    def words(self) -> str:
        """Return how a client sends it: the token itself only if tuner made it."""
        value = f"${TOKEN_VARIABLE}" if self.given else self.text
        return f"Authorization: {_BEARER}{value}"


def token_for(host: str, option: str) -> ServiceToken | None:
    """Return the token of a listener: none on loopback, otherwise that of TUNER_TOKEN or a new one.

    Args:
        host: address or name to listen on.
        option: the option that names it, for the error.

    Raises:
        DefinitionError: the variable's value is too short or has other characters.
    """
    if is_loopback(host):
        return None
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return ServiceToken(secrets.token_urlsafe(24), given=False)
    if not _USABLE.fullmatch(given):
        raise DefinitionError(
            f"{TOKEN_VARIABLE} must have at least 16 characters; letters, digits, and . _ ~ - are"
            " allowed",
            path=option,
        )
    return ServiceToken(given, given=True)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address. Another name than localhost may not."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def names_listener(header: str, host: str) -> bool:
    """Return whether a Host header is an address, ``localhost`` or the listener's own name."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    name = name.removeprefix("[").removesuffix("]").lower()
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return name in {"localhost", host.lower()}
