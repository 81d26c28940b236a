"""The brokers of a cluster, asked for their groups, and patience with what they refuse."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from protocol.api import Api
from protocol.errors import ErrorCode
from shim.upstream.errors import UpstreamError
from shim.upstream.log_ends import Asked

PATIENCE_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 0.1

PASSES_BY_ITSELF: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)

Answer = TypeVar("Answer")
Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class Brokers(Asked, Protocol):
    """Connections to all brokers of one cluster. Everything raises UpstreamError."""

    async def ask(
        self,
        node_id: int,
        api: Api[Request, Response],
        request: Request,
        *,
        version: int | None = None,
        may_send: Callable[[], None] = lambda: None,
    ) -> Response:
        """By default in the newest version that both sides have. ``may_send``: called when the connection is free and
        open, right before it is sent, and raises what this is to raise where it is not to be sent any more."""

    async def offers(self, node_id: int, api: Api[Any, Any]) -> bool:
        """Whether the broker has any version of it."""


class BrokerRefused(UpstreamError):
    """An answer with an error code."""

    def __init__(self, code: int, what: str) -> None:
        self.code = code
        super().__init__(f"{what}: {ErrorCode.name_of(code)}")


class LeadersUnknown(UpstreamError):
    """Who coordinates groups by now cannot be found out, as most brokers have not answered: what the one has told that
    was asked about them is not its fault, and not believed yet."""


def passes(error: object) -> bool:
    """By itself: a moment later the answer may be another one."""
    return isinstance(error, LeadersUnknown) or (isinstance(error, BrokerRefused) and error.code in PASSES_BY_ITSELF)


def raise_for(code: int, what: str) -> None:
    """Raises BrokerRefused for any code but 0."""
    if code:
        raise BrokerRefused(code, what)


def told(answer: Answer | UpstreamError) -> Answer:
    """Raises what it is where it is an error."""
    if isinstance(answer, UpstreamError):
        raise answer
    return answer


async def until_ready(ask: Callable[[], Awaitable[Answer]], patience_s: float = PATIENCE_SECONDS) -> Answer:
    """Asks again for as long as what refuses it passes by itself, but not for ever. Raises UpstreamError."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return await ask()
        except UpstreamError as error:
            if not passes(error) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(RETRY_SECONDS)  # a broker tells nobody when it is ready
