"""Kafka's own Java codecs.

Since 2.x they are classes generated from Kafka's message definitions (asked through `KafkaMessages.java`: the newest
release, and the last before Kafka 4 dropped old versions), until then they were schemas written by hand
(`KafkaSchemas.java`: 1.1.1). To run a source file, `java` has to be that of a JDK.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.apis import APIS
from protocol.offsets_log import GroupMetadataKey, OffsetCommitKey
from shim.demo.parts.jars import KAFKA
from shim.demo.parts.tools import java_tool
from tests.legacy.parts import KAFKA_1, KAFKA_3
from tests.protocol.schemas import Case

RELEASES: Final = (KAFKA, KAFKA_3)
"""Those with generated classes."""

_PROGRAMS: Final = {KAFKA: "KafkaMessages.java", KAFKA_3: "KafkaMessages.java", KAFKA_1: "KafkaSchemas.java"}
_TIMEOUT_S: Final = 60.0

# Kafka 4 calls the number in front of a key its type, and each type has a class whose only version is 0; up to 3.9 it
# was the version of the key's class.
_KEYS: Final[dict[str, dict[tuple[type[Any], int], tuple[str, int]]]] = {
    KAFKA: {
        (OffsetCommitKey, 0): ("LegacyOffsetCommitKey", 0),
        (OffsetCommitKey, 1): ("OffsetCommitKey", 0),
        (GroupMetadataKey, 2): ("GroupMetadataKey", 0),
    },
    KAFKA_3: {},
    KAFKA_1: {},
}


class Question(NamedTuple):
    """What Kafka's class makes of `raw` as the bytes of the case's message; of one with nothing set where it is None.

    With `around` the case is a struct inside of that message.
    """

    case: Case
    raw: bytes | None
    around: Case | None = None


class Read(NamedTuple):
    """It was read and written again.

    `header` is the version of the header that Kafka puts before it, None where it puts none; `left` the number of bytes
    after it, `values` what was read: the fields by name, in Kafka's JSON for it, or of 1.1.1 one list in wire order.
    """

    header: int | None
    left: int
    written: bytes
    values: Any


class Refused(NamedTuple):
    """It was not. `reason` is the exception, `read` whether reading had gone well and only writing it failed."""

    reason: str
    read: bool


Answer = Read | Refused | None
"""None: the release has no such message or version."""


def ask(release: str, questions: Iterable[Question]) -> dict[Question, Answer]:
    """All answers of one release, by one JVM. Raises PartsUnavailable and ToolFailed."""
    asked = list(dict.fromkeys(questions))
    lines = (f"{_place(release, *each)} {'new' if each.raw is None else each.raw.hex()}\n" for each in asked)
    program = str(Path(__file__).with_name(_PROGRAMS[release]))
    told = java_tool(program, input="".join(lines), timeout=_TIMEOUT_S, release=release).stdout
    return dict(zip(asked, map(_answer, told.removesuffix("\n").split("\n")), strict=True))


def _place(release: str, case: Case, raw: bytes | None, around: Case | None) -> str:
    """Message and version, in the words of the Java programs."""
    if around is not None:
        name, version = _class_name(release, around)
        return f"{name}${case.cls.__name__} {version}"
    for key, api in APIS.items():
        if case.cls in (api.request, api.response):
            return f"{'request' if case.cls is api.request else 'response'}:{key} {case.version}"
    name, version = _class_name(release, case)
    return f"{name} {version}"


def _class_name(release: str, case: Case) -> tuple[str, int]:
    name = case.cls.__name__
    match case.cls.__module__.split("."):
        case ["protocol", "offsets_log"]:
            name, version = _KEYS[release].get((case.cls, case.version), (name, case.version))
            return f"org.apache.kafka.coordinator.group.generated.{name}", version
        case ["protocol", "consumer"]:
            return f"org.apache.kafka.common.message.{name}", case.version
        case _:
            return f"org.apache.kafka.common.message.{name}Data", case.version


def _answer(line: str) -> Answer:
    kind, _, rest = line.partition(" ")
    match kind:
        case "read":
            header, left, written, values = rest.split(" ", 3)
            number = int(header)
            return Read(None if number < 0 else number, int(left), bytes.fromhex(written), json.loads(values))
        case "unreadable" | "unwritable":
            return Refused(rest, read=kind == "unwritable")
        case "absent":
            return None
        case _:
            raise ValueError(line)
