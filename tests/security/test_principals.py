"""Whose name a token has."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.security.principals import UNKNOWN, principal_of, shown
from shim.security.sasl import MECHANISMS


def bearer(claims: object) -> bytes:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"n,,\x01auth=Bearer e30.{part}.sig\x01\x01".encode()


@pytest.mark.parametrize(
    ("mechanism", "token", "principal"),
    [
        ("PLAIN", b"\0alice\0secret", "User:alice"),
        ("PLAIN", b"alice\0alice\0secret", "User:alice"),
        ("PLAIN", "\0zoë\0ü".encode(), "User:zoë"),
        ("PLAIN", b"\0alice\0se\0cret", UNKNOWN),
        ("PLAIN", b"alice", UNKNOWN),
        ("PLAIN", b"\0\0secret", UNKNOWN),
        ("PLAIN", b"\0\xff\0secret", UNKNOWN),
        ("SCRAM-SHA-256", b"n,,n=alice,r=abc", "User:alice"),
        ("SCRAM-SHA-512", b"n,a=alice,n=alice,r=abc", "User:alice"),
        ("SCRAM-SHA-256", b"n,,n=a=2Cb=3Dc,r=abc", "User:a,b=c"),
        ("SCRAM-SHA-256", b"n,,n=a=3D2Cb,r=abc", "User:a=2Cb"),
        ("SCRAM-SHA-256", b"n,,n=a=b,r=abc", UNKNOWN),
        ("SCRAM-SHA-256", b"n,,r=abc", UNKNOWN),
        ("SCRAM-SHA-256", b"y,,n=alice,r=abc", UNKNOWN),
        ("SCRAM-SHA-256", b"", UNKNOWN),
        ("SCRAM-SHA-256", b"n,,n=mM3_id,r=abc,tokenauth=true", "DelegationToken:mM3_id"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=abc,tokenauth=false", "User:alice"),
        ("OAUTHBEARER", bearer({"sub": "alice"}), "User:alice"),
        ("OAUTHBEARER", bearer({"sub": "al\ud800ce"}), UNKNOWN),
        ("OAUTHBEARER", bearer({"sub": 5}), UNKNOWN),
        ("OAUTHBEARER", bearer({}), UNKNOWN),
        ("OAUTHBEARER", bearer(["sub"]), UNKNOWN),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer opaque\x01\x01", UNKNOWN),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a.!.c\x01\x01", UNKNOWN),
        ("OAUTHBEARER", b"\x01", UNKNOWN),
        ("GSSAPI", b"\0alice\0secret", UNKNOWN),
    ],
)
def test_the_name_in_a_first_token(mechanism: str, token: bytes, principal: str) -> None:
    assert principal_of(mechanism, token) == principal


@given(st.sampled_from(MECHANISMS), st.binary() | st.binary().map(lambda part: b"n,,n=" + part))
def test_no_token_is_too_strange(mechanism: str, token: bytes) -> None:
    principal_of(mechanism, token)


def test_a_name_is_bounded() -> None:
    principal = principal_of("PLAIN", b"\0" + b"a" * 60_000 + b"\0secret")
    assert len(principal) == 257
    assert principal.startswith("User:aaa")


def both(first: bytes, second: bytes) -> bytes:
    """The one's credentials in front of the other's."""
    return first[: -len(b"\x01\x01")] + second[len(b"n,,") :]


def test_of_two_names_it_is_the_one_that_the_broker_takes() -> None:
    """4.3.1 does, for one: whoever has a token of his own must not stand in the history by the name in another's."""
    alice, bob = bearer({"sub": "alice"}), bearer({"sub": "bob"})
    assert principal_of("OAUTHBEARER", both(alice, bob)) == "User:bob"
    assert principal_of("OAUTHBEARER", both(alice, bob.replace(b"Bearer", b"BEARER"))) == "User:bob"
    assert principal_of("OAUTHBEARER", both(alice, bob.replace(b"Bearer", b"Basic"))) == UNKNOWN
    assert principal_of("OAUTHBEARER", both(alice, bob.replace(b"auth=", b"Auth="))) == "User:alice"
    assert principal_of("OAUTHBEARER", alice.replace(b"auth=", b"x= auth=")) == UNKNOWN
    assert principal_of("SCRAM-SHA-256", b"n,,n=alice,r=x,TokenAuth=true") == "User:alice"
    assert principal_of("SCRAM-SHA-256", b"n,,n=alice,r=x,tokenauth=TRUE") == "DelegationToken:alice"


def test_the_name_in_a_token_of_any_size_is_nobodys() -> None:
    assert principal_of("PLAIN", b"\0" + b"a" * 65_527 + b"\0secret") != UNKNOWN
    assert principal_of("PLAIN", b"\0" + b"a" * 65_529 + b"\0secret") == UNKNOWN


LOOKED_INTO: Final = """
from shim.security.principals import principal_of
for filler in (b" ", b"a", b",", b"=", b"=2C", b"\\0", b"\\x01auth=Bearer ", b"[", b"."):
    for start in (b"", b"n,,n=", b"n,,\\x01auth=Bearer ", b"n,,\\x01auth=Bearer a."):
        token = start + filler * ((65_536 - len(start)) // len(filler))
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"):
            principal_of(mechanism, token)
print("looked into")
"""


def test_no_token_is_looked_into_for_long() -> None:
    """Everybody waits meanwhile, and it is a stranger's. One that is gone through again from each of its bytes would
    take the best part of a minute.
    """
    looked = subprocess.run((sys.executable, "-c", LOOKED_INTO), capture_output=True, text=True, timeout=20.0)
    assert looked.stdout == "looked into\n", looked.stderr


def test_no_name_makes_a_line_of_the_log() -> None:
    assert shown("User:a\nERROR b\x1b[0m") == "User:a\\nERROR b\\x1b[0m"
    assert shown("User:zoë") == "User:zoë"
