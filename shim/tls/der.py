"""The bytes of a certificate, as far as they are read here: Python tells what is in the other side's alone."""

from __future__ import annotations

from collections.abc import Iterator


def parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tags, of one byte as all in a certificate are, and contents of what stands one behind the other. Raises
    ValueError where that is cut off."""
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


def signed_parts(certificate: bytes) -> Iterator[tuple[int, bytes]]:
    """Of what a CA has signed of a certificate in DER (RFC 5280, section 4.1: TBSCertificate). Raises ValueError."""
    ((_, whole),) = parts(certificate)
    (_, signed), *_ = parts(whole)
    return parts(signed)
