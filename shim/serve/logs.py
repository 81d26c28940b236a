"""The log that the settings ask for, as the runtime needs it, and the history in it."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from protocol.partition import OFFSETS_TOPIC
from shim.config import Settings
from shim.disk_log import DiskBackend
from shim.disk_log.history import DiskHistoryLog
from shim.kafka_log.backend import KafkaBackend
from shim.kafka_log.copies.snapshots import TopicSnapshots
from shim.log.directory.places import Places
from shim.log.disk.files import Files
from shim.relocation.backend import TwoLogs
from shim.relocation.history import TwoHistories
from shim.relocation.mover import Mover
from shim.relocation.others import OtherShims
from shim.relocation.relocation import Relocation
from shim.runtime import Backend, Clock, Runtime
from shim.runtime.history_log import HistoryLog
from shim.serve.log_on_disk import Opened
from shim.upstream import Cluster
from shim.upstream.topic_leaders import TopicLeaders


class _Both(NamedTuple):
    logs: TwoLogs
    places: Places
    others: OtherShims
    clusters_offsets: TopicLeaders


class Logs(NamedTuple):
    """``local``: that on the disk, where there is one. ``both``: what moves partitions between them, where the settings
    ask for both."""

    backend: Backend
    history: HistoryLog
    local: DiskBackend | None = None
    both: _Both | None = None

    def relocation(self, runtime: Runtime) -> Relocation | None:
        if self.both is None:
            return None
        logs, places, others, clusters_offsets = self.both
        return Relocation(logs, runtime, places, others, clusters_offsets)


def logs_of(opened: Opened, cluster: Cluster, settings: Settings, clock: Clock, claimed: asyncio.Event) -> Logs:
    """``claimed`` is set when the offsets are known to be the cluster's."""
    if opened.offsets_log is None:
        snapshots = TopicSnapshots(Files(), opened.data_dir.path, settings.offsets_topic_num_partitions)
        kafka = KafkaBackend(cluster, settings, clock, claimed, snapshots)
        return Logs(kafka, kafka.history_log)
    local = DiskBackend(opened.offsets_log, settings, clock)
    local_history = DiskHistoryLog(opened.offsets_log, local.settle_history)
    if opened.places is None:
        return Logs(local, local_history, local)
    kafka = KafkaBackend(cluster, settings, clock, claimed, progress=local.progress)
    others, own_id, places = OtherShims(cluster, settings), opened.data_dir.instance_id, opened.places
    mover = Mover(local, kafka, places, own_id)
    logs = TwoLogs(local, kafka, places, mover, lambda: others.members(own_id()), claimed)
    history = TwoHistories(local_history, kafka.history_log, places)
    return Logs(logs, history, local, _Both(logs, places, others, TopicLeaders(cluster, settings, OFFSETS_TOPIC)))
