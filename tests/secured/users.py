"""Who may log in at a secured broker, and the first words that each mechanism has a client say."""

from __future__ import annotations

import base64
import json
import time
from typing import Final

PASSWORDS: Final = {
    "admin": "admin's secret",
    "shim": "shim's secret",
    "alice": "alice's secret",
    "bob": "bob's secret",
    "carol": "carol's secret",
}
"""For PLAIN and both kinds of SCRAM. `admin` is a super user; the others have the rights that a test gives them."""

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
WITH_PASSWORDS: Final = ("PLAIN", *SCRAM)
MECHANISMS: Final = (*WITH_PASSWORDS, "OAUTHBEARER")


def plain(user: str, password: str | None = None) -> bytes:
    """The one message of PLAIN (RFC 4616)."""
    return f"\0{user}\0{PASSWORDS[user] if password is None else password}".encode()


def unsecured_jwt(user: str, lifetime_s: float = 3600.0) -> str:
    """What a broker's unsecured OAUTHBEARER takes (KIP-255): a JWT that nobody has signed."""
    # Whole seconds, as in any real one: brokers round to milliseconds, up too, and refuse what is issued after now.
    now = int(time.time())
    claims = {"sub": user, "iat": now, "exp": now + lifetime_s}
    return f"{_base64({'alg': 'none'})}.{_base64(claims)}."


def bearer(user: str, lifetime_s: float = 3600.0) -> bytes:
    """The first message of OAUTHBEARER (RFC 7628)."""
    return f"n,,\x01auth=Bearer {unsecured_jwt(user, lifetime_s)}\x01\x01".encode()


def _base64(part: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
