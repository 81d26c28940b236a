"""Groups as `log import` and `log export` choose and show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from shim.admin.commands.console import Refused, print_table
from shim.admin.transfer.group_offsets import GroupOffsets
from shim.offsets.cluster.groups import Committed
from shim.terminal.showing import shown


class GroupShown(Protocol):
    """What became of one group, or would become of it."""

    @property
    def group(self) -> str: ...
    @property
    def offsets(self) -> Committed: ...
    @property
    def outcome(self) -> str: ...


def chosen_groups(offsets: GroupOffsets, groups: Sequence[str], none: str) -> list[str]:
    """Those asked for, or all; sorted. Raises Refused, with ``none`` saying where, for one that has no offsets."""
    found = offsets.groups()
    if missing := sorted(set(groups).difference(found)):
        raise Refused(f"{none} of {', '.join(map(shown, missing))}")
    return sorted(set(groups)) or found


def group_as_json(each: GroupShown) -> dict[str, Any]:
    return {"group": each.group, "topics": _topics(each), "partitions": len(each.offsets), "outcome": each.outcome}


def print_groups(groups: Sequence[GroupShown]) -> None:
    rows = [(each.group, _topics(each), len(each.offsets), each.outcome) for each in groups]
    print_table(("GROUP", "TOPICS", "PARTITIONS", "OUTCOME"), rows)


def _topics(each: GroupShown) -> int:
    return len({topic for topic, _ in each.offsets})
