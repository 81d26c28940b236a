"""CreateTopics (key 19): passed on. The response is kept until the shim knows of the topics that were made."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.create_topics import API, CreateTopicsResponse
from shim.api.call import Services
from shim.api.changed_topics import Changes, kept, noticed

VERSIONS = (2, 7)


def rewrite(services: Services, version: int, frame: bytes) -> bytes | Coroutine[Any, Any, bytes]:
    return kept(services, API, version, frame, _made)


async def before_answered(services: Services, response: CreateTopicsResponse) -> None:
    """Of versions that are translated."""
    await noticed(services, _made(response))


def _made(response: CreateTopicsResponse) -> Changes:
    return {each.name: each.topic_id for each in response.topics if each.error_code == ErrorCode.NONE}


__all__ = ["API", "VERSIONS", "before_answered", "rewrite"]
