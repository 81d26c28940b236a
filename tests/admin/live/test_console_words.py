"""What the console says of each step, held against what a commit waits for there."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from protocol.own.state_log import Hands, Step
from shim.admin.console import page_files
from shim.migration.stores import Stores
from shim.migration.words import STEP_NAMES

WORDS: Final = page_files()["/console/words.js"].content.decode()


def words_of(table: str) -> dict[str, str]:
    """By step."""
    (entries,) = re.findall(rf"const {table} = {{\n(.*?)\n}};", WORDS, re.DOTALL)
    return dict(re.findall(r'^  "?([a-z+]+)"?: "(.*)",$', entries, re.MULTILINE))


async def waited_for(step: Step | None) -> list[str]:
    """The places that a commit of a group at that step waits for besides the log."""
    asked: list[str] = []

    def fed_at(place: str) -> Any:
        async def fed(_: str) -> None:
            asked.append(place)

        return fed

    hands = Hands.PASSED_THROUGH if step is None else Hands.SERVED
    coordinator = SimpleNamespace(step_of=lambda _: step, hands_of=lambda _: hands)
    runtime = SimpleNamespace(partition_of=lambda _: 0, coordinator_of=lambda _: coordinator)
    outbox = SimpleNamespace(fed=fed_at("ZooKeeper"))
    dual_commit = SimpleNamespace(is_adopted=lambda _: True, owed=lambda _: {}, outbox=outbox)
    mirror = SimpleNamespace(fed=fed_at("the cluster"))
    stores = Stores(*(cast(Any, each) for each in (runtime, mirror, dual_commit)))
    async with asyncio.timeout(10):
        assert await stores.after(["g"]) == []
    return asked


@pytest.mark.parametrize("step", STEP_NAMES)
async def test_what_a_commit_waits_for(step: Step | None) -> None:
    said = words_of("AT")[STEP_NAMES[step]]
    assert re.findall(r"each commit waits until (ZooKeeper|the cluster) has it", said) == await waited_for(step)


@pytest.mark.parametrize("table", ["AT", "IN_SHORT"])
def test_each_step_has_its_words(table: str) -> None:
    assert list(words_of(table)) == list(STEP_NAMES.values())
