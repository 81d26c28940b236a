"""A topic that is deleted, and made anew: each worker deletes the offsets that it has for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from protocol.errors import ErrorCode
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.serve.test_topics import QUICK, UNKNOWN, commit, delete, fetch, seen
from tests.waiting import wait_until
from tests.wire import WireClient
from tests.workers.conftest import shim_of
from tests.workers.groups import of_both


def test_its_offsets_go_and_those_of_the_new_one_stay(
    broker: Broker, data_dir: Path, make_topic: TopicFactory, topic: str, fresh_name: Callable[[], str]
) -> None:
    groups = of_both(fresh_name(), 4)
    shim = shim_of(broker, data_dir, 2)
    shim.settings |= QUICK
    with shim, WireClient(shim.broker_port(broker.node_id)) as client:
        for group in groups:
            assert commit(client, group, topic, 1_000) == ErrorCode.NONE
        delete(broker, topic)
        for group in groups:
            wait_until(lambda group=group: fetch(client, group, topic) == -1, "the offset is still there")  # type: ignore[misc]
            assert commit(client, group, topic, 1_001) == UNKNOWN
        make_topic(1, name=topic)
        seen(client, topic)
        for group in groups:
            assert commit(client, group, topic, 3) == ErrorCode.NONE
            assert fetch(client, group, topic) == 3
