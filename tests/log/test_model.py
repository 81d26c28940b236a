"""Any history of commits, deletes, expiries, compactions, rolls, restarts, crashes and failing calls, against a dict.

What the log gives back is replayed by the coordinator, as at a start, from a snapshot where there is one, and the
offsets that it then serves are compared.
"""

from __future__ import annotations

import errno
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value, encode_key, encode_value
from protocol.partition import partition_for
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.disk_log.loading import Loader
from shim.log import LogError
from shim.log.cleaner import cleaning
from shim.log.cleaner.cleaner import Cleaner
from shim.log.cleaner.cleaning import CleanerSettings
from shim.log.cleaner.compaction import CleanedBatch, cleaned_batch
from shim.log.cleaner.offset_map import OffsetMap
from shim.log.offsets_log import OffsetsLog, PartitionWrite
from shim.log.partition.partition import PartitionLog
from shim.log.segments.active import LastBatch
from shim.log.segments.segment import SoundBatch
from shim.log.settings import LogSettings
from tests.examples import examples
from tests.log.crashing import DATA_DIR, small_sizes
from tests.log.lost_files import LostFiles, PowerFailure

PARTITIONS = 2
GROUPS = ("a", "b", "c", "group")
RETENTION_MS = 100
FAR = 1 << 62

GroupTopicPartition = tuple[str, str, int]
Result = TypeVar("Result")


class Committed(NamedTuple):
    offset: int
    metadata: str
    expires_ms: int


class Making(NamedTuple):
    """A snapshot that is not written yet."""

    log: PartitionLog
    anchor: LastBatch
    dump: bytes


State = dict[GroupTopicPartition, Committed]
Change = dict[GroupTopicPartition, Committed | None]
"""One request's: all of it counts, or nothing. None deletes."""

groups = st.sampled_from(GROUPS)
places = st.tuples(st.sampled_from(("t", "topic")), st.integers(0, 2))
commits = st.dictionaries(
    places, st.tuples(st.integers(0, 2**63 - 1), st.sampled_from(("", "m", "ö" * 40)), st.sampled_from((FAR, 50, 300)))
)


def partition_of(group: str) -> int:
    return partition_for(group, PARTITIONS)


def applied(state: State, change: Change) -> State:
    changed = {**state, **change}
    return {at: committed for at, committed in changed.items() if committed is not None}


class LogAgainstDict(RuleBasedStateMachine):
    """``states``: by partition what was acknowledged, or served; ``in_doubt``: what was written since, in order."""

    files_type: ClassVar[type[LostFiles]] = LostFiles

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.CRITICAL)
        self._sizes = small_sizes()
        self._sizes.__enter__()
        self.states: list[State] = [{} for _ in range(PARTITIONS)]
        self.in_doubt: list[list[Change]] = [[] for _ in range(PARTITIONS)]
        self.now_ms = 1_000_000
        self.files = self.files_type()
        self.log: OffsetsLog | None = None
        self.cleaner: Cleaner | None = None
        self.in_the_making: list[Making] = []

    def teardown(self) -> None:
        if self.log is not None:
            self.files.crash_at = None
            self.files.errors = {}
            with suppress(PowerFailure):  # where the start after one has failed
                self.log.close()
                assert self.files.open_files == 0
        self._sizes.__exit__(None, None, None)
        logging.disable(logging.NOTSET)

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.files = self.files_type(rng=random.Random(seed))
        self.files.mkdir(DATA_DIR.parents[1])
        self.files.sync_directory(Path("/"))
        self._start(500, 1 << 30)

    # --- lives -------------------------------------------------------------------------------------------------------

    def _start(self, segment_bytes: int, roll_ms: int) -> None:
        settings = LogSettings(segment_bytes, roll_ms, flush_offset_checkpoint_interval_ms=200)
        self.log = OffsetsLog.open(DATA_DIR, PARTITIONS, settings=settings, files=self.files)
        self.cleaner = None
        self.in_the_making = []
        for partition in range(PARTITIONS):
            self._recover(partition)

    def _recover(self, partition: int, *, is_certain: bool = False) -> None:
        """``is_certain``: the process has not ended since, and knows what it has acknowledged."""
        assert self.log is not None
        loader = Loader(self.log, CoordinatorSettings(), lambda: False)
        while True:
            try:
                found = served_by(loader.load(partition).coordinator)
                break
            except OSError:
                assert self.files.errors
        possible = [self.states[partition]]
        for change in () if is_certain else self.in_doubt[partition]:
            possible.append(applied(possible[-1], change))
        assert found in [{at: its[:2] for at, its in state.items()} for state in possible]
        matching = [state for state in possible if {at: its[:2] for at, its in state.items()} == found]
        self.states[partition] = matching[-1]
        self.in_doubt[partition] = []

    @rule(clean=st.booleans(), segment_bytes=st.sampled_from((100, 500, 3000)), roll_ms=st.sampled_from((60, 1 << 30)))
    def restart(self, clean: bool, segment_bytes: int, roll_ms: int) -> None:
        if clean:
            self._survives(self._log.close)
        self._restart(power_fails=False, segment_bytes=segment_bytes, roll_ms=roll_ms)

    @rule(segment_bytes=st.sampled_from((100, 500, 3000)))
    def lose_power(self, segment_bytes: int) -> None:
        self._restart(power_fails=True, segment_bytes=segment_bytes)

    def _restart(self, *, power_fails: bool, segment_bytes: int = 500, roll_ms: int = 1 << 30) -> None:
        while True:
            self.files = self.files.after_power_failure() if power_fails else self.files.after_kill()
            try:
                self._start(segment_bytes, roll_ms)
                return
            except PowerFailure:
                power_fails = True

    @rule(calls=st.integers(0, 25))
    def lose_power_soon(self, calls: int) -> None:
        self.files.crash_at = self.files.calls + calls

    @rule(calls=st.integers(0, 25), error=st.sampled_from((errno.EIO, errno.ENOSPC)))
    def have_a_call_fail_soon(self, calls: int, error: int) -> None:
        self.files.errors = {self.files.calls + calls: error}

    @rule(size=st.sampled_from((7, 1 << 30)))
    def write_so_many_bytes_at_once(self, size: int) -> None:
        self.files.longest_write = size

    def _survives(self, act: Callable[[], Result]) -> Result | None:
        """The result; None when the machine went down meanwhile, and is up again."""
        try:
            return act()
        except PowerFailure:
            self._restart(power_fails=True)
            return None

    @property
    def _log(self) -> OffsetsLog:
        assert self.log is not None
        return self.log

    # --- writes ------------------------------------------------------------------------------------------------------

    def _write(self, changes: Sequence[tuple[str, Change]]) -> None:
        by_partition: dict[int, list[Change]] = {}
        for group, change in changes:
            if change:
                by_partition.setdefault(partition_of(group), []).append(change)
        writes = [
            PartitionWrite(partition, [records_of(change, self.now_ms) for change in its], self.now_ms)
            for partition, its in by_partition.items()
        ]
        for partition, its in by_partition.items():
            assert self.in_doubt[partition] == []
            self.in_doubt[partition] = its
        failed = self._survives(partial(self._log.write, writes))
        if failed is None:
            return
        for partition, its in by_partition.items():
            if partition not in failed:
                for change in its:
                    self.states[partition] = applied(self.states[partition], change)
                self.in_doubt[partition] = []
        for partition in failed:
            self._survives(partial(self._recover, partition, is_certain=True))

    @rule(requests=st.lists(st.tuples(groups, commits), min_size=1, max_size=4))
    def commit(self, requests: list[tuple[str, dict[tuple[str, int], tuple[int, str, int]]]]) -> None:
        self._write(
            [
                (
                    group,
                    {
                        (group, *place): Committed(offset, text, min(self.now_ms + retention, FAR))
                        for place, (offset, text, retention) in its.items()
                    },
                )
                for group, its in requests
            ]
        )

    @rule(group=groups, chosen=st.sets(places))
    def delete_offsets(self, group: str, chosen: set[tuple[str, int]]) -> None:
        self._write([(group, {(group, *place): None for place in sorted(chosen)})])

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        self._write([(group, dict.fromkeys(at for at in self.states[partition_of(group)] if at[0] == group))])

    @rule(passed_ms=st.sampled_from((1, 60, 250)))
    def time_passes_and_offsets_expire(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        expired: dict[str, Change] = {}
        for state in self.states:
            for at, committed in state.items():
                if committed.expires_ms <= self.now_ms:
                    expired.setdefault(at[0], {})[at] = None
        if expired:
            self._write(list(expired.items()))

    # --- the rest ----------------------------------------------------------------------------------------------------

    @rule(rolls=st.booleans())
    def maintain(self, rolls: bool) -> None:
        if rolls:
            for log in self._log.partition_logs():
                log.roll_older_than(self.now_ms + 1)
        self._survives(partial(self._log.maintain, self.now_ms))

    @rule(
        buffer=st.sampled_from((1, 2000, 1 << 20)),
        segment_bytes=st.sampled_from((100, 1000, 1 << 20)),
        rounds=st.integers(1, 3),
    )
    def compact(self, buffer: int, segment_bytes: int, rounds: int) -> None:
        settings = CleanerSettings(
            0.0, delete_retention_ms=RETENTION_MS, dedupe_buffer_size=buffer, segment_bytes=segment_bytes
        )
        cleaner = self.cleaner = Cleaner(DATA_DIR, self._log.partition_logs(), settings, files=self.files)
        self._survives(lambda: [cleaner.step(self.now_ms) for _ in range(rounds)])

    @precondition(lambda self: self.cleaner is not None)
    @rule()
    def compact_again(self) -> None:
        cleaner = self.cleaner
        assert cleaner is not None
        self._survives(partial(cleaner.step, self.now_ms))

    @rule(partition=st.integers(0, PARTITIONS - 1), is_written=st.booleans())
    def begin_a_snapshot(self, partition: int, is_written: bool) -> None:
        self._survives(partial(self._begin_snapshot, partition))
        if is_written:
            self.write_the_snapshots()

    def _begin_snapshot(self, partition: int) -> None:
        log = self._log.partition_log(partition)
        if not log.recovered:
            return
        try:
            coordinator = replayed(
                (record.key or b"", record.value) for batch in log.read() for record in batch.records
            )
        except OSError:
            assert self.files.errors
            return
        if log.last_batch is not None:
            self.in_the_making.append(Making(log, log.last_batch, coordinator.dump()))

    @precondition(lambda self: self.in_the_making)
    @rule()
    def write_the_snapshots(self) -> None:
        making, self.in_the_making = self.in_the_making, []
        for each in making:
            self._survives(partial(self._write_snapshot, each))

    def _write_snapshot(self, its: Making) -> None:
        if its.log is not self._log.partition_log(its.log.topic_partition.partition):
            return  # of an earlier life
        try:
            its.log.snapshots.take(its.anchor, [its.dump])
        except OSError:
            assert self.files.errors

    @invariant()
    def what_can_be_read_is_what_was_acknowledged(self) -> None:
        if self.log is None:
            return
        if self.cleaner is not None:
            assert not self.cleaner.uncleanable
        for partition, state in enumerate(self.states):
            expected = {at: its[:2] for at, its in state.items()}
            self._survives(partial(self._read, partition, expected))

    def _read(self, partition: int, expected: dict[GroupTopicPartition, tuple[int, str]]) -> None:
        log = self._log.partition_log(partition)
        if log.recovered:
            try:
                found = served((record.key or b"", record.value) for batch in log.read() for record in batch.records)
            except OSError:
                assert self.files.errors  # completing a swap that broke off
            else:
                assert found == expected


def records_of(change: Change, now_ms: int) -> list[tuple[bytes, bytes | None]]:
    return [
        (
            encode_key(OffsetCommitKey(*at)),
            None if its is None else encode_value(OffsetCommitValue(its.offset, -1, its.metadata, now_ms)),
        )
        for at, its in change.items()
    ]


def served(records: Iterable[tuple[bytes, bytes | None]]) -> dict[GroupTopicPartition, tuple[int, str]]:
    """What a coordinator serves that has replayed these."""
    return served_by(replayed(records))


def replayed(records: Iterable[tuple[bytes, bytes | None]]) -> GroupCoordinator:
    coordinator = GroupCoordinator()
    for raw_key, raw_value in records:
        key = decode_key(raw_key)
        assert isinstance(key, OffsetCommitKey)
        coordinator.replay(key, cast(OffsetCommitValue | None, decode_value(key, raw_value)))
    return coordinator


def served_by(coordinator: GroupCoordinator) -> dict[GroupTopicPartition, tuple[int, str]]:
    return {
        (group, topic.name, partition.partition_index): (partition.committed_offset, partition.metadata or "")
        for group in GROUPS
        for topic in coordinator.offset_fetch(OffsetFetchRequestGroup(group, topics=None)).topics
        for partition in topic.partitions
    }


_EVERYTHING = list(HealthCheck)

TestLogAgainstDict = LogAgainstDict.TestCase
TestLogAgainstDict.settings = settings(
    max_examples=examples(20), stateful_step_count=40, deadline=None, suppress_health_check=_EVERYTHING
)


# --- it would notice -------------------------------------------------------------------------------------------------


class NothingIsSynced(LostFiles):
    def fdatasync(self, fd: int) -> None:
        pass


def test_a_disk_that_does_not_sync_is_noticed() -> None:
    class OnSuchADisk(LogAgainstDict):
        files_type = NothingIsSynced

    _fails(OnSuchADisk)


def test_a_compaction_that_takes_too_much_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_too_many(
        batch: SoundBatch, newest: OffsetMap, now_ms: int, retention_ms: int, *, keep_empty: bool
    ) -> CleanedBatch:
        return cleaned_batch(
            batch._replace(records=batch.records[:-1]), newest, now_ms, retention_ms, keep_empty=keep_empty
        )

    monkeypatch.setattr(cleaning, "cleaned_batch", one_too_many)
    _fails(LogAgainstDict)


def _fails(machine: type[LogAgainstDict]) -> None:
    tries = settings(
        max_examples=1000,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=_EVERYTHING,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        print_blob=False,
    )
    with pytest.raises((AssertionError, LogError)):
        run_state_machine_as_test(machine, settings=tries)


class _ManySteps(LogAgainstDict):
    pass


TestLogAgainstDictAtLength = pytest.mark.soak(_ManySteps.TestCase)
TestLogAgainstDictAtLength.settings = settings(
    max_examples=2000, stateful_step_count=100, deadline=None, suppress_health_check=_EVERYTHING
)
