"""For which hosts a certificate is."""

from __future__ import annotations

import random
import ssl

import pytest
import trustme

from shim.tls.subject_names import dns_names

MANY = tuple(f"host-{number}.example.org" for number in range(300))


def der(*identities: str) -> bytes:
    made = trustme.CA().issue_cert(*identities, common_name="common.example.org")
    return ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())


@pytest.mark.parametrize(
    ("identities", "expected"),
    [
        (("shim.example.org",), {"shim.example.org"}),
        (("Shim.Example.org", "127.0.0.1", "::1"), {"shim.example.org"}),
        (("*.example.org", "example.org"), {"example.org"}),
        (("bücher.example",), {"xn--bcher-kva.example"}),
        (("10.0.0.1", "someone@example.org"), set()),
        (MANY, set(MANY)),
    ],
)
def test_the_dns_names_alone(identities: tuple[str, ...], expected: set[str]) -> None:
    assert dns_names(der(*identities)) == expected


def test_a_name_of_nothing_is_none() -> None:
    """It would be the one of a request without a host."""
    name, none = b"\x82\x10shim.example.org", b"\x82\x00" + b"\x82\x0eim.example.org"
    whole = der("shim.example.org")
    assert whole.count(name) == 1
    assert dns_names(whole.replace(name, none)) == {"im.example.org"}


def test_what_is_no_certificate_is_an_error_that_is_foreseen() -> None:
    whole, rng = der("shim.example.org"), random.Random(7)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r".*"):
            dns_names(whole[:length])
    for _ in range(5_000):
        spoilt = bytearray(whole)
        spoilt[rng.randrange(len(whole))] = rng.randrange(256)
        try:
            dns_names(bytes(spoilt))
        except ValueError:
            continue
