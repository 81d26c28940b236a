"""Who has shown a certificate, and for whom they have taken this side."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from shim.tls.contexts import ServerContext

_PLAIN: Final = re.compile(r"[\w.@*+-]+(?: [\w.@*+-]+)*")
_LONGEST: Final = 200


def shown_names(transport: asyncio.BaseTransport) -> list[str]:
    """The names in the certificate that the other side has shown: its common name, and the DNS names that it is for.
    None where it has shown none. That it is from one of the right CAs has been seen to by then."""
    made = transport.get_extra_info("ssl_object")
    certificate: dict[str, Any] = (None if made is None else made.getpeercert()) or {}
    subject = [value for rdn in certificate.get("subject", ()) for kind, value in rdn if kind == "commonName"]
    return subject + [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]


def own_names(transport: asyncio.BaseTransport) -> frozenset[str]:
    """The DNS names that the certificate is for that this side has shown there; none without TLS."""
    made = transport.get_extra_info("ssl_object")
    return made.context.names if made is not None and isinstance(made.context, ServerContext) else frozenset()


def name_told(name: str) -> str:
    """One of them as a line of the log has it: in quotes where it could be taken for what is said around it."""
    return name if _PLAIN.fullmatch(name) and len(name) <= _LONGEST else repr(name[:_LONGEST])
