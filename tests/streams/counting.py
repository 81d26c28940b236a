"""The word count: instances of it, the text that they are given, and the counts that they have written."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from shim.demo.parts import JarSet
from shim.demo.parts.jars import POM_FOLDERS
from shim.demo.parts.jvm import java_command
from tests.clients.programs import Program, Programs

STREAMS: Final = "streams-4.3.1"
LEFT: Final = 143
"""The exit status of an instance after SIGTERM."""

PARTITIONS = 4

POM_FOLDERS.append(Path(__file__).with_name("poms"))

WORD_COUNT: Final = Path(__file__).with_name("WordCount.java")
_HEAP_MB = 128
_TIMEOUT_S = 30.0
_VOCABULARY = [f"{syllable}{number}" for syllable in ("ba", "de", "fi", "go", "hu", "ä") for number in range(8)]


class Application:
    """The word count from one topic to another, under this name and guarantee, through the servers at `bootstrap`.
    `jars`: what it runs from. `protocol`: its `group.protocol`."""

    def __init__(
        self,
        programs: Programs,
        jars: JarSet,
        folder: Path,
        bootstrap: str,
        name: str,
        guarantee: str,
        source: str,
        target: str,
        protocol: str = "classic",
    ) -> None:
        self._programs = programs
        self._jars = jars
        self._folder = folder
        self._settings = (bootstrap, name, guarantee, protocol)
        self._topics = (source, target)

    def start(self, instance: str) -> Program:
        """One more instance, or one that comes back: under its name it finds the state that it has left on disk."""
        folder = self._folder / instance
        folder.mkdir(exist_ok=True)
        command = java_command(
            self._jars,
            *(WORD_COUNT.stem, *self._settings, str(folder / "state"), *self._topics),
            heap_mb=_HEAP_MB,
            jvm_options=[f"-Djava.io.tmpdir={folder}"],  # RocksDB's library is put there
        )
        return self._programs.start(instance, command)


class Text:
    """Random lines of words, put into a topic. `words`: how often each of them was written."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self.words: Counter[str] = Counter()
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic = topic
        self._rng = random.Random(seed)

    def write(self, lines: int) -> None:
        """All of them are in the topic on return."""
        for _ in range(lines):
            words = self._rng.choices(_VOCABULARY, k=self._rng.randrange(1, 6))
            partition = self._rng.randrange(PARTITIONS)
            self._producer.produce(self._topic, " ".join(words), partition=partition)
            self.words.update(words)
            self.ends[partition] += 1
        assert self._producer.flush(_TIMEOUT_S) == 0


class Counts:
    """What instances have written, as `read_committed` has it. `of`: the counts of each word in their order."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.of: defaultdict[str, list[int]] = defaultdict(list)
        settings = {"group.id": "looks-on", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def last(self) -> dict[str, int]:
        """The last count of each word."""
        return {word: counts[-1] for word, counts in self.of.items()}

    def look(self, timeout: float = 0.1) -> int:
        """Read on for so long, in seconds; gives how many words have been counted so far."""
        for record in self._consumer.consume(500, timeout):
            assert record.error() is None, record.error()
            word, count = (record.key() or b"").decode(), int.from_bytes(record.value() or b"", "big")
            self.of[word].append(count)
        return sum(self.last().values())

    def close(self) -> None:
        self._consumer.close()
