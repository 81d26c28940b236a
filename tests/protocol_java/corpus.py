"""What is shown to Kafka's classes: messages of every struct in every version, and their bytes spoilt."""

import random
from collections.abc import Iterator
from typing import Any

from protocol.codec import codec
from protocol.schema import ArrayOf, Kind, StructOf, Table, declared, table
from protocol.wire import Blob, Fixed, Text
from tests.protocol.schemas import Case
from tests.protocol.strategies import sample


def all_defaults(case: Case) -> Any:
    """The message in which every field has its default, and what has none declared is zero or empty."""
    return _of_defaults(table(*case))


def _of_defaults(here: Table) -> Any:
    values = dict(here.absent) | {field.name: field.default for field in here.tagged.values()}
    has_default = {field.name: field.has_default for field in declared(here.cls)}
    for field in here.present:
        declares = has_default[field.name] and (field.default is not None or field.nullable)
        values[field.name] = field.default if declares else _nothing(field.kind, here)
    if here.unknown is not None:
        values[here.unknown] = ()
    return here.cls(**values)


def _nothing(kind: Kind, here: Table) -> Any:
    match kind:
        case Fixed(code="?"):
            return False
        case Fixed(code="16s"):
            return bytes(16)
        case Fixed():
            return 0
        case Text():
            return ""
        case Blob():
            return b""
        case ArrayOf():
            return ()
        case StructOf(cls=cls):
            return _of_defaults(table(cls, here.version, here.flexible))


def inside(case: Case) -> list[Case]:
    """Every struct that is somewhere in the message."""
    here = table(*case)
    found: list[Case] = []
    for field in (*here.present, *here.tagged.values()):
        kind = field.kind.element if isinstance(field.kind, ArrayOf) else field.kind
        if isinstance(kind, StructOf):
            inner = Case(kind.cls, case.version, case.flexible)
            found += [inner, *inside(inner)]
    return found


def samples(case: Case, count: int) -> list[Any]:
    """Half of them with something in every array and every tagged field."""
    rng = random.Random(f"samples of {case}")
    return [sample(rng, *case, sparse=number % 2 == 1) for number in range(count)]


def spoilt(case: Case, count: int) -> Iterator[bytes]:
    """Bytes of messages, in each one fault.

    One bit is turned, one byte replaced by the first or last of a range, the end cut off, or (where one byte is a
    varint) a varint made longer than it need be.
    """
    rng = random.Random(f"spoilt {case}")
    for number in range(count):
        raw = bytearray(codec(*case).encode(sample(rng, *case, sparse=True)))
        if not raw:
            continue
        place = rng.randrange(len(raw))
        match number % 4:
            case 0:
                raw[place] ^= 1 << rng.randrange(8)
            case 1:
                raw[place] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            case 2:
                del raw[place:]
            case 3:
                raw[place : place + 1] = bytes((raw[place] | 0x80, 0))
        yield bytes(raw)
