"""Who takes part in a line, and what a line is."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple


class Column(StrEnum):
    """A codec, in the order of the table. aiokafka has two codecs for record batches, one for messages."""

    OURS = "ours"
    BY_HAND = "by hand"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"
    AIOKAFKA_C = "aiokafka C"
    KIO = "kio"


class Side(NamedTuple):
    """One codec on one line: `run` does the work of the line once, from what was made beforehand.

    `agrees` raises AssertionError if what `run` gives is not what the line's other sides give. `native` says whether
    compiled code reads or writes the fields; the CRC-32C of a record batch is compiled on every side and does not
    count.
    """

    column: Column
    run: Callable[[], object]
    agrees: Callable[[], None]
    native: bool = False


class Line(NamedTuple):
    """What is compared: one message in one version, or one record batch; decoded or encoded."""

    label: str
    work: str
    sides: tuple[Side, ...]
    """Ours first."""

    @property
    def name(self) -> str:
        return f"{self.label}, {self.work}"
