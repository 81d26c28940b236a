"""Byte-for-byte agreement with codecs that nobody here wrote: kafka-python 3 and aiokafka.

Our bytes are decoded by the other side, which must find the same values and give the same bytes back. `test_coverage`
holds the list of what neither of them covers.
"""

import importlib
import io
import pkgutil
import uuid
from typing import Any

import aiokafka.protocol
import kafka.protocol
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from protocol.apis import APIS
from protocol.compiler import codec
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.metadata import OPERATIONS_NOT_ASKED, MetadataRequestTopic
from protocol.schema import ArrayOf, Kind, StructOf, Table, table
from protocol.wire import Fixed
from tests.protocol.schemas import API_CASES, Case
from tests.protocol.strategies import messages

examples = settings(
    max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def classes_in(package: Any) -> list[type[Any]]:
    found = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
        if ".old" not in module.name and "generate" not in module.name
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


def _aiokafka() -> dict[tuple[int, str, int], Any]:
    found = {}
    for cls in classes_in(aiokafka.protocol):
        name = cls.__name__
        if hasattr(cls, "SCHEMA") and isinstance(getattr(cls, "API_VERSION", None), int) and "_v" in name:
            direction = "response" if "Response" in name else "request"
            found[cls.API_KEY, direction, int(name.rpartition("_v")[2])] = cls
    return found


AIOKAFKA = _aiokafka()


def kafka_python_has(case: Case) -> bool:
    cls = KAFKA_PYTHON.get(direction_of(case))
    # Below the oldest version in their schemas, fields that Kafka 4 dropped are missing.
    return cls is not None and cls.valid_versions[0] <= case.version <= cls.valid_versions[1]


def aiokafka_has(case: Case) -> bool:
    return not case.flexible and (*direction_of(case), case.version) in AIOKAFKA


def as_kafka_python_sees_it(theirs: Any, ours: Any, here: Table) -> None:
    """Assert that every field on the wire has the same name and value over there."""
    for field in (*here.present, *here.tagged.values()):
        value = getattr(ours, field.name)
        if field.name.endswith("authorized_operations") and not isinstance(value, bool):
            assert theirs.authorized_operations == bits(value)
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
        case _ if ours is None or theirs is None:
            assert theirs is ours
        case StructOf(cls=cls):
            as_kafka_python_sees_it(theirs, ours, table(cls, here.version, here.flexible))
        case ArrayOf(element=element):
            assert len(theirs) == len(ours)
            for one, other in zip(theirs, ours, strict=True):
                same(one, other, element, here)
        case Fixed(code="16s"):
            assert (theirs.bytes if isinstance(theirs, uuid.UUID) else theirs) == ours
        case _:
            assert theirs == ours


@pytest.mark.parametrize("case", [case for case in API_CASES if kafka_python_has(case)], ids=str)
@examples
@given(data=st.data())
def test_kafka_python(case: Case, data: st.DataObject) -> None:
    cls = KAFKA_PYTHON[direction_of(case)]
    msg = data.draw(messages(*case, unknown_tags=False))
    if isinstance(msg, ApiVersionsResponse):
        # With an error in it, kafka-python takes the response for version 0, as a client should.
        msg = msg._replace(error_code=0)
    raw = codec(*case).encode(msg)
    theirs = cls.decode(raw, version=case.version)
    as_kafka_python_sees_it(theirs, msg, table(*case))
    theirs._header = None
    assert bytes(theirs.encode(version=case.version)) == raw


def in_wire_order(value: Any, kind: Kind, here: Table) -> Any:
    """As aiokafka has it: structs as bare tuples of the fields on the wire."""
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


@pytest.mark.parametrize("case", [case for case in API_CASES if aiokafka_has(case)], ids=str)
@examples
@given(data=st.data())
def test_aiokafka(case: Case, data: st.DataObject) -> None:
    schema = AIOKAFKA[(*direction_of(case), case.version)].SCHEMA
    msg = data.draw(messages(*case))
    raw = codec(*case).encode(msg)
    stream = io.BytesIO(raw)
    values = schema.decode(stream)
    assert not stream.read()
    assert values == in_wire_order(msg, StructOf(case.cls), table(*case))
    assert schema.encode(values) == raw


def test_coverage() -> None:
    """What no oracle covers, so that nobody believes more than is so."""
    uncovered = {str(case) for case in API_CASES if not kafka_python_has(case) and not aiokafka_has(case)}
    assert uncovered == set()
