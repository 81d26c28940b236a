"""Whose is what stands in ZooKeeper: case by case."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from shim.migration.dual.judging import Verdict, Znodes
from shim.offsets.store import StoredOffset

AT: Final = ("orders", 0)


class Case(NamedTuple):
    """``before``: offset and version that are known; ``attempted``: what was about to be written; ``there``: what was
    read; ``own``: what the log has; ``undone``: of that, what was told to have failed (-1: nothing was); ``moved``:
    the log has had something else meanwhile; ``sure``: what was attempted stood there for certain."""

    why: str
    there: tuple[int, int]
    own: int | None
    verdict: Verdict
    before: tuple[int, int] | None = None
    attempted: tuple[int, int] | None = None
    undone: int | None = -1
    adopted: bool = True
    moved: bool = False
    sure: bool = False


CASES: Final = (
    Case("before the first look ZooKeeper is right", (7, 3), 5, Verdict.CARRY, adopted=False),
    Case("and it may have what the log has", (5, 3), 5, Verdict.KNOWN, adopted=False),
    Case("and less than the log", (-1, 3), 5, Verdict.CARRY, adopted=False),
    Case("and none, as the log", (-1, 3), None, Verdict.KNOWN, adopted=False),
    Case("nothing has happened", (5, 3), 5, Verdict.KNOWN, before=(5, 3)),
    Case("nothing but a commit in the log", (5, 3), 6, Verdict.KNOWN, before=(5, 3)),
    Case("somebody has written", (7, 4), 5, Verdict.CARRY, before=(5, 3)),
    Case("somebody has gone back", (2, 4), 5, Verdict.CARRY, before=(5, 3)),
    Case("somebody has written the same again", (5, 4), 5, Verdict.KNOWN, before=(5, 3)),
    Case("somebody has written, and the log has moved on", (7, 4), 6, Verdict.OURS, before=(5, 3)),
    Case("somebody has written, and the log has it deleted", (7, 4), None, Verdict.OURS, before=(5, 3)),
    Case("the log has moved on, but that has failed", (7, 4), 6, Verdict.CARRY, before=(5, 3), undone=6),
    Case("another commit has failed", (7, 4), 6, Verdict.OURS, before=(5, 3), undone=4),
    Case("a deletion has failed", (7, 4), None, Verdict.CARRY, before=(5, 3), undone=None),
    Case("a first offset", (7, 0), None, Verdict.CARRY),
    Case("a first offset in both", (7, 0), 6, Verdict.OURS),
    Case("it was written", (6, 4), 6, Verdict.KNOWN, before=(5, 3), attempted=(6, 4)),
    Case("it was not written", (5, 3), 6, Verdict.KNOWN, before=(5, 3), attempted=(6, 4)),
    Case("after a crash: it was written", (6, 4), 6, Verdict.KNOWN, attempted=(6, 4)),
    Case("after a crash: it was not written", (5, 3), 6, Verdict.KNOWN, attempted=(6, 4)),
    Case("after a crash: somebody was faster", (7, 4), 6, Verdict.OURS, attempted=(6, 4)),
    Case("after a crash: somebody has written more than once", (7, 5), 6, Verdict.OURS, attempted=(6, 4)),
    Case("after a crash: somebody has written since", (7, 5), 6, Verdict.CARRY, attempted=(6, 4), sure=True),
    Case("after a crash: and the log has moved on", (7, 5), 8, Verdict.OURS, attempted=(6, 4), sure=True),
    Case("after a crash: created anew by somebody", (7, 0), 6, Verdict.OURS, attempted=(6, 4)),
    Case("after a crash: created anew", (7, 0), 6, Verdict.CARRY, attempted=(6, 4), sure=True),
    Case("after a crash: created anew, as often as it was", (7, 4), 6, Verdict.CARRY, attempted=(6, 4), sure=True),
    Case("after a crash: deleted by the shim, then created anew", (7, 0), None, Verdict.CARRY, attempted=(6, 4)),
    Case("after a crash: created anew, and the log has moved on", (7, 0), 8, Verdict.OURS, attempted=(6, 4)),
    Case("the log has moved on, and come back", (7, 4), 5, Verdict.OURS, before=(5, 3), moved=True),
    Case("it has moved on, come back, and gone", (7, 4), None, Verdict.OURS, before=(5, 3), moved=True),
    Case("it has come back, but that has failed", (7, 4), 5, Verdict.CARRY, before=(5, 3), undone=5, moved=True),
    Case("it has come back to what was attempted", (7, 5), 6, Verdict.OURS, (5, 3), (6, 4), moved=True),
    Case("created anew, and the log has come back", (7, 0), 5, Verdict.OURS, before=(5, 3), moved=True),
    Case("created anew, and the log has it deleted", (7, 0), None, Verdict.CARRY, before=(5, 3), moved=True),
    Case("created anew", (7, 0), 5, Verdict.CARRY, before=(5, 3)),
    Case("created anew, and the log has moved on", (7, 0), 6, Verdict.OURS, before=(5, 3)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.why)
def test_verdict(case: Case) -> None:
    znodes = Znodes({} if case.adopted else None)
    if case.before is not None:
        znodes.stands(AT, StoredOffset(*case.before))
    if case.attempted is not None:
        znodes.attempted[AT] = StoredOffset(*case.attempted)
    if case.sure:
        znodes.sure.add(AT)
    if case.undone != -1:
        znodes.undone[AT] = case.undone
    if case.moved:
        znodes.moved.add(AT)
    assert znodes.judge(AT, StoredOffset(*case.there), case.own) is case.verdict


def test_what_was_deleted_by_somebody_and_is_written_anew_is_newer() -> None:
    znodes = Znodes({})
    znodes.stands(AT, StoredOffset(5, 3))
    znodes.gone(AT)
    assert znodes.to_write({AT: 5}) == {AT: StoredOffset(5, -1)}
    assert znodes.judge(AT, StoredOffset(7, 0), 5) is Verdict.CARRY
    assert znodes.judge(AT, StoredOffset(7, 0), 6) is Verdict.OURS


def test_who_creates_what_the_shim_was_about_to_write_again_is_newer() -> None:
    """Where nobody has told what became of the shim's own write: the log has not moved on, so that says nothing."""
    znodes = Znodes({})
    znodes.stands(AT, StoredOffset(5, 3))
    znodes.gone(AT)
    znodes.attempt({AT: StoredOffset(5, 0)})
    assert znodes.judge(AT, StoredOffset(7, 0), 5) is Verdict.CARRY
    assert znodes.judge(AT, StoredOffset(7, 0), 6) is Verdict.OURS, "it has since"
    znodes.gone(AT)
    znodes.attempt({AT: StoredOffset(6, 0)})
    assert znodes.judge(AT, StoredOffset(7, 0), 6) is Verdict.OURS, "it had before"


def test_who_creates_what_the_log_has_come_back_to_is_not() -> None:
    znodes = Znodes({})
    znodes.stands(AT, StoredOffset(5, 3))
    znodes.moved.add(AT)
    znodes.gone(AT)
    znodes.attempt({AT: StoredOffset(5, 0)})
    assert znodes.judge(AT, StoredOffset(7, 0), 5) is Verdict.OURS


def test_what_failed_goes_on_being_brought_there_but_not_over_what_others_write() -> None:
    znodes = Znodes({})
    znodes.stands(AT, StoredOffset(5, 3))
    assert znodes.owed({AT: 6}) == {AT: 6}
    znodes.undone[AT] = 6
    assert znodes.judge(AT, StoredOffset(5, 3), 6) is Verdict.KNOWN
    znodes.stands(AT, StoredOffset(5, 3))
    assert znodes.to_write({AT: 6}) == {AT: StoredOffset(6, 3)}
    assert znodes.judge(AT, StoredOffset(7, 4), 6) is Verdict.CARRY
    znodes.stands(AT, StoredOffset(7, 4))
    znodes.agree(AT, 7)
    assert znodes.judge(AT, StoredOffset(8, 5), 6) is Verdict.OURS  # of a later commit nobody was told that


def test_what_has_come_back_is_written_once_more() -> None:
    znodes = Znodes({})
    znodes.stands(AT, StoredOffset(5, 3))
    znodes.moved.add(AT)
    assert znodes.to_write({AT: 5}) == {AT: StoredOffset(5, 3)}
    assert znodes.owed({AT: 5}) == {AT: 5}
    znodes.attempt({AT: StoredOffset(5, 4)})
    assert znodes.owed({AT: 5}) == {AT: 5}, "nobody knows yet"
    assert znodes.judge(AT, StoredOffset(7, 5), 5) is Verdict.OURS, "it may not have been, and somebody wrote twice"
    assert znodes.judge(AT, StoredOffset(7, 4), 5) is Verdict.OURS, "somebody else was faster"
    znodes.stands(AT, StoredOffset(5, 4))
    assert not znodes.to_write({AT: 5})
    assert not znodes.owed({AT: 5})


def test_nothing_is_left_of_what_has_come_and_gone() -> None:
    znodes = Znodes({})
    znodes.moved.add(AT)
    znodes.agree_on_none({})
    assert znodes.judge(AT, StoredOffset(7, 0), None) is Verdict.CARRY


def test_what_was_read_before_a_write_or_a_deletion_is_read_again() -> None:
    znodes = Znodes({})
    znodes.stands(AT, StoredOffset(5, 3))
    assert znodes.is_doubtful(AT, StoredOffset(4, 2))
    assert not znodes.is_doubtful(AT, StoredOffset(5, 3))
    assert znodes.to_delete({}) == [AT]
    assert znodes.owed({}) == {AT: None}
    znodes.gone(AT)
    znodes.deleted.add(AT)
    assert znodes.is_doubtful(AT, StoredOffset(5, 3))
    znodes.stands(AT, StoredOffset(7, 0))
    assert not znodes.is_doubtful(AT, StoredOffset(8, 1))
