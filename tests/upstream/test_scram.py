"""SCRAM from the client's side: the examples of the RFC, and servers that do not know the password."""

from __future__ import annotations

import base64

import pytest

from shim.upstream.scram import ScramClient, ScramError

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client(nonce: str | None = NONCE) -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", nonce)


def test_the_example_of_the_rfc() -> None:
    scram = client()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.final(CHALLENGE) == FINAL
    scram.verify(LAST)


def test_a_name_is_escaped_and_a_nonce_is_new() -> None:
    first = ScramClient("SCRAM-SHA-512", "a,b=c", "x").first()
    assert first.startswith(b"n,,n=a=2Cb=3Dc,r=")
    assert first != ScramClient("SCRAM-SHA-512", "a,b=c", "x").first()
    assert b"," not in first.split(b"r=")[1]


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (CHALLENGE.replace(b"r=r", b"r=x"), "nonce"),
        (b"r=" + NONCE.encode() + b",s=W22Z,i=4096", "nonce"),
        (b"s=W22Z,i=4096", "nonce"),
        (CHALLENGE.replace(b"4096", b"4095"), "asks for 4095 iterations"),
        (CHALLENGE.replace(b"4096", b"99999999999999"), "iterations"),
        (CHALLENGE.replace(b"4096", b"9999999"), "asks for 9999999 iterations"),
        (CHALLENGE.replace(b"4096", b"x"), "iterations"),
        (CHALLENGE.replace(b"i=4096", b"m=4096"), "iterations"),
        (CHALLENGE.replace(b"s=W22", b"s=W2!"), "base64"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_challenge_that_is_none(challenge: bytes, words: str) -> None:
    with pytest.raises(ScramError, match=words):
        client().final(challenge)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "signature is wrong"),
        (b"v=", "signature is wrong"),
        (b"", "signature is wrong"),
        (b"e=other-error", "refuses: other-error"),
    ],
)
def test_a_server_that_does_not_know_the_password(last: bytes, words: str) -> None:
    scram = client()
    scram.final(CHALLENGE)
    with pytest.raises(ScramError, match=words):
        scram.verify(last)


def test_an_end_before_the_proof_is_no_proof() -> None:
    with pytest.raises(ScramError, match="signature is wrong"):
        client().verify(b"v=")
