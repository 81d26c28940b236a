"""What goes from a real ZooKeeper with offsets that are deleted, and what stays."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from shim.offsets.store import GroupInUse, OffsetStore, StoredOffset, StoreError
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.offsets import ZooKeeperOffsets

G = "/consumers/g"


@pytest.fixture
async def store(ensemble: Ensemble) -> OffsetStore:
    """Where the group `g` has offsets of the topics t and u, as old consumers leave it that have gone."""
    made = ZooKeeperOffsets(ensemble)
    await made.commit("g", {("t", 0): StoredOffset(1), ("t", 1): StoredOffset(2), ("u", 0): StoredOffset(3)})
    for path in ("ids", "owners/t", "owners/u"):
        await ensemble.make_path(f"{G}/{path}")
    return made


def tree(others: KazooClient, path: str = "/consumers") -> set[str]:
    """Whatever is below, without what only leads there."""
    children = others.get_children(path)
    below = {each for child in children for each in tree(others, f"{path}/{child}")}
    return below or {path}


async def test_offsets_are_deleted(store: OffsetStore, others: KazooClient) -> None:
    await store.delete("g", [("t", 0), ("u", 0), ("u", 7), ("none", 0)])
    assert tree(others) == {f"{G}/offsets/t/1", f"{G}/ids", f"{G}/owners/t", f"{G}/owners/u"}
    await store.delete("g", [])
    assert f"{G}/offsets/t/1" in tree(others)


async def test_with_its_last_offset_a_group_goes(store: OffsetStore, others: KazooClient) -> None:
    await store.delete("g", [("t", 0), ("t", 1), ("u", 0)])
    assert tree(others) == {"/consumers"}


async def test_a_group_is_deleted(store: OffsetStore, others: KazooClient) -> None:
    await store.commit("h", {("t", 0): StoredOffset(1)})
    await store.delete("g")
    assert tree(others) == {"/consumers/h/offsets/t/0"}
    await store.delete("g")
    await store.delete("nobody", [("t", 0)])
    assert tree(others) == {"/consumers/h/offsets/t/0"}
    await store.delete("h")
    assert await store.groups() == []


async def test_not_one_that_has_consumers(store: OffsetStore, others: KazooClient) -> None:
    others.create(f"{G}/ids/consumer-1", ephemeral=True)
    before = tree(others)
    with pytest.raises(GroupInUse, match="group 'g' has consumers in ZooKeeper"):
        await store.delete("g")
    assert tree(others) == before
    await store.delete("g", [("t", 0), ("t", 1), ("u", 0)])
    assert tree(others) == {f"{G}/ids/consumer-1", f"{G}/offsets", f"{G}/owners/t", f"{G}/owners/u"}


async def test_nor_one_whose_consumer_comes_meanwhile(
    store: OffsetStore, ensemble: Ensemble, others: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at its consumers and the deletion."""
    multi = ensemble.multi

    async def after_one_has_come(operations: list[object]) -> object:
        others.create(f"{G}/ids/consumer-1", ephemeral=True)
        return await multi(operations)  # type: ignore[arg-type]

    monkeypatch.setattr(ensemble, "multi", after_one_has_come)
    before = tree(others)
    with pytest.raises(GroupInUse):
        await store.delete("g")
    assert tree(others) == before - {f"{G}/ids"} | {f"{G}/ids/consumer-1"}


@pytest.mark.parametrize("strange", [f"{G}/offsets/t/x", f"{G}/x", f"{G}/offsets/t/0a", f"{G}/owners/t/0/x"])
async def test_what_is_not_of_the_old_consumers_stays(store: OffsetStore, others: KazooClient, strange: str) -> None:
    others.ensure_path(strange)
    await store.delete("g")
    assert tree(others) == {strange} if "offsets" not in strange else strange in tree(others)


async def test_offsets_that_somebody_else_deletes_meanwhile(
    store: OffsetStore, ensemble: Ensemble, others: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    multi = ensemble.multi
    tries: list[int] = []

    async def after_one_has_gone(operations: list[object]) -> object:
        if not tries:
            others.delete(f"{G}/offsets/t/0")
        tries.append(len(operations))
        return await multi(operations)  # type: ignore[arg-type]

    monkeypatch.setattr(ensemble, "multi", after_one_has_gone)
    await store.delete("g")
    assert tries == [4, 3]
    assert tree(others) == {"/consumers"}


async def test_more_than_fit_into_one_request(connect: str, ensemble: Ensemble, others: KazooClient) -> None:
    small = Ensemble(connect, jute_maxbuffer=1000)
    await small.start(20.0)
    store = ZooKeeperOffsets(small)
    await store.commit("g", {("t", number): StoredOffset(number) for number in range(50)})
    others.ensure_path(f"{G}/ids")
    await store.delete("g")
    assert tree(others) == {"/consumers"}
    await small.close()


async def test_not_what_somebody_has_written_since(store: OffsetStore, others: KazooClient) -> None:
    """All or none of the partitions."""
    known = {at: each.version for at, each in (await store.fetch("g")).items() if each.version is not None}
    others.set(f"{G}/offsets/t/1", b"99")
    before = tree(others)
    with pytest.raises(StoreError):
        await store.delete("g", [("t", 0), ("t", 1)], known)
    assert tree(others) == before
    known["t", 1] += 1
    await store.delete("g", [("t", 0), ("t", 1)], known)
    assert f"{G}/offsets/t/1" not in tree(others)
