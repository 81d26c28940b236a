"""Our messages held against what Kafka's classes read, in the JSON that Kafka has for them."""

import base64
from collections.abc import Iterator
from typing import Any

from protocol.headers import RequestHeader
from protocol.schema import ArrayOf, Kind, StructOf, Table, table
from protocol.wire import Blob, Fixed

_OTHER_NAMES: dict[tuple[type[Any], str], str] = {
    (RequestHeader, "api_key"): "requestApiKey",
    (RequestHeader, "api_version"): "requestApiVersion",
}


def same_message(theirs: Any, ours: Any, here: Table) -> None:
    """Assert that every field on the wire, and no other, is there with the same name and value."""
    tagged = [field for field in here.tagged.values() if getattr(ours, field.name) != field.default]
    expected = {_name(here.cls, field.name): field for field in (*here.present, *tagged)}
    # Of records only the size is shown.
    sizes = {name for name in theirs if name.endswith("SizeInBytes")}
    assert {name.removesuffix("SizeInBytes") for name in theirs} == expected.keys()
    for name, field in expected.items():
        value = getattr(ours, field.name)
        if f"{name}SizeInBytes" in sizes:
            assert theirs[f"{name}SizeInBytes"] == len(value)
        else:
            _same_value(theirs[name], value, field.kind, here)


def _same_value(theirs: Any, ours: Any, kind: Kind, here: Table) -> None:
    match kind:
        case _ if ours is None or theirs is None:
            assert theirs is ours
        case StructOf(cls=cls):
            same_message(theirs, ours, table(cls, here.version, here.flexible))
        case ArrayOf(element=element):
            assert len(theirs) == len(ours)
            for one, other in zip(theirs, ours, strict=True):
                _same_value(one, other, element, here)
        case Fixed(code="16s"):
            assert base64.urlsafe_b64decode(theirs + "==") == ours
        case Blob():
            assert base64.b64decode(theirs) == ours
        case _:
            assert type(theirs) is type(ours)
            assert theirs == ours


def same_in_wire_order(theirs: list[Any], ours: Any, here: Table) -> None:
    """Assert that the values which 1.1.1 read are ours; it groups them in other structs here and there."""
    for one, other in zip(theirs, _in_wire_order(ours, StructOf(here.cls), here), strict=True):
        match one, other:
            case str(), bytes():
                assert base64.b64decode(one) == other
            case int(), bytes():
                assert one == len(other)
            case _:
                assert type(one) is type(other)
                assert one == other


def _in_wire_order(value: Any, kind: Kind, here: Table) -> Iterator[Any]:
    match kind:
        case ArrayOf(element=element) if value is not None:
            yield len(value)
            for item in value:
                yield from _in_wire_order(item, element, here)
        case StructOf(cls=cls):
            there = table(cls, here.version, here.flexible)
            for field in there.present:
                yield from _in_wire_order(getattr(value, field.name), field.kind, there)
        case _:
            yield value


def _name(cls: type[Any], name: str) -> str:
    if (cls, name) in _OTHER_NAMES:
        return _OTHER_NAMES[cls, name]
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
