"""From the table of a struct to one flat decode and one flat encode function for it, and one that only checks.

The functions are written as Python source, with nested structs and arrays inlined as loops, and compiled at first
use. A run of fixed-width fields, together with the length prefix of what follows it, is read or written by one
precompiled `struct.Struct`.

How malformed input is held off without a check at every step: a length is refused where it is negative, so the
position never goes back. A slice that runs over the end comes out short, but leaves the position beyond the end,
where any further read fails and where the one check at the very end fails too. Counts are checked against the bytes
that are left before anything is made for them. Generated code only says *that* something is wrong.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from protocol import generated
from protocol.schema import ArrayOf, Kind, StructOf, Table, smallest, table
from protocol.wire import MAX_STRING, Blob, Fixed, Text

Skim: TypeAlias = Callable[[bytes, int], int]


def compile_decoder(here: Table, skim_above: int, calls: dict[str, Callable[..., Any]]) -> tuple[str, Any]:
    """The source and the function `decode(buf, pos=0)`: the struct and the position after it.

    `calls` are what it calls with what it does not do itself: `elsewhere(buf, pos)` for what is not bytes or at no
    position, `check(buf, pos)` first for what has more than `skim_above` bytes, and `explain(buf, pos, failure)` for
    what is malformed, which raises.
    """
    writer = _Decoder(here.version, here.flexible, keep=True)
    source = writer.source
    source.names.update(calls)
    with source.block("def decode(buf, pos=0):"):
        with source.block("if buf.__class__ is not bytes or pos < 0:"):
            source += "return elsewhere(buf, pos)"
        source += "start = pos"
        source += "end = len(buf)"
        with source.block(f"if end - pos > {skim_above}:"):
            source += "check(buf, pos)"
        with source.block("try:"):
            result = writer.fields(here, "message")
            with source.block("if pos > end:"):
                source += "raise Malformed"
            source += f"return {result}, pos"
        with source.block("except DECODE_FAILURES as error:"):
            source += "failure = error.with_traceback(None)"
        source += "explain(buf, start, failure)"
    return source.function("decode", f"<decode {here.cls.__name__} v{here.version}>")


def compile_skimmer(kind: Kind, version: int, flexible: bool) -> Skim:
    """The function `skim(buf, pos)`: the position after a value of that kind. Raises one of DECODE_FAILURES."""
    writer = _Decoder(version, flexible, keep=False)
    source = writer.source
    with source.block("def skim(buf, pos):"):
        source += "end = len(buf)"
        writer.inline(kind, "value")
        with source.block("if pos > end:"):
            source += "raise Malformed"
        source += "return pos"
    skim: Skim = source.function("skim", f"<skim {kind} v{version}>")[1]
    return skim


def compile_encoder(here: Table, explain: Callable[..., Any]) -> tuple[str, Any]:
    """The source and the function `encode(msg, head=b"")`: its bytes, `head` before them.

    It calls `explain(msg, failure)`, which raises, for what cannot be encoded.
    """
    writer = _Encoder(here)
    source = writer.source
    source.names["explain"] = explain
    with source.block('def encode(msg, head=b""):'):
        source += "out = bytearray()"
        with source.block("try:"):
            writer.fields(here, "msg")
            source += "return head + out"
        with source.block("except ENCODE_FAILURES as error:"):
            source += "failure = error.with_traceback(None)"
        source += "explain(msg, failure)"
    return source.function("encode", f"<encode {here.cls.__name__} v{here.version}>")


class _Source:
    """Lines of code, and the objects they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names = dict(generated.NAMES)
        self._depth = 0
        self._numbers = 0

    def __iadd__(self, line: str) -> _Source:
        self.lines.append("    " * self._depth + line)
        return self

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self += head
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, hint: str) -> str:
        self._numbers += 1
        return f"{hint}_{self._numbers}"

    def name(self, prefix: str, value: Any) -> str:
        """A global name for `value`."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = value
        return name

    def struct(self, codes: str, method: str) -> str:
        name = f"{method}_{codes.replace('?', 'B1').replace('16s', 'U')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(f">{codes}"), method)
        return name

    def array_struct(self, code: str) -> str:
        name = f"array_{code.replace('?', 'B1')}"
        if name not in self.names:
            self.names[name] = generated.array_struct(code)
        return name

    def function(self, name: str, file: str) -> tuple[str, Any]:
        text = "\n".join(self.lines) + "\n"
        # So that a traceback shows the lines.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.names)  # noqa: S102 - the text is made of our own tables alone
        return text, self.names[name]


def _how(errors: str) -> str:
    """The arguments of `encode` and `decode`; none for the usual way, which is faster."""
    return "" if errors == "strict" else f'"utf-8", "{errors}"'


@dataclass(slots=True)
class _Run:
    """Fixed-width items that stand beside each other: `struct` codes, and a variable or an expression for each.

    What is passed over, `Nx`, has neither.
    """

    codes: list[str]
    items: list[str]

    def add(self, code: str, item: str) -> None:
        self.codes.append(code)
        self.items.append(item)

    def skip(self, size: int) -> None:
        self.codes.append(f"{size}x")

    def take(self) -> tuple[str, list[str]]:
        codes, items = "".join(self.codes), self.items
        self.codes, self.items = [], []
        return codes, items


class _Decoder:
    """Writes a decoder, or with `keep` False a skimmer, which checks all and makes nothing."""

    def __init__(self, version: int, flexible: bool, keep: bool) -> None:
        self.keep = keep
        self.version = version
        self.flexible = flexible
        self.source = _Source()
        self.run = _Run([], [])

    def read_run(self) -> None:
        codes, names = self.run.take()
        if not codes:
            return
        size = struct.calcsize(">" + codes)
        if len(names) == 1 and codes.endswith("B"):
            self.source += f"{names[0]} = buf[pos + {size - 1}]" if size > 1 else f"{names[0]} = buf[pos]"
        elif names:
            target = ", ".join(names) + ("," if len(names) == 1 else "")
            self.source += f"{target} = {self.source.struct(codes, 'unpack_from')}(buf, pos)"
        self.source += f"pos += {size}"

    def length(self, hint: str, compact: bool, code: str) -> str:
        """Read a length or count as it is on the wire; of a compact one, the first byte."""
        n = hint
        self.run.add("B" if compact else code, n)
        self.read_run()
        return n

    @contextmanager
    def if_any(self, n: str, compact: bool, longer: str) -> Iterator[None]:
        """The branch for a length or count above zero; `longer` reads the rest of a compact one, never null."""
        with self.source.block(f"if {n} > {1 if compact else 0}:"):
            if compact:
                with self.source.block(f"if {n} > 127:"):
                    self.source += f"{n}, pos = {longer}(buf, pos, {n})"
            yield

    def otherwise(self, n: str, name: str, nullable: bool, compact: bool, empty: str) -> None:
        """The branches for a length or count of zero, for null, and for what is neither."""
        if not self.keep:
            if not (compact and nullable):
                least = 1 if compact else -1 if nullable else 0
                with self.source.block(f"elif {n} < {least}:"):
                    self.source += "raise Malformed"
            return
        with self.source.block(f"elif {n} == {1 if compact else 0}:"):
            self.source += f"{name} = {empty}"
        if nullable:
            with self.source.block(f"elif {n} == {0 if compact else -1}:"):
                self.source += f"{name} = None"
        if not (compact and nullable):
            self.otherwise_malformed()

    def value(self, kind: Kind, name: str, nullable: bool, compact: bool) -> None:
        """Read one value into the variable `name`; a fixed-width one may only be in the run when this returns."""
        match kind:
            case Fixed(size=size) if not self.keep:
                self.run.skip(size)
            case Fixed(code=code):
                self.run.add(code, name)
            case Text(errors=errors):
                value = f"buf[pos:{name}_end].decode({_how(errors)})"
                self.sized(name, nullable, compact, "h", '""', value if self.keep or errors == "strict" else "")
            case Blob():
                self.sized(name, nullable, compact, "i", 'b""', f"buf[pos:{name}_end]" if self.keep else "")
            case ArrayOf(element=element):
                self.array(element, name, nullable, compact)
            case StructOf(cls=cls) if nullable:
                flag = self.source.variable("flag")
                self.run.add("b", flag)
                self.read_run()
                with self.source.block(f"if {flag} == 1:"):
                    self.struct(cls, name)
                with self.source.block(f"elif {flag} == -1:"):
                    self.source += f"{name} = None"
                self.otherwise_malformed()
            case StructOf(cls=cls):
                self.struct(cls, name)

    def otherwise_malformed(self) -> None:
        with self.source.block("else:"):
            self.source += "raise Malformed"

    def sized(self, name: str, nullable: bool, compact: bool, code: str, empty: str, value: str) -> None:
        n = self.length(f"{name}_length", compact, code)
        with self.if_any(n, compact, "long_text" if code == "h" else "long_length"):
            if value:
                self.source += f"{name}_end = pos + {n}" + (" - 1" if compact else "")
                self.source += f"{name} = {value}"
                self.source += f"pos = {name}_end"
            else:
                self.source += f"pos += {n}" + (" - 1" if compact else "")
        self.otherwise(n, name, nullable, compact, empty)

    def array(self, element: Kind, name: str, nullable: bool, compact: bool) -> None:
        n = self.length(f"{name}_count", compact, "i")
        with self.if_any(n, compact, "long_length"):
            if compact:
                self.source += f"{n} -= 1"
            size = smallest(element, self.version, self.flexible)
            with self.source.block(f"if {n} * {size} > end - pos:"):
                self.source += "raise Malformed"
            if isinstance(element, Fixed) and element.code != "16s":
                if self.keep:
                    self.source += f"{name} = {self.source.array_struct(element.code)}({n}).unpack_from(buf, pos)"
                self.source += f"pos += {n} * {element.size}"
            elif not self.keep and self.is_fixed(element):
                self.source += f"pos += {n} * {size}"
            else:
                if self.keep:
                    self.source += f"{name} = []"
                with self.source.block(f"for _ in range({n}):"):
                    item = self.source.variable("item")
                    expression = self.inline(element, item)
                    if self.keep:
                        self.source += f"{name}.append({expression})"
                if self.keep:
                    self.source += f"{name} = tuple({name})"
        self.otherwise(n, name, nullable, compact, "()")

    def is_fixed(self, element: Kind) -> bool:
        """Whether any bytes will do, as long as there are enough."""
        match element:
            case Fixed():
                return True
            case StructOf(cls=cls) if not self.flexible:
                fields = table(cls, self.version, self.flexible).present
                return all(not field.nullable and self.is_fixed(field.kind) for field in fields)
            case _:
                return False

    def inline(self, kind: Kind, name: str) -> str:
        """Read an element of an array; gives the expression that makes it."""
        if isinstance(kind, StructOf):
            return self.fields(table(kind.cls, self.version, self.flexible), name)
        self.value(kind, name, False, self.flexible)
        self.read_run()
        return name

    def struct(self, cls: type[tuple[Any, ...]], name: str) -> None:
        expression = self.fields(table(cls, self.version, self.flexible), name)
        if self.keep:
            self.source += f"{name} = {expression}"

    def fields(self, here: Table, prefix: str) -> str:
        """Read all fields of a struct; gives the expression that makes it, of no use in a skimmer."""
        made: dict[str, str] = {name: self.constant(default) for name, default in here.absent.items()}
        for field in here.present:
            made[field.name] = name = self.source.variable(field.name)
            self.value(field.kind, name, field.nullable, field.compact)
        if here.unknown is not None:
            made[here.unknown] = self.tags(here, made) if here.flexible else "()"
        self.read_run()
        values = ", ".join(made[name] for name in here.names)
        return f"new({self.source.name(here.cls.__name__, here.cls)}, ({values},))"

    def constant(self, value: Any) -> str:
        if value is None or isinstance(value, bool | int | str) or value == ():
            return "()" if value == () and type(value) is tuple else repr(value)
        return self.source.name("default", value)

    def tags(self, here: Table, made: dict[str, str]) -> str:
        source = self.source
        unknown = source.variable("tagged")
        count = source.variable("tags")
        self.run.add("B", count)
        self.read_run()
        for field in here.tagged.values():
            made[field.name] = source.variable(field.name)
            source += f"{made[field.name]} = {self.constant(field.default)}"
        source += f"{unknown} = ()"
        with source.block(f"if {count}:"):
            if not here.tagged:
                source += f"{unknown}, pos = {'unknown_tags' if self.keep else 'skim_tags'}(buf, pos, {count})"
                return unknown
            source += f"{count}, pos = tag_count(buf, pos, {count})"
            number, stop = source.variable("tag"), source.variable("stop")
            source += f"{number} = -1"
            source += f"{unknown} = []"
            with source.block(f"for _ in range({count}):"):
                source += f"{number}, pos, {stop} = tag_head(buf, pos, {number})"
                word = "if"
                for tag, field in here.tagged.items():
                    with source.block(f"{word} {number} == {tag}:"):
                        self.value(field.kind, made[field.name], field.nullable, field.compact)
                        self.read_run()
                        with source.block(f"if pos != {stop}:"):
                            source += "raise Malformed"
                    word = "elif"
                with source.block("else:"):
                    if self.keep:
                        source += f"{unknown}.append(({number}, buf[pos:{stop}]))"
                    source += f"pos = {stop}"
            source += f"{unknown} = tuple({unknown})"
        return unknown


class _Encoder:
    """Writes the encoder of one table."""

    def __init__(self, here: Table) -> None:
        self.version = here.version
        self.flexible = here.flexible
        self.source = _Source()
        self.run = _Run([], [])

    def packed(self, codes: str, items: list[str]) -> str:
        return f"{self.source.struct(codes, 'pack')}({', '.join(items)})"

    def write_run(self) -> None:
        codes, items = self.run.take()
        if codes:
            self.source += f"out += {self.packed(codes, items)}"

    def write_length(self, n: str, compact: bool, code: str) -> None:
        """Write the run and the length or count in the variable `n` after it."""
        if not compact:
            self.run.add(code, n)
            self.write_run()
            return
        codes, items = self.run.take()
        with self.source.block(f"if {n} < 128:"):
            self.source += f"out += {self.packed(codes + 'B', [*items, n])}" if codes else f"out.append({n})"
        with self.source.block("else:"):
            self.source += f"out += {self.packed(codes, items)} + varint({n})" if codes else f"out += varint({n})"

    def value(self, kind: Kind, name: str, nullable: bool, compact: bool) -> None:
        """Write the value of the variable `name`; a fixed-width one may only be in the run when this returns."""
        source = self.source
        zero, null = (1, 0) if compact else (0, -1)
        plus_one = " + 1" if compact else ""
        match kind:
            case Fixed(code="16s"):
                with source.block(f"if {name}.__class__ is not bytes:"):
                    source += f"{name} = raw({name})"
                with source.block(f"if len({name}) != 16:"):
                    source += "raise Malformed"
                self.run.add("16s", name)
            case Fixed(code="?"):
                # struct would write anything as what it is worth.
                with source.block(f"if {name}.__class__ is not bool:"):
                    source += "raise Malformed"
                self.run.add("?", name)
            case Fixed(code=code):
                self.run.add(code, name)
            case Text() | Blob():
                raw, n = source.variable("raw"), source.variable("n")
                text = isinstance(kind, Text)
                with source.block(f"if {name}:"):
                    if isinstance(kind, Text):
                        source += f"{raw} = {name}.encode({_how(kind.errors)})"
                    else:
                        source += f"{raw} = {name} if {name}.__class__ is bytes else raw({name})"
                    source += f"{n} = len({raw}){plus_one}"
                    if compact and text:
                        with source.block(f"if {n} > {MAX_STRING + 1}:"):
                            source += "raise Malformed"
                with source.block(f"elif {name} is None:"):
                    if nullable:
                        source += f"{n} = {null}"
                        source += f'{raw} = b""'
                    else:
                        source += "raise Malformed"
                empty = '""' if text else 'b""'
                with source.block(f"elif {name} == {empty}:"):
                    source += f"{n} = {zero}"
                    source += f'{raw} = b""'
                with source.block("else:"):
                    source += "raise Malformed"
                self.write_length(n, compact, "h" if text else "i")
                source += f"out += {raw}"
            case ArrayOf(element=element):
                n = source.variable("n")
                if nullable:
                    with source.block(f"if {name} is None:"):
                        source += f"{n} = {null}"
                        source += f"{name} = ()"
                    with source.block("else:"):
                        self.count(name, n, plus_one)
                else:
                    self.count(name, n, plus_one)
                self.write_length(n, compact, "i")
                self.elements(element, name)
            case StructOf(cls=cls) if nullable:
                self.write_run()
                with source.block(f"if {name} is None:"):
                    source += 'out += b"\\xff"'
                with source.block("else:"):
                    source += 'out += b"\\x01"'
                    self.fields(table(cls, self.version, self.flexible), name)
            case StructOf(cls=cls):
                self.fields(table(cls, self.version, self.flexible), name)

    def count(self, name: str, n: str, plus_one: str) -> None:
        with self.source.block(f"if {name}.__class__ is not tuple:"):
            self.source += f"array({name})"
        self.source += f"{n} = len({name}){plus_one}"

    def elements(self, element: Kind, name: str) -> None:
        source = self.source
        if isinstance(element, Fixed) and element.code not in ("16s", "?"):
            source += f"out += {source.array_struct(element.code)}(len({name})).pack(*{name})"
            return
        item = source.variable("item")
        with source.block(f"for {item} in {name}:"):
            if isinstance(element, StructOf):
                self.fields(table(element.cls, self.version, self.flexible), item)
            else:
                self.value(element, item, False, self.flexible)
                self.write_run()

    def fields(self, here: Table, name: str) -> None:
        """Write all fields of the struct in the variable `name`, and the run."""
        source = self.source
        # Enter with what stands before: a struct's first fields go into the same run.
        variables = {field: source.variable(field) for field in here.names}
        with source.block(f"if {name}.__class__ is not {source.name(here.cls.__name__, here.cls)}:"):
            source += f"struct({name})"
        source += f"{', '.join(variables.values())}, = {name}"
        for field, default in here.absent.items():
            if field in here.strict:
                with source.block(f"if {self.differs(variables[field], default)}:"):
                    source += "raise Malformed"
        for present in here.present:
            self.value(present.kind, variables[present.name], present.nullable, present.compact)
        if here.unknown is None:
            self.write_run()
            return
        unknown = variables[here.unknown]
        if not here.flexible:
            self.write_run()
            with source.block(f"if {unknown} is not EMPTY:"):
                source += f"untagged({unknown})"
            return
        if here.tagged:
            self.tagged(here, variables, unknown)
            return
        codes, items = self.run.take()
        with source.block(f"if {unknown} is not EMPTY:"):
            if codes:
                source += f"out += {self.packed(codes, items)}"
            source += f"write_tags(out, {{}}, {unknown})"
        with source.block("else:"):
            source += f"out += {self.packed(codes + 'x', items)}" if codes else "out.append(0)"

    def differs(self, name: str, default: Any) -> str:
        """The condition that a value is not the default; an array may be a list too."""
        condition = f"{name} != {self.source.name('default', default)}"
        return f"{condition} and {name} != []" if default == () else condition

    def tagged(self, here: Table, variables: dict[str, str], unknown: str) -> None:
        source = self.source
        self.write_run()
        known = source.variable("known")
        source += f"{known} = {{}}"
        for tag, field in here.tagged.items():
            variable = variables[field.name]
            with source.block(f"if {self.differs(variable, field.default)}:"):
                before = source.variable("before")
                source += f"{before} = out"
                source += "out = bytearray()"
                self.value(field.kind, variable, field.nullable, field.compact)
                self.write_run()
                source += f"{known}[{tag}] = out"
                source += f"out = {before}"
        with source.block(f"if {unknown} is not EMPTY:"):
            source += f"undeclared({unknown}, {source.name('declared', frozenset(here.tagged))})"
        with source.block(f"if {known} or {unknown} is not EMPTY:"):
            source += f"write_tags(out, {known}, {unknown})"
        with source.block("else:"):
            source += "out.append(0)"
