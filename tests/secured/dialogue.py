"""What a client says byte by byte while it authenticates, and what it hears."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from protocol.api import Api
from protocol.messages import api_versions, heartbeat, metadata, offset_fetch, sasl_authenticate, sasl_handshake
from shim.upstream.scram import ScramClient
from tests.secured.broker import Door
from tests.secured.users import PASSWORDS, SCRAM, plain
from tests.wire import WireClient

ENDED = "ended"
NOTHING = "nothing"
"""Neither an answer nor an end within the time that a broker takes for either."""

_HUSH_S = 0.7


class Said(NamedTuple):
    """A request, or (without an API) a token without a header."""

    api: Api[Any, Any] | None
    version: int
    body: Any


def handshake(version: int, mechanism: str) -> Said:
    return Said(sasl_handshake.API, version, sasl_handshake.SaslHandshakeRequest(mechanism))


def authenticate(version: int, token: bytes) -> Said:
    return Said(sasl_authenticate.API, version, sasl_authenticate.SaslAuthenticateRequest(token))


def bare(token: bytes) -> Said:
    return Said(None, 0, token)


VERSIONS = Said(api_versions.API, 3, api_versions.ApiVersionsRequest("client", "1.0"))
METADATA = Said(metadata.API, 9, metadata.MetadataRequest(()))
HEARTBEAT = Said(heartbeat.API, 4, heartbeat.HeartbeatRequest("alice-group", 1, "nobody"))
FETCH_OFFSETS = Said(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest("alice-group", ()))


def say(client: WireClient, said: Said) -> bytes | str:
    """The frame that answers it, without its size; ``ENDED`` where the connection is ended instead."""
    try:
        if said.api is None:
            client.socket.sendall(struct.pack(">i", len(said.body)) + said.body)
        else:
            client.send(said.api, said.version, said.body)
        return client.receive_frame()
    except ConnectionError:
        return ENDED


def afterwards(client: WireClient) -> str:
    """Whether the connection is ended behind the last answer."""
    client.socket.settimeout(_HUSH_S)
    try:
        return ENDED if client.ended() else "more"
    except TimeoutError:
        return NOTHING


def log_in(client: WireClient, user: str, mechanism: str = "PLAIN", scram: ScramClient | None = None) -> WireClient:
    """The broker has accepted it on return."""
    assert client.ask(sasl_handshake.API, 1, sasl_handshake.SaslHandshakeRequest(mechanism)).error_code == 0

    def exchange(token: bytes) -> bytes:
        answer = client.ask(sasl_authenticate.API, 2, sasl_authenticate.SaslAuthenticateRequest(token))
        assert answer.error_code == 0, answer
        return answer.auth_bytes

    if mechanism in SCRAM:
        scram = scram or ScramClient(mechanism, user, PASSWORDS[user])
        scram.verify(exchange(scram.final(exchange(scram.first()))))
    else:
        exchange(plain(user))
    return client


def logged_in(door: Door, user: str, mechanism: str = "PLAIN") -> WireClient:
    return log_in(door.client(), user, mechanism)


def conversation(door: Door, *said: Said) -> list[bytes | str]:
    """What each is answered, to the end of the connection; then whether it ends by itself."""
    heard: list[bytes | str] = []
    with door.client() as client:
        for each in said:
            heard.append(_comparable(each, say(client, each)))
            if heard[-1] == ENDED:
                return heard
        heard.append(afterwards(client))
    return heard


def _comparable(said: Said, answer: bytes | str) -> bytes | str:
    """Without what differs for a reason: which versions there are, at which ports brokers are."""
    if isinstance(answer, str) or said.api not in (api_versions.API, metadata.API):
        return answer
    assert said.api is not None
    correlation_id, response = said.api.parse_response(said.version, answer)
    if isinstance(response, metadata.MetadataResponse):
        return repr((correlation_id, response.error_code or len(response.brokers)))
    return repr((correlation_id, response.error_code))
