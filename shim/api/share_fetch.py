"""ShareFetch (key 78, KIP-932): passed through to the broker behind the connection.

The response may name new leaders' addresses, behind its records: so it is collected, and the broker asked for no more
records than may be kept meanwhile.
"""

from __future__ import annotations

from typing import Final, NoReturn

from protocol.errors import ErrorCode
from protocol.messages.share_fetch import API, ShareFetchRequest, ShareFetchResponse
from shim.api.call import Call, Services
from shim.api.counting import of_the_broker as codes
from shim.api.fetched_bytes import FetchedBytes
from shim.api.new_leaders import at_our_ports
from shim.api.waiting import while_requests_are_paused

VERSIONS = (1, 2)

_FETCHED: Final = FetchedBytes()

_Call = Call[ShareFetchRequest, ShareFetchResponse]


@while_requests_are_paused
async def handle(services: Services, call: _Call) -> None:
    with _FETCHED.share() as most:
        request = call.request._replace(max_bytes=min(call.request.max_bytes, most))
        asked = call.connection.ask(call.broker_frame(call.version, request), prompt=False)
        # Nothing here keeps the frame while the client reads it.
        call.answer_frame(at_our_ports(services, API, call.version, await asked))
        await call.connection.taken()


def failure(_: _Call, error: ErrorCode) -> NoReturn:
    """Nobody fails such a request: the broker answers it."""
    raise AssertionError(f"a share fetch fails with {error!r}")


__all__ = ["API", "VERSIONS", "codes", "failure", "handle"]
