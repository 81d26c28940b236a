"""What a real broker answers to the questions about rights, and that these change nothing."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages import (
    consumer_group_heartbeat,
    describe_groups,
    heartbeat,
    offset_commit,
    offset_fetch,
)
from protocol.messages.describe_groups import DescribeGroupsRequest
from shim.security.probes import probes_for, read
from shim.security.rights import CLUSTER, Need, Right
from tests.authorization.guarded import DESCRIBE_CLUSTER, Guarded
from tests.protocol_live.place import Place
from tests.wire import WireClient

GROUPS: Final = ("g-none", "g-read", "g-describe", "g-delete", "g-all", "")
TOPICS: Final = ("t-none", "t-read", "t-describe", "t-blind")
OF_ALL: Final = {"g-all"}

# Of each right the names that it is granted for.
GRANTED: Final = {
    Right.READ_GROUP: {"g-read"} | OF_ALL,
    # To READ or DELETE is to DESCRIBE.
    Right.DESCRIBE_GROUP: {"g-read", "g-describe", "g-delete"} | OF_ALL,
    Right.DELETE_GROUP: {"g-delete"} | OF_ALL,
    Right.READ_TOPIC: {"t-read", "t-blind", "t-read-absent", "t-read is no name", "__consumer_offsets"},
    Right.DESCRIBE_TOPIC: {"t-read", "t-describe", "t-read-absent", "t-read is no name", "__consumer_offsets"},
    Right.WRITE_TRANSACTIONAL_ID: {"x-write"},
}
ASKED: Final = {
    **dict.fromkeys((Right.READ_GROUP, Right.DESCRIBE_GROUP, Right.DELETE_GROUP), GROUPS),
    **dict.fromkeys(
        (Right.READ_TOPIC, Right.DESCRIBE_TOPIC),
        (*TOPICS, "t-none-absent", "t-read-absent", "t-read is no name", "", "*", "__consumer_offsets", "__none"),
    ),
    Right.WRITE_TRANSACTIONAL_ID: ("x-none", "x-describe", "x-write", ""),
}


def granted(client: WireClient, needs: list[Need], group_id: str | None = None) -> set[Need]:
    """What the broker grants; all of it has to be clear."""
    answers: dict[Need, bool] = {}
    for probe in probes_for(needs, group_id):
        said = read(probe, client.ask(probe.api, probe.version, probe.request))
        assert said.unclear == {}
        answers.update(said.granted)
    assert answers.keys() == set(needs)
    return {need for need, answer in answers.items() if answer}


@pytest.mark.parametrize("right", ASKED, ids=lambda right: right.name)
def test_a_broker_grants_what_its_rules_say(right: Right, direct: WireClient) -> None:
    needs = [Need(right, name) for name in ASKED[right]]
    assert granted(direct, needs) == {Need(right, name) for name in GRANTED[right]}


def test_a_broker_says_which_topics_may_be_read_beside_a_group(direct: WireClient) -> None:
    """One that may be read itself. Of another group, it says nothing of topics."""
    needs = [Need(Right.READ_TOPIC, name) for name in ASKED[Right.READ_TOPIC]]
    for group_id in ("g-read", "g-all"):
        expected = {Need(Right.READ_TOPIC, name) for name in GRANTED[Right.READ_TOPIC]}
        assert granted(direct, needs, group_id) == expected
    for group_id in ("g-none", "g-describe", "g-delete", ""):
        (probe,) = probes_for(needs, group_id)
        said = read(probe, direct.ask(probe.api, probe.version, probe.request))
        assert set(said.moot) == set(needs)
        assert not any(said.granted.values())
        assert said.unclear == {}


def test_a_broker_says_who_may_describe_the_cluster(guarded: Guarded, direct: WireClient) -> None:
    assert granted(direct, [CLUSTER]) == set()
    guarded.give(DESCRIBE_CLUSTER)
    try:
        assert granted(direct, [CLUSTER]) == {CLUSTER}
    finally:
        guarded.take(DESCRIBE_CLUSTER)


def test_a_broker_without_an_authorizer_grants_everything(broker: Any) -> None:
    needs = [CLUSTER, *(Need(right, name) for right, names in ASKED.items() for name in names)]
    with WireClient(broker.port) as client:
        assert granted(client, needs) == set(needs)


def test_members_and_offsets_of_a_group_that_the_cluster_serves_are_left_alone(guarded: Guarded) -> None:
    """A group of its own with a live member, and offsets; one of the consumer protocol; one without members; and one
    that is not there."""
    names = (f"g-all-{time.time_ns()}", f"g-all-new-{time.time_ns()}")
    empty, fresh = f"g-all-empty-{time.time_ns()}", f"g-all-fresh-{time.time_ns()}"
    needs = [
        *(
            Need(right, name)
            for right in (Right.READ_GROUP, Right.DESCRIBE_GROUP, Right.DELETE_GROUP)
            for name in names
        ),
        Need(Right.READ_TOPIC, "t-read"),
        Need(Right.WRITE_TRANSACTIONAL_ID, "x-write"),
    ]
    with Place(guarded.port, guarded.broker.release) as place:
        joined, _ = place.join(5, names[0])
        place.sync(3, names[0], joined)
        place.ask(
            consumer_group_heartbeat.API,
            1,
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                names[1],
                "aaaaaaaaaaaaaaaaaaaaaa",
                0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=("t-read",),
                topic_partitions=(),
            ),
        )
        commit = offset_commit.OffsetCommitRequest(
            names[0],
            joined.generation_id,
            joined.member_id,
            topics=(
                offset_commit.OffsetCommitRequestTopic(
                    "t-read", partitions=(offset_commit.OffsetCommitRequestPartition(0, 42),)
                ),
            ),
        )
        assert place.ask(offset_commit.API, 8, commit).topics[0].partitions[0].error_code == ErrorCode.NONE
        simple = commit._replace(group_id=empty, generation_id_or_member_epoch=-1, member_id="")
        assert place.ask(offset_commit.API, 8, simple).topics[0].partitions[0].error_code == ErrorCode.NONE
        everything = offset_fetch.OffsetFetchRequest(names[0], None)
        before = [
            place.ask(describe_groups.API, 5, DescribeGroupsRequest((*names, empty, fresh))),
            place.ask(offset_fetch.API, 7, everything),
            place.ask(offset_fetch.API, 7, everything._replace(group_id=empty)),
        ]
        assert granted(place.client, needs) == set(needs)
        for name in (*names, empty, fresh):
            assert granted(place.client, needs, name) == set(needs)
        after = [
            place.ask(describe_groups.API, 5, DescribeGroupsRequest((*names, empty, fresh))),
            place.ask(offset_fetch.API, 7, everything),
            place.ask(offset_fetch.API, 7, everything._replace(group_id=empty)),
        ]
        assert after == before
        beat = heartbeat.HeartbeatRequest(names[0], joined.generation_id, joined.member_id)
        assert place.ask(heartbeat.API, 3, beat).error_code == ErrorCode.NONE
