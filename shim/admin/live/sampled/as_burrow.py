"""Groups as Burrow tells of them (https://github.com/linkedin/Burrow/wiki, HTTP endpoint v3), so that what reads Burrow
reads the shim.

Burrow judges by a window of commits that it keeps. Here it is a simpler rule, by what the shim has at hand:

- ``STOP``: a partition with lag, of which nothing was committed for :data:`STOPPED_SECONDS`;
- ``WARN``: a partition with lag, of a group whose whole lag has grown from sample to sample, at least
  :data:`GROWING_SAMPLES` times in a row up to now;
- ``OK``: any other, and one whose lag or time of commit nobody can tell.

A group is ``ERR`` where a partition is at STOP, otherwise WARN where one is, otherwise OK.

Where nobody can tell the lag of a partition, as while no broker answers, or before its first commit, its ``complete``
is 0, and the group's is the share of the others, whose lags alone are in ``totallag`` and ``maxlag``. Burrow means by
it how much of its window is there to judge by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from shim.admin.live.asked.groups import NO_OFFSET, Details, OffsetAt
from shim.admin.live.sampled.lag_series import Sample
from shim.admin.live.shown.documents import Row

STOPPED_SECONDS: Final = 600
GROWING_SAMPLES: Final = 5

_OK, _WARN, _STOP, _ERR = "OK", "WARN", "STOP", "ERR"
_WORSE: Final = (_OK, _WARN, _STOP)


class Judged(NamedTuple):
    """A partition of a group. ``status``: OK, WARN or STOP. ``owner``: the address of the member that has it, without
    the slash of Kafka's client host, and ``client_id`` the member's; "" where nobody has it."""

    at: OffsetAt
    status: str
    owner: str
    client_id: str


def judged(details: Details, recent: Sequence[Sample], now_ms: int) -> list[Judged]:
    """Each partition of a group that has an offset or is assigned, in the order of ``details``, with who has it.

    ``recent``: lags of the whole group, the oldest first; ``now_ms``: ms since the epoch."""
    growing = is_growing(recent)
    owners = {at: member for member in details.members for at in member.partitions or ()}
    found = []
    for at in details.offsets:
        owner = owners.get((at.topic, at.partition))
        host, client_id = ("", "") if owner is None else (owner.client_host.removeprefix("/"), owner.client_id)
        found.append(Judged(at, _status(at, now_ms, growing=growing), host, client_id))
    return found


def is_growing(recent: Sequence[Sample]) -> bool:
    """Whether the lag has grown :data:`GROWING_SAMPLES` times in a row up to now; not where one of these is unknown."""
    newest = [lag for _, lag in recent[-GROWING_SAMPLES - 1 :]]
    return len(newest) > GROWING_SAMPLES and all(
        before is not None and after is not None and after > before for before, after in pairwise(newest)
    )


def group_row(cluster: str, group: str, partitions: Sequence[Judged], *, whole: bool) -> Row:
    """The ``status`` of Burrow's answer. ``whole``: all partitions with an offset are listed, otherwise those of them
    that are not OK. ``complete``: from 0 to 1; ``maxlag``: the row of the partition with most lag, None where no lag is
    known. Lags are in records, times in ms since the epoch; 0 where nobody knows."""
    worst = max((each.status for each in partitions), key=_WORSE.index, default=_OK)
    committed = [each for each in partitions if each.at.offset != NO_OFFSET]
    known = [each for each in partitions if each.at.lag is not None]
    most = max(known, key=lambda each: each.at.lag or 0, default=None)
    return {
        "cluster": cluster,
        "group": group,
        "status": _ERR if worst == _STOP else worst,
        "complete": len(known) / len(partitions) if partitions else 1.0,
        "partitions": [_partition_row(each) for each in committed if whole or each.status != _OK],
        "partition_count": len(committed),
        "maxlag": None if most is None else _partition_row(most),
        "totallag": sum(each.at.lag or 0 for each in known),
    }


def answer(message: str, url: str, host: str, more: Mapping[str, object], *, error: bool = False) -> Row:
    """As all of Burrow's: ``more`` is what it is about; ``url``: the path that was asked for."""
    return {"error": error, "message": message, **more, "request": {"url": url, "host": host}}


def _status(at: OffsetAt, now_ms: int, *, growing: bool) -> str:
    if not at.lag:
        return _OK
    if at.committed_ms is not None and now_ms - at.committed_ms > STOPPED_SECONDS * 1000:
        return _STOP
    return _WARN if growing else _OK


def _partition_row(judged: Judged) -> Row:
    """The window of commits has one here, the newest: its start is its end."""
    at = judged.at
    commit = {
        "offset": at.offset,
        "timestamp": at.committed_ms or 0,
        "observedTimestamp": at.committed_ms or 0,
        "lag": at.lag or 0,
    }
    return {
        "topic": at.topic,
        "partition": at.partition,
        "owner": judged.owner,
        "client_id": judged.client_id,
        "status": judged.status,
        "start": commit,
        "end": commit,
        "current_lag": at.lag or 0,
        "complete": 1.0 if at.lag is not None else 0.0,
    }
