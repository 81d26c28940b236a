"""Messages of any struct in any version: as Hypothesis strategies, and as seeded samples; both read off the schema."""

import random
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from hypothesis import strategies as st

from protocol.schema import ArrayOf, Field, Kind, Struct, StructOf, Table, table
from protocol.wire import Blob, Fixed, Text

T = TypeVar("T")

# Above every tag that a schema declares.
_FREE_TAGS = st.integers(100, 2**32 - 1)

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_BYTES = st.binary(max_size=5)


@cache
def messages(cls: type[T], version: int, flexible: bool, unknown_tags: bool = True) -> st.SearchStrategy[T]:
    """Messages that `version` can carry, so that decoding gives back the very same."""
    here = table(cast(Struct, cls), version, flexible)
    return cast("st.SearchStrategy[T]", _struct(here, unknown_tags))


def _struct(here: Table, unknown_tags: bool) -> st.SearchStrategy[Any]:
    fields: dict[str, st.SearchStrategy[Any]] = {name: st.just(value) for name, value in here.absent.items()}
    for field in here.present:
        fields[field.name] = _field(field, here, unknown_tags)
    for field in here.tagged.values():
        fields[field.name] = st.just(field.default) | _field(field, here, unknown_tags)
    if here.unknown is not None:
        fields[here.unknown] = _unknown() if here.flexible and unknown_tags else st.just(())
    return st.builds(here.cls, **fields)


def _unknown() -> st.SearchStrategy[tuple[tuple[int, bytes], ...]]:
    some = st.dictionaries(_FREE_TAGS, _BYTES, max_size=2)
    return st.just(()) | some.map(lambda tags: tuple(sorted(tags.items())))


def _field(field: Field, here: Table, unknown_tags: bool) -> st.SearchStrategy[Any]:
    value = _value(field.kind, here, unknown_tags)
    return st.none() | value if field.nullable else value


def _value(kind: Kind, here: Table, unknown_tags: bool) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed(code="?"):
            return st.booleans()
        case Fixed(code="d"):
            return st.floats(allow_nan=False)
        case Fixed(code="16s"):
            return st.binary(min_size=16, max_size=16)
        case Fixed(low=low, high=high):
            return st.integers(low, high)
        case Text():
            return _TEXT
        case Blob():
            return _BYTES
        case ArrayOf(element=element):
            return st.lists(_value(element, here, unknown_tags), max_size=2).map(tuple)
        case StructOf(cls=cls):
            return _struct(table(cls, here.version, here.flexible), unknown_tags)


def sample(
    rng: random.Random, cls: type[T], version: int, flexible: bool, unknown_tags: bool = True, sparse: bool = False
) -> T:
    """One message, the same for the same state of `rng`.

    There is something in every array and in every tagged field, unless it is `sparse`.
    """
    return cast(T, _Sampler(rng, unknown_tags, sparse).struct(table(cast(Struct, cls), version, flexible)))


class _Sampler(NamedTuple):
    rng: random.Random
    unknown_tags: bool
    sparse: bool

    def struct(self, here: Table) -> Any:
        rng = self.rng
        values = dict(here.absent)
        for field in here.present:
            null = field.nullable and rng.random() < 0.2
            values[field.name] = None if null else self.value(field.kind, here)
        for field in here.tagged.values():
            absent = self.sparse and rng.random() < 0.3
            values[field.name] = field.default if absent else self.value(field.kind, here)
        if here.unknown is not None:
            some = here.flexible and self.unknown_tags
            values[here.unknown] = ((rng.randrange(100, 2**20), rng.randbytes(3)),) if some else ()
        return here.cls(**values)

    def value(self, kind: Kind, here: Table) -> Any:
        rng = self.rng
        match kind:
            case Fixed(code="?"):
                return rng.random() < 0.5
            case Fixed(code="d"):
                return rng.random()
            case Fixed(code="16s"):
                return rng.choice((bytes(16), rng.randbytes(16), rng.randbytes(16)))
            case Fixed(low=low, high=high):
                return rng.choice((low, high, 0, max(low, -1), rng.randint(low, high), rng.randint(low, high)))
            case Text():
                return rng.choice(("", "group", "t-1", "größe", "\U0001f600"))
            case Blob():
                return rng.randbytes(rng.randrange(6))
            case ArrayOf(element=element):
                return tuple(self.value(element, here) for _ in range(rng.randint(0 if self.sparse else 1, 2)))
            case StructOf(cls=cls):
                return self.struct(table(cls, here.version, here.flexible))
