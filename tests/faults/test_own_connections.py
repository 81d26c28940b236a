"""The shim's own connections to brokers, when the network has lost them: nobody tells it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from tests.conftest import TopicFactory
from tests.faults.census import Census, wait_settled
from tests.faults.conftest import Relayed
from tests.faults.conversation import Subjects
from tests.faults.relay import Ending, Fault, Way
from tests.wire import WireClient

ITS_OWN: Final = "offset-shim"
GROUP: Final = "group-of-lost-connections"


def commit(relayed: Relayed, topic: str, group: str = GROUP) -> ErrorCode:
    partition = offset_commit.OffsetCommitRequestPartition(0, 5)
    request = offset_commit.OffsetCommitRequest(
        group, topics=(offset_commit.OffsetCommitRequestTopic(topic, partitions=(partition,)),)
    )
    with WireClient(relayed.shim.broker_port(relayed.broker.node_id)) as client:
        answer = client.ask(offset_commit.API, 8, request)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.fixture(autouse=True)
def _group_known_and_healed(relayed: Relayed, subjects: Subjects) -> Iterator[None]:
    assert commit(relayed, subjects.topics[0]) == ErrorCode.NONE
    yield
    relayed.heal()


def test_lost_connections_are_noticed_and_others_opened(
    relayed: Relayed, before: Census, subjects: Subjects, make_topic: TopicFactory, group: str
) -> None:
    new = make_topic(on=relayed.broker)
    logged = len(relayed.shim.log())
    assert relayed.behind.end_all(Ending.LOST, ITS_OWN) >= 4
    assert commit(relayed, subjects.topics[0]) == ErrorCode.NONE, "of a topic that is known nobody is asked"
    assert commit(relayed, new) == ErrorCode.NONE, "of this one the cluster is"
    assert commit(relayed, new, group) == ErrorCode.NONE, "and of this group"
    relayed.shim.wait_logged("a broker has failed, and is opened again: 127.0.0.1:", logged)
    assert "no broker can be reached" not in relayed.shim.log()[logged:]
    wait_settled(relayed.shim, relayed.folder, before)


@pytest.mark.soak
def test_while_none_of_its_own_connections_works(
    relayed: Relayed, before: Census, subjects: Subjects, make_topic: TopicFactory, group: str
) -> None:
    """Those of clients do. A topic that nobody can be asked for is taken to exist, and offsets for it are taken; whose
    a group is cannot be guessed."""
    new = make_topic(on=relayed.broker)
    logged = len(relayed.shim.log())
    relayed.behind.put(Fault(Way.TO_CLIENT, ITS_OWN, end=Ending.LOST))
    relayed.behind.end_all(Ending.LOST, ITS_OWN)
    assert commit(relayed, new) == ErrorCode.NONE
    assert commit(relayed, subjects.topics[0]) == ErrorCode.NONE
    assert commit(relayed, new, group) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    relayed.shim.wait_logged("no broker can be reached, trying again every 0.5 s: 127.0.0.1:", logged)
    relayed.shim.wait_logged("topics cannot be looked up for now: 127.0.0.1:", logged)
    relayed.behind.put()
    relayed.shim.wait_logged("cluster reached again, at 127.0.0.1:", logged)
    assert commit(relayed, new, group) == ErrorCode.NONE
    assert commit(relayed, "there-is-none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it can be asked again"
    wait_settled(relayed.shim, relayed.folder, before)
