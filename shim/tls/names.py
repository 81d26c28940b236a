"""Who has shown a certificate."""

from __future__ import annotations

import asyncio
from typing import Any


def shown_names(transport: asyncio.BaseTransport) -> list[str]:
    """The names in the certificate that the other side has shown: its common name, and the DNS names that it is for.
    None where it has shown none. That it is from one of the right CAs has been seen to by then."""
    made = transport.get_extra_info("ssl_object")
    certificate: dict[str, Any] = (None if made is None else made.getpeercert()) or {}
    subject = [value for rdn in certificate.get("subject", ()) for kind, value in rdn if kind == "commonName"]
    return subject + [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
