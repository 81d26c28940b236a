"""Whose name the first token of an authentication has: for logs and the history, never to decide by.

A name is believed when the broker has accepted the token. What the broker makes of it (a principal builder of its own,
a claim other than `sub`) the shim does not see.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Final

UNKNOWN: Final = ""
"""Of a token that says no name, or none that is understood."""

_MOST_CHARACTERS: Final = 256
"""Of a name; it stands in the history beside each offset."""

_MOST_BYTES: Final = 65_536
"""Of a token that is looked into. Whoever sends it is nobody yet, and everybody waits meanwhile."""

# Possessive: a stranger's token must not have it go back and forth.
_SASL_NAME: Final = re.compile(r"(?:[^=,]|=2C|=3D)++\Z")  # RFC 5802
_AUTH: Final = "auth="  # RFC 7628


def principal_of(mechanism: str, token: bytes) -> str:
    """As Kafka writes principals, `User:alice`; :data:`UNKNOWN` where that cannot be told. Never raises."""
    find = _FINDERS.get(mechanism) if len(token) <= _MOST_BYTES else None
    try:
        name = find(token.decode("utf-8")) if find is not None else UNKNOWN
        name.encode()  # JSON may have half a surrogate pair, which is no text, and nowhere to be written
    except UnicodeError:
        return UNKNOWN
    return name if len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]}…"


def shown(principal: str) -> str:
    """Fit for a line of a log, whatever a client has put into its name."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in principal)


def _plain(token: str) -> str:
    """RFC 4616: authorization id, authentication id and password. Brokers take no authorization id but the same."""
    parts = token.split("\0")
    return f"User:{parts[1]}" if len(parts) == 3 and parts[1] else UNKNOWN


def _scram(token: str) -> str:
    """RFC 5802: the client's first message. With a delegation token (KIP-48) the name is the token's id: whose token it
    is only the broker knows.
    """
    parts = token.split(",")
    name = next((part[2:] for part in parts[2:] if part.startswith("n=")), "")
    if parts[0] != "n" or not _SASL_NAME.match(name):
        return UNKNOWN
    name = name.replace("=2C", ",").replace("=3D", "=")
    by_token = any(part.startswith("tokenauth=") and part[10:].lower() == "true" for part in parts[3:])
    return f"DelegationToken:{name}" if by_token else f"User:{name}"


def _oauthbearer(token: str) -> str:
    """RFC 7628, with a JWT: its subject. Where `auth` is there twice the last one counts, as it does for a broker."""
    said = [pair[len(_AUTH) :] for pair in token.split("\x01")[1:] if pair.startswith(_AUTH)]
    scheme, _, jwt = said[-1].partition(" ") if said else ("", "", "")
    parts = jwt.lstrip(" ").split(".")
    if scheme.lower() != "bearer" or len(parts) != 3:
        return UNKNOWN
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return UNKNOWN
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return f"User:{subject}" if isinstance(subject, str) and subject else UNKNOWN


_FINDERS: Final[Mapping[str, Callable[[str], str]]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _oauthbearer,
}
