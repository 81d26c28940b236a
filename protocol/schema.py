"""From a declaration (see `protocol.wire`) to the table of its fields in one version.

The table is all that the compiler and the reference codec know of a message.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, Union

from protocol.wire import (
    Blob,
    Fixed,
    Ignorable,
    NeverCompact,
    NullableVersions,
    Tag,
    Text,
    Unknown,
    Versions,
)

Struct: TypeAlias = type[tuple[Any, ...]]


class SchemaError(TypeError):
    """A declaration that makes no sense: a mistake in this package, never the fault of any bytes."""


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array; its elements are never null."""

    element: Kind


@dataclass(frozen=True, slots=True)
class StructOf:
    cls: Struct


Kind: TypeAlias = Fixed | Text | Blob | ArrayOf | StructOf


@dataclass(frozen=True, slots=True)
class Declared:
    """A field as it is declared, over all versions."""

    name: str
    kind: Kind | Unknown
    versions: Versions
    nullable: Versions | None
    tag: int | None
    ignorable: bool
    compactable: bool
    has_default: bool
    default: Any


@dataclass(frozen=True, slots=True)
class Field:
    """A field as one version has it."""

    name: str
    kind: Kind
    nullable: bool
    compact: bool
    default: Any


@dataclass(frozen=True, slots=True)
class Table:
    """A struct as one version has it.

    Of the struct's fields, `present` follow each other on the wire, `tagged` (by tag, ascending) come after them
    where they differ from their default, `absent` take their default; `strict` names those of the absent which must
    hold it. `unknown` names the field for tagged fields that nobody declared. `names` are all fields in the order of
    the struct's constructor.
    """

    cls: Struct
    version: int
    flexible: bool
    names: tuple[str, ...]
    present: tuple[Field, ...]
    tagged: dict[int, Field]
    absent: dict[str, Any]
    strict: frozenset[str]
    unknown: str | None


@cache
def declared(cls: Struct) -> tuple[Declared, ...]:
    """The fields of `cls` over all versions.

    Raises SchemaError when an annotation is not made of the words of `protocol.wire`.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    defaults: dict[str, Any] = cls._field_defaults  # type: ignore[attr-defined]
    return tuple(
        _declare(f"{cls.__name__}.{name}", name, hint, name in defaults, defaults.get(name))
        for name, hint in hints.items()
    )


@cache
def table(cls: Struct, version: int, flexible: bool) -> Table:
    """The table of `cls` in `version`. Raises SchemaError."""
    present: list[Field] = []
    tagged: dict[int, Field] = {}
    absent: dict[str, Any] = {}
    strict: set[str] = set()
    unknown: str | None = None
    fields = declared(cls)
    for field in fields:
        if isinstance(field.kind, Unknown):
            unknown = field.name
            continue
        if version not in field.versions or (field.tag is not None and not flexible):
            absent[field.name] = field.default
            if not field.has_default:
                raise SchemaError(f"{cls.__name__}.{field.name}: version {version} lacks it, and it has no default")
            if not field.ignorable:
                strict.add(field.name)
            continue
        here = Field(
            field.name,
            field.kind,
            field.nullable is not None and version in field.nullable,
            flexible and field.compactable,
            field.default,
        )
        if field.tag is None:
            present.append(here)
        elif field.tag in tagged:
            raise SchemaError(f"{cls.__name__}.{field.name}: tag {field.tag} is taken")
        else:
            tagged[field.tag] = here
    if flexible and unknown is None:
        raise SchemaError(f"{cls.__name__}: a flexible version needs `tagged: TaggedFields = ()`")
    return Table(
        cls=cls,
        version=version,
        flexible=flexible,
        names=tuple(field.name for field in fields),
        present=tuple(present),
        tagged=dict(sorted(tagged.items())),
        absent=absent,
        strict=frozenset(strict),
        unknown=unknown,
    )


def smallest(kind: Kind, version: int, flexible: bool) -> int:
    """The bytes that a value takes at least."""
    match kind:
        case Fixed(size=size):
            return size
        case Text():
            return 1 if flexible else 2
        case Blob() | ArrayOf():
            return 1 if flexible else 4
        case StructOf(cls=cls):
            here = table(cls, version, flexible)
            fields = sum(
                1
                if field.nullable and isinstance(field.kind, StructOf)
                else smallest(field.kind, version, field.compact)
                for field in here.present
            )
            return fields + (1 if flexible else 0)


def _declare(where: str, name: str, hint: Any, has_default: bool, default: Any) -> Declared:
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is typing.Annotated:
        hint, marks = hint.__origin__, hint.__metadata__
    versions = Versions(0)
    nullable_versions: Versions | None = None
    tag: int | None = None
    ignorable = False
    compactable = True
    base: Fixed | Text | Blob | Unknown | None = None
    for mark in marks:
        match mark:
            case NullableVersions():
                nullable_versions = mark
            case Versions():
                versions = mark
            case Tag(number=number):
                tag = number
            case Ignorable():
                ignorable = True
            case NeverCompact():
                compactable = False
            case Fixed() | Text() | Blob() | Unknown():
                base = mark
            case _:
                raise SchemaError(f"{where}: {mark!r} means nothing here")
    hint, may_be_null = _without_null(hint)
    nullable = (nullable_versions or Versions(0)) if may_be_null else None
    if nullable_versions is not None and not may_be_null:
        raise SchemaError(f"{where}: nullable in some versions, but its type excludes None")
    if tag is not None and not has_default:
        raise SchemaError(f"{where}: a tagged field needs a default")
    return Declared(
        name, base or _kind(where, hint), versions, nullable, tag, ignorable, compactable, has_default, default
    )


def _without_null(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    others = [option for option in typing.get_args(hint) if option is not types.NoneType]
    return (others[0], True) if len(others) == 1 else (hint, False)


def _kind(where: str, hint: Any) -> Kind:
    if typing.get_origin(hint) is typing.Annotated:
        for mark in hint.__metadata__:
            if isinstance(mark, Fixed | Text | Blob):
                return mark
    if typing.get_origin(hint) is tuple:
        match typing.get_args(hint):
            case (element, end) if end is Ellipsis:
                return ArrayOf(_kind(where, element))
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_field_defaults"):
        return StructOf(hint)
    raise SchemaError(f"{where}: {hint!r} is not a wire type")
