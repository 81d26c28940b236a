"""When two answers are the same: what no coordinator promises is put in order, and what differs on purpose is known.

Everything here that is let through stands in docs/differences.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    join_group,
    list_groups,
    offset_delete,
    offset_fetch,
    sync_group,
)
from tests.differential.side import GROUP, Answer, Side, View


def comparable(side: Side, answer: Answer) -> Any:
    """The answer with labels for names, and lists without an order of their own in a fixed one."""
    plain = side.plain(answer.response)
    in_order = _IN_ORDER.get(answer.ask.api.key)
    if in_order is not None:
        in_order(side, answer, plain)
    return plain


def sort_described(group: Any) -> Any:
    group["members"].sort(key=repr)
    return group


def sort_fetched(topics: list[Any]) -> None:
    for topic in topics:
        topic["partitions"].sort(key=repr)
    topics.sort(key=repr)


def _joined(side: Side, answer: Answer, plain: Any) -> None:
    plain["members"].sort(key=repr)


def _described(side: Side, answer: Answer, plain: Any) -> None:
    for group in plain["groups"]:
        sort_described(group)
    plain["groups"].sort(key=repr)


def _fetched(side: Side, answer: Answer, plain: Any) -> None:
    if answer.ask.version < 8:
        if answer.ask.request.topics is None:
            sort_fetched(plain["topics"])
        return
    asked = {side.plain(group.group_id): group.topics for group in answer.ask.request.groups}
    for group in plain["groups"]:
        if asked[group["group_id"]] is None:
            sort_fetched(group["topics"])


def _listed(side: Side, answer: Answer, plain: Any) -> None:
    ours = [group for group in plain["groups"] if group["group_id"].startswith(GROUP)]
    plain["groups"] = sorted(ours, key=repr)


def _found(side: Side, answer: Answer, plain: Any) -> None:
    for found in (plain, *plain["coordinators"]):
        if (found["host"], found["port"]) == (side.host, side.port):
            found["host"], found["port"] = "here", 0
        if found["error_code"] == ErrorCode.NONE:
            found.pop("error_message")


def _deleted(side: Side, answer: Answer, plain: Any) -> None:
    plain["results"].sort(key=repr)


def _offsets_deleted(side: Side, answer: Answer, plain: Any) -> None:
    sort_fetched(plain["topics"])


_IN_ORDER: dict[int, Callable[[Side, Answer, Any], None]] = {
    join_group.API.key: _joined,
    describe_groups.API.key: _described,
    offset_fetch.API.key: _fetched,
    list_groups.API.key: _listed,
    find_coordinator.API.key: _found,
    delete_groups.API.key: _deleted,
    offset_delete.API.key: _offsets_deleted,
}


def never_answered(shim: Side, answer: Answer, view: View) -> bool:
    """Whether a broker leaves this request without an answer, which the shim gives."""
    request, error = answer.ask.request, answer.response.error_code
    if error == ErrorCode.REBALANCE_IN_PROGRESS:
        return shim.replaced(answer)
    if error == ErrorCode.UNKNOWN_MEMBER_ID and answer.ask.api is sync_group.API:
        return shim.plain(request.member_id) not in view.members
    return False


def winners(offers: list[tuple[str, ...]]) -> set[str]:
    """The protocols with the most votes of members that offer these."""
    common = set.intersection(*(set(offer) for offer in offers)) if offers else set()
    votes = Counter(next(name for name in offer if name in common) for offer in offers if common)
    return {name for name, count in votes.items() if count == max(votes.values())}


def describe_difference(one: Any, other: Any, at: str = "") -> list[str]:
    """Where two plain values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [line for key in one for line in describe_difference(one[key], other.get(key), f"{at}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for place, (a, b) in pairs for line in describe_difference(a, b, f"{at}[{place}]")]
    return [] if one == other else [f"{at or 'all'}: broker {one!r}, shim {other!r}"]
