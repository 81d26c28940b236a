"""Until when a certificate is good, read from its bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from shim.tls.der import parts, signed_parts

_SEQUENCE: Final = 0x30
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_FORMATS: Final = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}
_LAST_OF_UTC_TIME: Final = 2049
"""And the first is 1950 (RFC 5280, section 4.1.2.5.1)."""


def not_after(certificate: bytes) -> datetime:
    """Of a certificate in DER. Raises ValueError for what is none."""
    _, _, validity, *_ = (part for tag, part in signed_parts(certificate) if tag == _SEQUENCE)
    _, (tag, text) = parts(validity)
    if tag not in _FORMATS:
        raise ValueError("no time")
    told = datetime.strptime(text.decode("ascii"), _FORMATS[tag]).replace(tzinfo=UTC)
    is_too_late = tag == _UTC_TIME and told.year > _LAST_OF_UTC_TIME
    return told.replace(year=told.year - 100) if is_too_late else told
