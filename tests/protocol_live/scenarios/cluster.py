"""The cluster, its topics, and what is the same for every connection."""

import uuid

from protocol.errors import ErrorCode
from protocol.messages import (
    api_versions,
    create_topics,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from protocol.wire import ZERO_UUID
from tests.protocol_live.place import Place, scenario

TOPIC, BROKER = 2, 4  # resource types


@scenario(metadata.API)
def describes_itself(place: Place, version: int) -> None:
    topic = place.new_topic()
    operations = version >= 8
    request = metadata.MetadataRequest(
        (metadata.MetadataRequestTopic(name=topic),),
        version < 4,
        include_cluster_authorized_operations=8 <= version <= 10,
        include_topic_authorized_operations=operations,
    )
    answer = place.ask(metadata.API, version, request)
    assert [broker[:4] for broker in answer.brokers] == [(1, "127.0.0.1", place.port, None)]
    if version >= 1:
        assert answer.controller_id == 1
    assert bool(answer.cluster_id) == (version >= 2)
    assert answer.error_code == 0
    (found,) = answer.topics
    assert (found.error_code, found.name, found.is_internal) == (0, topic, False)
    ((error, index, leader, epoch, replicas, isr, offline, _),) = found.partitions
    assert (error, index, leader, replicas, isr, offline) == (0, 0, 1, (1,), (1,), ())
    assert epoch == (0 if version >= 7 else -1)
    assert (found.topic_authorized_operations != metadata.OPERATIONS_NOT_ASKED) == operations
    assert (answer.cluster_authorized_operations != metadata.OPERATIONS_NOT_ASKED) == (8 <= version <= 10)
    assert (found.topic_id != ZERO_UUID) == (version >= 10)

    everything = place.ask(metadata.API, version, metadata.MetadataRequest(None if version else ()))
    assert topic in [found.name for found in everything.topics]
    if version >= 4:
        absent = metadata.MetadataRequest((metadata.MetadataRequestTopic(name="absent"),), False)
        (missing,) = place.ask(metadata.API, version, absent).topics
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= 12:
        by_id = metadata.MetadataRequest((metadata.MetadataRequestTopic(found.topic_id, None),), False)
        (same,) = place.ask(metadata.API, version, by_id).topics
        assert (same.error_code, same.name) == (0, topic)
        unknown = metadata.MetadataRequest((metadata.MetadataRequestTopic(uuid.uuid4().bytes, None),), False)
        (missing,) = place.ask(metadata.API, version, unknown).topics
        assert (missing.error_code, missing.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


@scenario(api_versions.API)
def says_what_it_serves(place: Place, version: int) -> None:
    request = api_versions.ApiVersionsRequest("offset-shim", "1.0")
    answer = place.ask(api_versions.API, version, request)
    assert answer.error_code == 0
    assert (api_versions.API.key, *api_versions.API.versions, ()) in [tuple(key) for key in answer.api_keys]
    if version >= 3:
        assert "metadata.version" in [feature.name for feature in answer.finalized_features]
        assert answer.finalized_features_epoch >= 0
        nameless = place.ask(api_versions.API, version, api_versions.ApiVersionsRequest())
        assert nameless.error_code == ErrorCode.INVALID_REQUEST


@scenario(create_topics.API)
def creates_topics(place: Place, version: int) -> None:
    counted, placed = f"counted-{uuid.uuid4().hex}", f"placed-{uuid.uuid4().hex}"
    assignments = tuple(create_topics.CreatableReplicaAssignment(n, (1,)) for n in (0, 1))
    configs = (create_topics.CreatableTopicConfig("retention.ms", "3600000"),)
    topics = (
        create_topics.CreatableTopic(counted, 3, 1, (), configs),
        create_topics.CreatableTopic(placed, -1, -1, assignments, ()),
    )
    request = create_topics.CreateTopicsRequest(topics, 10_000)
    if version >= 1:
        tried = place.ask(create_topics.API, version, request._replace(validate_only=True))
        assert [topic.error_code for topic in tried.topics] == [0, 0]
    answer = place.ask(create_topics.API, version, request)
    by_name = {topic.name: topic for topic in answer.topics}
    assert {name: topic.error_code for name, topic in by_name.items()} == {counted: 0, placed: 0}
    if version >= 5:
        found = by_name[counted]
        assert (found.num_partitions, found.replication_factor, found.topic_config_error_code) == (3, 1, 0)
        settings = {config.name: config.value for config in found.configs or ()}
        assert settings["retention.ms"] == "3600000"
    if version >= 7:
        assert by_name[placed].topic_id == place.topic_id(placed)
    again = place.ask(create_topics.API, version, request)
    assert {topic.error_code for topic in again.topics} == {ErrorCode.TOPIC_ALREADY_EXISTS}
    if version >= 4:  # KIP-464
        default = (create_topics.CreatableTopic(f"default-{uuid.uuid4().hex}", -1, -1, (), ()),)
        (made,) = place.ask(create_topics.API, version, create_topics.CreateTopicsRequest(default)).topics
        assert made.error_code == 0


@scenario(delete_topics.API)
def deletes_topics(place: Place, version: int) -> None:
    topic = place.new_topic()
    if version < 6:
        request = delete_topics.DeleteTopicsRequest(topic_names=(topic, "absent"), timeout_ms=10_000)
    else:
        states = (
            delete_topics.DeleteTopicState(topic_id=place.topic_id(topic)),
            delete_topics.DeleteTopicState("absent"),
        )
        request = delete_topics.DeleteTopicsRequest(states, timeout_ms=10_000)
    answer = place.ask(delete_topics.API, version, request)
    assert {found.name: found.error_code for found in answer.responses} == {
        topic: 0,
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@scenario(describe_cluster.API)
def describes_the_cluster(place: Place, version: int) -> None:
    request = describe_cluster.DescribeClusterRequest(True, include_fenced_brokers=version >= 2)
    answer = place.ask(describe_cluster.API, version, request)
    assert (answer.error_code, answer.endpoint_type) == (0, 1)
    assert answer.cluster_id
    assert answer.cluster_authorized_operations != metadata.OPERATIONS_NOT_ASKED
    assert [broker[:5] for broker in answer.brokers] == [(1, "127.0.0.1", place.port, None, False)]


@scenario(describe_configs.API)
def describes_settings(place: Place, version: int) -> None:
    topic = place.new_topic()
    resources = (
        describe_configs.DescribeConfigsResource(TOPIC, topic, ("cleanup.policy",)),
        describe_configs.DescribeConfigsResource(BROKER, "1", None),
    )
    request = describe_configs.DescribeConfigsRequest(resources, version >= 1, version >= 3)
    answer = place.ask(describe_configs.API, version, request)
    by_name = {(found.resource_type, found.resource_name): found for found in answer.results}
    assert {found.error_code for found in answer.results} == {0}
    (policy,) = by_name[TOPIC, topic].configs
    assert (policy.name, policy.value, policy.is_sensitive) == ("cleanup.policy", "delete", False)
    assert policy.is_default == (version == 0)
    assert ("log.cleanup.policy" in [synonym.name for synonym in policy.synonyms]) == (version >= 1)
    assert bool(policy.documentation) == (version >= 3)
    assert len(by_name[BROKER, "1"].configs) > 100


@scenario(describe_acls.API)
def describes_acls(place: Place, version: int) -> None:
    any_ = 1
    request = describe_acls.DescribeAclsRequest(
        any_, None, any_ if version else 3, principal_filter=None, host_filter=None, operation=1, permission_type=1
    )
    answer = place.ask(describe_acls.API, version, request)
    # These brokers have no authorizer, and say so once they have read the request.
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, ())
    assert answer.error_message


@scenario(describe_topic_partitions.API)
def describes_topic_partitions(place: Place, version: int) -> None:
    names = sorted(place.new_topic() for _ in range(2))
    topics = tuple(describe_topic_partitions.TopicRequest(name) for name in names)
    first = describe_topic_partitions.DescribeTopicPartitionsRequest(topics, 1)
    answer = place.ask(describe_topic_partitions.API, version, first)
    assert answer.next_cursor is not None
    assert answer.next_cursor[:2] == (names[1], 0)
    second = place.ask(describe_topic_partitions.API, version, first._replace(cursor=answer.next_cursor))
    assert second.next_cursor is None
    for name, page in zip(names, (answer, second), strict=True):
        (topic,) = page.topics
        assert (topic.error_code, topic.name, topic.topic_id) == (0, name, place.topic_id(name))
        (partition,) = topic.partitions
        assert (partition.error_code, partition.leader_id, partition.replica_nodes) == (0, 1, (1,))


@scenario(sasl_handshake.API)
def refuses_a_handshake(place: Place, version: int) -> None:
    # The listener has no SASL, and says so once it has read the request.
    answer = place.ask(sasl_handshake.API, version, sasl_handshake.SaslHandshakeRequest("PLAIN"))
    assert answer == (ErrorCode.ILLEGAL_SASL_STATE, ())


@scenario(sasl_authenticate.API)
def refuses_to_authenticate(place: Place, version: int) -> None:
    request = sasl_authenticate.SaslAuthenticateRequest(b"\0user\0password")
    answer = place.ask(sasl_authenticate.API, version, request)
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
    assert answer.error_message
