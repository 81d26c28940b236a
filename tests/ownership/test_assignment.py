"""Who gets what: balance, what stays where it was, and what the assignment says to whoever asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import permutations, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.own.shim_group import (
    AssignedNode,
    AssignedShim,
    ListenerAddress,
    ShimAssignment,
    ShimMember,
    decode_assignment,
    encode_assignment,
)
from shim.config import HostPort
from shim.ownership.assignment import Shares, assign

NEW = ShimMember("new", ())
shim_counts = st.integers(1, 5)


def leading(weights: Mapping[int, int]) -> dict[int, int]:
    """Leaders that lead so many partitions each."""
    nodes = [node_id for node_id, weight in weights.items() for _ in range(weight)]
    return dict(enumerate(nodes))


def shared(members: Mapping[str, ShimMember], weights: Mapping[int, int]) -> ShimAssignment:
    leaders = leading(weights)
    return assign(members, leaders, weights.keys(), len(leaders) or 1)


def shims(count: int) -> dict[str, ShimMember]:
    return {f"shim-{number}": NEW for number in range(count)}


def places(assignment: ShimAssignment) -> dict[int, str]:
    return {node.node_id: assignment.shims[node.shim].instance_id for node in assignment.nodes}


def with_shares(assignment: ShimAssignment, generation: int = 1) -> dict[str, ShimMember]:
    """The members, as they say of themselves what they got."""
    had = places(assignment)
    return {
        shim.instance_id: ShimMember(
            shim.name, shim.addresses, generation, tuple(node for node, where in had.items() if where == shim[0])
        )
        for shim in assignment.shims
    }


def standbys(assignment: ShimAssignment) -> dict[int, str]:
    """By node id, of those that have one."""
    found = zip(assignment.nodes, assignment.standbys, strict=True) if assignment.standbys else ()
    return {node.node_id: assignment.shims[standby].instance_id for node, standby in found if standby != -1}


def following(members: Mapping[str, ShimMember], assignment: ShimAssignment) -> dict[str, ShimMember]:
    """As :func:`with_shares`, and what they follow."""
    said = with_shares(assignment)
    return {
        name: member._replace(follows=Shares(assignment, 1, name).followed_node_ids)
        for name, member in said.items()
        if name in members
    }


def loads(assignment: ShimAssignment) -> dict[str, int]:
    """Partitions by shim."""
    had = places(assignment)
    led = Counter(had[node_id] for node_id in assignment.partitions)
    return {shim.instance_id: led[shim.instance_id] for shim in assignment.shims}


def nodes(assignment: ShimAssignment) -> dict[str, int]:
    """Nodes by shim."""
    stood_for = Counter(places(assignment).values())
    return {shim.instance_id: stood_for[shim.instance_id] for shim in assignment.shims}


def spread(numbers: Iterable[int]) -> int:
    found = list(numbers)
    return max(found) - min(found)


def weighted(low: int, high: int, most: int = 9) -> st.SearchStrategy[dict[int, int]]:
    """Node id -> partitions that it leads."""
    return st.dictionaries(st.integers(0, 50), st.integers(low, high), min_size=1, max_size=most)


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, ShimMember], dict[int, int]]:
    """Members that say anything of the past, and weights."""
    weights = draw(weighted(0, 20))
    some = st.lists(st.sampled_from(sorted(weights))).map(tuple)
    members = st.builds(ShimMember, st.just("m"), st.just(()), st.integers(-1, 3), some, st.none() | some)
    return draw(st.dictionaries(st.sampled_from("abcdef"), members, min_size=1)), weights


@given(histories())
def test_whole(history: tuple[dict[str, ShimMember], dict[int, int]]) -> None:
    """Every node has one shim, every partition is its leader's, and the bytes can be read."""
    members, weights = history
    assignment = shared(members, weights)
    assert [shim.instance_id for shim in assignment.shims] == sorted(members)
    assert [node.node_id for node in assignment.nodes] == sorted(weights)
    assert Counter(assignment.partitions) == Counter(leading(weights).values()) or not any(weights.values())
    assert decode_assignment(encode_assignment(assignment)) == assignment


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_nothing_matters(history: tuple[dict[str, ShimMember], dict[int, int]], rng: Random) -> None:
    members, weights = history
    leaders, node_ids = leading(weights), list(weights)
    mixed_members, mixed_leaders = list(members.items()), list(leaders.items())
    for each in (mixed_members, mixed_leaders, node_ids):
        rng.shuffle(each)
    count = len(leaders) or 1
    mixed = assign(dict(mixed_members), dict(mixed_leaders), node_ids, count)
    assert mixed == assign(members, leaders, weights.keys(), count)


@given(shim_counts, st.integers(1, 12), st.integers(0, 9))
def test_equal_nodes_are_shared_out_as_evenly_as_can_be(count: int, node_count: int, weight: int) -> None:
    """Those that lead nothing, too."""
    assignment = shared(shims(count), dict.fromkeys(range(node_count), weight))
    assert spread(nodes(assignment).values()) <= 1


@given(st.integers(1, 3), weighted(1, 20, most=6))
def test_new_shims_are_close_to_the_best_balance_there_is(count: int, weights: dict[int, int]) -> None:
    """By Graham's bound for the heaviest first: at most 4/3 - 1/(3m) of the least possible largest load."""
    best = min(
        max(sum(weight for weight, at in zip(weights.values(), where, strict=True) if at == shim) for shim in where)
        for where in product(range(count), repeat=len(weights))
    )
    largest = max(loads(shared(shims(count), weights)).values())
    assert 3 * count * largest <= (4 * count - 1) * best


@given(histories())
def test_no_move_is_left_that_would_be_worth_it(
    history: tuple[dict[str, ShimMember], dict[int, int]],
) -> None:
    members, weights = history
    assignment = shared(members, weights)
    load, led = loads(assignment), Counter(assignment.partitions)
    claims: dict[int, tuple[int, bool, str]] = {}
    for name, member in members.items():
        for had, node_ids in ((True, member.node_ids), (False, member.follows or ())):
            for node_id in node_ids:
                claims[node_id] = max(claims.get(node_id, (-2, False, "")), (member.generation, had, name))
    for node_id, place in places(assignment).items():
        weight = led[node_id]
        *_, home = claims.get(node_id, (-1, False, None))
        for other in load.keys() - {place} if weight else ():
            gap = load[place] - load[other]
            if home == place:
                assert 2 * gap < 3 * weight
            else:
                assert gap <= weight


@given(histories())
def test_what_was_shared_out_stays_so(history: tuple[dict[str, ShimMember], dict[int, int]]) -> None:
    members, weights = history
    once = shared(members, weights)
    assert places(shared(with_shares(once, 4), weights)) == places(once)


@given(st.integers(2, 5), weighted(10, 14), st.data())
def test_who_leaves_moves_its_own_nodes_alone(count: int, weights: dict[int, int], data: st.DataObject) -> None:
    """Where brokers lead about as much each, as they do when their preferred leaders lead."""
    before = shared(shims(count), weights)
    left = with_shares(before)
    gone = data.draw(st.sampled_from(sorted(left)))
    del left[gone]
    after = places(shared(left, weights))
    assert {node_id for node_id, where in places(before).items() if after[node_id] != where} == {
        node_id for node_id, where in places(before).items() if where == gone
    }


@given(shim_counts, st.integers(1, 12), st.integers(0, 9), st.sampled_from(["shim", "shim-1-and-a-half", "z"]))
def test_who_joins_gets_its_share_of_equal_nodes_and_no_other_moves(
    count: int, node_count: int, weight: int, name: str
) -> None:
    weights = dict.fromkeys(range(node_count), weight)
    before = shared(shims(count), weights)
    after = places(shared({**with_shares(before), name: NEW}, weights))
    moved = [after[node_id] for node_id, where in places(before).items() if after[node_id] != where]
    assert moved == [name] * (node_count // (count + 1))


def test_a_small_gain_moves_nothing() -> None:
    """`a` could hand its own node on: 18 and 32 partitions then, not 34 and 16."""
    members = {"a": ShimMember("a", (), 1, (1,)), "b": ShimMember("b", (), 1, (2,))}
    assert places(shared(members, {1: 16, 2: 16, 3: 18})) == {1: "a", 2: "b", 3: "a"}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({1: 17, 2: 17, 3: 16}, {1: "b", 2: "a", 3: "a"}),
        ({1: 50, 2: 0, 3: 0}, {1: "a", 2: "b", 3: "a"}),
        ({1: 49, 2: 1}, {1: "a", 2: "b"}),
        ({1: 50}, {1: "a"}),
        ({1: 25, 2: 25}, {1: "b", 2: "a"}),
    ],
)
def test_a_second_shim_comes(weights: dict[int, int], expected: dict[int, str]) -> None:
    """Of nodes that do equally well the first one moves."""
    members = {"a": ShimMember("a", (), 1, tuple(weights)), "b": NEW}
    assert places(shared(members, weights)) == expected


@pytest.mark.parametrize(
    ("weights", "of_a", "of_b", "expected"),
    [
        ({1: 1, 2: 1}, (), (), {1: "a", 2: "b"}),
        ({1: 1, 2: 1, 3: 1}, (2,), (), {1: "b", 2: "a", 3: "a"}),
        # Once 2 has moved, 4 evens it out as well as 1 would.
        ({1: 1, 2: 6, 3: 6, 4: 1}, (1,), (2, 3), {1: "a", 2: "a", 3: "b", 4: "b"}),
    ],
)
def test_new_nodes_make_room_for_those_that_are_at_home(
    weights: dict[int, int], of_a: tuple[int, ...], of_b: tuple[int, ...], expected: dict[int, str]
) -> None:
    members = {"a": ShimMember("a", (), 1, of_a), "b": ShimMember("b", (), 1, of_b)}
    assert places(shared(members, weights)) == expected


def test_a_node_without_partitions_goes_to_who_has_the_fewest() -> None:
    assert places(shared(shims(3), {1: 40, 2: 10, 3: 0, 4: 0})) == {1: "shim-0", 2: "shim-1", 3: "shim-2", 4: "shim-0"}


def test_more_shims_than_nodes() -> None:
    assignment = shared(shims(3), {1: 25, 2: 25})
    assert loads(assignment) == {"shim-0": 25, "shim-1": 25, "shim-2": 0}
    assert Shares(assignment, 1, "shim-2").owned == frozenset()


@pytest.mark.parametrize(
    ("generations", "expected"), [({"a": 3, "b": 2}, "a"), ({"a": 2, "b": 3}, "b"), ({"a": 3, "b": 3}, "b")]
)
def test_two_who_say_that_they_had_a_node(generations: dict[str, int], expected: str) -> None:
    members = {name: ShimMember(name, (), generation, (1,)) for name, generation in generations.items()}
    assert places(shared(members, {1: 50})) == {1: expected}


def test_partitions_without_a_leader() -> None:
    """They are where FindCoordinator says, and so is one whose leader is not among the brokers."""
    assignment = assign(shims(1), {0: 5, 1: -1, 3: 9, 4: 1, 8: 1}, {5, 1, 3}, 6)
    assert assignment.partitions == (5, 3, 5, 1, 1, 5)


def test_no_brokers_and_no_members() -> None:
    with pytest.raises(ValueError, match="no broker is known"):
        assign(shims(1), {0: 1}, (), 1)
    with pytest.raises(ValueError, match="no member is known"):
        assign({}, {0: 1}, {1}, 1)


def test_shares() -> None:
    plain = ListenerAddress("PLAIN", "a.example", 9092)
    members = {
        "i": ShimMember("a", (plain, ListenerAddress("TLS", "a.example", 19092)), 1, (1,)),
        "j": ShimMember("b", (ListenerAddress("PLAIN", "b.example", 65530),), 1, (2, 9)),
    }
    assignment = assign(members, {0: 2, 1: 1, 2: 1}, {1, 2, 9}, 3)
    shares = Shares(assignment, 7, "i")
    a = AssignedShim("i", "a", members["i"].addresses)
    b = AssignedShim("j", "b", members["j"].addresses)
    assert (shares.assignment, shares.generation, shares.instance_id) == (assignment, 7, "i")
    assert shares.owned == {1, 2}
    assert Shares(assignment, 7, "j").owned == {0}
    assert Shares(assignment, 7, "k").owned == frozenset()
    assert [shares.node_of(partition) for partition in range(3)] == [2, 1, 1]
    assert [shares.owner_of(partition) for partition in range(3)] == [b, a, a]
    assert [shares.shim_of(node_id) for node_id in (1, 2, 9, 3)] == [a, b, b, None]
    assert shares.address(1, "PLAIN") == HostPort("a.example", 9094)
    assert shares.address(1, "TLS") == HostPort("a.example", 19094)
    assert shares.address(2, "PLAIN") == HostPort("b.example", 65533)
    assert shares.address(2, "TLS") is None, "that shim has no such listener"
    assert shares.address(3, "PLAIN") is None, "there is no such broker"
    assert shares.address(9, "PLAIN") is None, "there is no such port"
    with pytest.raises(IndexError):
        shares.owner_of(3)


# --- standbys


@given(histories())
def test_a_standby_is_another_shim_and_a_willing_one(history: tuple[dict[str, ShimMember], dict[int, int]]) -> None:
    members, weights = history
    assignment = shared(members, weights)
    had, willing = places(assignment), {name for name, each in members.items() if each.follows is not None}
    wanted = {node_id for node_id in assignment.partitions if willing - {had[node_id]}}
    assert standbys(assignment).keys() == wanted
    assert all(name in willing - {had[node_id]} for node_id, name in standbys(assignment).items())


@given(histories())
def test_who_follows_does_not_matter_to_who_owns_as_long_as_that_one_is_there(
    history: tuple[dict[str, ShimMember], dict[int, int]],
) -> None:
    members, weights = history
    told = following(members, shared(members, weights))
    without = {name: each._replace(follows=None) for name, each in told.items()}
    assert places(shared(told, weights)) == places(shared(without, weights))


@given(st.integers(2, 5), st.integers(1, 12), st.integers(1, 9))
def test_what_is_followed_is_shared_out_too(count: int, node_count: int, weight: int) -> None:
    members = {name: each._replace(follows=()) for name, each in shims(count).items()}
    weights = dict.fromkeys(range(node_count), weight)
    assignment = shared(members, weights)
    followed = Counter(standbys(assignment).values())
    assert followed.total() == node_count
    if node_count % count == 0:
        assert spread(followed[name] for name in members) <= 2
    again = following(members, assignment)
    assert standbys(shared(again, weights)) == standbys(assignment), "and stays where it is"


@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 4))
def test_who_follows_is_next(count: int, node_count: int, gone: int) -> None:
    """All nodes of one shim go to those that have followed them, and no other moves, where that is fair."""
    members = {name: each._replace(follows=()) for name, each in shims(count).items()}
    weights = dict.fromkeys(range(node_count), 3)
    before = shared(members, weights)
    told = following(members, before)
    name = sorted(told)[gone % count]
    left = {each: member for each, member in told.items() if each != name}
    after = places(shared(left, weights))
    had = places(before)
    assert after == {node_id: standbys(before)[node_id] if at == name else at for node_id, at in had.items()}


def test_a_newer_word_wins_over_an_older_one() -> None:
    """One that comes back says what it had; by then another one has followed it longer."""
    members = {
        "a": ShimMember("a", (), 3, (1,), ()),
        "b": ShimMember("b", (), 5, (2,), (1,)),
    }
    assert places(shared(members, {1: 2, 2: 2}))[1] == "a", "balance"
    assert places(shared(members, {1: 1, 2: 8}))[1] == "a"
    assert places(shared({**members, "c": ShimMember("c", (), 5, (3,), ())}, {1: 2, 2: 9, 3: 9}))[1] == "a"
    lone = {"a": members["a"], "b": members["b"]._replace(node_ids=())}
    assert places(shared(lone, {1: 2}))[1] == "b"


def test_who_says_nothing_of_following_is_named_for_nothing() -> None:
    """As of an older release."""
    members = shims(3)
    assert shared(members, {1: 1, 2: 1}).standbys == ()
    one = {**members, "shim-2": NEW._replace(follows=())}
    assert set(standbys(shared(one, {1: 1, 2: 1})).values()) == {"shim-2"}


def test_what_a_shim_follows() -> None:
    assignment = ShimAssignment(
        (AssignedShim("i", "a", ()), AssignedShim("j", "b", ())),
        (AssignedNode(1, 0), AssignedNode(2, 1), AssignedNode(3, 1)),
        (1, 2, 2, 3),
        (1, 0, -1),
    )
    assert Shares(assignment, 1, "i").followed == {1, 2}
    assert Shares(assignment, 1, "i").followed_node_ids == (2,)
    assert Shares(assignment, 1, "j").followed == {0}
    assert Shares(assignment, 1, "k").followed == set()
    own = assignment._replace(standbys=(0, -1, -1))
    assert Shares(own, 1, "i").followed == set(), "nobody follows what is his own"


@pytest.mark.parametrize("names", list(permutations(("shim-0", "shim-1", "shim-2"))))
def test_who_follows_is_next_where_a_move_is_just_worth_it(names: tuple[str, str, str]) -> None:
    """How much shims follow decides between those that are equal, and not whether a node moves."""
    weights = {1: 2, 2: 1, 3: 2}
    back, going, third = names
    members = {
        back: ShimMember("back", (), follows=()),
        going: ShimMember("going", (), 1, (1,), (2, 3)),
        third: ShimMember("third", (), 1, (2, 3), (1,)),
    }
    before = shared(members, weights)
    left = following(members, before)
    del left[going]
    had = places(before)
    after = {node_id: standbys(before)[node_id] if at == going else at for node_id, at in had.items()}
    assert places(shared(left, weights)) == after
