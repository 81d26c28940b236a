"""InitProducerId (key 22), versions 0-5. Source: Kafka 4.3, KIP-98.

Version 3 can keep the producer id and bump its epoch (KIP-360), 4 may answer PRODUCER_FENCED (KIP-588), 5
TRANSACTION_ABORTABLE (KIP-890). Version 6 (KIP-939) is not stable in 4.3: brokers do not advertise it, and it is not
here.
"""

from typing import Annotated, NamedTuple

from protocol.api import Api
from protocol.wire import Int16, Int32, Int64, NullableString, TaggedFields, ignorable, since


class InitProducerIdRequest(NamedTuple):
    """`transactional_id` is null for a producer that is idempotent only."""

    transactional_id: NullableString
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    tagged: TaggedFields = ()


class InitProducerIdResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, ignorable]
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    tagged: TaggedFields = ()


API = Api(
    key=22,
    name="InitProducerId",
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    versions=(0, 5),
    flexible_since=2,
)
