"""Offsets of many groups in a ZooKeeper, as old consumers leave them, and what the ensemble says of its load."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from kazoo.client import KazooClient

from shim.demo.parts import ZooKeeper

_UNDER_WAY: Final = 32
_ZXID: Final = re.compile(r"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)


def make_offsets(others: KazooClient, groups: Sequence[str], topic: str, partitions: int, offset: int) -> None:
    """Of each group one for each partition: ``offset`` and the number of the partition."""
    others.ensure_path("/consumers")
    under_way: list[Any] = []
    for group in groups:
        making = others.transaction()
        for path in (f"/consumers/{group}", f"/consumers/{group}/offsets", f"/consumers/{group}/offsets/{topic}"):
            making.create(path)
        for number in range(partitions):
            making.create(f"/consumers/{group}/offsets/{topic}/{number}", b"%d" % (offset + number))
        under_way.append(making.commit_async())
        if len(under_way) >= _UNDER_WAY:
            _made(under_way)
    _made(under_way)


def _made(under_way: list[Any]) -> None:
    for each in under_way:
        failed = [result for result in each.get(timeout=30) if isinstance(result, Exception)]
        assert not failed, failed
    under_way.clear()


def transactions(zookeeper: ZooKeeper) -> int:
    """How many the ensemble has taken since its leader was elected: what it has to write one after the other."""
    found = _ZXID.search(zookeeper.four_letter_word("srvr"))
    assert found is not None
    return int(found[1], 16) & 0xFFFFFFFF
