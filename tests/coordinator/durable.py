"""What of a coordinator's state is in its records, and the way of records through bytes."""

from typing import Any

from protocol.offsets_log import UnknownKey, decode_key, decode_value, encode_key, encode_value
from shim.coordinator import CoordinatorSettings, GroupCoordinator, Record
from shim.coordinator.state.group import Group, GroupState

from .driving import new_coordinator


def reloaded(records: list[Record], settings: CoordinatorSettings | None = None) -> GroupCoordinator:
    """A fresh coordinator that has replayed the records as the log holds them."""
    coordinator = new_coordinator(settings)
    for key, value in records:
        decoded = decode_key(encode_key(key))
        assert not isinstance(decoded, UnknownKey)
        raw = decode_value(decoded, None if value is None else encode_value(value))
        assert not isinstance(raw, bytes)
        coordinator.replay(decoded, raw)
    return coordinator


def group_state(group: Group) -> dict[str, Any]:
    return {
        "state": group.state,
        "state_timestamp": group.state_timestamp,
        "generation": group.generation_id,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": group.leader,
        "static": dict(group.static_members),
        "subscribed": group.subscribed_topics,
        "members": [
            (
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                m.metadata(group.protocol_name),
                m.assignment,
            )
            for m in group.members.values()
        ],
    }


def assert_same(running: GroupCoordinator, restored: GroupCoordinator) -> None:
    """The restored coordinator has the groups and offsets of the running one; amid a rebalance, as before it."""
    live, loaded = running._state, restored._state
    assert live.groups.keys() == loaded.groups.keys()
    for group_id, group in live.groups.items():
        assert list(live.offsets.committed.of_group(group_id)) == list(loaded.offsets.committed.of_group(group_id))
        after = loaded.groups[group_id]
        if group.state in (GroupState.EMPTY, GroupState.STABLE):
            assert group_state(group) == group_state(after)
        else:
            assert after.generation_id <= group.generation_id
    assert len(live.offsets.committed) == len(loaded.offsets.committed)
