"""``log dump``: the records, as they are."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from protocol.offsets_log import GroupMetadataKey, OffsetCommitKey
from protocol.own.history_log import COMMITTED, HISTORY_TOPIC, OffsetHistoryKey
from protocol.own.position import Producer
from protocol.own.state_log import STATE_TOPIC
from protocol.partition import OFFSETS_TOPIC, partition_for
from protocol.topic_partition import TopicPartition
from shim.admin.at_rest.data_dir import DataDir, data_dir_to_read
from shim.admin.at_rest.walk import Damage, Located, TornTail, fault_of_batch, walk
from shim.admin.commands.console import SOMETHING_WRONG, Refused, data_dir_option, in_one_line
from shim.admin.commands.history_elsewhere import tell_of_history_elsewhere
from shim.admin.commands.records_shown import Logged, as_json, as_text, key_of, read_as
from shim.counted import counted
from shim.log.disk.files import Files
from shim.log.recovery.torn_tail import Known
from shim.log.segments.transactions import transaction_of
from shim.terminal import showing as terminal
from shim.terminal.options import json_option
from shim.terminal.times import time_option


@click.command("dump", short_help="Show the records of a data directory at rest.")
@data_dir_option
@click.option(
    "--partition", "partitions", type=int, multiple=True, metavar="N", help="Only this one; may be given many times."
)
@click.option(
    "--group", "groups", multiple=True, metavar="G", help="Only records of this group; may be given many times."
)
@click.option(
    "--topic",
    metavar="T",
    show_default=OFFSETS_TOPIC,
    help=f"The log to read: {OFFSETS_TOPIC}, {HISTORY_TOPIC} or {STATE_TOPIC}.",
)
@time_option("--from", "from_ms", text="Only what is not older than that.")
@time_option("--to", "to_ms", text="Only what is not newer than that.")
@click.option("--state", is_flag=True, help="Only the newest value of each key, and no tombstones: what is in force.")
@time_option("--at", "at_ms", text="Of a --group, the last commit of each offset up to that time, by the history.")
@json_option
@in_one_line
def dump_command(
    data_dir: Path,
    partitions: tuple[int, ...],
    groups: tuple[str, ...],
    topic: str | None,
    from_ms: int | None,
    to_ms: int | None,
    state: bool,
    at_ms: int | None,
    json_wanted: bool,
) -> None:
    """Show the records of a data directory at rest, a line each.

    Each line has the partition and offset, the timestamp, the segment and the byte at which the record's batch begins,
    the key and the value. With --json each line is a JSON object; bytes are in base64. Keys of a type that is not
    known are shown raw. What ends a transaction is of no group, and not shown with --group; --state knows of it.

    __offset_shim_history has every commit and deletion of the last offsets.history.retention.minutes: when, what and by
    whom, a line for each offset, as one record may have many. With --at and --group it says where a group was at a
    time; what had been deleted by then is left out. __offset_shim_state has in whose hands groups are, in bytes.

    Times are in ISO 8601, in UTC where they name no zone, or in milliseconds since 1970.

    Where the log is damaged, the records before and behind the damage are shown, a line on standard error says what is
    missing, and the exit status is 1.

    \b
    offset-shim log dump --data-dir /var/lib/offset-shim --group billing --state
    offset-shim log dump --data-dir /var/lib/offset-shim --group billing --at 2026-03-01T14:05
    offset-shim log dump --data-dir /var/lib/offset-shim --topic __offset_shim_history --group billing \\
      --from 2026-03-01T14:00 --to 2026-03-01T14:10
    """
    topic = _topic_of(topic, groups, at_ms, state=state, window=(from_ms, to_ms))
    wanted = _Wanted(frozenset(groups), from_ms, to_ms if at_ms is None else at_ms)
    line = (lambda logged: json.dumps(as_json(logged))) if json_wanted else as_text
    read = _PartitionDump.newest if state else _PartitionDump.records
    if at_ms is not None:
        read = _PartitionDump.last_commits
    shown = 0
    with data_dir_to_read(data_dir) as (files, held):
        chosen = _chosen(held, topic, partitions, groups)
        held.refuse_malformed()
        readers = [_PartitionDump(files, held.partitions[each], each, held.known(each), wanted) for each in chosen]
        for logged in itertools.chain.from_iterable(map(read, readers)):
            sys.stdout.write(f"{line(logged)}\n")
            shown += 1
        sys.stdout.flush()
    unread = sum(reader.unread for reader in readers)
    if topic == HISTORY_TOPIC and held.moves:
        tell_of_history_elsewhere()
    if groups and not shown:
        when = " in force" if state else " of that time" if (from_ms, to_ms, at_ms) != (None, None, None) else ""
        click.echo(f"{topic} has no record{when} of {', '.join(map(terminal.shown, groups))}", err=True)
        for group in groups if partitions else ():
            click.echo(f"{terminal.shown(group)} is in partition {partition_for(group, held.num_partitions)}", err=True)
    if at_ms is not None:
        click.echo(
            "not in the history: what was imported or repaired, and what was committed or deleted while none was kept",
            err=True,
        )
    if unread:
        click.echo(
            f"{HISTORY_TOPIC}: {counted(unread, 'record')} that cannot be read, perhaps of later commits than these",
            err=True,
        )
    if unread or any(reader.damaged for reader in readers):
        sys.exit(SOMETHING_WRONG)


def _topic_of(
    topic: str | None,
    groups: Sequence[str],
    at_ms: int | None,
    *,
    state: bool,
    window: tuple[int | None, int | None],
) -> str:
    """The one to read. Raises Refused for options that do not go together."""
    given_window = window != (None, None)
    if at_ms is None:
        if state and topic == HISTORY_TOPIC:
            raise Refused("--state: the history keeps every commit; --at says what was in force at a time")
        if state and given_window:
            raise Refused("--state: it is what is in force now; --at says what was at a time")
        return topic or OFFSETS_TOPIC
    if topic not in (None, HISTORY_TOPIC):
        raise Refused(f"--at: what was in force is in {HISTORY_TOPIC} only")
    if not groups:
        raise Refused("--at: give a --group")
    if state or given_window:
        raise Refused("--at: it goes with neither --state nor --from and --to")
    return HISTORY_TOPIC


class _Wanted(NamedTuple):
    """No groups: those of all. Times in milliseconds since the epoch, both inclusive."""

    groups: frozenset[str]
    from_ms: int | None
    to_ms: int | None

    def has(self, logged: Logged) -> bool:
        at_ms = logged.record.timestamp
        if self.groups or logged.partition.topic == HISTORY_TOPIC:
            key = key_of(logged)
            if isinstance(key, OffsetHistoryKey):
                at_ms = key.time
            group = key.group if isinstance(key, OffsetCommitKey | GroupMetadataKey | OffsetHistoryKey) else None
            if self.groups and group not in self.groups:
                return False
        return (self.from_ms is None or at_ms >= self.from_ms) and (self.to_ms is None or at_ms <= self.to_ms)


def _chosen(held: DataDir, topic: str, numbers: Sequence[int], groups: Sequence[str]) -> list[TopicPartition]:
    """The partitions to read: those asked for, and of those the ones that the groups can be in."""
    wanted = [TopicPartition(topic, number) for number in sorted(set(numbers))]
    for partition in wanted:
        if partition not in held.partitions:
            raise Refused(f"{held.path} holds no partition {partition}")
    chosen = wanted or [partition for partition in held.partitions if partition.topic == topic]
    if not chosen:
        why = f"a log has {OFFSETS_TOPIC}, {HISTORY_TOPIC} and {STATE_TOPIC}"
        if topic == HISTORY_TOPIC:
            why = "none is kept with offsets.history.retention.minutes=0"
        raise Refused(f"{held.path} holds no partition of {topic}: {why}")
    if not groups:
        return chosen
    if topic not in (OFFSETS_TOPIC, HISTORY_TOPIC):
        raise Refused(f"--group: whose records those of {topic} are is not known")
    homes = {partition_for(group, held.num_partitions) for group in groups}
    return [partition for partition in chosen if partition.partition in homes]


class _PartitionDump:
    """Tells on standard error what it cannot read, once, however often it reads."""

    def __init__(self, files: Files, folder: Path, partition: TopicPartition, known: Known, wanted: _Wanted) -> None:
        self.damaged = False
        self.unread = 0
        """Records of the history that this version cannot read."""
        self._files = files
        self._folder = folder
        self._partition = partition
        self._known = known
        self._wanted = wanted
        self._told = False

    def records(self) -> Iterator[Logged]:
        return filter(self._wanted.has, self._all())

    def _all(self) -> Iterator[Logged]:
        for found in walk(self._files, self._folder, self._known, fault_of_batch):
            if isinstance(found, Located):
                for record in found.batch.records:
                    yield from read_as(self._partition, found, record)
            elif not self._told:
                self._tell(found)
        self._told = True

    def newest(self) -> Iterator[Logged]:
        """Those in force: of a transaction when it is committed, unless a later one has taken their place."""
        newest: dict[bytes | None, int] = {}
        pending: dict[Producer, dict[bytes | None, int]] = {}
        for logged in self._all():
            record, transaction = logged.record, transaction_of(logged.located.batch)
            if transaction is None:
                newest[record.key] = record.offset
                if record.value is None:
                    for offsets in pending.values():
                        offsets.pop(record.key, None)
            elif transaction.committed is None:
                pending.setdefault(transaction.producer, {})[record.key] = record.offset
            else:
                for key, offset in pending.pop(transaction.producer, {}).items():
                    if transaction.committed:
                        newest[key] = max(offset, newest.get(key, -1))
        for logged in self.records():
            record = logged.record
            if record.value is not None and newest.get(record.key) == record.offset:
                yield logged

    def last_commits(self) -> Iterator[Logged]:
        """Of a partition of the history the last one of each group, topic and partition, in this order."""
        last: dict[tuple[str, str, int], Logged] = {}
        for logged in self._all():
            if logged.told is None:
                self.unread += 1
            elif self._wanted.has(logged):
                key, value = logged.told
                if value.deleted == COMMITTED:
                    last[key.group, key.topic, key.partition] = logged
                else:
                    last.pop((key.group, key.topic, key.partition), None)
        for _, logged in sorted(last.items()):
            yield logged

    def _tell(self, found: Damage | TornTail) -> None:
        if isinstance(found, TornTail):
            tail = f"a torn write of {found.end - found.position} bytes at byte {found.position}"
            click.echo(f"{found.path}: {tail}, which the next start cuts off", err=True)
        else:
            self.damaged = True
            click.echo(f"{found.path} is damaged at byte {found.position}: {found.reason}", err=True)
