"""Consume, transform, produce, exactly once: whatever is killed, what comes out is what went in, in its order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.shim_process import Shim
from tests.transactions.copying import Copied, Copier, confluent_kafka, fill, java

PARTITIONS = 2
SETTINGS: dict[str, str | int] = {
    "group.min.session.timeout.ms": 500,
    "offsets.topic.num.partitions": 7,  # not as many as the broker has
    "offsets.topic.segment.bytes": 2_048,
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.min.cleanable.ratio": "0.0",
    "log.cleaner.delete.retention.ms": 200,
}
SNAPSHOTS_OFTEN = "import shim.runtime.snapshots as snapshots; snapshots.LEAST_RECORDS = 40"
FROZEN_S = 12.5
"""Longer than the transaction's time-out and the session's."""

BETWEEN_KILLS = 60
MORE = 25


@pytest.mark.parametrize("command", [confluent_kafka, java], ids=["confluent-kafka", "java"])
def test_a_copy_is_exact(
    broker: Broker, make_topic: TopicFactory, group: str, tmp_path: Path, command: Callable[[], list[str]]
) -> None:
    source, target = make_topic(PARTITIONS), make_topic(PARTITIONS)
    fill(broker.bootstrap_servers, source, PARTITIONS, 200)
    with (
        Shim(broker.bootstrap_servers, tmp_path / "data", settings=SETTINGS) as shim,
        Copier(command(), tmp_path / "copier", shim.bootstrap, group, "", f"{group}-tx", source, target) as copier,
    ):
        copied = Copied(broker.bootstrap_servers, target, PARTITIONS)
        copied.wait(200, copier, 60.0)
        copied.look(1.0)
        copied.close()
    assert copied.numbers == [list(range(partition, 200, PARTITIONS)) for partition in range(PARTITIONS)]
    assert copier.lives == 1


def kill_and_copy(
    broker: Broker,
    make_topic: TopicFactory,
    group: str,
    tmp_path: Path,
    rng: random.Random,
    victims: list[str],
    command: Callable[[], list[str]],
    instance: str,
) -> None:
    source = make_topic(PARTITIONS, on=broker)
    target = make_topic(PARTITIONS, on=broker)
    shim = Shim(broker.bootstrap_servers, tmp_path / "data", settings=SETTINGS, late_patch=SNAPSHOTS_OFTEN)
    args = (group, instance, f"{group}-tx", source, target)
    with shim, Copier(command(), tmp_path / "copier", shim.bootstrap, *args) as copier:
        copied = Copied(broker.bootstrap_servers, target, PARTITIONS)
        filled = 0
        for victim in victims:
            fill(broker.bootstrap_servers, source, PARTITIONS, BETWEEN_KILLS, filled)
            filled += BETWEEN_KILLS
            copier.wait_transactions(rng.randrange(1, 4))
            time.sleep(rng.random() * 0.05)  # anywhere in a transaction
            match victim:
                case "shim":
                    shim.kill()
                    shim.start()
                case "broker":
                    broker.kill()
                    broker.start()
                case "copier":
                    copier.kill()
                case "frozen":
                    copier.freeze(FROZEN_S)
            copied.wait(filled, copier, 120.0)
        fill(broker.bootstrap_servers, source, PARTITIONS, MORE * PARTITIONS, filled)
        filled += MORE * PARTITIONS
        copied.wait(filled, copier, 120.0)
        copied.look(1.0)
        copied.close()
    assert copied.numbers == [list(range(partition, filled, PARTITIONS)) for partition in range(PARTITIONS)]
    assert "Traceback" not in shim.log()


def test_a_kill_and_a_transaction_that_times_out(
    broker: Broker, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    victims = ["shim", "frozen"]
    kill_and_copy(broker, make_topic, group, tmp_path, random.Random(7), victims, confluent_kafka, "the-one")


@pytest.mark.soak
@pytest.mark.parametrize("part", range(5))
def test_fifty_kills(broker: Broker, make_topic: TopicFactory, group: str, tmp_path: Path, part: int) -> None:
    """Ten in each part."""
    rng = random.Random(part)
    victims = [rng.choice(("shim", "shim", "shim", "copier", "copier", "broker", "frozen")) for _ in range(10)]
    command, instance = (java if part % 2 else confluent_kafka), ("the-one" if part > 2 else "")
    kill_and_copy(broker, make_topic, group, tmp_path, rng, victims, command, instance)
