"""The log: records on disk, made durable before anything is acknowledged. It knows records, not groups."""

from shim.log.directory.data_dir import DataDir
from shim.log.directory.shares import Share
from shim.log.errors import CorruptLog, LogError, RecoveryNeeded
from shim.log.offsets_log import Maintained, MayWait, OffsetsLog, PartitionWrite
from shim.log.settings import LogSettings
from shim.log.staging import RecordsToWait

__all__ = [
    "CorruptLog",
    "DataDir",
    "LogError",
    "LogSettings",
    "Maintained",
    "MayWait",
    "OffsetsLog",
    "PartitionWrite",
    "RecordsToWait",
    "RecoveryNeeded",
    "Share",
]
