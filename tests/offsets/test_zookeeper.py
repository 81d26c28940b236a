"""Offsets in a real ZooKeeper, as the old consumers have them there."""

from __future__ import annotations

import asyncio
import re

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadArgumentsError

from compat.zookeeper import NotAName, checked_name
from shim.demo.parts import ZooKeeper
from shim.offsets.store import (
    ABSENT,
    OffsetStore,
    StoredOffset,
    StoreError,
    StoreUnavailable,
    StoreUnreadable,
)
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.offsets import ZooKeeperOffsets
from tests.offsets.conftest import TIMEOUT_S, in_vain, put
from tests.offsets.events import Events

T = "/consumers/g/offsets/t"


@pytest.fixture
def store(ensemble: Ensemble) -> OffsetStore:
    return ZooKeeperOffsets(ensemble)


async def test_what_an_old_consumer_has_written_is_read(store: OffsetStore, others: KazooClient) -> None:
    put(others, f"{T}/0", b"7")
    put(others, "/consumers/g/offsets/u/3", b"8")
    put(others, "/consumers/other/offsets/t/0", b"9")
    version = others.get(f"{T}/0")[1].version
    assert await store.fetch("g") == {("t", 0): StoredOffset(7, version), ("u", 3): StoredOffset(8, version)}
    assert await store.fetch("g", ["u", "none"]) == {("u", 3): StoredOffset(8, version)}
    assert await store.fetch("g", []) == {}
    assert await store.fetch("nobody") == {}
    assert sorted(await store.partitions("g")) == [("t", 0), ("u", 3)]
    assert await store.partitions("nobody") == []


async def test_the_oldest_layout_is_read_and_not_written(store: OffsetStore, others: KazooClient) -> None:
    put(others, f"{T}/1001-0", b"5")
    assert await store.fetch("g") == {("t", 0): StoredOffset(5, ABSENT)}
    assert await store.commit("g", {("t", 0): StoredOffset(6, ABSENT)}) == {("t", 0): 0}
    assert others.get(f"{T}/1001-0")[0] == b"5"
    assert await store.fetch("g") == {("t", 0): StoredOffset(6, 0)}
    await store.delete("g", [("t", 0)])
    assert await store.fetch("g") == {}, "otherwise the old one would be its offset again"
    assert not others.exists("/consumers/g")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("0", b"nonsense", "b'nonsense' is no offset"),
        ("0", b"", "b'' is no offset"),
        ("x", b"1", "not the name of a partition"),
        ("1-5", b"1", "partition 5 of several brokers"),
    ],
)
async def test_what_is_no_offset(store: OffsetStore, others: KazooClient, name: str, value: bytes, why: str) -> None:
    put(others, f"{T}/0", b"1")
    put(others, f"{T}/2-5", b"1")
    put(others, f"{T}/{name}", value)
    if name == "x":  # somebody keeps something else there
        assert sorted(await store.fetch("g")) == [("t", 0), ("t", 5)]
    else:
        with pytest.raises(StoreUnreadable, match=re.escape(f"{T}/{name}: {why}")):
            await store.fetch("g")
    if name in ("0", "x"):
        assert sorted(await store.partitions("g")) == [("t", 0), ("t", 5)]
    else:
        with pytest.raises(StoreUnreadable, match=re.escape(f"{T}/{name}: {why}")):
            await store.partitions("g")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "a\0b",
        *"\x1f ~\x7f\x9f\xa0\ud7ff\ue000\uf8ff\uf900\uffef\ufff0\uffff😀",
        "...",
        "Gruppe ä",
    ],
)
async def test_names_are_what_zookeeper_takes_for_one(
    store: OffsetStore, ensemble: Ensemble, others: KazooClient, name: str
) -> None:
    try:
        checked_name(name)
    except NotAName:
        for refused in (
            store.fetch(name),
            store.partitions(name),
            store.commit(name, {("t", 0): StoredOffset(1)}),
            store.commit("g", {(name, 0): StoredOffset(1)}),
            store.delete(name),
            store.delete(name, []),
        ):
            with pytest.raises(NotAName):
                await refused
        if name not in ("", ".", "..", "a/b"):  # which the client itself makes another path of
            with pytest.raises(BadArgumentsError):
                others.create(f"/{name}")
    else:
        await store.commit(name, {(name, 0): StoredOffset(1)})
        assert await store.fetch(name) == {(name, 0): StoredOffset(1, 0)}
        assert await store.groups() == [name]


async def test_an_offset_of_more_than_64_bits(store: OffsetStore) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        await store.commit("g", {("t", 0): StoredOffset(2**63)})


async def test_groups(store: OffsetStore, others: KazooClient) -> None:
    assert await store.groups() == []
    others.ensure_path("/consumers/c/ids/old_1")
    others.ensure_path("/consumers/b/ids")
    others.ensure_path("/consumers/a/offsets/t")
    assert await store.groups() == ["a", "c"]


async def test_a_server_that_is_away(zookeeper: ZooKeeper, connect: str) -> None:
    ensemble = Ensemble(connect)
    await ensemble.start(TIMEOUT_S, make_chroot=True)
    store = ZooKeeperOffsets(ensemble)
    await store.commit("g", {("t", 0): StoredOffset(1)})
    events = Events(ensemble)
    await asyncio.to_thread(zookeeper.stop)
    with in_vain(ensemble, 0.3):
        for asked in (
            store.fetch("g"),
            store.commit("g", {("t", 0): StoredOffset(2)}),
            store.delete("g"),
            store.delete("g", [("t", 0)]),
            store.groups(),
        ):
            with pytest.raises(StoreUnavailable):
                await asked
    await asyncio.to_thread(zookeeper.start)
    await events.connected()
    assert await store.fetch("g") == {("t", 0): StoredOffset(1, 0)}
    await ensemble.close()


async def test_what_else_goes_wrong(store: OffsetStore, others: KazooClient) -> None:
    others.ensure_path("/consumers/g")
    others.create("/consumers/g/offsets", ephemeral=True)
    with pytest.raises(StoreError, match="NoChildrenForEphemerals"):
        await store.commit("g", {("t", 0): StoredOffset(1)})
