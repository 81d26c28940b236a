"""The console in front of a running shim with 1,000 groups, those that are looked into of 100 partitions each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from protocol.messages import offset_commit
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from shim.demo.parts import Broker, free_port
from tests.admin.console.browser import ENTER, TIMEOUT_S, Browser
from tests.shim_process import Shim
from tests.wire import WireClient

GROUPS: Final = 1_000
PARTITIONS: Final = 100
RECORDS: Final = 3
SIMPLE_CONSUMER: Final = -1
TOGETHER: Final = 20
LOOKED_INTO: Final = frozenset({0, 8, 742})
MOST_ROWS: Final = 250
"""Of tables, on any page: what is more is on another one."""
PAGES: Final = ("#/", "#/groups", "#/clients", "#/migration")

ROWS: Final = "document.querySelectorAll('tbody tr, .card').length"
PAGER: Final = "(document.querySelector('.pager')?.textContent ?? '')"


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """With records in each partition."""
    name = f"many-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(PARTITIONS * RECORDS):
        producer.produce(name, b"x", partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0
    return name


@pytest.fixture(scope="module", params=["few large", pytest.param("all large", marks=pytest.mark.soak)])
def shim(
    request: pytest.FixtureRequest, broker: Broker, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shim]:
    """All groups are there: the one with number n is at offset n % 4 in each partition, or in one alone."""
    large = LOOKED_INTO if request.param == "few large" else range(GROUPS)
    address = f"127.0.0.1:{free_port()}"
    data_dir = tmp_path_factory.mktemp("many") / "data"
    alone = {"offsets.mirror.upstream": "false"}  # the broker need not have them all, too
    with Shim(broker.bootstrap_servers, data_dir, args=["--admin", address], settings=alone) as shim:
        with WireClient(shim.broker_port(broker.node_id), client_id="many") as client:
            for first in range(0, GROUPS, TOGETHER):
                numbers = range(first, first + TOGETHER)
                for number in numbers:
                    partitions = PARTITIONS if number in large else 1
                    asked = commit_of(name_of(number), topic, number % (RECORDS + 1), partitions)
                    client.send(offset_commit.API, 8, asked)
                for _ in numbers:
                    _, answer = client.receive(offset_commit.API, 8)
                    assert {each.error_code for each in answer.topics[0].partitions} == {0}
        yield shim


def commit_of(group: str, topic: str, offset: int, count: int = PARTITIONS) -> OffsetCommitRequest:
    partitions = tuple(OffsetCommitRequestPartition(number, offset) for number in range(count))
    return OffsetCommitRequest(group, SIMPLE_CONSUMER, topics=(OffsetCommitRequestTopic(topic, partitions=partitions),))


def name_of(number: int) -> str:
    return f"orders-etl-{number:04}"


@pytest.fixture
def page(shim: Shim) -> str:
    return f"http://{shim.args[1]}/"


def test_one_of_a_thousand_groups_is_found_and_looked_into_by_keys_alone(
    page: str, topic: str, browser: Browser
) -> None:
    browser.open(f"{page}#/groups")
    browser.until(f"{PAGER}.includes('of 1,000')")
    assert 0 < browser.run(f"return {ROWS}") <= MOST_ROWS
    browser.until("document.querySelector('tbody td[data-label=Lag]').textContent === '300'")  # sorted by lag
    browser.tab_to(".pager button:last-child", most=100)
    browser.press(ENTER)
    browser.until(f"{PAGER}.includes('51\u2013100 of 1,000')")
    assert browser.run("return document.activeElement.textContent") == "Next", "the focus stays where it was"

    browser.open("about:blank")
    browser.open(f"{page}#/groups")
    browser.tab_to("#search")
    browser.type("#search", "ETL-0742")
    browser.until("document.querySelectorAll('tbody tr').length === 1")
    browser.tab_to(f"a[href='#/group/{name_of(742)}']")
    browser.press(ENTER)
    browser.until("document.querySelectorAll('[aria-label=Partitions] tbody tr').length === 100")
    shown = "[...document.querySelectorAll('[aria-label=Partitions] tbody tr')].map((row) => row.textContent)"
    rows = browser.run(f"return {shown}")
    assert all(row.startswith(topic) for row in rows)
    assert browser.run("return document.querySelector('.tile dd').textContent") == "100"
    browser.until("document.querySelectorAll('#history-partition option').length === 100")
    assert browser.run(f"return {ROWS}") <= MOST_ROWS


@pytest.mark.parametrize("path", PAGES)
def test_no_page_grows_with_the_groups(page: str, browser: Browser, path: str) -> None:
    browser.open(f"{page}{path}")
    browser.until(f"document.querySelector('#live').dataset.state === 'good' && {ROWS} > 0")
    assert browser.run(f"return {ROWS}") <= MOST_ROWS
    assert browser.run("return document.querySelectorAll('*').length") < 5_000
    assert browser.overflow() <= 0
    browser.resize(400)
    assert browser.overflow() <= 0


def test_a_history_is_read_when_the_page_is_opened_and_when_the_group_has_moved(
    page: str, shim: Shim, topic: str, broker: Broker, browser: Browser
) -> None:
    group = name_of(8)
    asked = "performance.getEntriesByType('resource').filter((each) => each.name.includes('{}')).length"
    histories, looks = asked.format("groups/history"), asked.format("groups/describe")
    browser.open(f"{page}#/group/{group}")
    browser.until(f"{histories} === 1")
    browser.run("performance.clearResourceTimings()")
    browser.until(f"{looks} >= 5")  # one each 3 seconds: longer than a history is left alone
    assert browser.run(f"return {histories}") == 0
    with WireClient(shim.broker_port(broker.node_id), client_id="many") as client:
        answer = client.ask(offset_commit.API, 8, commit_of(group, topic, 2))
        assert {each.error_code for each in answer.topics[0].partitions} == {0}
    browser.until(f"{histories} === 1")
    browser.until("document.querySelector('[aria-label^=Moves] tbody td[data-label=To]').textContent === '2'")
