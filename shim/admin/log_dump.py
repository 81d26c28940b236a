"""``log dump``: the records, as they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from protocol.offsets_log import GroupMetadataKey, OffsetCommitKey
from protocol.partition import partition_for
from shim.admin.at_rest import DataDir, data_dir_at_rest
from shim.admin.console import SOMETHING_WRONG, Refused, data_dir_option, in_one_line, json_option
from shim.admin.records_shown import Logged, as_json, as_text, key_of
from shim.admin.walk import Damage, Known, Located, TornTail, fault_of_batch, walk
from shim.log import OFFSETS_TOPIC
from shim.log.checkpoint import TopicPartition
from shim.log.files import Files
from shim.log.handover import recovery_points


@click.command("dump")
@data_dir_option
@click.option("--partition", "partitions", type=int, multiple=True, help="Only this one; may be given many times.")
@click.option("--group", "groups", multiple=True, help="Only records of this group; may be given many times.")
@click.option("--topic", default=OFFSETS_TOPIC, show_default=True, help="The log to read.")
@click.option("--state", is_flag=True, help="Only the newest value of each key, and no tombstones: what is in force.")
@json_option
@in_one_line
def dump_command(
    data_dir: Path, partitions: tuple[int, ...], groups: tuple[str, ...], topic: str, state: bool, json_wanted: bool
) -> None:
    """Show the records of a data directory at rest, a line each.

    Each line has the partition and offset, the timestamp, the segment and the byte at which the record's batch begins,
    the key and the value. With --json each line is a JSON object; bytes are in base64. Keys of a type that is not
    known are shown raw.

    Where the log is damaged, the records before and behind the damage are shown, a line on standard error says what is
    missing, and the exit status is 1.

    \b
    offset-shim log dump --data-dir /var/lib/offset-shim --group billing --state
    """
    files = Files()
    with data_dir_at_rest(files, data_dir) as held:
        chosen = _chosen(held, topic, partitions, groups)
        points = recovery_points(files, held.path)
        line = (lambda logged: json.dumps(as_json(logged))) if json_wanted else as_text
        damaged = False
        for partition in chosen:
            known = Known(points.get(partition, 0), held.clean, held.loose)
            reader = _PartitionDump(files, held.partitions[partition], partition, known, frozenset(groups))
            for logged in reader.newest() if state else reader.records():
                sys.stdout.write(f"{line(logged)}\n")
            damaged = damaged or reader.damaged
        sys.stdout.flush()
    if damaged:
        sys.exit(SOMETHING_WRONG)


def _chosen(held: DataDir, topic: str, numbers: Sequence[int], groups: Sequence[str]) -> list[TopicPartition]:
    """The partitions to read: those asked for, and of those the ones that the groups can be in."""
    count = held.num_partitions(topic)
    wanted = [TopicPartition(topic, number) for number in sorted(set(numbers))]
    for partition in wanted:
        if partition not in held.partitions:
            raise Refused(f"{held.path} holds no partition {partition}")
    chosen = wanted or [partition for partition in held.partitions if partition.topic == topic]
    if not chosen:
        raise Refused(f"{held.path} holds no partition of {topic}")
    if not groups:
        return chosen
    if topic != OFFSETS_TOPIC:
        raise Refused(f"--group: whose records those of {topic} are is not known")
    homes = {partition_for(group, count) for group in groups}
    return [partition for partition in chosen if partition.partition in homes]


class _PartitionDump:
    """Tells on standard error what it cannot read, once, however often it reads."""

    def __init__(
        self, files: Files, folder: Path, partition: TopicPartition, known: Known, groups: frozenset[str]
    ) -> None:
        self.damaged = False
        self._files = files
        self._folder = folder
        self._partition = partition
        self._known = known
        self._groups = groups
        self._told = False

    def records(self) -> Iterator[Logged]:
        for found in walk(self._files, self._folder, self._known, fault_of_batch):
            if isinstance(found, Located):
                for record in found.batch.records:
                    logged = Logged(self._partition, found, record)
                    if not self._groups or self._is_wanted(logged):
                        yield logged
            elif not self._told:
                self._tell(found)
        self._told = True

    def newest(self) -> Iterator[Logged]:
        newest = {logged.record.key: logged.record.offset for logged in self.records()}
        for logged in self.records():
            record = logged.record
            if record.value is not None and newest[record.key] == record.offset:
                yield logged

    def _is_wanted(self, logged: Logged) -> bool:
        key = key_of(self._partition.topic, logged.record)
        return isinstance(key, OffsetCommitKey | GroupMetadataKey) and key.group in self._groups

    def _tell(self, found: Damage | TornTail) -> None:
        if isinstance(found, TornTail):
            tail = f"a torn write of {found.end - found.position} bytes at byte {found.position}"
            click.echo(f"{found.path}: {tail}, which the next start cuts off", err=True)
        else:
            self.damaged = True
            click.echo(f"{found.path} is damaged at byte {found.position}: {found.reason}", err=True)
