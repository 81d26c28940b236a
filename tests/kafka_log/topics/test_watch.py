"""Topics that come to lose what is committed while they are in use are told of, and used all the same."""

from __future__ import annotations

import asyncio
import logging
import uuid
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from shim.config import Settings
from shim.demo.parts import Broker
from shim.kafka_log.copies.tombstones import Tombstones
from shim.kafka_log.topics import watch
from shim.kafka_log.topics.ready import Looked
from shim.kafka_log.topics.wanted import TopicsWanted
from shim.upstream import Cluster, UpstreamError
from tests.relocation.rig import running, settings_of
from tests.waiting import until

WAIT_S = 30.0


async def alter(broker: Broker, topic: str, **settings: str | None) -> None:
    """None: as it was made by the cluster's default."""
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    (altered,) = admin.incremental_alter_configs([resource]).values()
    await asyncio.to_thread(altered.result, WAIT_S)


async def test_what_may_lose_data_is_said_once_and_served_on(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    caplog.set_level(logging.INFO, "shim.kafka_log.topics.watch")
    settings = settings_of(f"__watched_{uuid.uuid4().hex[:12]}", "kafka")
    topic = f"{settings.offsets_log_topics_prefix}_offsets"
    stays: list[float] = []
    told = Tombstones.told

    def noted(its: Tombstones, retention_seconds: float) -> None:
        stays.append(retention_seconds)
        told(its, retention_seconds)

    monkeypatch.setattr(Tombstones, "told", noted)
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        await until(lambda: len(stays) > 3)
        assert rig.runtime.complaints == ()
        assert set(stays) == {7 * 86_400.0}
        await alter(broker, topic, cleanup_policy="delete", delete_retention_ms="5000")
        await until(lambda: len(rig.runtime.complaints or ()) == 2)
        await until(lambda: stays.count(5.0) > 3)
        await rig.commit(rig.group_in(0), 7)
        assert rig.offset(rig.group_in(0)) == 7
        await alter(broker, topic, delete_retention_ms="3600000")
        await until(lambda: len(rig.runtime.complaints or ()) == 1)
        await alter(broker, topic, cleanup_policy="compact")
        await until(lambda: not rig.runtime.complaints)
    policy = f"topic {topic}: cleanup.policy is delete, needed is compact"
    retention = f"topic {topic}: delete.retention.ms is 5000, needed is at least 3600000"
    assert [(each.levelname, each.getMessage()) for each in caplog.records if each.name == watch.__name__] == [
        ("ERROR", f"what is committed may be lost: {policy}; {retention}"),
        ("ERROR", f"what is committed may be lost: {policy}"),
        ("INFO", "the topics of the log are as they should be again"),
    ]


async def test_a_topic_that_is_gone_is_told_of(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    settings = settings_of(f"__watched_{uuid.uuid4().hex[:12]}", "kafka")
    history = f"{settings.offsets_log_topics_prefix}_history"
    async with running(broker.bootstrap_servers, tmp_path, settings) as rig:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        await asyncio.to_thread(admin.delete_topics([history])[history].result, WAIT_S)
        await until(lambda: rig.runtime.complaints)
        assert rig.runtime.complaints == (f"{history} is not there",)
    assert caplog.text.count("what is committed may be lost") == 1


async def test_brokers_that_do_not_answer_change_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.0)
    unfit = Looked(("topic t: min.insync.replicas is 1, needed is at least 2",), 5_000)
    mistake = ZeroDivisionError()
    answers: list[Looked | Exception]
    answers = [unfit, UpstreamError("no answer"), UpstreamError("no answer"), unfit, mistake, unfit]
    found: list[Looked] = []

    async def look(*_: object) -> Looked:
        if not answers:
            raise asyncio.CancelledError
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(watch, "look", look)

    async def looked(one: Looked) -> None:
        found.append(one)

    its = watch.TopicsWatch(cast(Cluster, None), Settings(), TopicsWanted(), looked)
    with pytest.raises(asyncio.CancelledError):
        await its.run()
    assert its.complaints == unfit.complaints
    assert found == [unfit, unfit, unfit]
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("ERROR", f"what is committed may be lost: {unfit.complaints[0]}"),
        ("WARNING", "the topics of the log are not looked at for now: no answer"),
        ("ERROR", "the topics of the log are not looked at"),
    ]
