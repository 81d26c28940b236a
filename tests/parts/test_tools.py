"""Kafka's Java tools against a real broker."""

import subprocess

import psutil
import pytest

from shim.demo.parts import Broker, ToolFailed, java_tool
from shim.demo.parts.tools import dump_offsets_log
from tests.conftest import TopicFactory
from tests.java_tools import (
    CONSOLE_CONSUMER,
    console_consumer,
    console_producer,
    consumer_groups,
    start_console_consumer,
)


def test_produce_consume_describe_and_dump(broker: Broker, make_topic: TopicFactory, group: str) -> None:
    topic = make_topic()
    values = ["one", "zwei, größer", "три"]
    console_producer(broker.bootstrap_servers, topic, values, properties={"linger.ms": 5})
    consumed = console_consumer(broker.bootstrap_servers, topic, max_messages=3, group=group)
    assert consumed == values
    described = consumer_groups(broker.bootstrap_servers, "--describe", "--group", group)
    row = next(line.split() for line in described.splitlines() if line.startswith(group))
    assert row[:6] == [group, topic, "0", "3", "3", "0"]
    dumped = dump_offsets_log(*broker.segments("__consumer_offsets"))
    assert f'{{"group":"{group}","topic":"{topic}","partition":0}}' in dumped
    assert '"offset":3' in dumped


def test_a_consumer_in_the_background_is_read_line_by_line(
    broker: Broker, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    with start_console_consumer(broker.bootstrap_servers, topic, group=group) as consumer:
        console_producer(broker.bootstrap_servers, topic, ["a", "b"])
        assert consumer.read_lines(2) == ["a", "b"]
        with pytest.raises(TimeoutError, match="printed nothing"):
            consumer.read_line(timeout=0.1)
        assert consumer.running
        consumer.stop()
        assert consumer.returncode == 143
        assert consumer.read_line() is None
        assert "Processed a total of 2 messages" in consumer.log()
    # SIGTERM let it commit what it had read and leave the group.
    described = consumer_groups(broker.bootstrap_servers, "--describe", "--group", group, "--state")
    assert "Empty" in described


def test_a_failing_tool_says_why(broker: Broker) -> None:
    with pytest.raises(ToolFailed, match="nonsense") as failed:
        consumer_groups(broker.bootstrap_servers, "--nonsense")
    assert failed.value.result.returncode != 0


def test_a_tool_that_takes_too_long_is_gone(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    arguments = ("--bootstrap-server", broker.bootstrap_servers, "--topic", topic)
    with pytest.raises(subprocess.TimeoutExpired, match=r"timed out after 2 seconds"):
        java_tool(CONSOLE_CONSUMER, *arguments, timeout=2)
    running = [child.cmdline() for child in psutil.Process().children()]
    assert not any(CONSOLE_CONSUMER in command for command in running)
