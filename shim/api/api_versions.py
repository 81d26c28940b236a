"""ApiVersions (key 18): the broker is asked, and its answer cut down to what the shim's table has too.

To that come the old versions that a broker dropped and the shim translates (``compat``), or answers itself.
An empty range is dropped, and so is an API that is not in the table: a client that does not see it does not use it.
To the broker's supported features comes one of the shim's own (v3 and newer), conditional commits.
v5 (Kafka 4.3) may be answered REBOOTSTRAP_REQUIRED and carries node ids: v4 is the newest that is offered. To newer
ones the answer is v0 with UNSUPPORTED_VERSION, and the client tries lower (KIP-511).
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.api_versions import API, ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.own import conditional_commit
from shim.api.call import SIZE_FIELD, Call, Services
from shim.api.counting import of_response as codes

VERSIONS = (0, 4)

_Call = Call[ApiVersionsRequest, ApiVersionsResponse]


def handle(services: Services, call: _Call) -> Coroutine[Any, Any, None]:
    if call.request.client_software_name:
        call.connection.is_software(call.request.client_software_name, call.request.client_software_version)
    return _ask(services, call, call.ask_broker())


async def _ask(services: Services, call: _Call, asked: Awaitable[bytes]) -> None:
    _, answer = API.parse_response(call.version, await asked, SIZE_FIELD)
    offered = []
    features = answer.supported_features
    for theirs in answer.api_keys:
        ours = services.offered.get(theirs.api_key)
        if ours is None:
            continue
        first, last = ours.first, min(ours.last, theirs.max_version)
        if not ours.answers_older(theirs.min_version, theirs.max_version):
            first = max(first, theirs.min_version)
        if first <= last:
            offered.append(ApiVersion(theirs.api_key, first, last))
        if theirs.api_key == ApiKey.OFFSET_COMMIT and last >= conditional_commit.FIRST_VERSION:
            features = (*features, conditional_commit.FEATURE)
    call.answer(answer._replace(api_keys=tuple(offered), supported_features=features))


def failure(call: _Call, error: ErrorCode) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error, api_keys=())


def too_new(correlation_id: int) -> bytes:
    """The frame that answers a version newer than the shim knows."""
    own = ApiVersion(API.key, *VERSIONS)
    return API.response_frame(0, correlation_id, ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (own,)))


__all__ = ["API", "VERSIONS", "codes", "failure", "handle", "too_new"]
