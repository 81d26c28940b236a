"""For which hosts a certificate is, read from its bytes."""

from __future__ import annotations

from typing import Final

from shim.tls.der import parts, signed_parts

_SUBJECT_ALT_NAME: Final = bytes([0x55, 0x1D, 0x11])
"""Its object identifier, 2.5.29.17 (RFC 5280, section 4.2.1.6)."""
_EXTENSIONS: Final = 0xA3
_OCTETS: Final = 0x04
_DNS_NAME: Final = 0x82


def dns_names(certificate: bytes) -> frozenset[str]:
    """Of a certificate in DER: in lower case, without those that stand for many (``*``), or for nothing. Raises
    ValueError for what is none."""
    found: set[str] = set()
    for tag, part in signed_parts(certificate):
        if tag != _EXTENSIONS:
            continue
        ((_, extensions),) = parts(part)
        for _, extension in parts(extensions):
            (_, identifier), *rest = parts(extension)
            if identifier == _SUBJECT_ALT_NAME:
                ((_, names),) = (each for kind, octets in rest if kind == _OCTETS for each in parts(octets))
                found.update(name.decode("ascii").lower() for kind, name in parts(names) if kind == _DNS_NAME)
    return frozenset(name for name in found if name and "*" not in name)
