"""Where the old consumers' offsets are in ZooKeeper, and as what."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compat.zookeeper import (
    Chosen,
    NotAName,
    NotAnOffset,
    Offsets,
    PartitionName,
    checked_name,
    choose,
    group_path,
    ids_path,
    offset_data,
    offset_path,
    offsets_path,
    owners_path,
    parse_offset,
    parse_offsets_path,
    parse_partition,
    portions,
    topic_path,
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (group_path("g"), "/consumers/g"),
        (ids_path("g"), "/consumers/g/ids"),
        (owners_path("g"), "/consumers/g/owners"),
        (offsets_path("g"), "/consumers/g/offsets"),
        (topic_path("g", "t"), "/consumers/g/offsets/t"),
        (offset_path("g", "t", 12), "/consumers/g/offsets/t/12"),
        (offset_path("Gruppe ä", "t.x_y-z", 0), "/consumers/Gruppe ä/offsets/t.x_y-z/0"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    "offsets", [Offsets("g"), Offsets("g", "t"), Offsets("g", "t", "12"), Offsets("offsets", "offsets", "0-1")]
)
def test_paths_of_offsets(offsets: Offsets) -> None:
    assert parse_offsets_path(offsets.path) == offsets


@pytest.mark.parametrize(
    "path",
    ["/", "/consumers/g", "/consumers/g/ids", "/consumers/g/offsets/t/0/x", "/x/g/offsets", "/x/consumers/g/offsets"],
)
def test_paths_of_others(path: str) -> None:
    assert parse_offsets_path(path) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/", "a\0", "\x1f", "\x7f", "\x9f", "\ud800", "\uf8ff", "\ufff0", "\uffff", "😀"]
)
def test_what_can_be_no_name(name: str) -> None:
    made: list[Callable[[], str]] = [
        lambda: group_path(name),
        lambda: ids_path(name),
        lambda: owners_path(name),
        lambda: offset_path(name, "t", 0),
        lambda: offset_path("g", name, 0),
    ]
    for path in made:
        with pytest.raises(NotAName, match="cannot be the name of a znode"):
            path()


@pytest.mark.parametrize("name", ["a", "...", ".a", " ", "~", "\xa0", "\ud7ff", "\uf900", "\uffef", "ids"])
def test_what_can(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"0", 0),
        (b"42", 42),
        (b"+42", 42),
        (b"-1", -1),
        (b"007", 7),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
    ],
)
def test_offsets(data: bytes, offset: int) -> None:
    assert parse_offset(data) == offset


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" 1",
        b"1\n",
        b"1_000",
        b"1.0",
        b"1e3",
        b"0x10",
        b"--1",
        b"-",
        b"null",
        b"9223372036854775808",
        b"-9223372036854775809",
        "٣".encode(),
        b"\xff",
        b"9" * 1_000_000,
    ],
)
def test_what_is_no_offset(data: bytes) -> None:
    with pytest.raises(NotAnOffset, match="is no offset") as raised:
        parse_offset(data)
    assert len(str(raised.value)) < 100


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_offset_is_read_as_it_was_written(offset: int) -> None:
    assert parse_offset(offset_data(offset)) == offset
    assert offset_data(offset).decode() == str(offset)


@given(st.integers(min_value=2**63) | st.integers(max_value=-(2**63) - 1))
def test_an_offset_has_64_bits(offset: int) -> None:
    with pytest.raises(NotAnOffset):
        offset_data(offset)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("0", PartitionName(0)),
        ("12", PartitionName(12)),
        ("2147483647", PartitionName(2**31 - 1)),
        ("0-3", PartitionName(3, 0)),
        ("1001-0", PartitionName(0, 1001)),
        ("2147483648", None),
        ("00", None),
        ("01", None),
        ("+1", None),
        ("-1", None),
        ("1-", None),
        ("-", None),
        ("", None),
        ("1-2-3", None),
        ("t", None),
        ("1 ", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_partitions(name: str, partition: PartitionName | None) -> None:
    assert parse_partition(name) == partition


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], Chosen({}, {})),
        (["1", "0"], Chosen({0: "0", 1: "1"}, {})),
        (["0-0", "0-1"], Chosen({0: "0-0", 1: "0-1"}, {})),
        (["0-0", "0"], Chosen({0: "0"}, {})),
        (["0-0", "1-0", "0"], Chosen({0: "0"}, {})),
        (
            ["0-0", "1-0", "1-1"],
            Chosen({1: "1-1"}, dict.fromkeys(("0-0", "1-0"), "partition 0 of several brokers")),
        ),
        (["x", "0"], Chosen({0: "0"}, {"x": "not the name of a partition"})),
    ],
)
def test_which_znodes_say_a_topics_offsets(names: list[str], chosen: Chosen) -> None:
    assert choose(names) == chosen


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_portions(sizes: list[int], limit: int) -> None:
    made = list(portions(sizes, lambda size: size, limit))
    assert [size for portion in made for size in portion] == sizes
    assert all(made)
    for portion in made:
        assert sum(portion) <= limit or len(portion) == 1
    for first, second in pairwise(made):
        assert sum(first) + second[0] > limit
