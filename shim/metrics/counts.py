"""What is counted where requests, flushes and rounds of cleaning go through anyhow."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, Literal, TypeAlias, get_args

from shim.metrics.clients import OTHER, ClientsSeen, software_of
from shim.metrics.histogram import LATENCY_SECONDS, RECORDS, Histogram

MOST_SOFTWARE: Final = 200
"""Names and versions of clients that are told apart: clients choose them freely."""


class AnswerCounts:
    """What the shim's own answers say. ``errors``: responses with that error in them, by ``api_key << 16 | code``;
    ``offsets_committed``: those of answered OffsetCommit requests, durable by then."""

    __slots__ = ("errors", "offsets_committed")

    def __init__(self) -> None:
        self.errors: defaultdict[int, int] = defaultdict(int)
        self.offsets_committed = 0


class SoftwareSeen:
    """Connections by what their clients have said that they are (ApiVersions v3 and newer)."""

    __slots__ = ("connections",)

    def __init__(self) -> None:
        self.connections: dict[tuple[str, str], int] = {}

    def add(self, name: str, version: str) -> None:
        said = software_of(name, version)
        if said not in self.connections and len(self.connections) >= MOST_SOFTWARE:
            said = (OTHER, OTHER)
        self.connections[said] = self.connections.get(said, 0) + 1


class Traffic:
    """Of all client connections. Requests are counted by kind of client, in ``clients``.

    ``latencies``: of requests that the shim answers itself, in seconds, by API key: from the request's last byte to its
    answer, in the order of answers or before.
    """

    __slots__ = (
        "answers", "clients", "from_brokers", "from_clients", "latencies", "malformed", "software", "to_brokers",
        "to_clients",
    )  # fmt: skip

    def __init__(self) -> None:
        self.clients = ClientsSeen()
        self.latencies: dict[int, Histogram] = {}
        self.answers = AnswerCounts()
        self.software = SoftwareSeen()
        self.malformed = 0
        """Connections that were closed for what came on them: no request, or of no API that is served."""
        self.from_clients = self.to_clients = 0  # bytes
        self.from_brokers = self.to_brokers = 0

    def latency(self, api_key: int) -> Histogram:
        found = self.latencies.get(api_key)
        if found is None:
            found = self.latencies[api_key] = Histogram(LATENCY_SECONDS)
        return found


Before: TypeAlias = Literal["standby", "snapshot", "beginning"]
"""What there was of a partition that is taken over: what was followed of it, a snapshot, or nothing."""
BEFORE: Final[tuple[Before, ...]] = get_args(Before)


class StandbyCounts:
    """Of partitions of a log that several shims share. ``behind``, ``at_end``: those that others own and this one
    follows, by whether it has come to their end. ``taken_over``, ``records``: those that it has taken over, and what
    had to be read of them then, by what it had of them before."""

    __slots__ = ("at_end", "behind", "records", "taken_over")

    def __init__(self) -> None:
        self.at_end = self.behind = 0
        self.taken_over = dict.fromkeys(BEFORE, 0)
        self.records = dict.fromkeys(BEFORE, 0)

    def took_over(self, records: int, before: Before) -> None:
        self.taken_over[before] += 1
        self.records[before] += records


NotForwarded: TypeAlias = Literal["unreachable", "silent", "lost", "congested", "refused", "misanswered", "unsendable"]
"""Why a request has no answer of the other process that was to give it. See the table of metrics."""
NOT_FORWARDED: Final[tuple[NotForwarded, ...]] = get_args(NotForwarded)


class ForwardingCounts:
    """Of requests that other processes were to answer, and have not, by why; those that came together are one."""

    __slots__ = ("failed",)

    def __init__(self) -> None:
        self.failed = dict.fromkeys(NOT_FORWARDED, 0)


class FlushCounts:
    """Of the log's writes, each of which makes durable what all partitions had to write. ``failed``: partitions of
    which one has failed."""

    __slots__ = ("failed", "records", "seconds")

    def __init__(self) -> None:
        self.records = Histogram(RECORDS)
        self.seconds = Histogram(LATENCY_SECONDS)
        self.failed = 0


class CleaningCounts:
    """Added to by the cleaner's thread alone."""

    __slots__ = ("bytes_read", "bytes_written", "records_read", "records_written", "rounds", "seconds")

    def __init__(self) -> None:
        self.rounds = 0
        self.seconds = 0.0
        self.records_read = self.records_written = 0
        self.bytes_read = self.bytes_written = 0
