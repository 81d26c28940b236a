"""Those that have much to pass on take turns: how much a turn brings, whose turn it is, and that everybody has one."""

from __future__ import annotations

import asyncio
import gc
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.upstream.read_buffer import READ_BYTES
from shim.upstream.turns import HURRIED_BYTES, HURRIED_TURNS, SHORT_BYTES, Turns
from shim.upstream.turns_of_loop import before_each_turn, turns_of_loop

SHARE = 1 << 20


class Connection:
    """It has ``waiting`` bytes to pass on, and more when told to."""

    def __init__(self, turns: Turns, waiting: int = 1 << 40) -> None:
        self.turns = turns
        self.waiting = waiting
        self.reads = True
        self.stopped = False
        self.passed_on = 0

    def wait(self) -> None:
        assert self.reads
        self.reads = False

    def go_on(self) -> bool:
        assert not self.reads
        self.reads = True
        return not self.stopped

    def read(self) -> int:
        """As the loop does in one turn: again while there is more, 32 times at most."""
        before = self.passed_on
        for _ in range(32):
            if not self.reads or self.stopped:
                break
            room = self.turns.room(self)
            count = min(room, self.waiting)
            self.waiting -= count
            self.passed_on += count
            self.turns.passed_on(self, count)
            if count < room:
                break
        return self.passed_on - before


class Loop:
    """Of nothing but turns."""

    def __init__(self, share: int = SHARE) -> None:
        self.turns = Turns(self._wants_turn, share)
        self._wanted = False

    def _wants_turn(self) -> None:
        assert not self._wanted, "asked for twice"
        self._wanted = True

    def connections(self, count: int, waiting: int = 1 << 40) -> list[Connection]:
        return [Connection(self.turns, waiting) for _ in range(count)]

    def turn(self, connections: list[Connection]) -> int:
        """Gives what was passed on in it."""
        if self._wanted:
            self._wanted = False
            self.turns.turn()
        return sum(each.read() for each in connections)


def most(connections: int, share: int = SHARE) -> int:
    """What is passed on in one turn: one read may begin when little of the share is left, one whatever is left."""
    return share + 2 * READ_BYTES + connections * SHORT_BYTES


def test_a_turn_has_a_bound_whoever_has_bytes() -> None:
    loop = Loop()
    busy = loop.connections(200)
    assert [turn for turn in range(1_000) if not 0 < loop.turn(busy) <= most(len(busy))] == []


def test_when_all_wait_a_turn_is_a_share_and_no_read_is_short() -> None:
    loop = Loop()
    busy = loop.connections(50)
    loop.turn(busy)
    assert len(loop.turns) == len(busy)
    assert [loop.turn(busy) for _ in range(500)] == [SHARE] * 500


def test_they_go_on_in_the_order_in_which_they_came() -> None:
    loop = Loop()
    busy = loop.connections(5)
    loop.turn(busy)
    seen = []
    for _ in range(10):
        before = [each.passed_on for each in busy]
        loop.turn(busy)
        seen += [at for at, each in enumerate(busy) if each.passed_on > before[at]]
    assert seen == [0, 1, 2, 3, 4] * 2


def test_who_has_waited_is_not_cheated_by_those_who_come_anew() -> None:
    loop = Loop()
    (waiting,) = loop.connections(1)
    loop.turn([waiting])
    for _ in range(5):
        before = waiting.passed_on
        new = loop.connections(3, READ_BYTES)
        loop.turn([*new, waiting])
        assert [each.passed_on for each in new] == [SHORT_BYTES] * 3
        assert waiting.passed_on == before + READ_BYTES
        for each in new:
            loop.turns.leave(each)


def test_small_answers_go_on_while_the_share_is_spent() -> None:
    loop = Loop()
    (bulk,), small = loop.connections(1), Connection(loop.turns, SHORT_BYTES - 1)
    for _ in range(5):
        loop.turn([bulk])
        assert loop.turns.room(small) == SHORT_BYTES
        small.waiting = SHORT_BYTES - 1
        assert small.read() == SHORT_BYTES - 1
        assert small.reads


def test_one_alone_goes_on_in_the_next_turn() -> None:
    loop = Loop()
    alone = loop.connections(1)
    assert [loop.turn(alone) for _ in range(20)] == [READ_BYTES] * 20


def test_a_larger_share_lets_several_go_on() -> None:
    loop = Loop(4 * READ_BYTES)
    busy = loop.connections(10)
    loop.turn(busy)
    before = [each.passed_on for each in busy]
    loop.turn(busy)
    assert sum(each.passed_on > at for each, at in zip(busy, before, strict=True)) == 4


def test_one_that_is_not_read_from_takes_nothing_of_the_share() -> None:
    loop = Loop()
    stopped, reading = loop.connections(2)
    loop.turn([stopped, reading])
    stopped.stopped = True
    before = reading.passed_on
    loop.turn([stopped, reading])
    assert reading.passed_on == before + READ_BYTES
    assert stopped.reads, "it reads again when its own reason has gone"


def test_who_has_left_is_not_told_to_go_on() -> None:
    loop = Loop()
    gone, stays = loop.connections(2)
    loop.turn([gone, stays])
    loop.turns.leave(gone)
    loop.turns.leave(gone)
    loop.turn([stays])
    assert not gone.reads
    assert stays.passed_on > READ_BYTES


def test_while_the_share_lasts_no_turn_is_asked_for() -> None:
    """Each costs the loop a round of its own."""
    wanted = 0

    def wants() -> None:
        nonlocal wanted
        wanted += 1

    turns = Turns(wants, SHARE)
    one = Connection(turns, 0)
    for _ in range(3):
        one.waiting = SHARE // 4
        one.read()
    assert wanted == 0
    one.waiting = SHARE // 4
    one.read()
    assert wanted == 1
    assert one.reads, "it has read all that there was"
    assert turns.room(one) == SHORT_BYTES
    turns.turn()
    assert wanted == 1
    assert turns.room(one) == READ_BYTES


def test_behind_others_one_that_has_read_all_waits_too() -> None:
    """Or its next bytes, which come at once where all are busy, would be read by a short read."""
    loop = Loop()
    *busy, last = loop.connections(4)
    last.waiting = READ_BYTES + SHORT_BYTES
    loop.turn([last, *busy])
    for _ in range(1 + len(busy)):
        loop.turn([last, *busy])
    assert last.waiting == 0
    assert not last.reads


@pytest.mark.parametrize("backwards", [False, True])
def test_who_waits_longest_reads_whatever_order_the_loop_has(backwards: bool) -> None:
    loop = Loop()
    busy = loop.connections(6)
    for _ in range(200):  # so that a read is expected to bring little, and several go on in one turn
        for each in busy:
            each.waiting = 3 * SHORT_BYTES
        loop.turn(busy)
    for each in busy:
        each.waiting = 1 << 40
    before = [each.passed_on for each in busy]
    for _ in range(12):
        assert loop.turn(busy[::-1] if backwards else busy) <= most(0)
    reads = [(each.passed_on - at) // READ_BYTES for each, at in zip(busy, before, strict=True)]
    assert min(reads) >= 2
    assert max(reads) - min(reads) <= 2


def test_after_a_request_that_waits_turns_are_short() -> None:
    loop = Loop()
    busy = loop.connections(5)
    for _ in range(3):
        loop.turn(busy)
    whole = max(loop.turn(busy) for _ in range(40))
    loop.turns.hurry()
    loop.turn(busy)  # those that had begun
    short = [loop.turn(busy) for _ in range(HURRIED_TURNS - 2)]
    assert max(short) <= 3 * HURRIED_BYTES + len(busy) * SHORT_BYTES < whole
    assert min(short) >= HURRIED_BYTES
    for _ in range(3):
        loop.turn(busy)
    assert loop.turn(busy) >= whole > max(short)


@given(
    st.integers(1, 8 * READ_BYTES),
    st.lists(st.lists(st.integers(0, 3 * READ_BYTES), min_size=6, max_size=6), max_size=40),
    st.lists(st.integers(0, 5), max_size=40),
)
def test_all_bytes_are_passed_on_whatever_comes_and_stops(
    share: int, arrivals: list[list[int]], stops: list[int]
) -> None:
    loop = Loop(share)
    connections = loop.connections(6, 0)
    for number, coming in enumerate(arrivals):
        for connection, more in zip(connections, coming, strict=True):
            connection.waiting += more
        stopped = stops[number] if number < len(stops) else 0
        connections[stopped].stopped = not connections[stopped].stopped
        assert loop.turn(connections) <= most(len(connections), share)
    for connection in connections:
        connection.stopped = False
    left = sum(each.waiting for each in connections)
    turns = 0
    while any(each.waiting for each in connections):
        loop.turn(connections)
        turns += 1
        assert turns <= 20 + 10 * (left // SHORT_BYTES), "somebody was forgotten"
    assert [each.passed_on for each in connections] == [
        sum(each) for each in zip(*arrivals, strict=True)
    ] or not arrivals


async def test_each_loop_has_its_own_and_a_turn_comes_by_itself() -> None:
    turns = turns_of_loop()
    assert turns_of_loop() is turns
    connection = Connection(turns)
    connection.read()
    assert len(turns) == 1
    await asyncio.sleep(0)
    assert len(turns) == 0
    assert connection.reads


async def test_whoever_wants_the_core_is_asked_first_and_may_fail() -> None:
    begun: list[bool] = []
    connection = Connection(turns_of_loop())

    def fails() -> None:
        begun.append(connection.reads)
        raise RuntimeError("a mistake")

    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(str(context["exception"])))
    before_each_turn(fails)
    for turns in range(1, 4):
        connection.read()
        await asyncio.sleep(0)
        assert begun == [False] * turns, "before anybody goes on"
        assert connection.reads
        assert told == ["a mistake"] * turns
    before_each_turn(None)
    await asyncio.sleep(0)
    begun.clear()
    connection.read()
    await asyncio.sleep(0)
    assert not begun


def test_a_loop_that_has_ended_leaves_nothing() -> None:
    async def make() -> Turns:
        return turns_of_loop()

    first = ref(asyncio.run(make()))
    gc.collect()
    assert first() is None
