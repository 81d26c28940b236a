"""The phases of an authentication: nobody is believed before the broker has, nor longer."""

from __future__ import annotations

import struct

import pytest

from protocol.errors import DecodeError, ErrorCode
from protocol.messages import sasl_authenticate, sasl_handshake
from shim.security.sasl import MECHANISMS, Authentication, Phase

NOW = 1000.0
FIRST = {
    "PLAIN": b"\0alice\0secret",
    "SCRAM-SHA-256": b"n,,n=alice,r=abc",
    "SCRAM-SHA-512": b"n,,n=alice,r=abc",
    "OAUTHBEARER": b"n,,\x01auth=Bearer e30.eyJzdWIiOiJhbGljZSJ9.\x01\x01",
}
CHALLENGE = b"r=abcdef,s=c2FsdA==,i=4096"


def handshake_frame(version: int, mechanism: str) -> bytes:
    return sasl_handshake.API.request_frame(version, 7, "c", sasl_handshake.SaslHandshakeRequest(mechanism))


def handshake_answer(version: int, error: int, *mechanisms: str) -> bytes:
    return sasl_handshake.API.response_frame(version, 7, sasl_handshake.SaslHandshakeResponse(error, mechanisms))


def token_frame(version: int, token: bytes) -> bytes:
    return sasl_authenticate.API.request_frame(version, 8, "c", sasl_authenticate.SaslAuthenticateRequest(token))


def token_answer(version: int, token: bytes = b"", error: int = 0, lifetime_ms: int = 0) -> bytes:
    answer = sasl_authenticate.SaslAuthenticateResponse(error, None, token, lifetime_ms)
    return sasl_authenticate.API.response_frame(version, 8, answer)


def shaken(mechanism: str = "PLAIN", version: int = 1, state: Authentication | None = None) -> Authentication:
    state = state or Authentication()
    frame = handshake_frame(version, mechanism)
    assert state.handshake(version, frame) == frame
    answer = handshake_answer(version, 0, "PLAIN", mechanism)
    assert state.handshaken(version, answer) == (answer, False)
    return state


def exchanged(state: Authentication, *tokens: tuple[bytes, bytes], lifetime_ms: int = 0, version: int = 2) -> bool:
    """Tokens there and back; whether the last one was a re-authentication."""
    again = False
    for number, (there, back) in enumerate(tokens):
        state.authenticate(version, token_frame(version, there), NOW + number)
        frame = token_answer(version, back, lifetime_ms=lifetime_ms if number == len(tokens) - 1 else 0)
        answer = state.authenticated(version, frame)
        assert answer.frame == frame
        again = answer.reauthenticated
    return again


TOKENS = {
    "PLAIN": ((FIRST["PLAIN"], b""),),
    "SCRAM-SHA-256": ((FIRST["SCRAM-SHA-256"], CHALLENGE), (b"c=biws,r=abcdef,p=cA==", b"v=cA==")),
    "SCRAM-SHA-512": ((FIRST["SCRAM-SHA-512"], CHALLENGE), (b"c=biws,r=abcdef,p=cA==", b"v=cA==")),
    "OAUTHBEARER": ((FIRST["OAUTHBEARER"], b""),),
}


def test_the_mechanisms_are_those_that_are_tried_here() -> None:
    assert set(MECHANISMS) == TOKENS.keys() == FIRST.keys()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_is_accepted_is_who_the_first_token_names(mechanism: str) -> None:
    state = shaken(mechanism)
    assert (state.phase, state.principal) == (Phase.TOKENS, "")
    for number in range(1, len(TOKENS[mechanism])):
        early = shaken(mechanism)
        exchanged(early, *TOKENS[mechanism][:number])
        assert (early.phase, early.principal) == (Phase.TOKENS, "")
    assert not exchanged(state, *TOKENS[mechanism], lifetime_ms=5000)
    assert (state.phase, state.principal) == (Phase.AUTHENTICATED, "User:alice")
    # From when the last token was sent: the broker's session begins behind that.
    assert state.expires_at == NOW + len(TOKENS[mechanism]) - 1 + 5.0
    assert state.is_told


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tokens_without_a_header(mechanism: str) -> None:
    state = shaken(mechanism, version=0)
    for there, back in TOKENS[mechanism]:
        assert (state.phase, state.principal) == (Phase.BARE_TOKENS, "")
        state.token(there, NOW)
        frame = struct.pack(">i", len(back)) + back
        assert state.token_answered(frame) == (frame, False)
    assert (state.phase, state.principal) == (Phase.AUTHENTICATED, "User:alice")
    assert (state.expires_at, state.is_told) == (None, False)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_old_version_cannot_say_when_the_session_ends(version: int) -> None:
    state = shaken()
    exchanged(state, *TOKENS["PLAIN"], version=version)
    assert (state.expires_at, state.is_told) == (None, version >= 1)


def test_a_token_that_says_what_was_wrong_accepts_nobody() -> None:
    for version in (0, 1):
        state = shaken("OAUTHBEARER", version)
        wrong = b'{"status":"invalid_token"}'
        if version:
            exchanged(state, (FIRST["OAUTHBEARER"], wrong))
        else:
            state.token(FIRST["OAUTHBEARER"], NOW)
            state.token_answered(struct.pack(">i", len(wrong)) + wrong)
        assert state.phase in (Phase.TOKENS, Phase.BARE_TOKENS)
        assert state.principal == ""


@pytest.mark.parametrize("before", [False, True], ids=["the first time", "again"])
def test_an_error_ends_it(before: bool) -> None:
    state = shaken()
    if before:
        exchanged(state, *TOKENS["PLAIN"])
        shaken(state=state)
    state.authenticate(2, token_frame(2, b"\0bob\0x"), NOW)
    state.authenticated(2, token_answer(2, error=ErrorCode.SASL_AUTHENTICATION_FAILED))
    assert state.phase is Phase.OVER
    assert state.principal == ("User:alice" if before else "")


def test_what_is_no_token_ends_it() -> None:
    state = shaken()
    assert state.refused(b"frame") == (b"frame", False)
    assert state.phase is Phase.OVER


def test_it_is_done_again_in_a_session_and_after_it() -> None:
    state = shaken()
    exchanged(state, *TOKENS["PLAIN"], lifetime_ms=5000)
    for ends in (False, True):
        if ends:
            state.expire()
            assert state.phase is Phase.EXPIRED
        shaken("SCRAM-SHA-256", state=state)
        assert state.phase is Phase.TOKENS
        state.expire()  # the old session's end is no matter now
        assert state.phase is Phase.TOKENS
        assert exchanged(state, *TOKENS["SCRAM-SHA-256"], lifetime_ms=7000)
        assert (state.phase, state.expires_at) == (Phase.AUTHENTICATED, NOW + 1 + 7.0)


def test_it_is_who_was_accepted_last() -> None:
    """Kafka's brokers refuse another name; that is theirs to decide."""
    state = shaken()
    exchanged(state, *TOKENS["PLAIN"])
    shaken(state=state)
    exchanged(state, (b"\0bob\0secret", b""))
    assert state.principal == "User:bob"


@pytest.mark.parametrize("ends", [False, True])
def test_the_broker_may_say_that_it_is_too_soon(ends: bool) -> None:
    state = shaken()
    exchanged(state, *TOKENS["PLAIN"], lifetime_ms=5000)
    if ends:
        state.expire()
    before = state.phase, state.expires_at
    state.handshake(1, handshake_frame(1, "PLAIN"))
    state.handshaken(1, handshake_answer(1, ErrorCode.ILLEGAL_SASL_STATE))
    assert (state.phase, state.expires_at) == before


def test_but_not_to_a_stranger() -> None:
    state = Authentication()
    state.handshake(1, handshake_frame(1, "PLAIN"))
    state.handshaken(1, handshake_answer(1, ErrorCode.ILLEGAL_SASL_STATE))
    assert state.phase is Phase.OVER


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "PLAIN ", "SCRAM-SHA-1"])
@pytest.mark.parametrize("version", [0, 1])
def test_what_cannot_pass_is_asked_for_by_no_name_and_is_not_in_the_list(mechanism: str, version: int) -> None:
    state = Authentication()
    sent = state.handshake(version, handshake_frame(version, mechanism))
    header, asked = sasl_handshake.API.parse_request(version, sent, 4)
    assert (header.correlation_id, header.client_id) == (7, "c")
    assert asked.mechanism not in (mechanism, *MECHANISMS)
    answer = state.handshaken(
        version, handshake_answer(version, ErrorCode.UNSUPPORTED_SASL_MECHANISM, "GSSAPI", "PLAIN")
    )
    assert answer.frame == handshake_answer(version, ErrorCode.UNSUPPORTED_SASL_MECHANISM, "PLAIN")
    assert state.phase is Phase.OVER


def test_a_broker_that_knows_it_all_the_same_is_not_followed() -> None:
    state = Authentication()
    state.handshake(1, handshake_frame(1, "GSSAPI"))
    with pytest.raises(DecodeError):
        state.handshaken(1, handshake_answer(1, 0, "GSSAPI"))
    assert state.phase is Phase.STRANGER


def test_a_list_is_cut_down_where_the_mechanism_is_taken_too() -> None:
    state = Authentication()
    state.handshake(1, handshake_frame(1, "PLAIN"))
    assert state.handshaken(1, handshake_answer(1, 0, "GSSAPI", "PLAIN")).frame == handshake_answer(1, 0, "PLAIN")
    assert state.phase is Phase.TOKENS
