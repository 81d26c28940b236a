"""The log: records on disk, made durable before anything is acknowledged. It knows records, not groups."""

from shim.log.errors import CorruptLog, LogError, RecoveryNeeded
from shim.log.offsets_log import OFFSETS_TOPIC, OffsetsLog, PartitionWrite
from shim.log.partition import LoggedRecord

__all__ = ["OFFSETS_TOPIC", "CorruptLog", "LogError", "LoggedRecord", "OffsetsLog", "PartitionWrite", "RecoveryNeeded"]
