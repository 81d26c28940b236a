"""Room for the log's open files among those that the process may have."""

from __future__ import annotations

import resource
from contextlib import suppress

from shim.counted import counted
from shim.log.errors import LogError


def allow_open_files(log_files: int, others: int) -> None:
    """Raises this process's soft limit of open files to its hard one, where it is too low for so many.

    ``log_files``: one for each partition of each topic, its active segment. ``others``: what else is to be open at the
    same time. Raises LogError, with the number that is needed, where the hard limit is too low, too: better now than
    in the middle of a load, or when clients are there.
    """
    needed = log_files + others
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_enough(soft, needed):
        return
    with suppress(OSError, ValueError):  # a hard limit beyond the system's own (fs.nr_open)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if not _is_enough(soft, needed):
        raise LogError(
            f"this process may have {soft:,} files open and needs {needed:,}: one for each of "
            f"{counted(log_files, 'partition')} of the log, and {others} for the rest. "
            "Raise the limit (LimitNOFILE=, ulimit -n) or have fewer partitions"
        )


def _is_enough(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed
