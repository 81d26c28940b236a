"""Until when a certificate is good."""

from __future__ import annotations

import random
import ssl
from datetime import UTC, datetime

import pytest
import trustme

from shim.tls.validity import not_after


def der(ends: datetime) -> bytes:
    made = trustme.CA().issue_cert("shim.example.org", not_before=datetime(1960, 1, 1, tzinfo=UTC), not_after=ends)
    return ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())


@pytest.mark.parametrize("year", [1961, 1999, 2000, 2049, 2050, 9999])
def test_it_is_told_to_the_second(year: int) -> None:
    """In one of two formats, by the year."""
    ends = datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)
    assert not_after(der(ends)) == ends


def test_what_is_no_certificate_is_an_error_that_is_foreseen() -> None:
    whole, rng = der(datetime(2049, 1, 1, tzinfo=UTC)), random.Random(7)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r".*"):
            not_after(whole[:length])
    for _ in range(5_000):
        spoilt = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        try:
            not_after(bytes(spoilt))
        except ValueError:
            continue
