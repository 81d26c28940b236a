"""What shims tell each other in their group, bytes and back."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError, EncodeError
from protocol.own.shim_group import (
    AssignedNode,
    AssignedShim,
    ListenerAddress,
    ShimAssignment,
    ShimMember,
    decode_assignment,
    decode_member,
    encode_assignment,
    encode_member,
)
from tests.protocol.strategies import messages

ADDRESSES = (ListenerAddress("PLAIN", "h", 9092),)
MEMBER = ShimMember("a", ADDRESSES, 7, (1, 3))
SHIMS = (AssignedShim("i", "a", ADDRESSES), AssignedShim("j", "b", ()))
ASSIGNMENT = ShimAssignment(SHIMS, (AssignedNode(1, 0), AssignedNode(3, 1)), (3, 1, 3))
MEMBER_BYTES = "0261 02 06504c41494e 0268 2384 00 00000007 03 00000001 00000003 00"
ASSIGNMENT_BYTES = (
    "03 0269 0261 02 06504c41494e 0268 2384 00 00  026a 0262 01 00"
    "03 00000001 00000000 00  00000003 00000001 00"
    "04 00000003 00000001 00000003 00"
)


@st.composite
def assignments(draw: st.DrawFn) -> ShimAssignment:
    shims = draw(st.lists(messages(AssignedShim, 0, True), min_size=1, max_size=4, unique_by=lambda shim: shim[0]))
    nodes = st.builds(AssignedNode, st.integers(-(2**31), 2**31 - 1), st.integers(0, len(shims) - 1), st.just(()))
    some = draw(st.lists(nodes, min_size=1, max_size=4, unique_by=lambda node: node[0]))
    partitions = draw(st.lists(st.sampled_from([node.node_id for node in some]), max_size=9))
    standbys = st.lists(st.integers(-1, len(shims) - 1), min_size=len(some), max_size=len(some))
    return ShimAssignment(tuple(shims), tuple(some), tuple(partitions), tuple(draw(st.just([]) | standbys)))


@given(messages(ShimMember, 0, True))
def test_a_member_there_and_back(member: ShimMember) -> None:
    assert decode_member(encode_member(member)) == member


@given(assignments())
def test_an_assignment_there_and_back(assignment: ShimAssignment) -> None:
    assert decode_assignment(encode_assignment(assignment)) == assignment


def test_the_bytes() -> None:
    assert encode_member(MEMBER) == bytes.fromhex("0000" + MEMBER_BYTES)
    assert encode_assignment(ASSIGNMENT) == bytes.fromhex("0000" + ASSIGNMENT_BYTES)


def test_the_bytes_of_standbys() -> None:
    """Tagged, so that who knows nothing of them passes over them."""
    member, assignment = MEMBER._replace(follows=(4,)), ASSIGNMENT._replace(standbys=(1, -1))
    assert encode_member(member) == bytes.fromhex("0000" + MEMBER_BYTES[:-2] + "01 00 05 02 00000004")
    assert encode_assignment(assignment) == bytes.fromhex(
        "0000" + ASSIGNMENT_BYTES[:-2] + "01 00 09 03 00000001 ffffffff"
    )
    assert encode_member(MEMBER._replace(follows=())) != encode_member(MEMBER), "it follows, but nobody yet"


both = pytest.mark.parametrize(
    ("raw", "decode"),
    [(encode_member(MEMBER), decode_member), (encode_assignment(ASSIGNMENT), decode_assignment)],
    ids=["member", "assignment"],
)


@both
def test_what_is_cut_off_or_has_more_is_refused(raw: bytes, decode: Callable[[bytes], Any]) -> None:
    for wrong in (*(raw[:size] for size in range(len(raw))), raw + b"\0"):
        with pytest.raises(DecodeError):
            decode(wrong)


@both
@pytest.mark.parametrize("version", [-1, 1, 2**15 - 1])
def test_another_version_is_refused(raw: bytes, decode: Callable[[bytes], Any], version: int) -> None:
    with pytest.raises(DecodeError, match="of a later version"):
        decode(version.to_bytes(2, signed=True) + raw[2:])


@both
def test_what_a_later_shim_adds_is_passed_over(raw: bytes, decode: Callable[[bytes], Any]) -> None:
    added = raw[:-1] + bytes.fromhex("01 09 02 6869")
    assert decode(added) == decode(raw)._replace(tagged=((9, b"hi"),))


@both
def test_damage_is_refused_or_harmless(raw: bytes, decode: Callable[[bytes], Any]) -> None:
    """Whatever comes, it is DecodeError, or something that has the same bytes again."""
    rng = random.Random(18)
    encode: Callable[[Any], bytes] = encode_member if decode is decode_member else encode_assignment
    refused = 0
    for _ in range(3000):
        damaged = bytearray(raw)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(raw))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            found = decode(bytes(damaged))
        except DecodeError:
            refused += 1
        else:
            assert decode(encode(found)) == found
    assert 0 < refused < 3000


def test_counts_that_are_not_there() -> None:
    for count in ("ffffffff0f", "ffffff7f", "00"):
        with pytest.raises(DecodeError):
            decode_member(bytes.fromhex("0000 0261" + count))
        with pytest.raises(DecodeError):
            decode_assignment(bytes.fromhex("0000" + count))


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        (ASSIGNMENT._replace(shims=(SHIMS[0], SHIMS[1]._replace(instance_id="i"))), "a shim is there twice"),
        (ASSIGNMENT._replace(nodes=(*ASSIGNMENT.nodes, AssignedNode(1, 1))), "a node id is there twice"),
        (ASSIGNMENT._replace(nodes=(*ASSIGNMENT.nodes, AssignedNode(4, 2))), "has a shim that is not there"),
        (ASSIGNMENT._replace(nodes=(*ASSIGNMENT.nodes, AssignedNode(4, -1))), "has a shim that is not there"),
        (ASSIGNMENT._replace(partitions=(3, 2)), "has a node id that is not there"),
        (ASSIGNMENT._replace(standbys=(1,)), "there are standbys of some of the node ids"),
        (ASSIGNMENT._replace(standbys=(1, 2)), "has a standby that is not there"),
        (ASSIGNMENT._replace(standbys=(1, -2)), "has a standby that is not there"),
    ],
)
def test_an_assignment_that_names_what_is_not_there(assignment: ShimAssignment, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_assignment(encode_assignment(assignment))


@pytest.mark.parametrize("port", [-1, 2**16])
def test_a_port_is_a_port(port: int) -> None:
    with pytest.raises(EncodeError):
        encode_member(MEMBER._replace(addresses=(ListenerAddress("PLAIN", "h", port),)))
