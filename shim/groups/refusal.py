"""What an error code means to whoever looks after groups."""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from shim.groups.words import NotKnown, Refused

_MEANS: Final = {
    ErrorCode.NON_EMPTY_GROUP: "it has members; stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "it has members; stop them first",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "a transaction with offsets of it has not ended yet",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "its offsets are not ready yet, try again: COORDINATOR_LOAD_IN_PROGRESS",
    ErrorCode.NOT_COORDINATOR: "another shim has it, or may have; ask that one, or again in a moment",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "these are too many offsets for one commit",
}


def refusal(group: str, error: ErrorCode) -> Refused | NotKnown:
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        return NotKnown(f"there is no group {group}")
    return Refused(f"group {group}: {_MEANS.get(error, error.name)}")
