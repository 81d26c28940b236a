"""SASL, ACLs and authorized operations, as brokers with a SASL listener and an authorizer answer.

Kafka 4.3.1, and 3.9.2 for what Kafka 4 dropped. That every answer decodes to its last byte, and is what we would have
written, is checked by `Place.ask`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka.admin import ACLOperation

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import (
    consumer_group_describe,
    describe_acls,
    describe_cluster,
    describe_groups,
    metadata,
    offset_commit,
    offset_fetch,
    sasl_authenticate,
    sasl_handshake,
)
from protocol.wire import ZERO_UUID
from shim.demo.parts.jars import KAFKA
from tests.legacy.parts import KAFKA_3
from tests.protocol_live.place import Place
from tests.protocol_live.scenarios.groups import new_consumer
from tests.protocol_live.secured import (
    ACLS,
    LITERAL,
    MECHANISMS,
    SESSION_LIFETIME_MS,
    Acl,
    Secured,
    described,
    everything,
    handshake,
    plain,
    secured_broker,
    send_bare,
)

RELEASES: Final = (KAFKA_3, KAFKA)

_TIMEOUT_S: Final = 30.0

# By API key: the versions that 4.3.1 does not have, and those that 3.9.2 does not have with ZooKeeper.
_MISSING: Final = {
    KAFKA: {offset_fetch.API.key: {0}, describe_acls.API.key: {0}},
    KAFKA_3: {
        metadata.API.key: {13},
        offset_fetch.API.key: {10},
        describe_groups.API.key: {6},
        describe_cluster.API.key: {2},
    },
}


def versions(api: Api[Any, Any], since: int = 0, *, releases: tuple[str, ...] = RELEASES) -> pytest.MarkDecorator:
    """Every version of an API, from `since` on, at every release that has it."""
    found = [
        pytest.param(release, version, id=f"{version}-{release}")
        for release in releases
        for version in range(since, api.versions[1] + 1)
        if version not in _MISSING[release].get(api.key, ())
    ]
    return pytest.mark.parametrize(("secured", "version"), found, indirect=["secured"])


every_release = pytest.mark.parametrize("secured", RELEASES, indirect=True)


@pytest.fixture(scope="module")
def secured_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Secured]]:
    """Gives the one running broker of a release."""
    running: dict[str, Secured] = {}
    with ExitStack() as stack:

        def started(release: str) -> Secured:
            if release not in running:
                running[release] = stack.enter_context(secured_broker(tmp_path_factory.mktemp(release), release))
            return running[release]

        yield started


@pytest.fixture
def secured(request: pytest.FixtureRequest, secured_at: Callable[[str], Secured]) -> Secured:
    return secured_at(request.param)


@every_release
def test_the_versions_tried_are_those_there_are(secured: Secured) -> None:
    with secured.stranger() as place:
        has = place.advertised()
    for api in (
        *(sasl_handshake.API, sasl_authenticate.API, describe_acls.API),
        *(metadata.API, describe_cluster.API, describe_groups.API, offset_fetch.API),
    ):
        oldest, newest = has[api.key]
        tried = set(range(api.versions[1] + 1)) - _MISSING[secured.release].get(api.key, set())
        assert tried == set(range(oldest, newest + 1)), api


def is_served(place: Place, secured: Secured) -> None:
    """ApiVersions and Metadata are answered: the broker lets only who has authenticated ask for the latter."""
    assert metadata.API.key in place.advertised()
    answer = place.ask(metadata.API, place.newest(metadata.API), metadata.MetadataRequest(()))
    assert [broker[:4] for broker in answer.brokers] == [(1, "127.0.0.1", secured.sasl_port, None)]


@every_release
def test_strangers_are_not_served(secured: Secured) -> None:
    with secured.stranger() as place, pytest.raises(ConnectionError):
        place.ask(metadata.API, 9, metadata.MetadataRequest(()))


@every_release
def test_bare_messages_after_handshake_0(secured: Secured) -> None:
    with secured.stranger() as place:
        assert place.advertised()
        assert handshake(place, 0, "PLAIN") == (ErrorCode.NONE, MECHANISMS)
        send_bare(place.client, plain("alice"))
        assert place.client.receive_frame() == b""
        is_served(place, secured)


@every_release
def test_a_wrong_password_after_handshake_0(secured: Secured) -> None:
    with secured.stranger() as place:
        assert handshake(place, 0, "PLAIN").error_code == 0
        send_bare(place.client, plain("alice", "wrong"))
        assert place.client.ended()


@versions(sasl_handshake.API)
def test_an_unknown_mechanism(secured: Secured, version: int) -> None:
    with secured.stranger() as place:
        answer = handshake(place, version, "SCRAM-SHA-1")
        assert answer == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, MECHANISMS)
        assert place.client.ended()


@versions(sasl_authenticate.API)
def test_authenticates(secured: Secured, version: int) -> None:
    with secured.stranger() as place:
        assert handshake(place, 1, "PLAIN") == (ErrorCode.NONE, MECHANISMS)
        request = sasl_authenticate.SaslAuthenticateRequest(plain("alice"))
        answer = place.ask(sasl_authenticate.API, version, request)
        lifetime = SESSION_LIFETIME_MS if version >= 1 else 0
        assert answer == (ErrorCode.NONE, "", b"", lifetime, ())
        is_served(place, secured)


@versions(sasl_authenticate.API)
def test_a_wrong_password(secured: Secured, version: int) -> None:
    with secured.stranger() as place:
        assert handshake(place, 1, "PLAIN").error_code == 0
        request = sasl_authenticate.SaslAuthenticateRequest(plain("alice", "wrong"))
        answer = place.ask(sasl_authenticate.API, version, request)
        message = "Authentication failed: Invalid username or password"
        assert answer == (ErrorCode.SASL_AUTHENTICATION_FAILED, message, b"", 0, ())
        assert place.client.ended()


class Scram:
    """The client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding."""

    def __init__(self, user: str, password: str) -> None:
        self.servers_proof = b""
        self._password = password.encode()
        self._nonce = uuid.uuid4().hex
        self._first_bare = f"n={user},r={self._nonce}"

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        fields = dict(field.split("=", 1) for field in challenge.decode().split(","))
        assert fields["r"].startswith(self._nonce)
        assert len(fields["r"]) > len(self._nonce)
        salted = hashlib.pbkdf2_hmac("sha256", self._password, base64.b64decode(fields["s"]), int(fields["i"]))
        without_proof = f"c={base64.b64encode(b'n,,').decode()},r={fields['r']}"
        signed = ",".join((self._first_bare, challenge.decode(), without_proof)).encode()
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.servers_proof = b"v=" + base64.b64encode(_hmac(_hmac(salted, b"Server Key"), signed))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def new_scram_user(secured: Secured) -> tuple[str, str]:
    """A name and its password."""
    user, password = f"user-{uuid.uuid4().hex}", uuid.uuid4().hex
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{secured.port}"})
    admin.alter_user_scram_credentials([change])[user].result(_TIMEOUT_S)
    return user, password


@versions(sasl_authenticate.API)
def test_a_challenge_and_its_answer(secured: Secured, version: int) -> None:
    user, password = new_scram_user(secured)
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        with secured.stranger() as place:
            assert handshake(place, 1, "SCRAM-SHA-256") == (ErrorCode.NONE, MECHANISMS)
            scram = Scram(user, password)
            first = sasl_authenticate.SaslAuthenticateRequest(scram.first())
            challenged = place.ask(sasl_authenticate.API, version, first)
            if challenged.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
                # The broker tells nobody when it has heard of a new user; it delays this answer itself.
                assert time.monotonic() < deadline, challenged
                continue
            assert challenged[:2] == (ErrorCode.NONE, "")
            assert challenged.session_lifetime_ms == 0
            final = sasl_authenticate.SaslAuthenticateRequest(scram.final(challenged.auth_bytes))
            lifetime = SESSION_LIFETIME_MS if version >= 1 else 0
            answer = place.ask(sasl_authenticate.API, version, final)
            assert answer == (ErrorCode.NONE, "", scram.servers_proof, lifetime, ())
            is_served(place, secured)
            return


@versions(describe_acls.API)
@pytest.mark.parametrize("user", ["admin", "alice"], ids=["super user", "by a rule"])
def test_describes_acls(secured: Secured, user: str, version: int) -> None:
    with secured.place(user) as place:
        answer = place.ask(describe_acls.API, version, everything(version))
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    found = described(answer)
    assert len(found) == len(set(found))
    # Version 0 knows of no patterns.
    assert set(found) == {acl for acl in ACLS if version >= 1 or acl.pattern_type == LITERAL}
    resources = [(r.resource_type, r.resource_name, r.pattern_type) for r in answer.resources]
    assert len(resources) == len(set(resources))
    assert max(len(resource.acls) for resource in answer.resources) == 2


_MATCH: Final = 2
_PREFIXED: Final = 4
_TOPIC, _GROUP, _USER = 2, 3, 7

_ORDERS: Final = everything(3)._replace(resource_type_filter=_TOPIC, resource_name_filter="orders")


class Filter(NamedTuple):
    request: describe_acls.DescribeAclsRequest
    lets_through: Callable[[Acl], bool]


_FILTERS: Final = {
    "resource type": Filter(
        everything(3)._replace(resource_type_filter=_GROUP), lambda acl: acl.resource_type == _GROUP
    ),
    "users": Filter(everything(3)._replace(resource_type_filter=_USER), lambda acl: acl.resource_type == _USER),
    "name": Filter(
        _ORDERS._replace(pattern_type_filter=LITERAL),
        lambda acl: (acl.resource_name, acl.pattern_type) == ("orders", LITERAL),
    ),
    "prefix": Filter(
        _ORDERS._replace(pattern_type_filter=_PREFIXED),
        lambda acl: (acl.resource_name, acl.pattern_type) == ("orders", _PREFIXED),
    ),
    "all that match a name": Filter(
        _ORDERS._replace(pattern_type_filter=_MATCH), lambda acl: acl.resource_name == "orders"
    ),
    "principal": Filter(everything(3)._replace(principal_filter="User:zoë"), lambda acl: acl.principal == "User:zoë"),
    "host": Filter(everything(3)._replace(host_filter="127.0.0.9"), lambda acl: acl.host == "127.0.0.9"),
    "operation": Filter(everything(3)._replace(operation=8), lambda acl: acl.operation == 8),
    "permission": Filter(everything(3)._replace(permission_type=2), lambda acl: acl.permission_type == 2),
    "nobody": Filter(everything(3)._replace(principal_filter="User:nobody"), lambda _: False),
}


@versions(describe_acls.API, since=1)
@pytest.mark.parametrize("name", _FILTERS)
def test_filters_acls(secured: Secured, name: str, version: int) -> None:
    expected = {acl for acl in ACLS if _FILTERS[name].lets_through(acl)}
    assert bool(expected) == (name != "nobody")
    with secured.place("admin") as place:
        answer = place.ask(describe_acls.API, version, _FILTERS[name].request)
    assert answer.error_code == 0
    assert set(described(answer)) == expected


@versions(describe_acls.API)
def test_acls_are_not_for_everybody(secured: Secured, version: int) -> None:
    with secured.place("bob") as place:
        answer = place.ask(describe_acls.API, version, everything(version))
    assert (answer.error_code, answer.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ())
    assert answer.error_message


def bits(*operations: str) -> int:
    return sum(1 << int(ACLOperation[operation]) for operation in operations)


# What there is to be allowed, by resource type. Source: KIP-430; KIP-1043 (groups' settings, Kafka 4).
_TOPIC_OPERATIONS: Final = bits(
    *("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
)
_CLUSTER_OPERATIONS: Final = bits(
    *("CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE")
)
_GROUP_OPERATIONS: Final = {
    KAFKA_3: bits("READ", "DELETE", "DESCRIBE"),
    KAFKA: bits("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
}
_READ: Final = bits("READ", "DESCRIBE")  # whoever may read may describe
_NOT_ASKED: Final = metadata.OPERATIONS_NOT_ASKED


@versions(metadata.API, since=8)
def test_operations_on_topics_and_cluster(secured: Secured, version: int) -> None:
    with secured.place("admin") as admin, secured.place("alice") as alice, secured.place("bob") as bob:
        topic = admin.new_topic()
        request = metadata.MetadataRequest(
            (metadata.MetadataRequestTopic(name=topic),),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=version <= 10,
            include_topic_authorized_operations=True,
        )
        for place, error, on_topic, on_cluster in (
            (admin, ErrorCode.NONE, _TOPIC_OPERATIONS, _CLUSTER_OPERATIONS),
            (alice, ErrorCode.NONE, _READ, bits("DESCRIBE")),
            (bob, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NOT_ASKED, 0),
        ):
            answer = place.ask(metadata.API, version, request)
            (found,) = answer.topics
            assert (found.error_code, found.name, found.topic_authorized_operations) == (error, topic, on_topic)
            assert (found.topic_id != ZERO_UUID) == (version >= 10 and not error)
            assert answer.cluster_authorized_operations == (on_cluster if version <= 10 else _NOT_ASKED)


@versions(describe_cluster.API)
def test_operations_on_the_cluster(secured: Secured, version: int) -> None:
    request = describe_cluster.DescribeClusterRequest(True, include_fenced_brokers=version >= 2)
    for user, operations in (("admin", _CLUSTER_OPERATIONS), ("alice", bits("DESCRIBE")), ("bob", 0)):
        with secured.place(user) as place:
            answer = place.ask(describe_cluster.API, version, request)
        assert (answer.error_code, answer.cluster_authorized_operations) == (0, operations)
        assert [broker[:4] for broker in answer.brokers] == [(1, "127.0.0.1", secured.sasl_port, None)]


@versions(describe_groups.API, since=3)
def test_operations_on_groups(secured: Secured, version: int) -> None:
    with secured.place("admin") as admin, secured.place("alice") as alice, secured.place("bob") as bob:
        member = admin.new_member()
        request = describe_groups.DescribeGroupsRequest((member.group,), include_authorized_operations=True)
        for place, error, operations in (
            (admin, ErrorCode.NONE, _GROUP_OPERATIONS[secured.release]),
            (alice, ErrorCode.NONE, _READ),
            (bob, ErrorCode.GROUP_AUTHORIZATION_FAILED, _NOT_ASKED),
        ):
            (found,) = place.ask(describe_groups.API, version, request).groups
            assert (found.error_code, found.group_id) == (error, member.group)
            assert found.authorized_operations == operations
            assert [described.member_id for described in found.members] == ([] if error else [member.id])


@versions(consumer_group_describe.API, releases=(KAFKA,))
def test_operations_on_consumer_groups(secured: Secured, version: int) -> None:
    with secured.place("admin") as admin, secured.place("alice") as alice, secured.place("bob") as bob:
        group, member_id, _ = new_consumer(admin, version=1)
        request = consumer_group_describe.ConsumerGroupDescribeRequest((group,), True)
        for place, error, operations in (
            (admin, ErrorCode.NONE, _GROUP_OPERATIONS[secured.release]),
            (alice, ErrorCode.NONE, _READ),
            (bob, ErrorCode.GROUP_AUTHORIZATION_FAILED, _NOT_ASKED),
        ):
            (found,) = place.ask(consumer_group_describe.API, version, request).groups
            assert (found.error_code, found.group_id, found.authorized_operations) == (error, group, operations)
            assert [member.member_id for member in found.members] == ([] if error else [member_id])


class Offsets(NamedTuple):
    """An OffsetFetch answer for one group, whichever version it came in."""

    error: int
    by_topic: dict[str | bytes, tuple[int, int]]
    """By topic name, or id from version 10 on: offset and error of its partition 0."""


def fetched(place: Place, version: int, group: str, topics: tuple[str | bytes, ...] | None) -> Offsets:
    """Partition 0 of each topic (names, or ids from version 10 on); None asks for all topics."""
    if version < 8:
        named = None
        if topics is not None:
            named = tuple(offset_fetch.OffsetFetchRequestTopic(str(name), (0,)) for name in topics)
        old = place.ask(offset_fetch.API, version, offset_fetch.OffsetFetchRequest(group, named))
        return Offsets(old.error_code, {topic.name: _offset_and_error(*topic.partitions) for topic in old.topics})
    wanted = None
    if topics is not None:
        wanted = tuple(
            offset_fetch.OffsetFetchRequestTopics(topic_id=topic, partition_indexes=(0,))
            if isinstance(topic, bytes)
            else offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=(0,))
            for topic in topics
        )
    request = offset_fetch.OffsetFetchRequest(groups=(offset_fetch.OffsetFetchRequestGroup(group, topics=wanted),))
    (found,) = place.ask(offset_fetch.API, version, request).groups
    assert found.group_id == group
    return Offsets(
        found.error_code,
        {topic.name or topic.topic_id: _offset_and_error(*topic.partitions) for topic in found.topics},
    )


def _offset_and_error(
    partition: offset_fetch.OffsetFetchResponsePartition | offset_fetch.OffsetFetchResponsePartitions,
) -> tuple[int, int]:
    assert partition.partition_index == 0
    return partition.committed_offset, partition.error_code


@versions(offset_fetch.API, since=1)
def test_offsets_of_hidden_topics(secured: Secured, version: int) -> None:
    with secured.place("admin") as admin, secured.place("alice") as alice, secured.place("bob") as bob:
        group, names = admin.new_group(), (admin.new_topic(), admin.new_topic(f"hidden-{uuid.uuid4().hex[:12]}"))
        partitions = (offset_commit.OffsetCommitRequestPartition(0, 42),)
        commit = offset_commit.OffsetCommitRequest(
            group, topics=tuple(offset_commit.OffsetCommitRequestTopic(name, partitions=partitions) for name in names)
        )
        admin.ask_until(
            offset_commit.API,
            8,
            commit,
            lambda answer: max(found.error_code for topic in answer.topics for found in topic.partitions),
        )
        seen, hidden = both = tuple(name if version < 10 else admin.topic_id(name) for name in names)

        there = (42, ErrorCode.NONE)
        assert fetched(admin, version, group, both) == (0, {seen: there, hidden: there})
        refused = (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert fetched(alice, version, group, both) == (0, {seen: there, hidden: refused})
        if version >= 2:
            assert fetched(admin, version, group, None) == (0, {seen: there, hidden: there})
            assert fetched(alice, version, group, None) == (0, {seen: there})
            for topics in (both, None):
                assert fetched(bob, version, group, topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
        else:
            # There is no error of the group in version 1: each partition has it.
            no_group = (-1, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            assert fetched(bob, version, group, both) == (0, {seen: no_group, hidden: no_group})
