"""The messages that are timed: what a client and a broker send each other, in sizes that are met."""

from typing import Any, Literal, NamedTuple

from protocol.api import Api
from protocol.apis import APIS
from protocol.messages import api_versions, join_group, metadata, offset_commit, offset_fetch

GROUP = "billing-invoices"
MEMBER = "consumer-billing-invoices-1-6d6b2f3e-5b1c-4a51-9f5e-8e0b6a1f2c3d"
_SUBSCRIPTION = bytes.fromhex("0001000000020008706179") + bytes(40)


class Sample(NamedTuple):
    """A message, and the version in which it is timed."""

    api: Api[Any, Any]
    direction: Literal["request", "response"]
    version: int
    message: Any
    size: str = ""

    @property
    def label(self) -> str:
        label = f"{self.api.name} {self.direction} v{self.version}"
        return f"{label}, {self.size}" if self.size else label


def _spread(partitions: int) -> dict[str, range]:
    """Topics with ten partitions each, or one topic with fewer."""
    return {f"orders-{first // 10:02}": range(min(10, partitions)) for first in range(0, partitions, 10)}


def _commit(partitions: int) -> offset_commit.OffsetCommitRequest:
    return offset_commit.OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=42,
        member_id=MEMBER,
        topics=tuple(
            offset_commit.OffsetCommitRequestTopic(
                name,
                partitions=tuple(offset_commit.OffsetCommitRequestPartition(i, 1_000_000_000 + i) for i in indexes),
            )
            for name, indexes in _spread(partitions).items()
        ),
    )


def _committed(partitions: int) -> offset_commit.OffsetCommitResponse:
    return offset_commit.OffsetCommitResponse(
        topics=tuple(
            offset_commit.OffsetCommitResponseTopic(
                name, partitions=tuple(offset_commit.OffsetCommitResponsePartition(i, 0) for i in indexes)
            )
            for name, indexes in _spread(partitions).items()
        )
    )


def _fetch_one_group(partitions: int) -> offset_fetch.OffsetFetchRequest:
    topics = (offset_fetch.OffsetFetchRequestTopic(name, tuple(i)) for name, i in _spread(partitions).items())
    return offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=tuple(topics))


def _fetch_groups(partitions: int) -> offset_fetch.OffsetFetchRequest:
    topics = tuple(
        offset_fetch.OffsetFetchRequestTopics(name, partition_indexes=tuple(indexes))
        for name, indexes in _spread(partitions).items()
    )
    group = offset_fetch.OffsetFetchRequestGroup(GROUP, topics=topics)
    return offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=True)


def _fetched_one_group(partitions: int) -> offset_fetch.OffsetFetchResponse:
    return offset_fetch.OffsetFetchResponse(
        topics=tuple(
            offset_fetch.OffsetFetchResponseTopic(
                name, tuple(offset_fetch.OffsetFetchResponsePartition(i, 1_000_000_000 + i) for i in indexes)
            )
            for name, indexes in _spread(partitions).items()
        )
    )


def _fetched_groups(partitions: int) -> offset_fetch.OffsetFetchResponse:
    topics = tuple(
        offset_fetch.OffsetFetchResponseTopics(
            name, partitions=tuple(offset_fetch.OffsetFetchResponsePartitions(i, 1_000_000_000 + i, 7) for i in indexes)
        )
        for name, indexes in _spread(partitions).items()
    )
    return offset_fetch.OffsetFetchResponse(groups=(offset_fetch.OffsetFetchResponseGroup(GROUP, topics),))


def _metadata(leader_epoch: int) -> metadata.MetadataResponse:
    """Three brokers, 50 topics of 20 partitions, three replicas each."""
    brokers = tuple(metadata.MetadataResponseBroker(i, f"kafka-{i}.example.net", 9092, f"az-{i}") for i in range(3))
    topics = tuple(
        metadata.MetadataResponseTopic(
            0,
            f"orders-{topic:02}",
            bytes([topic + 1] * 16) if leader_epoch >= 0 else bytes(16),
            partitions=tuple(
                metadata.MetadataResponsePartition(
                    0,
                    partition,
                    partition % 3,
                    leader_epoch,
                    (partition % 3, (partition + 1) % 3, (partition + 2) % 3),
                    (partition % 3, (partition + 1) % 3, (partition + 2) % 3),
                )
                for partition in range(20)
            ),
        )
        for topic in range(50)
    )
    return metadata.MetadataResponse(
        brokers=brokers, cluster_id="4L6g3nShT-eMCtK--X86sw", controller_id=1, topics=topics
    )


def _join() -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=MEMBER,
        protocol_type="consumer",
        protocols=tuple(join_group.JoinGroupRequestProtocol(name, _SUBSCRIPTION) for name in ("range", "sticky")),
    )


def _joined(protocol_type: str | None) -> join_group.JoinGroupResponse:
    """What the leader of a group of ten gets."""
    members = tuple(join_group.JoinGroupResponseMember(f"{MEMBER}-{i}", None, _SUBSCRIPTION) for i in range(10))
    return join_group.JoinGroupResponse(
        generation_id=42,
        protocol_type=protocol_type,
        protocol_name="range",
        leader=members[0].member_id,
        member_id=members[0].member_id,
        members=members,
    )


_KEYS = tuple(api_versions.ApiVersion(key, 0, key % 12) for key in range(62))
_FEATURES = {"group.version": 1, "kraft.version": 1, "metadata.version": 27, "transaction.version": 2}
_ASKED = api_versions.ApiVersionsRequest("apache-kafka-java", "4.1.0")
_VERSIONS = api_versions.ApiVersionsResponse(0, _KEYS)
_VERSIONS_AND_FEATURES = api_versions.ApiVersionsResponse(
    0,
    _KEYS,
    supported_features=tuple(api_versions.SupportedFeatureKey(name, 0, high) for name, high in _FEATURES.items()),
    finalized_features_epoch=311,
    finalized_features=tuple(api_versions.FinalizedFeatureKey(name, high, high) for name, high in _FEATURES.items()),
)

_OFFSET_COMMIT, _OFFSET_FETCH, _METADATA, _JOIN_GROUP, _API_VERSIONS = (APIS[key] for key in (8, 9, 3, 11, 18))


def _sizes(partitions: int) -> list[Sample]:
    size = "1 partition" if partitions == 1 else f"{partitions:,} partitions"
    return [
        Sample(_OFFSET_COMMIT, "request", 8, _commit(partitions), size),
        Sample(_OFFSET_COMMIT, "request", 3, _commit(partitions), size),
        Sample(_OFFSET_COMMIT, "response", 8, _committed(partitions), size),
        Sample(_OFFSET_COMMIT, "response", 3, _committed(partitions), size),
        Sample(_OFFSET_FETCH, "request", 8, _fetch_groups(partitions), size),
        Sample(_OFFSET_FETCH, "request", 3, _fetch_one_group(partitions), size),
        Sample(_OFFSET_FETCH, "response", 8, _fetched_groups(partitions), size),
        Sample(_OFFSET_FETCH, "response", 3, _fetched_one_group(partitions), size),
    ]


# A flexible version (KIP-482), and the newest that aiokafka has, which are older ones.
SAMPLES = (
    *_sizes(1),
    *_sizes(100),
    # So large that they are checked as a whole before anything is made of them.
    *_sizes(20_000),
    Sample(_METADATA, "response", 12, _metadata(7), "1,000 partitions"),
    Sample(_METADATA, "response", 5, _metadata(-1), "1,000 partitions"),
    Sample(_JOIN_GROUP, "request", 9, _join()),
    Sample(_JOIN_GROUP, "request", 5, _join()),
    Sample(_JOIN_GROUP, "response", 9, _joined("consumer"), "10 members"),
    Sample(_JOIN_GROUP, "response", 5, _joined(None), "10 members"),
    Sample(_API_VERSIONS, "request", 4, _ASKED),
    Sample(_API_VERSIONS, "request", 2, api_versions.ApiVersionsRequest()),
    Sample(_API_VERSIONS, "response", 4, _VERSIONS_AND_FEATURES, "62 APIs"),
    Sample(_API_VERSIONS, "response", 2, _VERSIONS, "62 APIs"),
)
