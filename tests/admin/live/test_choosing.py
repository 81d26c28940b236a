"""Which groups a request is about, from bytes that anybody may have sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.admin.admin_client import in_parts
from shim.admin.live.requests.choosing import MOVES, Choice, Meant, Wanted, choice_of, move_of, wanted_of
from shim.admin.live.requests.fields import BadRequest

NAMES = [
    "a/b",
    "100%",
    "a%2Fb",
    'say "hi"',
    "it's",
    "größe",
    "集団",
    "🦆",
    "",
    " ",
    "..",
    "a+b",
    "a&b=c",
    "\x00\n",
    "[x]",
]


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_groups_by_name() -> None:
    assert wanted_of(body(groups=[*NAMES, "a/b"], cause="so")) == Wanted(Choice(tuple(NAMES)), "so")


def test_a_pattern_and_all() -> None:
    assert wanted_of(body(pattern="etl-*")) == Wanted(Choice(pattern="etl-*"), "")
    assert wanted_of(body(all=True)) == Wanted(Choice(), "")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe{\x00}\x00", "not JSON"),
        (b"[" * 500_000, "not JSON"),
        (b'{"all": ' + b"1" * 5_000 + b"}", "not JSON"),
        (b'["g"]', "not a JSON object"),
        (b"{}", "one of groups, pattern and all"),
        (body(cause="so"), "one of groups, pattern and all"),
        (body(groups=["g"], all=True), "one of groups, pattern and all"),
        (body(group="g"), '"group" is not known'),
        (body(all=False), "true alone"),
        (body(all=1), "true alone"),
        (body(groups="g"), "not a list"),
        (body(groups=[]), "not a list"),
        (body(groups=["g", 7]), "a group's name is not text"),
        (body(groups=["x" * 32_768]), "longer than 32767 bytes"),
        (body(groups=["\ud800"]), "surrogates"),
        (body(pattern=None), "pattern is not text"),
        (body(pattern="*" * 1_001), "longer than 1000 bytes"),
        (body(all=True, cause=["so"]), "cause is not text"),
        (body(all=True, **{"from": "kafka"}), "from has to be one of zookeeper, upstream"),
        (body(all=True, **{"from": [1]}), "from has to be one of zookeeper, upstream"),
        (body(groups=["g"], at="kafka"), "at is for the others"),
        (body(all=True, at=7), r"at has to be one of zookeeper, zookeeper\+dual, "),
        (body(**{"from": "upstream"}), "one of groups, pattern and all"),
        (body(all=True, cause="x" * 1_001), "longer than 1000 bytes"),
    ],
)
def test_what_cannot_be_understood(raw: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason) as caught:
        wanted_of(raw)
    assert "\n" not in str(caught.value)


@given(
    st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda it: json.dumps(it).encode())
)
def test_any_bytes_are_understood_or_refused(raw: bytes) -> None:
    try:
        wanted = wanted_of(raw)
    except BadRequest:
        return
    assert wanted.choice.names != ()


def test_queries() -> None:
    assert choice_of("") == Choice()
    assert choice_of("group=a%2Fb&group=100%25&group=&group=a%2Bb&group=a%2Fb") == Choice(("a/b", "100%", "", "a+b"))
    assert choice_of("pattern=etl-%2A") == Choice(pattern="etl-*")


@pytest.mark.parametrize(
    "query",
    ["group", "groups=g", "group=%ff", "group=a&pattern=b", "pattern=a&pattern=b", "&".join(["group=g"] * 1_001)],
)
def test_queries_that_cannot_be_understood(query: str) -> None:
    with pytest.raises(BadRequest):
        choice_of(query)


@pytest.mark.parametrize("move", MOVES)
def test_what_a_move_would_be_of(move: str) -> None:
    assert move_of(f"move={move}") == Meant(move, Choice(), None)
    assert move_of(f"pattern=etl-%2A&move={move}") == Meant(move, Choice(pattern="etl-*"), None)
    assert move_of(f"move={move}&at=kafka%2Bdual") == Meant(move, Choice(), "kafka+dual")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "one of start, advance, rollback$"),
        ("pattern=b", "one of start, advance, rollback$"),
        ("move=", "one of start, advance, rollback$"),
        ("move=verify", "one of start, advance, rollback$"),
        ("move=start&move=start", "one of start, advance, rollback$"),
        ("move=start&group=g", '"group" is not known: move, pattern and at are'),
        ("move=start&pattern=a&pattern=b", "one pattern"),
        ("move=advance&at=kafka&at=kafka", "one step"),
        ("move=advance&at=redis", r"at has to be one of zookeeper, zookeeper\+dual, "),
        ("move=start&pattern=" + "x" * 1_001, "longer than 1000 bytes"),
        ("move", "not name=value"),
    ],
)
def test_moves_that_cannot_be_understood(query: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        move_of(query)


def test_what_fits() -> None:
    names = ["etl-2", "etl-1", "ETL-3", "x\netl-4"]
    assert Choice(pattern="etl-*").fitting(names) == ["etl-1", "etl-2"]
    assert Choice(pattern="*etl-[24]").fitting(names) == ["etl-2", "x\netl-4"]
    assert Choice().fitting(names) == sorted(names)
    assert Choice(pattern="").fitting(names) == []


def test_a_pattern_that_has_much_to_try() -> None:
    """No pattern takes time that is exponential in its stars."""
    assert Choice(pattern="*a" * 400 + "b").fitting(["a" * 5_000]) == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=2_000))
def test_parts_are_all_of_it_in_requests_that_are_taken(names: list[str]) -> None:
    parts = list(in_parts(names))
    assert [name for part in parts for name in part] == names
    assert all(parts)
    assert all(len(body(groups=part)) < 1 << 20 for part in parts)


def test_the_longest_names_are_parts_of_their_own() -> None:
    parts = list(in_parts(["\x01" * 32_767] * 3 + ["g"] * 1_200))
    assert [len(part) for part in parts][:2] == [1, 1]
    assert max(map(len, parts)) == 500
    assert all(wanted_of(body(groups=part)).choice.names for part in parts)
