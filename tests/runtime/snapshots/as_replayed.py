"""What a start makes of a data directory with snapshots, and what its log alone says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.offsets_log import UnknownKey, decode_key, decode_value
from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.coordinator import CoordinatorSettings, GroupCoordinator
from shim.disk_log import open_log
from shim.disk_log.loading import Loader
from tests.runtime.running import Running
from tests.runtime.test_runtime import error_in

ONE = Settings(offsets_topic_num_partitions=1, log_cleaner_backoff_ms=10, log_cleaner_enable=False)


def snapshot_offsets(data_dir: Path, topic: str = OFFSETS_TOPIC, number: int = 0) -> list[int]:
    return sorted(int(path.stem) for path in (data_dir / f"{topic}-{number}").glob("*.snapshot"))


def unfinished(data_dir: Path) -> list[Path]:
    return list(data_dir.glob("*/*.tmp"))


async def commits(shim: Running, offsets: Iterable[int], group: str = "g") -> None:
    for offset in offsets:
        assert error_in(await shim.commit(group, offset).result()) == ErrorCode.NONE


def loaded(data_dir: Path, settings: Settings, number: int = 0) -> tuple[GroupCoordinator, int, int]:
    """As a start loads it: the state, records replayed, offset of the snapshot."""
    log = open_log(data_dir, settings)
    try:
        return Loader(log, CoordinatorSettings.of(settings), lambda: False).load(number)[:3]
    finally:
        log.close()


def replayed(data_dir: Path, settings: Settings, number: int = 0) -> GroupCoordinator:
    """Without any snapshot."""
    log = open_log(data_dir, settings)
    coordinator = GroupCoordinator(CoordinatorSettings.of(settings))
    for record in log.recover(number):
        key = decode_key(record.key)
        assert not isinstance(key, UnknownKey)
        value = decode_value(key, record.value)
        assert not isinstance(value, bytes)
        coordinator.replay(key, value)
    log.close()
    return coordinator


def assert_as_replayed(data_dir: Path, settings: Settings, number: int = 0) -> tuple[int, int]:
    coordinator, count, offset = loaded(data_dir, settings, number)
    assert content(coordinator) == content(replayed(data_dir, settings, number))
    return count, offset


def content(coordinator: GroupCoordinator) -> object:
    """The state without what a compacted log does not tell: the groups' order, and which of them have nothing left."""
    state = coordinator._state
    groups = {
        group: (value, {(topic, number): each for topic, number, each in state.offsets.committed.of_group(group)})
        for group, value in state.recorded.items()
    }
    return {group: (value, offsets) for group, (value, offsets) in groups.items() if value is not None or offsets}
