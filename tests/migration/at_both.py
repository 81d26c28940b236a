"""A group that has its offsets in two places, those who write them, and whether the places agree in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from shim.demo.parts import Broker, free_port
from tests.migration.attempts import check
from tests.migration.test_changing_hands import Administered
from tests.migration.writers import ClientOfToday, Old
from tests.offsets.conftest import kazoo, put
from tests.shim_process import Shim
from tests.waiting import wait_until

PARTITIONS: Final = 6
OF_TODAY: Final = (0, 1, 2, 5)
OF_OLD: Final = (3, 4, 5)
"""Partition 5 has writers of both kinds."""
FIRST: Final = {number: 10 + number for number in range(PARTITIONS)}
_AGREE_SECONDS: Final = 60.0

FULL_DISK: Final = """
import errno, os, pathlib, shim.log.disk.files as files
def pwrite(self, fd, data, position, pwrite=files.Files.pwrite):
    if pathlib.Path({flag!r}).exists():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return pwrite(self, fd, data, position)
files.Files.pwrite = pwrite
"""
"""For the shim's process: its disk has no room while the file ``flag`` is there."""


class AtBoth:
    """``flag``: while this file is there, the shim's disk is full."""

    def __init__(
        self, at: Administered, broker: Broker, others: KazooClient, group: str, topic: str, flag: Path
    ) -> None:
        self.at = at
        self.others = others
        self.group = group
        self.topic = topic
        self.flag = flag
        self.path = f"/consumers/{group}/offsets/{topic}"
        self._broker = broker
        self.writers: list[ClientOfToday | Old] = []

    def advance_to(self, step: str) -> None:
        while True:
            status = self.at.status(self.group)
            if f"{status['offsets_storage']}{'+dual' * status['dual_commit_enabled']}" == step:
                return
            moved = self.at.migrate("advance", self.group)
            assert moved.status == 0, moved

    @contextmanager
    def commits(self, seed: int = 0) -> Iterator[tuple[ClientOfToday, Old]]:
        """By both kinds."""
        first = self.in_zookeeper()
        with (
            ClientOfToday(self.at.shim.bootstrap, self.group, self.topic, OF_TODAY, first, seed) as today,
            Old(self.others, self.path, OF_OLD, first, seed + 1) as old,
        ):
            self.writers = [today, old]
            yield today, old

    @contextmanager
    def commits_of_today(self, seed: int = 0) -> Iterator[ClientOfToday]:
        first = self.through_shim()
        partitions = range(PARTITIONS)
        with ClientOfToday(self.at.shim.bootstrap, self.group, self.topic, partitions, first, seed) as today:
            self.writers = [today]
            yield today

    # -- what each place has

    def through_shim(self) -> dict[int, int]:
        return self._committed(self.at.shim.bootstrap)

    def in_cluster(self) -> dict[int, int]:
        return self._committed(self._broker.bootstrap_servers)

    def in_zookeeper(self) -> dict[int, int]:
        return {number: int(self.others.get(f"{self.path}/{number}")[0]) for number in range(PARTITIONS)}

    def _committed(self, bootstrap: str) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.group, "log_level": 0})
        try:
            found = consumer.committed([TopicPartition(self.topic, number) for number in range(PARTITIONS)], 60.0)
        finally:
            consumer.close()
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {each.partition: each.offset for each in found}

    # -- in the end

    def alike(self, *others: Callable[[], Mapping[int, int]]) -> Mapping[int, int]:
        """Wait until the other places have what the log has: that."""
        last: list[Mapping[int, int]] = []

        def compared() -> bool:
            try:
                last[:] = [self.through_shim(), *(other() for other in others)]
            except (KafkaException, KazooException):  # it is on its way back
                return False
            return all(each == last[0] for each in last)

        try:
            wait_until(compared, "they differ", _AGREE_SECONDS)
        except TimeoutError:
            raise AssertionError(f"they differ: {last}\n{self.at.shim.log()[-3_000:]}") from None
        return last[0]

    def agree(self, *others: Callable[[], Mapping[int, int]]) -> None:
        """To be called when nobody writes any more: all places come to have the same, and it may stand there."""
        self.may_stand(self.alike(*others))

    def may_stand(self, found: Mapping[int, int]) -> None:
        for number in range(PARTITIONS):
            writers = [each.attempts[number] for each in self.writers if number in each.attempts]
            if writers:
                check(found[number], writers, f"partition {number}")

    def zookeeper_agrees(self) -> None:
        self.agree(self.in_zookeeper)


@contextmanager
def at_both(
    broker: Broker, connect: str, data_dir: Path, group: str, topic: str, step: str, **settings: str | int
) -> Iterator[AtBoth]:
    """``step``: where it is, as `migrate status` has it, "zookeeper+dual" for one."""
    flag = data_dir.with_name("full")
    with kazoo(connect, timeout=20.0) as others:
        for number, offset in FIRST.items():
            put(others, f"/consumers/{group}/offsets/{topic}/{number}", b"%d" % offset)
        patch = FULL_DISK.format(flag=str(flag))
        admin = f"127.0.0.1:{free_port()}"
        args = ["--admin", admin, "--zookeeper", connect]
        bootstrap = broker.bootstrap_servers
        with Shim(bootstrap, data_dir, args=args, settings=settings, late_patch=patch, passes_groups=True) as shim:
            at = Administered(shim, admin)
            started = at.migrate("start", group)
            assert started.status == 0, started
            made = AtBoth(at, broker, others, group, topic, flag)
            made.advance_to(step)
            yield made
