"""At which step each group is, asked at the shims' admin ports (docs/admin.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from pipeline.audit.verdicts import NOT_KNOWN
from pipeline.audit.words import CannotRead
from shim.admin.admin_client import RunningShim, in_parts
from shim.admin.errors import BrokenOff, Declined, NotDone
from shim.admin.live.asked.migration import NotKnown
from shim.admin.live.shown import migration_rows
from shim.admin.live.shown.documents import Row
from shim.counted import counted


def steps_of_groups(shims: Sequence[RunningShim], groups: Collection[str]) -> dict[str, str]:
    """Of each of ``groups``, such as ``kafka+dual``; NOT_KNOWN of one that the shim with its partition has not heard
    of. ``shims``: those that share the log. Raises :class:`CannotRead`, also where a group's partition is at none of
    them."""
    told = {row["group"]: row for shim in shims for row in _of_all(shim)}
    steps = {group: migration_rows.step_of(told[group]) for group in groups if group in told}
    left = [group for group in groups if group not in steps]
    why = ""
    # One that was not told of nobody has heard of, or it is another shim's, or came to another one meanwhile.
    for shim in shims:
        for row in _of_these(shim, left):
            if "error" not in row:
                steps[row["group"]] = migration_rows.step_of(row)
            elif row["kind"] == migration_rows.NOT_KNOWN:
                steps[row["group"]] = NOT_KNOWN
            else:
                why = _line(shim, row)
        left = [group for group in left if group not in steps]
    if left:
        raise CannotRead(
            f"{counted(len(left), 'group')} of which no step is known: {why}. "
            "Of shims that share a log --admin takes all: H:P,H:P"
        )
    return steps


def _line(shim: RunningShim, row: Row) -> str:
    about = f"group {row['group']}: "
    return f"{_at(shim)}: {about}{row['error'].removeprefix(about)}"


def _at(shim: RunningShim) -> str:
    return f"the shim's admin port at {shim.address}"


def _of_all(shim: RunningShim) -> Iterator[Row]:
    """All that it has heard of. Raises CannotRead also where it does not serve some of its partitions."""
    with _cannot_read(shim):
        answers = shim.post("/v1/migrate/status", {"all": True})
        if answers.unanswered:
            raise CannotRead(f"{_at(shim)}: not all groups are known: {'; '.join(answers.unanswered)}")
        for row in answers.rows:
            if "error" in row:
                raise CannotRead(_line(shim, row))
            yield row


def _of_these(shim: RunningShim, groups: Sequence[str]) -> Iterator[Row]:
    with _cannot_read(shim):
        for part in in_parts(groups):
            yield from shim.post("/v1/migrate/status", {"groups": part}).rows


@contextmanager
def _cannot_read(shim: RunningShim) -> Iterator[None]:
    """What the shim does not answer, as CannotRead."""
    try:
        yield
    except (Declined, NotKnown) as error:
        raise CannotRead(f"{_at(shim)}: {error}") from error
    except (NotDone, BrokenOff) as error:
        raise CannotRead(str(error)) from error
