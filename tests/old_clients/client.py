"""A real client of an old age: one program, started anew for each thing that it does.

``PROGRAM produce BOOTSTRAP TOPIC CODEC PREFIX COUNT`` writes COUNT records to partition 0 of TOPIC, compressed with
CODEC (none, gzip, snappy, lz4), and waits for each acknowledgement or the last: key ``PREFIX-key-I``, value
``PREFIX-value-I-`` and 200 times ``x``, I from 0 on. It prints one line, a JSON object: ``{"offsets": [...]}`` with
what the client was told of each, or null where its API does not tell.

``PROGRAM consume BOOTSTRAP TOPIC GROUP COUNT ZOOKEEPER`` reads partition 0 of TOPIC from the group's committed offset
on, or from the beginning where there is none, until it has COUNT records; it commits the offset behind the last one,
and ends. ZOOKEEPER is ``-`` unless the client needs one. It prints a line, a JSON object, for each record: ``offset``,
``key``, ``value``, and ``timestamp`` (milliseconds since the epoch, or null where the client's format or API has none).

Either ends with status 0, or with another one and what went wrong on standard error, within a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class OldClient(NamedTuple):
    """``command``: how to start the program; builds it if need be. ``codecs``: those that it can write."""

    name: str
    command: Callable[[], list[str]]
    codecs: tuple[str, ...]
    produces: bool = True
    consumes: bool = True
    needs_zookeeper: bool = False
    """To find brokers and partitions, as the high-level consumer does; its offsets are in Kafka all the same."""
    tells_offsets: bool = True
    """To whoever produces with it."""
    has_timestamps: bool = True
    """In what it writes, and in what it gives of a record (message format 1, and an API that shows it)."""
