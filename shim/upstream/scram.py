"""The client's side of SCRAM (RFC 5802, RFC 7677), without channel binding, as Kafka has it.

Not of a library: those prepare names and passwords with SASLprep, as the RFC says, and Kafka takes them as they are, so
that a password with a letter that SASLprep changes would be refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_NO_CHANNEL_BINDING: Final = "n,,"
_FEWEST_ITERATIONS: Final = 4096
"""Kafka's, and what it refuses to go below; fewer would help whoever listens in and guesses."""
_MOST_ITERATIONS: Final = 1 << 20


class ScramError(ValueError):
    """The server does not keep to the protocol, or does not know the password itself; the message is one line."""


class ScramClient:
    """One conversation. Messages in their order: :meth:`first`, :meth:`final`, :meth:`verify`."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str | None = None) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._first_bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return (_NO_CHANNEL_BINDING + self._first_bare).encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof that the password is known. Takes a millisecond or two. Raises :class:`ScramError`."""
        fields = _fields(challenge)
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server's nonce does not continue the client's")
        if not iterations.isascii() or not iterations.isdecimal() or len(iterations) > len(str(_MOST_ITERATIONS)):
            raise ScramError("the server asks for a number of iterations that is none")
        if not _FEWEST_ITERATIONS <= int(iterations) <= _MOST_ITERATIONS:
            raise ScramError(f"the server asks for {int(iterations)} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, _decoded(fields.get("s", "")), int(iterations))
        without_proof = f"c={base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={nonce}"
        signed = ",".join((self._first_bare, challenge.decode(), without_proof)).encode()
        client_key = self._hmac(salted, b"Client Key")
        client_signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, last: bytes) -> None:
        """Whether the server knows the password, too. Raises :class:`ScramError`."""
        fields = _fields(last)
        if "e" in fields:
            raise ScramError(f"the server refuses: {fields['e']}")
        signature = _decoded(fields.get("v", ""))
        if not self._signature or not hmac.compare_digest(signature, self._signature):
            raise ScramError("the server's signature is wrong: it does not know the password")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode("utf-8").split(",")
    except UnicodeDecodeError:
        raise ScramError("the server's message is not UTF-8") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError("the server's message is not base64") from None
