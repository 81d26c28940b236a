"""A client connection's authentication at its broker: what is asked, what is answered, and what is served meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import api_versions, sasl_handshake
from shim.api import ROUTES, Authenticates, Route
from shim.config import Settings
from shim.net.broker_side import BrokerSide
from shim.net.requests import Head, RequestReader
from shim.security.sasl import Answer, Authentication, Phase

KEPT_ALIVE_SECONDS: Final = 60.0
"""A client that is served by the shim alone has a link that is idle, and brokers end those after ten minutes."""

NOT_TOLD_SECONDS: Final = 5.0
"""How often the link is looked after where the client's version of SASL has no way to say when the session ends: a
broker ends it all the same, at the first request that comes too late."""

_SIZE: Final = 4
_PING: Final = api_versions.API.request_frame(0, 0, None, api_versions.ApiVersionsRequest())


class AuthenticatingClient(Protocol):
    """The client's half, as far as its authentication needs it."""

    def place(self, count: int) -> Callable[[bytes], None]: ...

    def pause_requests(self) -> None: ...

    def resume_requests(self) -> None: ...

    def release(self) -> None:
        """The request or token that was admitted last is answered: it takes no room any more."""

    def take_active(self) -> bool:
        """Whether anything has come from the client since this was called last."""

    def is_now(self, principal: str, *, again: bool) -> None:
        """The broker has accepted the client's credentials; ``again``: of a client that was known already."""

    def refuse(self, reason: str) -> None:
        """Close the connection once everything is answered."""


class SaslSide:
    """Where the brokers want SASL. While an answer of the broker's is due, no further request is taken."""

    def __init__(
        self, client: AuthenticatingClient, broker: BrokerSide, requests: RequestReader[Route], settings: Settings
    ) -> None:
        self._client = client
        self._broker = broker
        self._requests = requests
        self._most = {
            Phase.AUTHENTICATED: (settings.socket_request_max_bytes, "socket.request.max.bytes"),
        }
        self._most_before = (
            min(settings.sasl_server_max_receive_size, settings.socket_request_max_bytes),
            "sasl.server.max.receive.size",
        )
        self._authentication = Authentication()
        self._expiry: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        self._look_is_due = False
        self._answer_is_due = False
        self._closed = False
        self._serve()

    def request(self, head: Head, frame: bytes) -> None:
        """SaslHandshake, SaslAuthenticate, and whatever comes in place of the latter. Raises DecodeError."""
        state, key, version = self._authentication, head.api_key, head.api_version
        take: Callable[[bytes], Answer]
        if key == ApiKey.SASL_HANDSHAKE and state.phase is not Phase.TOKENS:
            take, frame = partial(state.handshaken, version), state.handshake(version, frame)
        elif state.phase is not Phase.TOKENS:
            take = Answer  # the broker says that it is not the time for that, and goes on
        elif key == ApiKey.SASL_AUTHENTICATE and _is_routed(key, version):
            state.authenticate(version, frame, self._now())
            take = partial(state.authenticated, version)
        else:
            take = state.refused
        respond = self._client.place(1)
        self._client.pause_requests()
        self._answer_is_due = True
        self._broker.exchange(frame, partial(self._answered, take, respond))

    def token(self, frame: bytes) -> None:
        """One without a header, size included."""
        self._authentication.token(frame[_SIZE:], self._now())
        respond = self._client.place(1)
        self._client.pause_requests()
        self._answer_is_due = True
        self._broker.expect_token(partial(self._answered, self._authentication.token_answered, respond))
        self._broker.pass_on(frame)

    def close(self) -> None:
        self._closed = True
        self._cancel()

    def _cancel(self) -> None:
        for timer in (self._expiry, self._look):
            if timer is not None:
                timer.cancel()
        self._expiry = self._look = None

    def _answered(self, take: Callable[[bytes], Answer], respond: Callable[[bytes], None], frame: bytes) -> None:
        # At once, not in a task: the broker may have closed the link behind its answer.
        before = self._authentication.phase
        answer = take(frame)
        self._answer_is_due = False
        self._client.release()
        respond(answer.frame)
        self._follow(before, reauthenticated=answer.reauthenticated)

    # What follows from the broker's answers.

    def _follow(self, before: Phase, *, reauthenticated: bool) -> None:
        state = self._authentication
        if state.phase is Phase.OVER:
            self._client.refuse("the broker has refused its credentials")
            return
        self._serve()
        if state.phase is Phase.AUTHENTICATED and before is not Phase.AUTHENTICATED:
            self._client.is_now(state.principal, again=reauthenticated)
            self._begin_session()
        self._client.resume_requests()

    def _serve(self) -> None:
        routes, unserved = _SERVED[self._authentication.phase]
        most, limit = self._most.get(self._authentication.phase, self._most_before)
        tokens = self._authentication.phase is Phase.BARE_TOKENS
        self._requests.serve(routes, most, limit=limit, unserved=unserved, tokens=tokens)

    # The session that the broker has granted.

    def _begin_session(self) -> None:
        state = self._authentication
        self._cancel()
        if self._closed:  # with the answer that begins it
            return
        if state.expires_at is not None:
            self._expiry = asyncio.get_running_loop().call_at(state.expires_at, self._expire)
        self._look_later()

    def _expire(self) -> None:
        self._authentication.expire()
        self._serve()

    def _look_later(self) -> None:
        pause = KEPT_ALIVE_SECONDS if self._authentication.is_told else NOT_TOLD_SECONDS
        self._look = asyncio.get_running_loop().call_later(pause, self._look_after)

    def _look_after(self) -> None:
        """Have the broker answer something, unless nobody is active, and the broker may think so too."""
        self._look_later()
        busy = self._look_is_due or self._answer_is_due or self._requests.mid_passing
        if self._client.take_active() and not busy and self._authentication.phase is Phase.AUTHENTICATED:
            self._look_is_due = True
            self._broker.exchange(_PING, self._looked_after)

    def _looked_after(self, _frame: bytes) -> None:
        self._look_is_due = False

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class UnexpectedSasl:
    """Where the brokers are said not to want SASL: they refuse it themselves, and if not, nobody is served on."""

    def __init__(self, client: AuthenticatingClient, broker: BrokerSide) -> None:
        self._client = client
        self._broker = broker

    def request(self, head: Head, frame: bytes) -> None:
        respond = self._client.place(1)
        self._client.pause_requests()
        self._broker.exchange(frame, partial(self._answered, head, respond))

    def _answered(self, head: Head, respond: Callable[[bytes], None], frame: bytes) -> None:
        self._client.release()
        respond(frame)
        if head.api_key == ApiKey.SASL_HANDSHAKE:
            _, answer = sasl_handshake.API.parse_response(head.api_version, frame, _SIZE)
            if answer.error_code != ErrorCode.ILLEGAL_SASL_STATE:
                self._client.refuse("the broker wants SASL, and upstream.security.protocol does not say so")
                return
        self._client.resume_requests()

    def token(self, frame: bytes) -> None:
        raise AssertionError("tokens without a header are not taken here")

    def close(self) -> None:
        pass


def _is_routed(key: int, version: int) -> bool:
    return key << 16 | version in ROUTES


class _Everything(Mapping[int, Route]):
    """One route for every API and version, known or not."""

    def __init__(self, route: Route) -> None:
        self._route = route

    def __getitem__(self, key: int) -> Route:
        return self._route

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _only(*keys: ApiKey) -> dict[int, Route]:
    return {key: route for key, route in ROUTES.items() if route.key in keys}


_PASSED_ON: Final = Route(ApiKey.SASL_AUTHENTICATE, 0, 0, Authenticates())

_SERVED: Final[Mapping[Phase, tuple[Mapping[int, Route], str]]] = {
    Phase.STRANGER: (_only(ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE), "before the client has authenticated"),
    Phase.TOKENS: (_Everything(_PASSED_ON), ""),
    Phase.BARE_TOKENS: ({}, ""),
    Phase.AUTHENTICATED: (ROUTES, "is not served"),
    Phase.EXPIRED: (_only(ApiKey.SASL_HANDSHAKE), "after the end of the session that the broker had granted"),
    Phase.OVER: ({}, "after the broker has refused the client"),
}
"""What is served in which phase, and what is said of all else."""
