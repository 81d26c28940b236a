"""Byte-for-byte agreement with codecs that nobody here wrote: kafka-python 3, kio and aiokafka.

Our bytes are decoded by the other side, which must find the same values and give the same bytes back. Kafka's own Java
codecs are asked likewise in `tests/protocol_java/test_java.py`. `FEWER_THAN_TWO` is the list of what not at least two
of them all cover.

kafka-python 3 and kio each read Kafka's own message definitions, with code of their own. aiokafka's schemas were
written by hand, and share their ancestry with the old ones that kafka-python still carries: those stand in where
aiokafka has none, and the two count as one.
"""

import importlib
import io
import pkgutil
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import aiokafka.protocol
import kafka.protocol
import kafka.protocol.old
import kio.index
import pytest
from kafka.protocol.api_message import ApiMessage
from kio.schema.errors import ErrorCode
from kio.schema.index import PayloadEntityType
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from protocol.apis import APIS
from protocol.codec import codec
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.metadata import OPERATIONS_NOT_ASKED, MetadataRequestTopic
from protocol.schema import ArrayOf, Kind, StructOf, Table, table
from protocol.wire import ZERO_UUID, Fixed
from tests.examples import examples
from tests.protocol.schemas import API_CASES, Case, each_version
from tests.protocol.strategies import sample
from tests.protocol_java.coverage import generated_has, kafka_1_has


def classes_in(package: Any) -> list[type[Any]]:
    found = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
        if "generate" not in module.name and (".old" not in module.name or ".old" in package.__name__)
    ]
    return [cls for module in found for cls in vars(module).values() if isinstance(cls, type)]


def direction_of(case: Case) -> tuple[int, str]:
    key = next(api.key for api in APIS.values() if case.cls in (api.request, api.response))
    return key, "response" if case.cls is APIS[key].response else "request"


KAFKA_PYTHON: dict[tuple[int, str], Any] = {
    (cls.API_KEY, cls.type): cls
    for cls in classes_in(kafka.protocol)
    if issubclass(cls, ApiMessage) and cls is not ApiMessage
}


def _hand_written(package: Any) -> dict[tuple[int, str, int], Any]:
    found = {}
    for cls in classes_in(package):
        name = cls.__name__
        if hasattr(cls, "SCHEMA") and isinstance(getattr(cls, "API_VERSION", None), int) and "_v" in name:
            direction = "response" if "Response" in name else "request"
            found[cls.API_KEY, direction, int(name.rpartition("_v")[2])] = cls
    return found


# aiokafka has no OffsetForLeaderEpoch (23), and in its ListOffsets (2) requests 4 and 5 the leader epoch has 64 bits.
STAND_INS = [
    *((23, direction, version) for direction in ("request", "response") for version in (0, 1)),
    *((2, "request", version) for version in (4, 5)),
]
_OLD = _hand_written(kafka.protocol.old)
HAND_WRITTEN = _hand_written(aiokafka.protocol) | {which: _OLD[which] for which in STAND_INS}


def kafka_python_has(case: Case) -> bool:
    cls = KAFKA_PYTHON.get(direction_of(case))
    # Below the oldest version in their schemas, fields that Kafka 4 dropped are missing.
    return cls is not None and cls.valid_versions[0] <= case.version <= cls.valid_versions[1]


def hand_written_has(case: Case) -> bool:
    return not case.flexible and (*direction_of(case), case.version) in HAND_WRITTEN


KIO_DIRECTIONS: dict[str, PayloadEntityType] = {"request": EntityType.request, "response": EntityType.response}


def kio_class(case: Case) -> Any:
    key, direction = direction_of(case)
    try:
        module = kio.index.load_payload_module(key, case.version, KIO_DIRECTIONS[direction])
    except (kio.index.UnknownAPIKey, kio.index.UnknownEntity):
        return None
    return getattr(module, case.cls.__name__)


def kio_has(case: Case) -> bool:
    return kio_class(case) is not None


def as_kafka_python_sees_it(theirs: Any, ours: Any, here: Table) -> None:
    """Assert that every field on the wire has the same name and value over there."""
    for field in (*here.present, *here.tagged.values()):
        value = getattr(ours, field.name)
        if field.name.endswith("authorized_operations"):
            # Patched over there in some messages: another name, and a set of bits.
            name = field.name if hasattr(theirs, field.name) else "authorized_operations"
            found = getattr(theirs, name)
            assert found == (value if isinstance(found, int) else bits(value))
        elif isinstance(field.kind, StructOf) and value == field.default:
            # Over there a tagged struct that is not on the wire is None.
            assert getattr(theirs, field.name) is None
        else:
            same(getattr(theirs, field.name), value, field.kind, here)


def bits(value: int) -> set[int] | None:
    """As kafka-python has authorized operations."""
    return None if value == OPERATIONS_NOT_ASKED else {bit for bit in range(32) if value >> bit & 1}


def same(theirs: Any, ours: Any, kind: Kind, here: Table) -> None:
    match kind:
        case Fixed(code="16s"):
            # The uuid of zeros is None over there.
            assert (ZERO_UUID if theirs is None else theirs.bytes) == ours
        case _ if ours is None or theirs is None:
            assert theirs is ours
        case StructOf(cls=cls):
            as_kafka_python_sees_it(theirs, ours, table(cls, here.version, here.flexible))
        case ArrayOf(element=element):
            assert len(theirs) == len(ours)
            for one, other in zip(theirs, ours, strict=True):
                same(one, other, element, here)
        case _:
            assert theirs == ours


def agrees_with_kafka_python(case: Case, msg: Any) -> None:
    cls = KAFKA_PYTHON[direction_of(case)]
    if isinstance(msg, ApiVersionsResponse):
        # With an error in it, kafka-python takes the response for version 0, as a client should.
        msg = msg._replace(error_code=0)
    raw = codec(*case).encode(msg)
    theirs = cls.decode(raw, version=case.version)
    as_kafka_python_sees_it(theirs, msg, table(*case))
    theirs._header = None
    assert bytes(theirs.encode(version=case.version)) == raw


def in_wire_order(value: Any, kind: Kind, here: Table) -> Any:
    """As the hand-written schemas have it: structs as bare tuples of the fields on the wire."""
    match kind:
        case ArrayOf(element=element) if value is not None:
            return [in_wire_order(item, element, here) for item in value]
        case StructOf(cls=cls) if value is not None:
            there = table(cls, here.version, here.flexible)
            fields = tuple(in_wire_order(getattr(value, field.name), field.kind, here) for field in there.present)
            # Topics of a Metadata request are bare strings over there.
            return fields[0] if cls is MetadataRequestTopic else fields
        case _:
            return value


def agrees_with_hand_written(case: Case, msg: Any) -> None:
    schema = HAND_WRITTEN[(*direction_of(case), case.version)].SCHEMA
    raw = codec(*case).encode(msg)
    stream = io.BytesIO(raw)
    values = schema.decode(stream)
    assert not stream.read()
    assert values == in_wire_order(msg, StructOf(case.cls), table(*case))
    assert schema.encode(values) == raw


_ERRORS = [int(code) for code in ErrorCode]
# In the year 2109. Over there later times lose a millisecond here and there, as a float does.
_LATEST_MS = 2**42


def as_kio_allows(value: Any, kind: Kind, here: Table, name: str = "") -> Any:
    """The message with the numbers replaced that kio has a narrower type for: error codes, times and durations."""
    match kind:
        case _ if value is None:
            return None
        case StructOf(cls=cls):
            there = table(cls, here.version, here.flexible)
            fields = (*there.present, *there.tagged.values())
            allowed = {f.name: as_kio_allows(getattr(value, f.name), f.kind, here, f.name) for f in fields}
            return value._replace(**allowed)
        case ArrayOf(element=element):
            return tuple(as_kio_allows(item, element, here) for item in value)
        case Fixed(code="h") if name.endswith("error_code"):
            return _ERRORS[value % len(_ERRORS)]
        case Fixed(code="q") if name.endswith("_ms"):
            return value % _LATEST_MS
        case _:
            return value


def from_kio(theirs: Any, kind: Kind, here: Table) -> Any:
    """Our message with their values."""
    match kind, theirs:
        case Fixed(code="16s"), None:
            return ZERO_UUID
        case _, None:
            return None
        case StructOf(cls=cls), _:
            there = table(cls, here.version, here.flexible)
            values = dict(there.absent)
            for field in (*there.present, *there.tagged.values()):
                # Durations and times have lost their unit over there.
                name = field.name if hasattr(theirs, field.name) else field.name.removesuffix("_ms")
                values[field.name] = from_kio(getattr(theirs, name), field.kind, here)
            return cls(**values)
        case ArrayOf(element=element), _:
            return tuple(from_kio(item, element, here) for item in theirs)
        case _, uuid.UUID():
            return theirs.bytes
        case _, timedelta():
            return theirs // timedelta(milliseconds=1)
        case _, datetime():
            return (theirs - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
        case _:
            return theirs


def agrees_with_kio(case: Case, msg: Any) -> None:
    cls = kio_class(case)
    msg = as_kio_allows(msg, StructOf(case.cls), table(*case))
    raw = codec(*case).encode(msg)
    theirs, size = entity_reader(cls)(raw, 0)
    assert size == len(raw)
    assert from_kio(theirs, StructOf(case.cls), table(*case)) == msg
    written = io.BytesIO()
    entity_writer(cls)(written, theirs)
    assert written.getvalue() == raw


class Oracle(NamedTuple):
    name: str
    has: Callable[[Case], bool]
    agrees: Callable[[Case, Any], None]


ORACLES = [
    Oracle("kafka-python", kafka_python_has, agrees_with_kafka_python),
    Oracle("kio", kio_has, agrees_with_kio),
    Oracle("hand-written", hand_written_has, agrees_with_hand_written),
]


@pytest.mark.examples
@each_version(API_CASES)
def test_agreement(case: Case) -> None:
    rng = random.Random(str(case))
    oracles = [oracle for oracle in ORACLES if oracle.has(case)]
    for _ in range(examples(6)):
        msg = sample(rng, *case, unknown_tags=False, sparse=True)
        for oracle in oracles:
            oracle.agrees(case, msg)


# Asked in tests/protocol_java/test_java.py, which proves that they have what is said here.
JAVA: dict[str, Callable[[Case], bool]] = {
    "Kafka's generated classes": generated_has,
    "Kafka 1.1.1": kafka_1_has,
}

# What fewer than two oracles cover, so that nobody believes more than is so: by the only one there is ("none" where
# there is none), the messages and their versions. Nothing is left. The generated classes of Kafka 4.3.1 and 3.9.2 cover
# all there is. Beside them stand, with others or alone: kio for what is newer than kafka-python 3; the hand-written
# schemas here and those of Kafka 1.1.1 for what Kafka 4 dropped, and for WriteTxnMarkers 0 the latter only.
FEWER_THAN_TWO: dict[str, dict[str, list[int]]] = {}


def test_coverage() -> None:
    found: dict[str, dict[str, list[int]]] = {}
    for case in API_CASES:
        names = [oracle.name for oracle in ORACLES if oracle.has(case)]
        names += [name for name, has in JAVA.items() if has(case)]
        if len(names) < 2:
            only = found.setdefault(names[0] if names else "none", {})
            only.setdefault(case.cls.__name__, []).append(case.version)
    assert found == FEWER_THAN_TWO
