"""A topic that is deleted, and made anew: each worker deletes the offsets that it has for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from protocol.errors import ErrorCode
from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.serve.test_topics import (
    LOOKS_NO_MORE,
    QUICK,
    TELLS,
    UNKNOWN,
    commit,
    delete,
    fetch,
    made_anew_through_the_shim,
    seen,
)
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


def test_before_a_client_is_told_of_the_new_one_all_of_them_know(
    broker: Broker, data_dir: Path, make_topic: TopicFactory, topic: str, fresh_name: Callable[[], str]
) -> None:
    """None serves an offset of the old one, or takes one of the new one as if it were the old one's."""
    groups = of_both(fresh_name(), 2)
    shim = shim_of(broker, data_dir, 2, TELLS + LOOKS_NO_MORE)
    shim.settings |= QUICK
    with shim, WireClient(shim.broker_port(broker.node_id)) as client:
        for group in groups:
            assert commit(client, group, topic, 1_000) == ErrorCode.NONE
        wait_until(lambda: shim.log().count(f"confirmed: {topic}\n") == len(groups), shim.log)
        delete(broker, topic)
        make_topic(1, name=topic)
        seen(client, topic)
        assert [fetch(client, group, topic) for group in groups] == [-1, -1]
        assert [commit(client, group, topic, 3) for group in groups] == [ErrorCode.NONE] * 2
        wait_until(lambda: shim.log().count(f"topic {topic} has been deleted and made anew") == 2, shim.log)
        assert [fetch(client, group, topic) for group in groups] == [3, 3]


def test_who_makes_it_anew_need_not_ask_for_it(
    broker: Broker, data_dir: Path, topic: str, fresh_name: Callable[[], str]
) -> None:
    groups = of_both(fresh_name(), 2)
    shim = shim_of(broker, data_dir, 2, TELLS + LOOKS_NO_MORE)
    shim.settings |= QUICK
    with shim, WireClient(shim.broker_port(broker.node_id)) as client:
        for group in groups:
            assert commit(client, group, topic, 1_000) == ErrorCode.NONE
        wait_until(lambda: shim.log().count(f"confirmed: {topic}\n") == len(groups), shim.log)
        made_anew_through_the_shim(client, topic, 4, 1)
        assert [fetch(client, group, topic) for group in groups] == [-1, -1]
        assert [commit(client, group, topic, 3) for group in groups] == [ErrorCode.NONE] * 2
        assert [fetch(client, group, topic) for group in groups] == [3, 3]
