"""Memory, time, dump and restore of the offset table, beside a plain dict of dicts of tuples.

`python -m benchmarks.log memory` from the root of the repository: a few minutes; with `--full` 4 and 16 million
entries too, which takes half an hour and 2 GB. Linux only: resident memory is read from /proc.

Every figure of memory is a process's own. What it counts: the resident memory of the whole process with the table,
less that before the first entry; and what tracemalloc has seen allocated and not freed (in another process, since
tracing takes memory itself). Keys are new strings for each entry, as they are when records are replayed.
"""

import argparse
import gc
import json
import random
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

from protocol.offsets_log import CommittedOffset
from shim.coordinator.state.offset_table import OffsetTable

GROUPS: Final = 1_000
MILLION: Final = 1_000_000
START: Final = 1_760_000_000_000

Entry = tuple[str, str, int, CommittedOffset]


class PlainTable:
    """What is compared with: a dict of dicts of dicts of named tuples."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self._groups.get(group)
        partitions = topics.get(topic) if topics is not None else None
        return partitions.get(partition) if partitions is not None else None

    def set(self, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        self._groups.setdefault(group, {}).setdefault(topic, {})[partition] = committed

    def of_group(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self._groups.get(group, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())


SIDES: Final[dict[str, type[OffsetTable] | type[PlainTable]]] = {"table": OffsetTable, "dicts": PlainTable}


class Shape(NamedTuple):
    """The partitions of every topic of every group, their metadata, and the order in which they come."""

    label: str
    partitions: tuple[int, ...]
    metadata: Callable[[int], str] = lambda _: ""
    scattered: bool = True
    """One entry of every topic after the other, partitions in random order; otherwise topic by topic, ascending."""

    def topics(self, entries: int) -> int:
        """A group's topics."""
        return max(1, entries // GROUPS // len(self.partitions))

    def entries(self, entries: int) -> Iterator[Entry]:
        topics = self.topics(entries)
        for number, (partition, group, topic) in enumerate(self._order(topics)):
            offset = 10_000_000_000 + number
            committed = CommittedOffset(offset, 12, self.metadata(number), START + number)
            yield f"billing-invoices-{group}", f"orders-by-customer-{topic}", partition, committed

    def _order(self, topics: int) -> Iterator[tuple[int, int, int]]:
        if self.scattered:
            partitions = random.Random(1).sample(self.partitions, len(self.partitions))
            return product(partitions, range(GROUPS), range(topics))
        return ((p, group, topic) for group, topic, p in product(range(GROUPS), range(topics), self.partitions))


SHAPES: Final = {
    "dense": Shape("100 partitions", tuple(range(100))),
    "in-order": Shape("100 partitions, topic by topic", tuple(range(100)), scattered=False),
    "ten": Shape("10 partitions", tuple(range(10))),
    "one": Shape("1 partition", (0,)),
    "one-of-many": Shape("partition 57 alone", (57,)),
    "sparse": Shape("partitions 3 and 70000", (3, 70_000)),
    "every-other": Shape("every other one of 200 partitions", tuple(range(0, 200, 2))),
    "every-tenth": Shape("every tenth one of 1000 partitions", tuple(range(0, 1000, 10))),
    "metadata": Shape("100 partitions, 40 characters of metadata, all different", tuple(range(100)), "{:040}".format),
    "same-metadata": Shape(
        "100 partitions, 40 characters of metadata, as many alike",
        tuple(range(100)),
        lambda n: f"{n // 100:040}",
        False,
    ),
}


# -- a process of its own


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def fill(shape: Shape, entries: int, side: str, dump_to: str | None) -> dict[str, float]:
    gc.collect()
    before = resident()
    table = SIDES[side]()
    begin = perf_counter()
    for entry in shape.entries(entries):
        table.set(*entry)
    seconds = perf_counter() - begin
    gc.collect()
    after = resident()
    assert len(table) == entries
    figures = {"resident": after - before, "process": after, "seconds": seconds}
    if dump_to is not None:
        assert isinstance(table, OffsetTable)
        begin = perf_counter()
        pieces = table.dump()
        figures["dump_seconds"] = perf_counter() - begin
        with Path(dump_to).open("wb") as file:
            file.writelines(pieces)
        figures["dump_bytes"] = sum(map(len, pieces))
    return figures


def trace(shape: Shape, entries: int, side: str) -> dict[str, float]:
    tracemalloc.start()
    table = SIDES[side]()
    for entry in shape.entries(entries):
        table.set(*entry)
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0]
    assert len(table) == entries
    return {"traced": traced}


def restore(shape: Shape, entries: int, dump: str) -> dict[str, float]:
    before = resident()
    raw = Path(dump).read_bytes()
    begin = perf_counter()
    table = OffsetTable.restore(raw)
    seconds = perf_counter() - begin
    assert len(table) == entries
    identical = b"".join(table.dump()) == raw if entries <= MILLION else True
    assert identical
    del raw
    gc.collect()
    return {"resident": resident() - before, "seconds": seconds}


def in_process(*arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.log.offset_table", *arguments], check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


# -- time


def times(entries: int, keys: int = 100_000, rounds: int = 9) -> Iterator[str]:
    """Best and median of the rounds, in which the sides take turns, in nanoseconds of processor time."""
    shape = SHAPES["dense"]
    tables: dict[str, Any] = {side: make() for side, make in SIDES.items()}
    for entry in shape.entries(entries):
        for table in tables.values():
            table.set(*entry)
    some = random.Random(2)
    topics = shape.topics(entries)
    asked = [
        (f"billing-invoices-{some.randrange(GROUPS)}", f"orders-by-customer-{some.randrange(topics)}", p)
        for p in some.choices(shape.partitions, k=keys)
    ]
    new = [CommittedOffset(20_000_000_000 + n, 13, "", START + n) for n in range(keys)]

    def get(table: Any) -> int:
        get = table.get
        for group, topic, partition in asked:
            get(group, topic, partition)
        return keys

    def replace(table: Any) -> int:
        put = table.set
        for (group, topic, partition), committed in zip(asked, new, strict=True):
            put(group, topic, partition, committed)
        return keys

    def of_group(table: Any) -> int:
        return sum(1 for group in range(10) for _ in table.of_group(f"billing-invoices-{group}"))

    def add(table: Any) -> int:
        added = type(table)()
        for (group, topic, partition), committed in zip(asked, new, strict=True):
            added.set(group, topic, partition, committed)
        return keys

    for label, run in (
        ("get", get),
        ("set, in place of another", replace),
        ("set, into an empty table", add),
        ("of_group, an entry", of_group),
    ):
        taken: dict[str, list[float]] = {side: [] for side in tables}
        for _ in range(rounds):
            for side, table in tables.items():
                gc.collect()
                gc.disable()
                begin = process_time()
                done = run(table)
                taken[side].append((process_time() - begin) / done * 1e9)
                gc.enable()
        cells = [f"{min(taken[side]):7.0f} {sorted(taken[side])[rounds // 2]:7.0f}" for side in tables]
        ratio = min(taken["table"]) / min(taken["dicts"])
        yield f"{label:<60} {cells[0]}   {cells[1]}   {ratio:4.1f}x"


# -- the report


def memory_line(shape: str, entries: int, dicts: bool, traced: bool) -> str:
    arguments = (shape, str(entries))
    ours = in_process("fill", *arguments, "table")
    cells = [f"{ours['resident'] / entries:8.1f}", f"{ours['process'] / entries:8.1f}"]
    cells.append(f"{in_process('trace', *arguments, 'table')['traced'] / entries:8.1f}" if traced else f"{'':8}")
    cells.append(f"{in_process('fill', *arguments, 'dicts')['resident'] / entries:8.1f}" if dicts else f"{'':8}")
    return f"{SHAPES[shape].label:<60} {entries // MILLION:3} M {' '.join(cells)}"


def dump_line(shape: str, entries: int, folder: str) -> str:
    dump = str(Path(folder, "dump"))
    filled = in_process("fill", shape, str(entries), "table", dump)
    restored = in_process("restore", shape, str(entries), dump)
    return (
        f"{SHAPES[shape].label:<60} {entries // MILLION:3} M {filled['seconds']:8.2f} {filled['dump_seconds']:8.2f} "
        f"{restored['seconds']:8.2f} {filled['dump_bytes'] / entries:8.1f} {restored['resident'] / entries:8.1f}"
    )


def report(full: bool) -> Iterator[str]:
    yield f"{'time of the processor, nanoseconds':<60} {'table: best, median':>15}   {'dicts: best, median':>15}"
    yield from times(MILLION)
    yield ""
    yield f"{'memory, bytes an entry':<60}       {'resident':>8} {'process':>8} {'traced':>8} {'dicts':>8}"
    yield memory_line("dense", MILLION, dicts=True, traced=True)
    if full:
        yield memory_line("dense", 4 * MILLION, dicts=True, traced=True)
        yield memory_line("dense", 16 * MILLION, dicts=False, traced=True)
        yield memory_line("in-order", 16 * MILLION, dicts=False, traced=False)
    for shape in list(SHAPES)[1:]:
        yield memory_line(shape, MILLION, dicts=True, traced=True)
    yield ""
    yield f"{'dump and restore':<60}       {'fill s':>8} {'dump s':>8} {'rest. s':>8} {'B/entry':>8} {'resident':>8}"
    with tempfile.TemporaryDirectory() as folder:
        for entries in (MILLION, 4 * MILLION, 16 * MILLION) if full else (MILLION,):
            yield dump_line("dense", entries, folder)
        for shape in ("ten", "one", "sparse", "metadata"):
            yield dump_line(shape, MILLION, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="4 and 16 million entries too")
    parser.add_argument("part", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    match arguments.part:
        case ["fill", shape, entries, side, *dump_to]:
            print(json.dumps(fill(SHAPES[shape], int(entries), side, *(dump_to or [None]))))
        case ["trace", shape, entries, side]:
            print(json.dumps(trace(SHAPES[shape], int(entries), side)))
        case ["restore", shape, entries, dump]:
            print(json.dumps(restore(SHAPES[shape], int(entries), dump)))
        case _:
            for line in report(arguments.full):
                print(line, flush=True)


if __name__ == "__main__":
    main()
