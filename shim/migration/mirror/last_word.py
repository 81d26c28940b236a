"""The last that a shim says of the cluster's own offsets: whether clients that go there now go on where they stood."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Final

from protocol.own.state_log import Hands
from shim.counted import counted, some_of
from shim.migration.mirror.mirror import Mirror
from shim.runtime import Runtime

log = logging.getLogger(__name__)

_KEPT: Final = "the cluster keeps other offsets, as `migrate status` has told"
NO_TIME: Final = "there was no time to write them"
_NOT_COMPARED: Final = "they were loaded, and not compared yet"


def say_last_word(runtime: Runtime, mirror: Mirror) -> None:
    """In one line; what is brought there or changed later is not in it."""
    served, not_loaded, nowhere = 0, 0, 0
    left: dict[str, list[str]] = defaultdict(list)
    is_shared_out = runtime.owned is not None  # otherwise none of the partitions was ever to be this process's
    for number in range(runtime.num_partitions):
        coordinator = runtime.loaded_coordinator(number)
        # A shim that has not reached the cluster yet serves none, and the mirror knows nothing of them.
        is_served = runtime.coordinator(number) is not None
        if coordinator is None:
            not_loaded += is_shared_out and not runtime.is_owned_elsewhere(number)
            continue
        for group in {*coordinator.hands(), *coordinator.group_ids()}:
            if coordinator.hands_of(group) is Hands.SERVED:
                served += 1
                nowhere += bool(mirror.nowhere(group))
                if why := _why_not(mirror, group) if is_served else _NOT_COMPARED:
                    left[why].append(group)
    if not left and not not_loaded:
        but = f", but for partitions that it does not have, of {counted(nowhere, 'group')}" if nowhere else ""
        log.info("the cluster's own offsets are those of the log: %s%s", counted(served, "group"), but)
        return
    told = [f"{sum(map(len, left.values())):,} of {counted(served, 'group')}"] if left else []
    told += [f"{counted(not_loaded, 'partition')} that it did not serve"] if not_loaded else []
    which = some_of([f"{some_of(sorted(groups))} ({why})" for why, groups in left.items()])
    log.warning(
        "the cluster's own offsets may not be those of the log: %s%s", " and ".join(told), which and f": {which}"
    )


def _why_not(mirror: Mirror, group: str) -> str:
    """What the cluster has of it is not what the log has, or may not be; "" where it is."""
    if mirror.lag_seconds(group) is not None:
        return mirror.why(group) or NO_TIME
    if not mirror.is_compared(group):
        return _NOT_COMPARED
    return _KEPT if mirror.alarm(group) else ""
