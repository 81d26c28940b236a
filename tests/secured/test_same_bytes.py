"""Authentication, with the shim and without it: the same answers, byte by byte, and the same ends."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from protocol.messages import heartbeat, sasl_authenticate
from tests.secured.broker import Door, SecuredBroker
from tests.secured.conftest import shim_settings
from tests.secured.dialogue import (
    ENDED,
    FETCH_OFFSETS,
    HEARTBEAT,
    METADATA,
    VERSIONS,
    Said,
    authenticate,
    bare,
    conversation,
    handshake,
    say,
)
from tests.secured.users import bearer, plain
from tests.shim_process import Shim
from tests.wire import WireClient

AT_ONCE: Final = 12
"""Conversations: what they wait for is mostly that nothing more comes."""

ALICE, WRONG = plain("alice"), plain("alice", "wrong")
PLAIN = (handshake(1, "PLAIN"), authenticate(2, ALICE))

CONVERSATIONS = {
    "accepted": (VERSIONS, *PLAIN, VERSIONS, METADATA, FETCH_OFFSETS, HEARTBEAT),
    "accepted without ApiVersions": (*PLAIN, METADATA),
    "every version of SaslAuthenticate: 0": (handshake(1, "PLAIN"), authenticate(0, ALICE), METADATA),
    "every version of SaslAuthenticate: 1": (handshake(1, "PLAIN"), authenticate(1, ALICE), METADATA),
    "wrong password": (VERSIONS, handshake(1, "PLAIN"), authenticate(2, WRONG)),
    "wrong password, version 0": (handshake(1, "PLAIN"), authenticate(0, WRONG)),
    "no token": (handshake(1, "PLAIN"), authenticate(2, b"")),
    "ApiVersions twice": (VERSIONS, VERSIONS),
    "Metadata first": (METADATA,),
    "Metadata after ApiVersions": (VERSIONS, METADATA),
    "what the shim serves, first": (FETCH_OFFSETS,),
    "what the shim serves, after ApiVersions": (VERSIONS, HEARTBEAT),
    "SaslAuthenticate first": (authenticate(2, ALICE),),
    "a token first": (bare(ALICE),),
    "ApiVersions after SaslHandshake": (handshake(1, "PLAIN"), VERSIONS),
    "Metadata after SaslHandshake": (handshake(1, "PLAIN"), METADATA),
    "what the shim serves, after SaslHandshake": (VERSIONS, handshake(1, "PLAIN"), FETCH_OFFSETS),
    "SaslHandshake twice": (VERSIONS, handshake(1, "PLAIN"), handshake(1, "PLAIN")),
    "a mechanism that no broker has": (VERSIONS, handshake(1, "SCRAM-SHA-1")),
    "GSSAPI, where the broker does not have it": (handshake(1, "GSSAPI"),),
    "no mechanism": (handshake(0, ""),),
    "SaslAuthenticate once more": (*PLAIN, authenticate(2, ALICE), METADATA),
    "again": (*PLAIN, METADATA, *PLAIN, METADATA),
    "again, and too soon once more": (*PLAIN, *PLAIN, handshake(1, "PLAIN"), METADATA, HEARTBEAT),
    "again, with a wrong password": (*PLAIN, handshake(1, "PLAIN"), authenticate(2, WRONG)),
    "again, as somebody else": (*PLAIN, handshake(1, "PLAIN"), authenticate(2, plain("bob"))),
    "again, otherwise": (*PLAIN, handshake(1, "OAUTHBEARER"), authenticate(2, bearer("alice"))),
    "again, by a mechanism that no broker has": (*PLAIN, handshake(1, "SCRAM-SHA-1")),
    "again, and Metadata between": (*PLAIN, handshake(1, "PLAIN"), METADATA),
    "again, and what the shim serves between": (*PLAIN, handshake(1, "PLAIN"), HEARTBEAT),
    "again, by bare tokens": (*PLAIN, handshake(0, "PLAIN"), bare(ALICE), METADATA),
    "bare tokens": (handshake(0, "PLAIN"), bare(ALICE), METADATA, FETCH_OFFSETS),
    "bare tokens, then again": (handshake(0, "PLAIN"), bare(ALICE), *PLAIN, METADATA),
    "bare tokens, wrong": (handshake(0, "PLAIN"), bare(WRONG)),
    "bare tokens, an empty one": (handshake(0, "PLAIN"), bare(b"")),
    "SaslAuthenticate after SaslHandshake 0": (handshake(0, "PLAIN"), authenticate(2, ALICE)),
    "OAUTHBEARER": (handshake(1, "OAUTHBEARER"), authenticate(0, bearer("alice")), METADATA),
    "OAUTHBEARER, expired": (
        *(handshake(1, "OAUTHBEARER"), authenticate(2, bearer("alice", -5))),
        authenticate(2, b"\x01"),
    ),
    "OAUTHBEARER, expired, and then another's": (
        *(handshake(1, "OAUTHBEARER"), authenticate(2, bearer("alice", -5))),
        *(authenticate(0, bearer("bob")), METADATA),
    ),
    "OAUTHBEARER, bare, expired, and then another's": (
        *(handshake(0, "OAUTHBEARER"), bare(bearer("alice", -5))),
        *(bare(bearer("bob")), METADATA),
    ),
    "OAUTHBEARER, expired, and something served": (
        *(handshake(1, "OAUTHBEARER"), authenticate(2, bearer("alice", -5))),
        HEARTBEAT,
    ),
    "OAUTHBEARER, bare": (handshake(0, "OAUTHBEARER"), bare(bearer("alice")), METADATA),
    "OAUTHBEARER, bare and expired": (
        *(handshake(0, "OAUTHBEARER"), bare(bearer("alice", -5))),
        bare(b"\x01"),
    ),
    "SCRAM, of nobody": (handshake(1, "SCRAM-SHA-256"), authenticate(2, b"n,,n=nobody,r=abc")),
    "SCRAM, malformed": (handshake(1, "SCRAM-SHA-512"), authenticate(2, b"n,,r=abc")),
    "SCRAM, bare, of nobody": (handshake(0, "SCRAM-SHA-256"), bare(b"n,,n=nobody,r=abc")),
}


Heard = list[bytes | str]


@pytest.fixture(scope="module")
def heard(secured: SecuredBroker, shim_door: Door) -> Iterator[Mapping[str, tuple[Future[Heard], Future[Heard]]]]:
    """At the broker and at the shim."""
    with ThreadPoolExecutor(AT_ONCE) as together:
        begun = {
            name: (together.submit(conversation, secured.door, *said), together.submit(conversation, shim_door, *said))
            for name, said in CONVERSATIONS.items()
        }
        yield begun


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_as_the_broker_answers(heard: Mapping[str, tuple[Future[Heard], Future[Heard]]], name: str) -> None:
    directly, through_the_shim = heard[name]
    assert through_the_shim.result() == directly.result()


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(struct.pack(">i", 0), id="empty"),
        pytest.param(struct.pack(">ihh", 524_289, 18, 0), id="too large"),
        pytest.param(struct.pack(">ihhih", 10, 17, 2, 7, -1), id="a version of SaslHandshake that there is not"),
        pytest.param(struct.pack(">ihhih", 10, 17, 1, 7, -1), id="cut short"),
    ],
)
def test_what_cannot_be_understood_ends_the_connection(secured: SecuredBroker, shim_door: Door, frame: bytes) -> None:
    for door in (secured.door, shim_door):
        with door.client() as client:
            client.socket.sendall(frame)
            assert client.ended(), door


def test_a_token_is_bounded(secured: SecuredBroker, shim_door: Door) -> None:
    for door in (secured.door, shim_door):
        with door.client() as client:
            say(client, handshake(0, "PLAIN"))
            client.socket.sendall(struct.pack(">i", 524_289))
            assert client.ended(), door


def at_once(*said: Said) -> bytes:
    """The bytes of them all; their correlation ids count from 0."""
    sent = b""
    for number, each in enumerate(said):
        if each.api is None:
            sent += struct.pack(">i", len(each.body)) + each.body
        else:
            sent += each.api.request_frame(each.version, number, "client", each.body)
    return sent


@pytest.mark.parametrize(
    "tokens",
    [
        (bearer("alice", -5), bearer("bob")),
        (bearer("alice")[:-2] + bearer("bob")[3:],),
    ],
    ids=["behind one that was refused", "in front of his own"],
)
def test_nobody_is_known_by_a_name_that_he_has_shown_beside_his_own(
    secured: SecuredBroker, tmp_path: Path, tokens: tuple[bytes, ...]
) -> None:
    with Shim(secured.bootstrap_servers, tmp_path / "data", settings=shim_settings(secured)) as shim:
        with secured.door_at(shim.broker_port(secured.broker.node_id)).client() as client:
            for said in (handshake(1, "OAUTHBEARER"), *(authenticate(2, token) for token in tokens)):
                assert isinstance(say(client, said), bytes)
            assert isinstance(say(client, METADATA), bytes)
            time.sleep(1.1)  # brokers let nobody authenticate again sooner
            _, port = client.socket.getsockname()
            for said in (handshake(1, "OAUTHBEARER"), authenticate(2, bearer("bob", -5)), authenticate(2, b"\x01")):
                assert isinstance(say(client, said), bytes)
            assert client.ended()
        refused = "connection closed: the broker has refused its credentials"
        assert f"client 127.0.0.1:{port} (User:bob): {refused}" in shim.log()


def frames_to_the_end(client: WireClient) -> list[bytes]:
    frames = []
    while True:
        try:
            frames.append(client.receive_frame())
        except ConnectionError:
            return frames


@pytest.mark.parametrize(
    ("answered", "not_answered"),
    [
        ((handshake(1, "PLAIN"), authenticate(2, WRONG)), (METADATA, HEARTBEAT)),
        ((handshake(0, "PLAIN"),), (bare(WRONG), HEARTBEAT, FETCH_OFFSETS)),
        ((handshake(1, "PLAIN"),), (HEARTBEAT, authenticate(2, ALICE), FETCH_OFFSETS)),
        ((VERSIONS,), (FETCH_OFFSETS, handshake(1, "PLAIN"), authenticate(2, ALICE), FETCH_OFFSETS)),
        (
            (handshake(1, "PLAIN"), authenticate(2, ALICE), handshake(1, "PLAIN"), authenticate(2, plain("bob"))),
            (FETCH_OFFSETS, METADATA),
        ),
        (
            (handshake(1, "SCRAM-SHA-512"), authenticate(2, b"n,,n=alice,r=nonce")),
            (authenticate(2, b"v="), FETCH_OFFSETS, HEARTBEAT),
        ),
    ],
    ids=["wrong", "wrong and bare", "between", "before", "as somebody else", "a server's word"],
)
def test_what_comes_along_with_what_is_refused_is_not_served(
    secured: SecuredBroker, shim_door: Door, answered: tuple[Said, ...], not_answered: tuple[Said, ...]
) -> None:
    """The broker answers the first of it with an error, or not at all; nobody the rest. (Where the shim itself refuses,
    it does not wait for answers that are due.)
    """
    for door in (secured.door, shim_door):
        with door.client() as client:
            client.socket.sendall(at_once(*answered, *not_answered))
            frames = frames_to_the_end(client)
            assert len(frames) <= len(answered) + 1, door
            for number, frame in enumerate(frames):
                assert struct.unpack_from(">i", frame) == (number,)
            if len(frames) > len(answered):
                assert not_answered[0].api in (heartbeat.API, sasl_authenticate.API)


def test_what_comes_at_once_is_answered_in_turn(shim_door: Door) -> None:
    """A client need not wait for answers, not even behind tokens without a header."""
    for said in (
        (VERSIONS, handshake(0, "PLAIN"), bare(ALICE), METADATA, HEARTBEAT, METADATA),
        (VERSIONS, *PLAIN, METADATA, HEARTBEAT, *PLAIN, METADATA),
    ):
        with shim_door.client() as client:
            client.socket.sendall(at_once(*said))
            for number, each in enumerate(said):
                frame = client.receive_frame()
                if each.api is None:
                    assert frame == b""
                else:
                    assert each.api.parse_response(each.version, frame)[0] == number


def test_nobody_is_served_who_only_said_a_name(shim_door: Door) -> None:
    """The first message of SCRAM is a name and a nonce; the broker answers it, and has accepted nobody."""
    first = b"n,,n=alice,r=nonce"
    for said in (
        (handshake(1, "SCRAM-SHA-256"), authenticate(2, first), HEARTBEAT),
        (handshake(0, "SCRAM-SHA-256"), bare(first), bare(b"")),
    ):
        answers = conversation(shim_door, *said)
        assert answers[-1] == ENDED
        assert b"r=nonce" in answers[1]
