"""Groups of a data directory whose offsets are not there, or not the ones that count, as its notes say."""

from __future__ import annotations

from typing import Final

from protocol.own.state_log import STATE_TOPIC, ZOOKEEPER_IS_RIGHT, GroupHandsKey, GroupHandsValue, Hands, decode_state
from shim.admin.at_rest.data_dir import DataDir
from shim.admin.at_rest.walk import Damage, Located, fault_for, walk
from shim.log import CorruptLog
from shim.log.disk.files import Files
from shim.log.recovery.recovery import logged_records

_PASSED_THROUGH: Final = "it is passed through: the cluster has its offsets"
_IN_ZOOKEEPER: Final = "it is at a step at which ZooKeeper is right, and the log may be older: migrate advance first"


def kept_elsewhere(files: Files, held: DataDir) -> dict[str, str]:
    """By group: why the log is not to be asked for its offsets.

    Raises CorruptLog where nobody can say whose the groups are; LogError, OSError.
    """
    whose: dict[str, GroupHandsValue] = {}
    for at, folder in held.partitions.items():
        if at.topic != STATE_TOPIC:
            continue
        for found in walk(files, folder, held.known(at), fault_for(STATE_TOPIC)):
            if isinstance(found, Located):
                for record in logged_records(found.path, found.batch):
                    key, value = decode_state(record.key, record.value)
                    if isinstance(key, GroupHandsKey) and isinstance(value, GroupHandsValue):
                        whose[key.group] = value
            elif isinstance(found, Damage):
                raise CorruptLog(found.path, found.position, found.reason)
    reasons = {group: _why_elsewhere(value) for group, value in whose.items()}
    return {group: reason for group, reason in reasons.items() if reason}


def _why_elsewhere(value: GroupHandsValue) -> str:
    """ "" for a group that is served from the log."""
    if value.hands == Hands.PASSED_THROUGH:
        return _PASSED_THROUGH
    return _IN_ZOOKEEPER if value.step in ZOOKEEPER_IS_RIGHT else ""
