"""Waiting for the end of processes that are not children of this one."""

import os
import select


def ends_within(pid: int, seconds: float) -> bool:
    """Whether the process ends (a zombie counts as ended) within that time. True at once for a pid that nobody has."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
