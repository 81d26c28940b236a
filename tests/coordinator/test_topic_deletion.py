"""The offsets for a topic that is gone: all of them, of nothing else, and after a restart too."""

from protocol.offsets_log import OffsetCommitKey
from shim.coordinator import GroupCoordinator, TopicDeletionStep

from .driving import Driven, new_coordinator
from .durable import assert_same, reloaded
from .transacting import Transacting


def step(d: Driven, deletion: object) -> TopicDeletionStep:
    ticket = d.ticket()
    d.take(deletion.step(d.now, ticket))  # type: ignore[attr-defined]
    return d.answer(ticket, TopicDeletionStep)


def delete(d: Driven, topic: str) -> tuple[int, int]:
    """Offsets and steps."""
    deletion = d.coordinator.delete_topic_offsets(topic)
    offsets = steps = 0
    more = True
    while more:
        answer = step(d, deletion)
        offsets, steps, more = offsets + answer.offsets, steps + 1, answer.more
    return offsets, steps


def test_all_its_offsets_of_all_groups_and_nothing_else() -> None:
    d = Driven()
    members, generation = d.stable(1, group="live")
    d.commit(members[0], generation, [("orders", 0, 1), ("payments", 0, 2)], group="live")
    d.commit(offsets=[("orders", 0, 5), ("orders", 2**31 - 1, 6), ("payments", 0, 7)])
    d.commit(offsets=[("payments", 1, 8)], group="other")
    d.commit(offsets=[("orders", 3, 8)], group="only")
    assert d.coordinator.topics() == {"orders", "payments"}
    written = len(d.records)
    assert delete(d, "orders") == (4, 1)
    assert sorted(d.records[written:]) == [
        (OffsetCommitKey("g", "orders", 0), None),
        (OffsetCommitKey("g", "orders", 2**31 - 1), None),
        (OffsetCommitKey("live", "orders", 0), None),
        (OffsetCommitKey("only", "orders", 3), None),
    ]
    assert d.offsets("live") == {("payments", 0): 2}, "a topic that its members subscribe to, too"
    assert d.offsets() == {("payments", 0): 7}
    assert d.offsets("other") == {("payments", 1): 8}
    assert d.state("only") == "Empty"
    assert d.state("live") == "Stable"
    assert d.coordinator.topics() == {"payments"}
    assert_same(d.coordinator, reloaded(d.records))
    assert delete(d, "orders") == (0, 1)
    d.commit(offsets=[("orders", 0, 1)])
    assert d.offsets() == {("payments", 0): 7, ("orders", 0): 1}


def test_which_topics_there_are_after_a_restart_and_from_a_snapshot() -> None:
    d = Driven()
    for group in ("a", "b"):
        d.commit(offsets=[("orders", 0, 1), ("payments", 0, 1)], group=group)
    d.delete_offsets(("orders", [0]), group="a")
    restored = GroupCoordinator()
    restored.restore(d.coordinator.dump())
    d.restart()
    for coordinator in (d.coordinator, restored):
        assert coordinator.topics() == {"orders", "payments"}
    d.delete_offsets(("orders", [0]), group="b")
    assert d.coordinator.topics() == {"payments"}
    d.delete_group("a")
    d.delete_group("b")
    assert d.coordinator.topics() == new_coordinator().topics() == set()


def test_many_go_in_steps_and_requests_between_them_are_heeded() -> None:
    d = Driven()
    for number in range(40):
        d.commit(offsets=[("orders", partition, 1) for partition in range(600)], group=f"g{number}")
    deletion = d.coordinator.delete_topic_offsets("orders")
    first = step(d, deletion)
    assert first.more
    assert 0 < first.offsets < 1_000
    d.delete_group("g7")
    d.delete_offsets(("orders", [0, 1]), group="g8")
    offsets = first.offsets
    while (answer := step(d, deletion)).more:
        assert answer.offsets < 1_000
        offsets += answer.offsets
    assert offsets + answer.offsets == 39 * 600 - 2
    assert d.coordinator.topics() == set()
    assert_same(d.coordinator, reloaded(d.records))


def test_thousands_of_groups_without_it_are_looked_at_in_steps() -> None:
    d = Driven()
    for number in range(5_000):
        d.commit(group=f"g{number}")
    offsets, steps = delete(d, "payments")
    assert offsets == 0
    assert 2 <= steps <= 5


def test_what_transactions_have_pending_goes_too() -> None:
    d = Transacting()
    d.commit(offsets=[("orders", 0, 1), ("payments", 0, 1)])
    _, sent_on = d.ask_txn_commit([("orders", 0, 10), ("orders", 5, 11), ("payments", 0, 12)])
    assert sent_on is not None
    d.read(10, sent_on)
    assert d.coordinator.topics() == {"orders", "payments"}
    assert delete(d, "orders") == (2, 1)
    d.read(11, (1, 0, True))
    assert d.offsets() == {("payments", 0): 12}
    d.restart()
    assert d.offsets() == {("payments", 0): 12}
