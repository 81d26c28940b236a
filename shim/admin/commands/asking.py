"""What a running shim is asked about groups, and what it answers of each."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import NamedTuple

import click

from shim.admin.admin_client import Answers, RunningShim, in_parts
from shim.admin.commands.console import Failed, Refused
from shim.admin.errors import BrokenOff, Declined, NotDone, NotOffered
from shim.admin.live.shown.documents import Row
from shim.admin.progress import Advancing
from shim.terminal.progress import Ongoing, Waiting


@contextmanager
def of_one_group() -> Iterator[None]:
    """Of commands that ask about one: that it is refused ends them with the status that it has as one of many. Raises
    Failed then."""
    try:
        yield
    except Declined as error:
        if error.status == HTTPStatus.CONFLICT:
            raise Failed(str(error)) from error
        raise


class Chosen(NamedTuple):
    """Groups as they were given; none and no pattern: all."""

    names: tuple[str, ...]
    pattern: str | None

    @property
    def question(self) -> Row:
        """For what is not given by name."""
        return {"all": True} if self.pattern is None else {"pattern": self.pattern}


def chosen(groups: Sequence[str], pattern: str | None, all_wanted: bool, *, otherwise_all: bool) -> Chosen:
    """Raises UsageError where more than one way is taken to name groups, or none and not ``otherwise_all``."""
    ways = bool(groups) + (pattern is not None) + all_wanted
    if ways > 1:
        raise click.UsageError("Give groups by name, or --pattern, or --all: one of them.")
    if not ways and not otherwise_all:
        raise click.UsageError("Which groups? Name them, or give --pattern or --all.")
    return Chosen(tuple(dict.fromkeys(groups)), pattern)


class Done(NamedTuple):
    """``rows``: of the groups with which all went well; ``not_done``: the others; ``broken_off``: why there are no
    more, None where these are all; ``unanswered``: a line for each broker that may have more, and has not answered;
    ``left_alone``: see :class:`Answers`."""

    rows: list[Row]
    not_done: list[Row]
    broken_off: BrokenOff | None
    unanswered: Sequence[str] = ()
    left_alone: Sequence[Row] = ()


def done_of(
    shim: RunningShim,
    what: str,
    path: str,
    choice: Chosen,
    more: Row | None = None,
    *,
    look: str | None = None,
    waiting_for: str | None = None,
) -> Done:
    """Has the shim do it, and shows how far it is: in parts of all, or, where there is but one, ``waiting_for`` what,
    if that takes long. ``more``: what is asked besides. ``look``: of what changes groups, the command that shows what
    became of it. Raises NotDone where it does not even begin."""
    done = Done([], [], None)
    try:
        answers = _answers(shim, path, choice, more or {}, look)
        done = done._replace(unanswered=answers.unanswered, left_alone=answers.left_alone)
        with Ongoing(what, answers.groups) if waiting_for is None else Waiting(waiting_for) as ongoing:
            done = done._replace(broken_off=_sorted_out(answers.rows, done, ongoing))
    except BrokenOff as error:
        done = done._replace(broken_off=error)
    except KeyboardInterrupt:
        hint = "" if look is None else f": look with `{look}`"
        why = f"stopped; groups under way are brought to an end, no others begun{hint}"
        done = done._replace(broken_off=BrokenOff(why))
    return done._replace(rows=sorted(done.rows, key=_name), not_done=sorted(done.not_done, key=_name))


def _answers(shim: RunningShim, path: str, choice: Chosen, more: Row, look: str | None) -> Answers:
    if not choice.names:
        return shim.post(path, {**choice.question, **more}, look)
    parts = in_parts(choice.names)
    # The first is asked for now: where there is no shim, nothing has begun.
    first = shim.post(path, {"groups": next(parts), **more}, look).rows
    rest = (shim.post(path, {"groups": part, **more}, look).rows for part in parts)
    return Answers(len(choice.names), itertools.chain(first, itertools.chain.from_iterable(rest)))


def _sorted_out(rows: Iterable[Row], done: Done, ongoing: Advancing | None) -> BrokenOff | None:
    """Why it broke off, or None."""
    try:
        for row in rows:
            if "error" in row:
                done.not_done.append(row)  # and no step towards 100 %, of which it would be the last line
            else:
                done.rows.append(row)
                if ongoing is not None:
                    ongoing.advance(1)
    except (BrokenOff, NotDone) as error:
        return BrokenOff(str(error))
    return None


def _name(row: Row) -> str:
    return str(row["group"])


def refuse_misspelt(shim: RunningShim, choice: Chosen, done: Done) -> None:
    """Raises Refused where there was nothing because no group that is known fits the pattern."""
    fits = choice.pattern is None or done.rows or done.not_done or done.unanswered or done.broken_off is not None
    if not fits and not shim.get("/v1/groups", [("pattern", str(choice.pattern))])["groups"]:
        raise Refused(f"no group fits {choice.pattern}")


def overview_of(shim: RunningShim) -> Row:
    """With what an older shim does not tell: it has all partitions, and its log in one place."""
    try:
        whole: Row = shim.get("/v1/overview")
    except NotOffered:
        whole = {"partitions": 0}
    return {"owned": whole["partitions"], "others": [], "log_moves": False, **whole}
