"""The lazy heap of deadlines against a plain dict."""

import weakref

from hypothesis import given, settings
from hypothesis import strategies as st

from shim.coordinator.state.deadlines import Deadlines
from tests.examples import examples


def test_a_later_deadline_moves_the_heap_entry_only_when_it_comes_up() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    for at in range(11, 100):
        deadlines.set("a", at)
    assert len(deadlines._heap) == 1
    assert deadlines.next() == 99
    assert deadlines.pop_due(98) is None
    assert deadlines.pop_due(99) == "a"
    assert deadlines.next() is None


def test_an_earlier_deadline_counts_at_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 5)
    assert deadlines.pop_due(5) == "a"
    assert deadlines.pop_due(10) is None


def test_whether_one_may_be_due_is_said_without_sorting() -> None:
    deadlines: Deadlines[str] = Deadlines()
    assert not deadlines.may_be_before(10**12)
    deadlines.set("a", 10)
    assert (deadlines.may_be_before(10), deadlines.may_be_before(11)) == (False, True)
    deadlines.set("a", 50)
    assert deadlines.may_be_before(11), "it may, as far as is known"
    deadlines.set("b", 5)
    assert deadlines.may_be_before(6)


def test_cancelled_deadlines_do_not_pile_up() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for key in range(20_000):
        deadlines.set(key, 1_000_000 + key)
        deadlines.cancel(key)
    assert len(deadlines._heap) < 100
    assert len(deadlines) == 0


def test_most_entries_stand_for_a_deadline() -> None:
    count, deadlines = 10_000, Deadlines[int]()
    for key in range(count):
        deadlines.set(key, 1_000_000 + key)
    for key in range(count):
        deadlines.set(key, 900_000 - key)  # earlier, for which another entry is pushed
        deadlines.set(key, 800_000 - key)
        assert len(deadlines._heap) <= 1.5 * len(deadlines)
    for key in range(count // 2):
        deadlines.cancel(key)
        assert len(deadlines._heap) <= 1.5 * len(deadlines)
    popped = 0
    while deadlines.pop_due(900_000) is not None:
        popped += 1
        assert len(deadlines._heap) <= max(64, 1.5 * len(deadlines))
    assert popped == count // 2


def test_a_key_is_not_kept_once_it_was_cancelled() -> None:
    """It may have a request behind it, and a connection."""

    class Asker:
        pass

    deadlines: Deadlines[Asker] = Deadlines()
    asker = Asker()
    gone = weakref.ref(asker)
    deadlines.set(asker, 10)
    deadlines.set(asker, 5)
    deadlines.cancel(asker)
    del asker
    assert gone() is None
    assert deadlines.next() is None


def test_many_that_were_put_off_are_sorted_out_in_steps() -> None:
    count, deadlines = 10_000, Deadlines[int]()
    for key in range(count):
        deadlines.set(key, 1_000)
    for key in range(count):
        deadlines.set(key, 5_000 + key)
    first = list(deadlines._heap)
    assert deadlines.next() == 1_000, "an earlier time will do"
    assert len({id(entry) for entry in first} - {id(entry) for entry in deadlines._heap}) < 100
    looks = 0
    while (at := deadlines.next()) is not None and at <= 1_000:
        assert deadlines.pop_due(1_000) is None
        looks += 1
    assert 10 < looks < 100
    assert at == 5_000
    assert [deadlines.pop_due(9**9) for _ in range(count + 1)] == [*range(count), None]


def test_a_key_that_is_set_again_after_it_was_cancelled() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.cancel("a")
    deadlines.set("a", 20)
    assert deadlines.next() == 20
    deadlines.set("a", 10)
    assert [deadlines.pop_due(30), deadlines.pop_due(30)] == ["a", None]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 30)),
        st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("pop"), st.just(0), st.integers(0, 30)),
    ),
    max_size=60,
)


@given(operations)
@settings(max_examples=examples(75), deadline=None)
def test_it_is_a_dict_with_a_minimum(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, int] = {}
    for step, key, at in steps:
        if step == "set":
            deadlines.set(key, at)
            model[key] = at
        elif step == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            popped = deadlines.pop_due(at)
            if popped is None:
                assert all(due > at for due in model.values())
            else:
                assert model.pop(popped) <= min([at, *model.values()])
        assert deadlines.next() == min(model.values(), default=None)
        assert len(deadlines) == len(model)
