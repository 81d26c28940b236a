"""Whose is what stands in ZooKeeper: case by case."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from protocol.own.state_log import About, WrittenValue
from shim.migration.dual.followed import Followed
from shim.migration.dual.znode import Verdict, Znode
from shim.offsets.store import StoredOffset

AT: Final = ("orders", 0)


class Case(NamedTuple):
    """``before``: offset and version that are known; ``attempted``: what was about to be written; ``there``: what was
    read; ``own``: what the log has; ``undone``: of that, what was told to have failed (-1: nothing was); ``moved``:
    the log has had something else meanwhile; ``sure``: what was attempted stood there for certain; ``deleting``: the
    shim was about to delete it."""

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
    deleting: bool = False


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
    Case("created anew, and the log has it deleted", (7, 0), None, Verdict.OURS, before=(5, 3), moved=True),
    Case("deleted by the shim, then created anew", (7, 0), None, Verdict.CARRY, before=(5, 3), deleting=True),
    Case("about to be deleted, and somebody has written", (7, 4), None, Verdict.OURS, before=(5, 3), deleting=True),
    Case("created anew", (7, 0), 5, Verdict.CARRY, before=(5, 3)),
    Case("created anew, and the log has moved on", (7, 0), 6, Verdict.OURS, before=(5, 3)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.why)
def test_verdict(case: Case) -> None:
    its = Followed({} if case.adopted else None, look=0, read_anew=False)
    znode = its.znode(AT)
    if case.before is not None:
        znode.read(StoredOffset(*case.before), case.before[0])
    if case.attempted is not None:
        znode.take_note(WrittenValue(*case.attempted, about=About.STANDS if case.sure else About.WRITES))
    if case.undone != -1:
        znode.undo(case.undone)
    if case.moved:
        znode.log_moved()
    if case.deleting:
        znode.deleting()
    assert its.judge(AT, StoredOffset(*case.there), {} if case.own is None else {AT: case.own}) is case.verdict


def _stands() -> Znode:
    """At a znode that both have alike."""
    znode = Znode()
    znode.both_have(StoredOffset(5, 3))
    return znode


def test_what_was_deleted_by_somebody_and_is_written_anew_is_newer() -> None:
    znode = _stands()
    znode.gone()
    assert znode.to_write(5) == StoredOffset(5, -1)
    assert znode.judge(StoredOffset(7, 0), 5) is Verdict.CARRY
    assert znode.judge(StoredOffset(7, 0), 6) is Verdict.OURS


def test_who_creates_what_the_shim_was_about_to_write_again_is_newer() -> None:
    """Where nobody has told what became of the shim's own write: the log has not moved on, so that says nothing."""
    znode = _stands()
    znode.gone()
    znode.attempt(StoredOffset(5, -1))
    assert znode.judge(StoredOffset(7, 0), 5) is Verdict.CARRY
    assert znode.judge(StoredOffset(7, 0), 6) is Verdict.OURS, "it has since"
    znode.gone()
    znode.attempt(StoredOffset(6, -1))
    assert znode.judge(StoredOffset(7, 0), 6) is Verdict.OURS, "it had before"


def test_who_creates_what_the_log_has_come_back_to_is_not() -> None:
    znode = _stands()
    znode.log_moved()
    znode.gone()
    znode.attempt(StoredOffset(5, -1))
    assert znode.judge(StoredOffset(7, 0), 5) is Verdict.OURS


def test_what_failed_goes_on_being_brought_there_but_not_over_what_others_write() -> None:
    znode = _stands()
    assert znode.is_owed(6)
    znode.undo(6)
    assert znode.judge(StoredOffset(5, 3), 6) is Verdict.KNOWN
    znode.read(StoredOffset(5, 3), 6)
    assert znode.to_write(6) == StoredOffset(6, 3)
    assert znode.judge(StoredOffset(7, 4), 6) is Verdict.CARRY
    znode.both_have(StoredOffset(7, 4))
    assert znode.judge(StoredOffset(8, 5), 6) is Verdict.OURS  # of a later commit nobody was told that


def test_what_has_come_back_is_written_once_more() -> None:
    znode = _stands()
    znode.log_moved()
    assert znode.to_write(5) == StoredOffset(5, 3)
    assert znode.is_owed(5)
    znode.attempt(StoredOffset(5, 3))
    assert znode.is_owed(5), "nobody knows yet"
    assert znode.judge(StoredOffset(7, 5), 5) is Verdict.OURS, "it may not have been, and somebody wrote twice"
    assert znode.judge(StoredOffset(7, 4), 5) is Verdict.OURS, "somebody else was faster"
    znode.both_have(StoredOffset(5, 4))
    assert znode.to_write(5) is None
    assert not znode.is_owed(5)


def test_what_was_not_written_is_as_it_was_before() -> None:
    znode = _stands()
    znode.log_moved()
    znode.attempt(StoredOffset(6, 3))
    znode.not_attempted(moved=True)
    assert znode.judge(StoredOffset(7, 4), 5) is Verdict.OURS, "it has moved on, and come back"
    assert znode.to_write(6) == StoredOffset(6, 3)


def test_nothing_is_left_of_what_has_come_and_gone() -> None:
    znode = Znode()
    znode.log_moved()
    assert not znode.neither_has(), "nobody has looked since"
    assert znode.judge(StoredOffset(7, 0), None) is Verdict.OURS
    znode.looked_for()
    assert znode.neither_has()
    assert znode.judge(StoredOffset(7, 0), None) is Verdict.CARRY


def test_what_the_log_has_deleted_is_deleted_there() -> None:
    znode = _stands()
    assert znode.is_to_be_deleted(None)
    assert znode.is_owed(None)
    znode.deleted()
    assert not znode.is_owed(None)
    assert znode.judge(StoredOffset(7, 0), None) is Verdict.CARRY


def test_what_stays_as_consumers_have_come_is_theirs() -> None:
    znode = _stands()
    znode.left()
    assert znode.judge(StoredOffset(5, 3), None) is Verdict.CARRY


def test_it_says_where_it_is() -> None:
    znode = _stands()
    assert str(znode) == "5, version 3, stands there; both had 5 last; what is noted is older"
    znode.said()
    znode.undo(6)
    znode.attempt(StoredOffset(6, 3))
    znode.log_moved()
    assert str(znode) == (
        "5, version 3, stands there; 6, version 4, is noted (WRITES), and not known to have come; both had 5 last; the "
        "log has had another one since; the commit of 6 has failed; what is noted is older"
    )
    znode.deleted()
    assert str(znode) == "nothing is known to stand there; neither had any last; what is noted is older"
    znode.take_note(WrittenValue(7, 0, replaced=-1))
    assert "; 7, version 0, in place of none is noted (STANDS), and not known to have come; " in str(znode)
    assert str(Znode()) == "nothing is known to stand there"
