"""ListGroups and DescribeGroups."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

from .driving import SUBSCRIPTION, Driven


@pytest.fixture
def three() -> Driven:
    """The Stable group `a`, the Empty group `b` and the group `c`, which prepares its first generation."""
    d = Driven()
    d.stable(group="a")
    d.commit(group="b")
    d.member(group="c", protocol_type="connect", protocols=(("default", b""),))
    return d


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), "abc"),
        (("Stable",), (), "a"),
        ((" eMPTY ", "stable"), (), "ab"),
        (("PreparingRebalance",), ("classic",), "c"),
        (("Dead",), (), ""),
        (("nonsense",), (), ""),
        ((), ("Classic", "Consumer"), "abc"),
        ((), ("Consumer",), ""),
        ((), ("nonsense",), ""),
    ],
)
def test_list_filters(three: Driven, states: tuple[str, ...], types: tuple[str, ...], found: str) -> None:
    assert "".join(sorted(listed.group_id for listed in three.coordinator.list_groups(states, types))) == found


def test_list(three: Driven) -> None:
    listed = three.coordinator.list_groups()
    assert {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed} == {
        ("a", "consumer", "Stable", "classic"),
        ("b", "", "Empty", "classic"),
        ("c", "connect", "PreparingRebalance", "classic"),
    }
    assert len(three.coordinator.group_ids()) == 3


def test_describe_stable(three: Driven) -> None:
    assert three.coordinator.describe_group("a", 6) == DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id="a",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=(
            DescribedGroupMember(
                member_id="client-1",
                client_id="client",
                client_host="/127.0.0.1",
                member_metadata=SUBSCRIPTION,
                member_assignment=b"for client-1",
            ),
        ),
    )


def test_describe_shows_no_metadata_during_a_rebalance(three: Driven) -> None:
    described = three.coordinator.describe_group("c", 6)
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "PreparingRebalance",
        "connect",
        "",
    )
    assert [(m.member_metadata, m.member_assignment) for m in described.members] == [(b"", b"")]


@pytest.mark.parametrize("version", range(7))
def test_describe_unknown(version: int) -> None:
    d = Driven()
    described = d.coordinator.describe_group("g", version)
    assert (described.group_id, described.group_state, described.members) == ("g", "Dead", ())
    if version >= 6:
        assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert described.error_message
    else:
        assert described.error_code == ErrorCode.NONE
        assert described.error_message is None
