"""For which hosts a certificate is, read from its bytes: Python tells that of the other side's alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_SUBJECT_ALT_NAME: Final = bytes([0x55, 0x1D, 0x11])
"""Its object identifier, 2.5.29.17 (RFC 5280, section 4.2.1.6)."""
_EXTENSIONS: Final = 0xA3
_OCTETS: Final = 0x04
_DNS_NAME: Final = 0x82


def dns_names(certificate: bytes) -> frozenset[str]:
    """Of a certificate in DER: in lower case, without those that stand for many (``*``), or for nothing. Raises
    ValueError for what is none."""
    found: set[str] = set()
    ((_, whole),) = _parts(certificate)
    (_, signed), *_ = _parts(whole)
    for tag, part in _parts(signed):
        if tag != _EXTENSIONS:
            continue
        ((_, extensions),) = _parts(part)
        for _, extension in _parts(extensions):
            (_, identifier), *rest = _parts(extension)
            if identifier == _SUBJECT_ALT_NAME:
                ((_, names),) = (each for kind, octets in rest if kind == _OCTETS for each in _parts(octets))
                found.update(name.decode("ascii").lower() for kind, name in _parts(names) if kind == _DNS_NAME)
    return frozenset(name for name in found if name and "*" not in name)


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tags, of one byte as all in a certificate are, and contents of what stands one behind the other."""
    at = 0
    while at < len(data):
        tag, length, begins = data[at], int.from_bytes(data[at + 1 : at + 2]), at + 2
        if length & 0x80:
            begins += length & 0x7F
            length = int.from_bytes(data[at + 2 : begins])
        at = begins + length
        if at > len(data):
            raise ValueError("cut off")
        yield tag, data[begins:at]
