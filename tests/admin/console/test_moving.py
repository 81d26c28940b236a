"""The console in front of a running shim and a real broker: a group is looked at, advanced, and rolled back."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaProducer

from protocol.messages import offset_delete
from shim.demo.parts import Broker
from tests.admin.console.browser import ENTER, TIMEOUT_S, Browser
from tests.admin.console.conftest import Picture
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import Administered, administered
from tests.migration.test_first_contact import commit, consumed
from tests.serve.scraped import until
from tests.wire import WireClient

TOKEN: Final = "correct-horse-battery-staple"
RECORDS: Final = 10


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(scope="module")
def place(broker: Broker, token_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administered]:
    settings = {"admin.token.file": str(token_file)}
    with administered(broker, tmp_path_factory.mktemp("console") / "data", **settings) as at:
        yield at


@pytest.fixture(scope="module", autouse=True)
def others(place: Administered, token_file: Path, broker: Broker) -> None:
    """Groups at other steps."""
    topic = f"orders-{uuid.uuid4().hex[:4]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})  # its requests end with it
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
    produce_to(broker.bootstrap_servers, topic, 0, 1)
    for group in ("payments", "reports", "search-index"):
        commit(place.shim.bootstrap, f"{group}-{topic}", topic, 0)
    passed = f"audit-{topic}"
    commit(broker.bootstrap_servers, passed, topic, 0)
    assert consumed(place.shim.bootstrap, passed, topic, 1) == [b"x"]
    assert place.migrate("advance", f"reports-{topic}", "--admin-token-file", str(token_file)).status == 0


@pytest.fixture
def billing(place: Administered, broker: Broker, make_topic: TopicFactory) -> Iterator[str]:
    """A group with a member, behind by half of what there is."""
    mark = uuid.uuid4().hex[:4]
    topic, group = make_topic(2, name=f"invoices-{mark}"), f"billing-{mark}"
    for partition in range(2):
        produce_to(broker.bootstrap_servers, topic, partition, RECORDS)
    assigned: list[TopicPartition] = []
    consumer = Consumer({"bootstrap.servers": place.shim.bootstrap, "group.id": group, "client.id": "billing-app"})
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    try:
        while not assigned:
            consumer.poll(0.1)
        for offset in (1, 3, 2, 5):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        consumer.commit(offsets=[TopicPartition(topic, 1, 0)], asynchronous=False)
        yield group
    finally:
        consumer.close()


def produce_to(at: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": at})
    for _ in range(count):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def card(group: str, step: str) -> str:
    return f'[data-step="{step}"] [data-group="{group}"]'


def confirm(browser: Browser, group: str, move: str) -> None:
    """By keys alone."""
    browser.run("document.querySelector('#search').focus()")
    browser.tab_to(f'[data-group="{group}"] [data-move="{move}"]')
    browser.press(ENTER)
    browser.until("document.querySelector('dialog .compared')?.textContent.includes('none differs')")


def test_a_group_is_advanced_and_rolled_back(
    place: Administered, billing: str, browser: Browser, picture: Picture
) -> None:
    browser.open(f"http://{place.address}/#/migration")
    browser.until(f"document.querySelector('{card(billing, 'kafka')}')")
    picture("migration-1280")
    confirm(browser, billing, "advance")
    asked = browser.run("return document.querySelector('dialog').textContent")
    assert f"Advance {billing} to upstream+dual?" in asked
    assert "each commit waits until the cluster has it, too" in asked
    assert place.status(billing)["offsets_storage"] == "kafka", "nothing is done before it is agreed to"
    picture("advance-1280")

    browser.tab_to("#token-field")
    browser.type("#token-field", "not the token of this shim")
    browser.press(ENTER)
    browser.until("document.querySelector('dialog .problem:not([hidden])')")
    (complaint,) = browser.complaints()
    assert "401" in complaint
    assert place.status(billing)["offsets_storage"] == "kafka"

    browser.run("document.querySelector('#token-field').value = ''")
    browser.type("#token-field", TOKEN)
    browser.press(ENTER)
    browser.until(f"document.querySelector('{card(billing, 'upstream+dual')}')")
    status = place.status(billing)
    assert (status["offsets_storage"], status["dual_commit_enabled"]) == ("upstream", True)
    assert status["cause"] == "advance, at the console"

    confirm(browser, billing, "rollback")
    browser.type("#cause-field", "change 4711")
    browser.tab_to("dialog [type=submit]")
    browser.press(ENTER)
    browser.until(f"document.querySelector('{card(billing, 'kafka')}')")
    status = place.status(billing)
    assert (status["offsets_storage"], status["cause"]) == ("kafka", "change 4711")
    log = place.shim.log()
    assert "/v1/migrate/advance from 127.0.0.1, with the token" in log
    assert "change 4711" in log
    assert "/v1/migrate/advance from 127.0.0.1 refused" in log
    assert TOKEN not in log


def test_what_is_not_agreed_to_is_not_done(place: Administered, billing: str, browser: Browser) -> None:
    browser.open(f"http://{place.address}/#/migration")
    browser.until(f"document.querySelector('{card(billing, 'kafka')}')")
    confirm(browser, billing, "rollback")
    browser.click("dialog .actions button:not(.strong)")
    browser.until("document.querySelector('#told').textContent === 'Nothing was done.'")
    assert place.status(billing)["offsets_storage"] == "kafka"


def test_a_group_in_detail(
    place: Administered, billing: str, broker: Broker, browser: Browser, picture: Picture
) -> None:
    browser.open(f"http://{place.address}/")
    browser.until("document.querySelector('.tiles')?.textContent.includes('1 broker')")
    browser.until("[...document.querySelectorAll('.badge')].some((each) => each.textContent === 'ready')")
    browser.until(f"document.querySelector('.frame a[href*={billing}]')")
    browser.until("document.querySelectorAll('.uplot canvas').length === 1")
    picture("overview-1280")
    browser.click('nav [data-view="groups"]')
    browser.until("document.querySelectorAll('tbody tr').length >= 5")
    browser.until("document.querySelector('.spark polyline')?.getAttribute('points')")
    picture("groups-1280")
    browser.type("#search", billing.upper())
    browser.until("document.querySelectorAll('tbody tr').length === 1")
    browser.until("document.querySelector('tbody td[data-label=Lag]').textContent === '15'")
    browser.click(f'a[href="#/group/{billing}"]')
    browser.until("document.querySelectorAll('.uplot canvas').length === 2")
    shown = browser.run("return document.querySelector('main').innerText")
    for text in ("billing-app", "Stable", "127.0.0.1"):
        assert text in shown
    assert browser.run("return document.querySelector('tr.back').innerText"), "the rewind from 3 to 2 is marked"
    browser.until("Number(document.querySelector('.chart').dataset.points) >= 2")
    before = browser.run("return [...document.querySelectorAll('.tile dd')].map((each) => each.textContent)")
    topic = browser.run("return document.querySelector('td[data-label=Topic]').textContent")
    produce_to(broker.bootstrap_servers, topic, 1, 7)
    lag = "document.querySelector('.tile dd').textContent"
    browser.until(f"{lag} === '{int(before[0]) + 7}'")  # the page is not loaded again
    picture("group-1280")
    browser.prefer("dark")
    browser.resize(400)
    assert browser.overflow() <= 0
    browser.until("[...document.querySelectorAll('.uplot')].every((each) => each.clientWidth < 400)")
    picture("group-dark-400")


def test_an_offset_that_was_deleted(
    place: Administered, broker: Broker, make_topic: TopicFactory, browser: Browser
) -> None:
    """It is the newest of its moves, and says by whom; the page of a group that is looked at hears of it by itself."""
    topic, group = make_topic(2), f"retired-{uuid.uuid4().hex[:4]}"
    consumer = Consumer({"bootstrap.servers": place.shim.bootstrap, "group.id": group})
    for partition, offset in ((0, 5), (1, 0)):  # the other one is the newest, and stays
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()
    browser.open(f"http://{place.address}/#/group/{group}")
    to = "document.querySelector('[aria-label^=Moves] tbody td[data-label=To]')?.textContent"
    browser.until(f"{to} === '5'")
    one = offset_delete.OffsetDeleteRequestTopic(topic, (offset_delete.OffsetDeleteRequestPartition(0),))
    with WireClient(place.shim.broker_port(broker.node_id), client_id="a-script") as client:
        assert client.ask(offset_delete.API, 0, offset_delete.OffsetDeleteRequest(group, (one,))).error_code == 0
    browser.until(f"{to} === 'deleted'")
    row = browser.run("return document.querySelector('[aria-label^=Moves] tbody tr').innerText")
    for text in ("5", "a-script", "the offset was deleted"):
        assert text in row
    chart = "[...document.querySelectorAll('.chart')].at(-1).getAttribute('aria-label') ?? ''"
    assert "deleted since" in browser.run(f"return {chart}")


def test_who_still_speaks_as_0_8(
    place: Administered, billing: str, make_topic: TopicFactory, browser: Browser, picture: Picture
) -> None:
    topic, at = make_topic(), place.shim.bootstrap
    kept = KafkaProducer(bootstrap_servers=at, client_id="checkout")
    old = KafkaProducer(
        bootstrap_servers=at, client_id="nightly-export", api_version=(0, 8, 2), enable_idempotence=False
    )
    try:
        for producer in (kept, old):
            producer.send(topic, b"x").get(TIMEOUT_S)
        browser.open(f"http://{place.address}/")
        browser.tab_to('nav [data-view="clients"]')
        browser.press(ENTER)
        browser.until("document.querySelectorAll('tbody tr').length >= 3")
        first = "document.querySelector('tbody tr').innerText"
        browser.until(f"{first}.includes('Produce v0')")
        shown = browser.run(f"return {first}")
        for text in ("nightly-export", "not told", "Kafka 0.8.2", "now"):
            assert text in shown
        assert "Metadata" not in shown, "what Kafka 4 speaks, too, is not among what it does not"
        whole = browser.run("return document.querySelector('main').innerText")
        for text in ("confluent-kafka-python", "kafka-python", "1 kind of client uses versions that Kafka 4 does not"):
            assert text in whole
        picture("clients-1280")
        browser.prefer("dark")
        browser.resize(400)
        assert browser.overflow() <= 0
        picture("clients-dark-400")
    finally:
        for producer in (kept, old):
            producer.close()
    browser.until("document.querySelector('tbody td[data-label=Open]').textContent === '0'")
    browser.type("#which", "not with")
    browser.until("document.querySelectorAll('tbody tr').length === 1")
    browser.type("#search", "billing")
    browser.until("!document.querySelector('.nothing').hidden")


def test_what_reads_burrow_reads_the_shim(place: Administered, billing: str) -> None:
    def told(path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{place.address}{path}", timeout=TIMEOUT_S) as response:
            document: dict[str, Any] = json.load(response)
            return document

    cluster = told("/v1/overview")["cluster_id"]
    assert told("/v3/kafka")["clusters"] == [cluster]
    until(lambda: billing in told(f"/v3/kafka/{cluster}/consumer")["consumers"])  # the list is a moment old
    lag = told(f"/v3/kafka/{cluster}/consumer/{billing}/lag")["status"]
    assert (lag["status"], lag["totallag"], lag["partition_count"]) == ("OK", 15, 2)
    assert {each["client_id"] for each in lag["partitions"]} == {"billing-app"}
    assert told(f"/v3/kafka/{cluster}/consumer/{billing}/status")["status"]["partitions"] == []
