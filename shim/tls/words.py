"""Why a TLS connection failed, in words fit for one line."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Final


class NotTls(ConnectionError):
    """What came first was no TLS hello; the message says what it looks like."""


# OpenSSL's names for what is wrong. "It" is the other side.
_WORDS: Final[Mapping[str, str]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown no certificate",
    "NO_SHARED_CIPHER": "no cipher suite in common",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "no signature algorithm in common",
    "UNSUPPORTED_PROTOCOL": "no TLS version in common",
    "WRONG_VERSION_NUMBER": "it does not speak TLS there",
    "RECORD_LAYER_FAILURE": "it does not speak TLS there",
    "PACKET_LENGTH_TOO_LONG": "it does not speak TLS there",
    "UNEXPECTED_EOF_WHILE_READING": "closed in the middle of TLS",
}

# Alerts that the other side has sent (RFC 8446, section 6.2).
_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_(\w+)")
_ALERTS: Final[Mapping[str, str]] = {
    "UNKNOWN_CA": "it refuses {own}: unknown CA",
    # Java's word where there is none at all.
    "BAD_CERTIFICATE": "it refuses {own}, or that there is none: bad certificate",
    "UNSUPPORTED_CERTIFICATE": "it refuses {own}: unsupported certificate",
    "CERTIFICATE_UNKNOWN": "it refuses {own}",
    "CERTIFICATE_EXPIRED": "it refuses {own}: expired",
    "CERTIFICATE_REVOKED": "it refuses {own}: revoked",
    "CERTIFICATE_REQUIRED": "it wants a certificate",
    "PROTOCOL_VERSION": "no TLS version in common",
}


def refuses_certificate(error: ssl.SSLError) -> bool:
    """Whether the other side has ended the handshake for what it was shown, or was not: with TLS 1.3 that is heard
    when the first bytes have been sent already, of which it has then read none."""
    alert = _ALERT.fullmatch(getattr(error, "reason", None) or "")
    return alert is not None and (alert[1] == "UNKNOWN_CA" or "CERTIFICATE" in alert[1])


def tls_reason(error: ssl.SSLError, *, own: str = "the shim's certificate") -> str:
    """A few words. Python's own text names a line of its C code, and the number has another meaning than a system's.
    ``own``: what this side has shown, if anything."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = getattr(error, "reason", None) or ""  # some of Python's own have none
    alert = _ALERT.fullmatch(reason)
    if alert is not None:
        words = _ALERTS.get(alert[1])
        return f"it sent the alert: {_spelled(alert[1])}" if words is None else words.format(own=own)
    return _WORDS.get(reason) or _spelled(reason) or "TLS failed"


def _spelled(name: str) -> str:
    return name.lower().replace("_", " ")
