"""Kafka's own load generators, ProducerPerformance and ConsumerPerformance, and what they print."""

import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.proxy.kroxylicious import FULL_SIZE
from shim.demo.parts.jars import KAFKA, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child

_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER: Final = "org.apache.kafka.tools.ConsumerPerformance"
_HEAP_MB: Final = 1024
_TIMEOUT_S: Final = 300.0
_MIB: Final = 1 << 20
# "… records sent, 512345.6 records/sec (500.34 MB/sec), 3.2 ms avg latency, …": its MB are MiB
_SENT: Final = re.compile(r"(\d+) (?:steady state )?records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\)")
_PAYLOADS: Final = 64


class Moved(NamedTuple):
    """`payload_bytes` went through in all, `bytes_per_second` once it was warm, or had been given partitions."""

    payload_bytes: int
    bytes_per_second: float


class Produce(NamedTuple):
    """Records of so many bytes in batches of so many, as fast as they are taken."""

    record_bytes: int
    batch_bytes: int
    records: int

    def run(self, folder: Path, bootstrap: str, topic: str) -> Moved:
        """A quarter of the records goes before the rate is taken. Raises RuntimeError."""
        properties = {
            "acks": "1",
            "batch.size": self.batch_bytes,
            "linger.ms": 5,
            "buffer.memory": 64 * _MIB,
            "max.request.size": 2 * _MIB,
            "compression.type": "none",
        }
        lines = _run(
            _PRODUCER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1"),
            *("--num-records", str(self.records), "--warmup-records", str(self.records // 4)),
            *("--payload-file", str(_payloads(folder, self.record_bytes))),
            *("--command-property", *(f"{name}={value}" for name, value in properties.items())),
        )
        summaries = [match for line in lines if (match := _SENT.match(line)) and "99th" in line]
        if len(summaries) != 2 or int(summaries[0][1]) != self.records:
            raise RuntimeError("\n".join([f"{_PRODUCER} says something else:", *lines]))
        return Moved(self.records * self.record_bytes, float(summaries[1][2]) * _MIB)


class Consume(NamedTuple):
    """So many records, from the beginning of a topic."""

    records: int

    def run(self, bootstrap: str, topic: str) -> Moved:
        """The rate leaves out how long it took until there were partitions. Raises RuntimeError."""
        lines = _run(
            _CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(self.records)),
            *("--group", f"perf-{uuid.uuid4()}", "--hide-header", "--reporting-interval", "1000000"),
        )
        fields = lines[-1].split(", ") if lines else []
        # start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s, fetch records/s
        if len(fields) != 10 or int(fields[4]) < self.records:
            raise RuntimeError("\n".join([f"{_CONSUMER} says something else:", *lines]))
        return Moved(int(float(fields[2]) * _MIB), float(fields[8]) * _MIB)


def _payloads(folder: Path, size: int) -> Path:
    """A file of them: to make one up for each record would be most of the producer's work."""
    path = folder / f"payloads-{size}"
    if not path.exists():
        path.write_text("".join(f"{number:0{size}d}\n" for number in range(_PAYLOADS)))
    return path


def _run(main_class: str, *arguments: str) -> Sequence[str]:
    lines: list[str] = []
    command = java_command(jar_set(KAFKA), main_class, *arguments, heap_mb=_HEAP_MB, jvm_options=FULL_SIZE)
    child = Child(command, on_line=lines.append)
    try:
        if not child.wait(_TIMEOUT_S) or child.returncode:
            raise RuntimeError(f"{main_class} did not end in order: {child.returncode}\n{child.tail()}")
    finally:
        child.kill()
    return lines
