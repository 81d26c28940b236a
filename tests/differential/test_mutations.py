"""The comparison finds what it is there to find: coordinators with one rule changed differ from the broker."""

from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.differential.checking import first_difference
from tests.differential.pair import USUAL, pair_with

SEQUENCES = 150

MUTATIONS = {
    "a heartbeat does not tell of the rebalance": """
import shim.coordinator.requests.heartbeat as changed
from protocol.errors import ErrorCode
beat = changed._beat
def beats(decision, request):
    error = beat(decision, request)
    return ErrorCode.NONE if error is ErrorCode.REBALANCE_IN_PROGRESS else error
changed._beat = beats
""",
    "the join phase does not wait for pending members": """
from shim.coordinator.state.group import Group
Group.all_joined = lambda group: group.parked_joins == len(group.members)
""",
    "a follower with other metadata does not rebalance": """
from shim.coordinator.requests.join_group import _Join
from shim.coordinator.state.group import GroupState
_Join._needs_no_rebalance = lambda join, group, member: (
    group.state is not GroupState.PREPARING_REBALANCE and group.leader != member.member_id
)
""",
    "an instance id is not held against its owner": """
from protocol.errors import ErrorCode
from shim.coordinator.state.group import Group
Group.validate = lambda group, member_id, instance_id: (
    ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
)
""",
    "the assignment of a static member is lost when it comes back": """
from shim.coordinator.state.group import Group
replace = Group.replace_static_member
def replaces(group, member, member_id):
    new = replace(group, member, member_id)
    new.assignment = b""
    return new
Group.replace_static_member = replaces
""",
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_changed_rule_is_found(mutation: str, usual_broker: Broker, tmp_path: Path) -> None:
    with pair_with(usual_broker, tmp_path, USUAL, patch=MUTATIONS[mutation]) as both:
        assert first_difference(both, range(SEQUENCES)) is not None
