"""SaslAuthenticate (key 36), versions 0-2. Source: Kafka 4.3, KIP-152.

Version 1 says how long the session may last (KIP-368).
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Bytes, Int16, Int64, NullableString, TaggedFields, ignorable, since


class SaslAuthenticateRequest(NamedTuple):
    auth_bytes: Bytes
    tagged: TaggedFields = ()


class SaslAuthenticateResponse(NamedTuple):
    """`session_lifetime_ms`: 0 means that the session does not end."""

    error_code: Int16
    error_message: NullableString
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, since(1), ignorable] = 0
    tagged: TaggedFields = ()


API = Api(
    key=36,
    name="SaslAuthenticate",
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    versions=(0, 2),
    flexible_since=2,
)
