"""Commits to a real ZooKeeper, on condition or not."""

from __future__ import annotations

import asyncio

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from shim.offsets.store import (
    ABSENT,
    Moved,
    OffsetStore,
    StoreConflict,
    StoredOffset,
    StoreRefused,
)
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.offsets import ZooKeeperOffsets
from tests.offsets.conftest import TIMEOUT_S, put

T = "/consumers/g/offsets/t"


@pytest.fixture
def store(ensemble: Ensemble) -> OffsetStore:
    return ZooKeeperOffsets(ensemble)


async def test_a_commit_is_what_an_old_consumer_would_have_written(store: OffsetStore, others: KazooClient) -> None:
    versions = await store.commit("g", {("t", 0): StoredOffset(42), ("t", 12): StoredOffset(2**63 - 1)})
    assert versions == {("t", 0): 0, ("t", 12): 0}
    assert others.get(f"{T}/0")[0] == b"42"
    assert others.get(f"{T}/12")[0] == b"9223372036854775807"
    assert sorted(others.get_children(T)) == ["0", "12"]
    assert await store.commit("g", {("t", 0): StoredOffset(43), ("u", 0): StoredOffset(1)}) == {
        ("t", 0): 1,
        ("u", 0): 0,
    }
    assert others.get(f"{T}/0")[0] == b"43"
    assert await store.commit("g", {}) == {}


@pytest.mark.parametrize("count", [10_000])
async def test_a_large_commit(store: OffsetStore, count: int) -> None:
    """More than ZooKeeper would read in one request."""
    offsets = {(f"topic-{number % 10}", number): StoredOffset(number, ABSENT) for number in range(count)}
    assert await store.commit("g", offsets) == dict.fromkeys(offsets, 0)
    again = {partition: StoredOffset(each.offset + 1, 0) for partition, each in offsets.items()}
    assert await store.commit("g", again) == dict.fromkeys(offsets, 1)
    assert await store.fetch("g") == {
        partition: StoredOffset(each.offset + 1, 1) for partition, each in offsets.items()
    }


async def test_all_of_a_commit_is_written_or_nothing(store: OffsetStore, others: KazooClient) -> None:
    put(others, f"{T}/0", b"7")
    others.create(f"{T}/1", b"8", acl=[make_digest_acl("ann", "secret", all=True)])
    with pytest.raises(StoreRefused, match=f"{T}/1: ZooKeeper does not allow it") as raised:
        await store.commit("g", {("t", 0): StoredOffset(100), ("t", 1): StoredOffset(100)})
    assert raised.value.written == {}
    assert others.get(f"{T}/0")[0] == b"7"
    with pytest.raises(StoreRefused):
        await store.fetch("g")


async def test_a_conditional_commit(store: OffsetStore, others: KazooClient) -> None:
    first = await store.commit("g", {("t", each): StoredOffset(10, ABSENT) for each in range(3)})
    second = await store.commit("g", {partition: StoredOffset(11, version) for partition, version in first.items()})
    assert second == {("t", each): 1 for each in range(3)}
    others.set(f"{T}/1", b"500")
    with pytest.raises(StoreConflict, match=r"group 'g': somebody else changed t-1 \(500, version 2\)$") as raised:
        await store.commit("g", {partition: StoredOffset(12, version) for partition, version in second.items()})
    assert raised.value.moved == {("t", 1): Moved(500, 2)}
    assert raised.value.written == {}
    assert {each.offset for each in (await store.fetch("g")).values()} == {11, 500}
    carried = second | {("t", 1): raised.value.moved["t", 1].version}
    third = await store.commit("g", {partition: StoredOffset(12, version) for partition, version in carried.items()})
    assert third == {("t", 0): 2, ("t", 1): 3, ("t", 2): 2}


async def test_every_kind_of_change_by_others_is_told(store: OffsetStore, others: KazooClient) -> None:
    await store.commit("g", {("t", each): StoredOffset(10) for each in range(4)})
    others.delete(f"{T}/0")
    others.set(f"{T}/1", b"nonsense")
    put(others, f"{T}/9", b"3")
    made = others.get(f"{T}/9")[1].version
    with pytest.raises(StoreConflict, match=r"t-0 \(deleted\), and 2 more$") as raised:
        await store.commit(
            "g",
            {
                ("t", 0): StoredOffset(11, 0),
                ("t", 1): StoredOffset(11, 0),
                ("t", 2): StoredOffset(11, 0),
                ("t", 3): StoredOffset(11),
                ("t", 9): StoredOffset(11, ABSENT),
            },
        )
    assert raised.value.moved == {("t", 0): Moved(None, ABSENT), ("t", 1): Moved(None, 1), ("t", 9): Moved(3, made)}
    assert others.get(f"{T}/2")[0] == b"10"
    assert others.get(f"{T}/3")[0] == b"10"


async def test_without_condition_it_is_written_over_whatever_is_there(store: OffsetStore, others: KazooClient) -> None:
    put(others, f"{T}/0", b"nonsense")
    version = others.get(f"{T}/0")[1].version
    assert await store.commit("g", {("t", 0): StoredOffset(1), ("t", 1): StoredOffset(2)}) == {
        ("t", 0): version + 1,
        ("t", 1): 0,
    }


async def test_commits_at_the_same_time_make_a_group_together(connect: str, ensemble: Ensemble) -> None:
    """None fails as another one has made a topic or the group by then."""
    second = Ensemble(connect)
    await second.start(TIMEOUT_S)
    stores = [ZooKeeperOffsets(ensemble), ZooKeeperOffsets(second)]
    await asyncio.gather(
        *(
            stores[number % 2].commit("g", {("t", number): StoredOffset(number), (f"t{number}", 0): StoredOffset(1)})
            for number in range(40)
        )
    )
    assert len(await stores[0].fetch("g")) == 80
    await second.close()


async def test_what_was_written_before_a_conflict(connect: str, ensemble: Ensemble) -> None:
    """With several requests the first ones stay."""
    small = Ensemble(connect, jute_maxbuffer=1000)
    await small.start(TIMEOUT_S)
    store = ZooKeeperOffsets(small)
    wanted = {("t", number): StoredOffset(number, ABSENT) for number in range(20)}
    await ZooKeeperOffsets(ensemble).commit("g", {("t", 13): StoredOffset(7)})
    with pytest.raises(StoreConflict) as raised:
        await store.commit("g", wanted)
    assert raised.value.moved == {("t", 13): Moved(7, 0)}
    written = raised.value.written
    assert 0 < len(written) < 13
    assert (await store.fetch("g")).keys() == written.keys() | {("t", 13)}
    await small.close()
