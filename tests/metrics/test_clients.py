"""The kinds of clients that have come."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from shim.metrics import ClientKind, ClientsSeen, Said
from shim.metrics.clients import MOST_KINDS, OTHER

FETCH = 1 << 16
JAVA = Said("apache-kafka-java", "4.3.1", "")


def old(client_id: str) -> Said:
    return Said("", "", client_id)


def came(seen: ClientsSeen, said: Said, host: str = "/10.0.0.4") -> ClientKind:
    return seen.came(said, said.client_id or "app", host, "")


def test_connections_that_are_open_and_those_there_were() -> None:
    times = iter(range(1, 9))
    seen = ClientsSeen(lambda: float(next(times)))
    first = came(seen, JAVA)
    second = came(seen, JAVA, "/10.0.0.5")
    assert first is second
    assert (first.open, first.connections, first.last_ms, first.host) == (2, 2, 2000, "/10.0.0.5")
    first.authenticated("User:alice")
    seen.left(first)
    seen.left(second)
    assert (first.open, first.connections, first.last_ms, first.principal) == (0, 2, 4000, "User:alice")
    assert came(seen, JAVA).principal == "User:alice", "one that is not told yet takes nothing away"


def test_names_that_clients_make_up_do_not_pile_up() -> None:
    seen = ClientsSeen()
    kept = [came(seen, old(f"app-{number}")) for number in range(MOST_KINDS)]
    beyond, also = came(seen, old("one more")), came(seen, Said("made-up", "1", ""))
    assert (beyond.said, also.said) == (old(OTHER), Said(OTHER, OTHER, ""))
    assert len(list(seen.kinds())) == MOST_KINDS + 2
    for each in (beyond, also, *kept):
        seen.left(each)
    long = came(seen, Said("", "", "x" * 40_000))
    long.authenticated("y" * 40_000)
    assert max(map(len, (long.said.client_id, long.client_id, long.principal))) == 200


def test_the_one_goes_that_was_left_longest_ago() -> None:
    seen = ClientsSeen()
    kinds = [came(seen, old(f"app-{number}")) for number in range(MOST_KINDS)]
    for each in kinds[2], kinds[0], kinds[1]:
        each.requests[FETCH] += 5
        seen.left(each)
    came(seen, kinds[2].said)  # is there again
    came(seen, JAVA)
    names = {each.said for each in seen.kinds()}
    assert kinds[0].said not in names
    assert {kinds[1].said, kinds[2].said, JAVA} <= names
    assert len(names) == MOST_KINDS
    assert seen.requests(named=False) == {FETCH: 15}, "what is counted never falls"


def test_a_client_that_says_late_what_it_is() -> None:
    seen = ClientsSeen()
    first = came(seen, old("app"))
    first.requests[FETCH] += 1
    seen.was_another(first)
    came(seen, JAVA)
    assert [each.said for each in seen.kinds()] == [JAVA]
    assert seen.requests(named=False) == {FETCH: 1}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3 * MOST_KINDS), st.booleans()), max_size=400))
def test_nothing_is_lost_of_what_was_counted(steps: list[tuple[bool, int, bool]]) -> None:
    seen = ClientsSeen()
    expected = {True: Counter[int](), False: Counter[int]()}
    opened: list[ClientKind] = []
    for named, number, stays in steps:
        kind = came(seen, Said("s", str(number), "") if named else old(str(number)))
        kind.requests[number] += 1
        expected[named][number] += 1
        if stays:
            opened.append(kind)
        else:
            seen.left(kind)
        assert len(list(seen.kinds())) <= MOST_KINDS + 2
    assert {named: seen.requests(named=named) for named in expected} == expected
    assert sum(each.open for each in seen.kinds()) == len(opened)
