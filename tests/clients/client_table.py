"""The unmodified clients, each as two command lines.

`produce` sends a record for every line `key<TAB>value` of its standard input, and ends with status 0 at its end once
all are acknowledged. `consume` prints a line `Partition:<p><TAB>Offset:<o><TAB><value>` for every record it reads as a
member of the group, from the earliest where nothing is committed; at SIGTERM it commits, leaves the group and ends.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from shim.demo.parts import jar_set
from shim.demo.parts.jars import KAFKA
from shim.demo.parts.jvm import java_command
from tests.clients.node_packages import KAFKAJS, NODE, node_modules
from tests.java_tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER

_HERE = Path(__file__).parent
_HEAP_MB = 128
_SIGTERM_IN_JAVA = 143


class Client(NamedTuple):
    """`left`: the exit status of `consume` after SIGTERM."""

    name: str
    produce: Callable[[str, str], list[str]]
    consume: Callable[[str, str, str], list[str]]
    left: int = 0


def _python(library: str) -> Client:
    script = str(_HERE / f"{library.replace('-', '_')}_client.py")
    return Client(
        library,
        lambda *arguments: [sys.executable, script, "produce", *arguments],
        lambda *arguments: [sys.executable, script, "consume", *arguments],
    )


def _node(mode: str, *arguments: str) -> list[str]:
    return [str(NODE), str(KAFKAJS / "client.js"), str(node_modules()), mode, *arguments]


def _java(main_class: str, bootstrap: str, topic: str, *arguments: str) -> list[str]:
    target = ("--bootstrap-server", bootstrap, "--topic", topic)
    return java_command(jar_set(KAFKA), main_class, *target, *arguments, heap_mb=_HEAP_MB)


def _java_producer(bootstrap: str, topic: str) -> list[str]:
    return _java(CONSOLE_PRODUCER, bootstrap, topic, "--reader-property", "parse.key=true")


def _java_consumer(bootstrap: str, topic: str, group: str) -> list[str]:
    printed = [f"{what}=true" for what in ("print.partition", "print.offset")]
    return _java(
        *(CONSOLE_CONSUMER, bootstrap, topic),
        *("--group", group, "--from-beginning"),
        *("--command-property", "heartbeat.interval.ms=300"),
        *(text for shown in printed for text in ("--formatter-property", shown)),
    )


CONFLUENT_KAFKA = _python("confluent-kafka")
JAVA = Client("java-console", _java_producer, _java_consumer, _SIGTERM_IN_JAVA)
CLIENTS = (
    _python("kafka-python"),
    _python("aiokafka"),
    CONFLUENT_KAFKA,
    JAVA,
    Client("kafkajs", lambda *arguments: _node("produce", *arguments), lambda *arguments: _node("consume", *arguments)),
)
