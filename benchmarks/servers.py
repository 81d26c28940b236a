"""What is measured, on this machine: brokers as they are by default, topics, and what a process takes of the cores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from shim.demo.parts import Broker

# Kafka's own defaults, in the place of those with which tests start a broker: threads, sizes, collector, compiler.
BROKER_PROPERTIES: Final = {
    "offsets.topic.num.partitions": 50,
    "log.cleaner.dedupe.buffer.size": 134_217_728,
    "num.network.threads": 3,
    "num.io.threads": 8,
    "background.threads": 10,
}
HEAP_MB: Final = 1024
JVM_OPTIONS: Final = (
    *("-Xms1024m", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:TieredStopAtLevel=4"),
)
_MADE_S: Final = 60.0


def full_size(folder: Path, properties: Mapping[str, Any] = BROKER_PROPERTIES) -> Broker:
    """A broker that is to be measured, not started."""
    return Broker(folder, heap_mb=HEAP_MB, properties=properties, jvm_options=JVM_OPTIONS)


def make_topics(bootstrap_servers: str, *topics: NewTopic) -> None:
    """They are there when this returns. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})  # as long as it is asked it has to live
    for made in admin.create_topics([*topics]).values():
        made.result(_MADE_S)


def cpu_seconds(*processes: psutil.Process) -> float:
    """Processor time that they have taken together, all their threads."""
    times = [each.cpu_times() for each in processes]
    return float(sum(each.user + each.system for each in times))
