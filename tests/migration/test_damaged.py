"""A partition of the log is damaged, and not served: what is told of its groups, and of all others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from protocol.partition import partition_for
from shim.demo.parts import Broker
from tests.admin.live.running import offset_shim
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import administered
from tests.migration.test_first_contact import commit
from tests.shim_process import OFFSETS_PARTITIONS
from tests.waiting import wait_until


def test_its_groups_are_missed(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    """They are not there, and that is no reason to take the others for all."""
    topic, lost = make_topic(), fresh_name()
    number = partition_for(lost, OFFSETS_PARTITIONS)
    well = next(name for name in iter(fresh_name, None) if partition_for(name, OFFSETS_PARTITIONS) != number)
    with administered(broker, tmp_path / "data") as at:
        for group in (lost, well):
            commit(at.shim.bootstrap, group, topic, 5)
        # The cluster has a copy by then, and lists them.
        wait_until(lambda: all(at.status(group)["lag_seconds"] is None for group in (lost, well)))
    (segment,) = (tmp_path / "data" / f"__consumer_offsets-{number}").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    damaged = f"1 of {OFFSETS_PARTITIONS} partitions is damaged and not served"
    with administered(broker, tmp_path / "data") as at:
        for command in (("groups", "list"), ("migrate", "status"), ("migrate", "plan"), ("migrate", "verify")):
            told = offset_shim(*command, "--admin", at.address)
            assert told.status == 1, told
            assert f"not all groups are known: {damaged}\n" in told.stderr
            assert f"{lost} " not in told.stdout
        assert well in offset_shim("groups", "list", "--admin", at.address).stdout
        for command in (("groups", "describe"), ("migrate", "status"), ("migrate", "rollback")):
            told = offset_shim(*command, lost, "--admin", at.address)
            assert told.status == 1
            assert f"the partition of group {lost} is damaged and not served: the shim's log says where" in told.stderr
