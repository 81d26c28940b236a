"""What is remembered of a connection's rights, and for how long."""

from __future__ import annotations

from shim.security.rights import LONGEST_KEPT, MOST_KEPT, Need, Right, Rights

READ = Need(Right.READ_GROUP, "g")
DELETE = Need(Right.DELETE_GROUP, "g")
TOPIC = Need(Right.READ_TOPIC, "g")


def test_nothing_is_granted_that_was_not_learnt() -> None:
    rights = Rights(keep_seconds=10)
    assert not rights.has_all([READ], 0)
    rights.learn({READ: True}, 0)
    assert rights.has_all([READ], 1)
    assert not rights.has_all([DELETE], 1)
    assert not rights.has_all([TOPIC], 1)
    assert not rights.has_all([READ, TOPIC], 1)
    assert rights.known([READ, TOPIC], 1) == {READ: True}


def test_a_refusal_is_known_and_grants_nothing() -> None:
    rights = Rights(keep_seconds=10)
    rights.learn({READ: False}, 0)
    assert not rights.has_all([READ], 1)
    assert rights.known([READ], 1) == {READ: False}


def test_an_answer_is_good_for_so_long_from_when_it_was_asked_for() -> None:
    rights = Rights(keep_seconds=10)
    rights.learn({READ: True}, 5)
    assert rights.has_all([READ], 14.9)
    assert not rights.has_all([READ], 15)
    assert rights.known([READ], 15) == {}
    rights.learn({READ: False}, 15)
    assert rights.known([READ], 16) == {READ: False}


def test_with_no_time_to_keep_them_none_are_kept() -> None:
    rights = Rights(keep_seconds=0)
    rights.learn({READ: True}, 5)
    assert len(rights) == 0
    assert not rights.has_all([READ], 5)


def test_who_may_be_another_now_has_no_rights() -> None:
    rights = Rights(keep_seconds=10)
    rights.learn({READ: True}, 0)
    rights.forget()
    assert not rights.has_all([READ], 0)


def test_as_many_are_kept_and_no_more_and_the_oldest_goes() -> None:
    rights = Rights(keep_seconds=10)
    names = [Need(Right.READ_TOPIC, str(number)) for number in range(MOST_KEPT)]
    rights.learn(dict.fromkeys(names, True), 0)
    rights.learn({names[0]: True}, 1)  # it is the newest now
    rights.learn({READ: True}, 1)
    assert len(rights) == MOST_KEPT
    assert rights.has_all([names[0], READ, *names[2:]], 2)
    assert not rights.has_all([names[1]], 2)


def test_a_long_name_is_not_kept() -> None:
    rights = Rights(keep_seconds=10)
    kept, long = Need(Right.READ_GROUP, "g" * LONGEST_KEPT), Need(Right.READ_GROUP, "g" * (LONGEST_KEPT + 1))
    rights.learn({kept: True, long: True}, 0)
    assert rights.known([kept, long], 0) == {kept: True}
