"""DeleteTopics (key 20): passed on. The response is kept until the shim knows that the topics are gone."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.delete_topics import API, DeleteTopicsResponse
from shim.api.call import Services
from shim.api.changed_topics import Changes, kept, noticed

VERSIONS = (1, 6)


def rewrite(services: Services, version: int, frame: bytes) -> bytes | Coroutine[Any, Any, bytes]:
    return kept(services, API, version, frame, _deleted)


async def before_answered(services: Services, response: DeleteTopicsResponse) -> None:
    """Of versions that are translated."""
    await noticed(services, _deleted(response))


def _deleted(response: DeleteTopicsResponse) -> Changes:
    """By name, also where they were named by id."""
    return {
        each.name: None for each in response.responses if each.error_code == ErrorCode.NONE and each.name is not None
    }


__all__ = ["API", "VERSIONS", "before_answered", "rewrite"]
