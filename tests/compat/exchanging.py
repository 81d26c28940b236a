"""A translation as the generator that it is, with all that it yields and is sent as it goes over the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compat.translation import Context, Exchange, Translation

Broker = Callable[[Any], Any]


def translated(
    translation: Translation, version: int, request: Any, broker: Broker, context: Context | None = None
) -> Any:
    """What a client of that version is answered, where the broker answers each request by itself."""
    api, to = translation.api, translation.to
    read, _ = api.decode_request(version, api.encode_request(version, request))
    exchange: Exchange = translation.exchange(version, read, context or Context())
    try:
        asked = next(exchange)
        while True:
            answers = [broker(api.decode_request(to, api.encode_request(to, each))[0]) for each in asked]
            asked = exchange.send([api.decode_response(to, api.encode_response(to, answer))[0] for answer in answers])
    except StopIteration as end:
        answer, _ = api.decode_response(version, api.encode_response(version, end.value))
        return answer


def unasked(request: Any) -> Any:
    raise AssertionError(f"nobody expected the broker to be asked: {request}")
