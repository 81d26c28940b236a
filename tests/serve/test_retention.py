"""`serve` looks for what has expired."""

from __future__ import annotations

from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages import delete_groups, offset_commit, offset_delete
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient


def test_a_group_that_has_lost_its_offsets_is_gone_after_the_next_look(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    partition = offset_commit.OffsetCommitRequestPartition(0, 5)
    commit = offset_commit.OffsetCommitRequest(
        group, topics=(offset_commit.OffsetCommitRequestTopic(topic, partitions=(partition,)),)
    )
    delete = offset_delete.OffsetDeleteRequest(
        group,
        (offset_delete.OffsetDeleteRequestTopic(topic, (offset_delete.OffsetDeleteRequestPartition(0),)),),
    )
    settings = {"offsets.retention.check.interval.ms": 50, "offsets.retention.minutes": 1}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as shim, WireClient(shim.port) as client:
        client.ask(offset_commit.API, 8, commit)
        assert client.ask(offset_delete.API, 0, delete).error_code == ErrorCode.NONE
        wait_until(
            lambda: client.ask(offset_delete.API, 0, delete).error_code == ErrorCode.GROUP_ID_NOT_FOUND,
            "the group is still there",
        )
        request = delete_groups.DeleteGroupsRequest((group,))
        assert client.ask(delete_groups.API, 2, request).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        shim.wait_logged("and 1 empty group")  # what a look has done is told at its end
