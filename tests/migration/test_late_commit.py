"""A commit of the mirror that is done late, as the network has kept it: nobody else's is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.demo.parts import Broker
from shim.offsets.store import StoreUnanswered
from shim.upstream.errors import ARRIVES_WITHIN_SECONDS
from tests.conftest import TopicFactory
from tests.migration.mirrored import mirrored


async def test_nobody_is_given_the_group_while_one_may_arrive(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.reached(group)
        assert at.mirror.may_arrive_seconds(group) == 0.0
        at.groups.hangs = True
        await at.commit_offset(group, topic, 2)
        with pytest.raises(StoreUnanswered):
            await at.mirror.fed(group)
        assert 0.0 < at.mirror.may_arrive_seconds(group) <= ARRIVES_WITHIN_SECONDS
        at.groups.hangs = False
        await at.mirror.fed(group)  # the next one is no reason to forget it
        assert at.mirror.may_arrive_seconds(group) > 0.0
        at.mirror.forget(group)
        assert at.mirror.may_arrive_seconds(group) == 0.0
