"""TxnOffsetCommit by the shim in front of a real broker: pending, settled, timed out, fenced, and over restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages import (
    add_offsets_to_txn,
    api_versions,
    end_txn,
    init_producer_id,
    list_groups,
    offset_fetch,
    txn_offset_commit,
)
from shim.demo.parts import Broker
from shim.demo.parts.tools import DUMP_LOG_SEGMENTS, java_tool
from tests.protocol_live.place import Member, Place, Transaction
from tests.shim_process import Shim

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
IMPLIES_ADD_OFFSETS = 5


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data") as running:
        yield running


@pytest.fixture
def place(shim: Shim, broker: Broker) -> Iterator[Place]:
    with Place(shim.broker_port(broker.node_id), broker.release) as at_shim:
        yield at_shim


def commit(
    place: Place,
    made: Transaction,
    group: str,
    topic: str,
    offset: int,
    version: int = 4,
    member: Member | None = None,
    expected: ErrorCode = ErrorCode.NONE,
) -> None:
    """AddOffsetsToTxn where the version needs it, and TxnOffsetCommit."""
    if version < IMPLIES_ADD_OFFSETS:
        added = add_offsets_to_txn.AddOffsetsToTxnRequest(*made, group)
        place.ask_until(add_offsets_to_txn.API, min(version, 4), added, lambda response: response.error_code)
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, offset, -1, "m")
    request = txn_offset_commit.TxnOffsetCommitRequest(
        *(made.transactional_id, group, made.producer_id, made.producer_epoch),
        topics=(txn_offset_commit.TxnOffsetCommitRequestTopic(topic, (partition,)),),
    )
    if member is not None:
        request = request._replace(generation_id=member.generation, member_id=member.id)
    place.ask_until(
        txn_offset_commit.API,
        version,
        request,
        lambda response: response.topics[0].partitions[0].error_code,
        expected,
    )


def end(place: Place, made: Transaction, *, committed: bool, version: int = 4) -> Transaction:
    """The producer, as it is to go on."""
    request = end_txn.EndTxnRequest(*made, committed)
    answer = place.ask_until(end_txn.API, version, request, lambda response: response.error_code)
    return made if version < 5 else Transaction(made.transactional_id, answer.producer_id, answer.producer_epoch)


def fetched(place: Place, group: str, topic: str, *, stable: bool, version: int = 7) -> tuple[int, int]:
    """Error code and offset."""
    topics = (offset_fetch.OffsetFetchRequestTopic(topic, (0,)),)
    request = offset_fetch.OffsetFetchRequest(group, topics, require_stable=stable)
    answer = place.ask_until(offset_fetch.API, version, request, lambda response: response.error_code)
    (found,) = answer.topics[0].partitions
    return found.error_code, found.committed_offset


def settled(place: Place, group: str, topic: str) -> int:
    """The offset, once it is stable."""
    topics = (offset_fetch.OffsetFetchRequestTopic(topic, (0,)),)
    request = offset_fetch.OffsetFetchRequest(group, topics, require_stable=True)

    def error_of(response: offset_fetch.OffsetFetchResponse) -> int:
        error = response.error_code or response.topics[0].partitions[0].error_code
        return ErrorCode.CONCURRENT_TRANSACTIONS if error == UNSTABLE else error  # ask again

    answer = place.ask_until(offset_fetch.API, 7, request, error_of)
    return answer.topics[0].partitions[0].committed_offset


@pytest.mark.parametrize("version", range(6))
def test_every_version_is_pending_until_its_end(place: Place, version: int) -> None:
    topic, group, made = place.new_topic(), place.new_group(), place.new_transaction()
    end_version = 5 if version >= IMPLIES_ADD_OFFSETS else 4
    expected = -1
    for offset, committed in ((10, True), (20, False), (30, True)):
        commit(place, made, group, topic, offset, version)
        assert fetched(place, group, topic, stable=True) == (UNSTABLE, -1)
        assert fetched(place, group, topic, stable=False) == (0, expected)
        made = end(place, made, committed=committed, version=end_version)
        expected = offset if committed else expected
        assert settled(place, group, topic) == expected


def test_who_is_no_member_never_reaches_the_cluster(place: Place, broker: Broker) -> None:
    topic, made, member = place.new_topic(), place.new_transaction(), place.new_member()
    commit(place, made, member.group, topic, 5, member=member)
    made = end(place, made, committed=True)
    assert settled(place, member.group, topic) == 5
    for wrong, error in (
        (member._replace(generation=member.generation + 1), ErrorCode.ILLEGAL_GENERATION),
        (member._replace(id="somebody"), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        commit(place, made, member.group, topic, 6, member=wrong, expected=error)
        assert fetched(place, member.group, topic, stable=True) == (0, 5)
    end(place, made, committed=True)
    with Place(broker.port, broker.release) as past:
        assert settled(past, member.group, topic) == 5, "the cluster has it, too"


def test_a_transaction_that_times_out_is_aborted(place: Place) -> None:
    topic, group, made = place.new_topic(), place.new_group(), place.new_transaction()
    commit(place, made, group, topic, 5)
    made = end(place, made, committed=True)
    assert settled(place, group, topic) == 5
    request = init_producer_id.InitProducerIdRequest(made.transactional_id, 500)
    answer = place.ask_until(init_producer_id.API, 4, request, lambda response: response.error_code)
    made = Transaction(made.transactional_id, answer.producer_id, answer.producer_epoch)
    commit(place, made, group, topic, 6)
    assert settled(place, group, topic) == 5


def test_a_producer_that_is_fenced_is_aborted(place: Place) -> None:
    topic, group, made = place.new_topic(), place.new_group(), place.new_transaction()
    commit(place, made, group, topic, 5)
    request = init_producer_id.InitProducerIdRequest(made.transactional_id, 60_000)
    place.ask_until(init_producer_id.API, 4, request, lambda response: response.error_code)
    assert settled(place, group, topic) == -1


@pytest.mark.parametrize("offsets_log", ["local", "kafka"])
@pytest.mark.parametrize("committed", [True, False])
def test_what_ends_while_the_shim_is_away(broker: Broker, tmp_path: Path, committed: bool, offsets_log: str) -> None:
    with Shim(broker.bootstrap_servers, tmp_path / "data", offsets_log=offsets_log) as shim:
        port = shim.broker_port(broker.node_id)
        with Place(port, broker.release) as place:
            topic, group, made = place.new_topic(), place.new_group(), place.new_transaction()
            commit(place, made, group, topic, 5)
        shim.kill()
        with Place(broker.port, broker.release) as past:
            made = end(past, made, committed=committed)
            assert settled(past, group, topic) == (5 if committed else -1)
        shim.start()
        with Place(port, broker.release) as place:
            assert fetched(place, group, topic, stable=False) == (0, 5 if committed else -1), "nothing older is served"
            assert settled(place, group, topic) == (5 if committed else -1)
            commit(place, made, group, topic, 6)
            shim.restart()
        with Place(port, broker.release) as place:
            assert fetched(place, group, topic, stable=True) == (UNSTABLE, -1)
            end(place, made, committed=True)
            assert settled(place, group, topic) == 6


def test_the_features_that_clients_choose_by(place: Place) -> None:
    answer = place.ask(api_versions.API, 3, api_versions.ApiVersionsRequest("a", "1"))
    assert "transaction.version" in {feature.name for feature in answer.finalized_features}
    offered = {key: (first, last) for key, first, last, _ in answer.api_keys}
    assert [offered[key] for key in (25, 26, 28)] == [(0, 4), (0, 5), (0, 5)]


@pytest.mark.local_log("on topics there are no batches of applications' transactions")
def test_kafkas_own_tool_reads_the_log(broker: Broker, tmp_path: Path) -> None:
    settings: dict[str, str | int] = {"offsets.topic.num.partitions": 1}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as shim:
        with Place(shim.broker_port(broker.node_id), broker.release) as place:
            topic, group, made = place.new_topic(), place.new_group(), place.new_transaction()
            for committed in (True, False):
                commit(place, made, group, topic, 5)
                end(place, made, committed=committed)
                settled(place, group, topic)
            listed = place.ask(list_groups.API, 4, list_groups.ListGroupsRequest())
            assert group in {each.group_id for each in listed.groups}
        assert shim.stop() == 0
    segment = next((tmp_path / "data" / "__consumer_offsets-0").glob("*.log"))
    told = java_tool(DUMP_LOG_SEGMENTS, "--offsets-decoder", "--deep-iteration", "--files", str(segment)).stdout
    own = f"producerId: {made.producer_id} producerEpoch: {made.producer_epoch} "
    assert told.count(f"{own}partitionLeaderEpoch: 0 isTransactional: true isControl: false") == 2
    assert told.count(f"{own}partitionLeaderEpoch: 0 isTransactional: true isControl: true") == 2
    assert [line.split("endTxnMarker: ")[1].split()[0] for line in told.splitlines() if "endTxnMarker" in line] == [
        "ABORT",
        "COMMIT",
        "ABORT",
    ], "the first one is a position"
    assert told.count(f'"group":"{group}","topic":"{topic}","partition":0') == 2
