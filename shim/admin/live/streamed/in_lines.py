"""Work on many groups, told a line at a time: what is done of it is known whatever becomes of the rest.

The lines: first ``{"groups": <count>}``, and what is to be said of all of them, then one for each group as it is done,
at last ``{"done": <count>}``: without that one the stream was cut off. Between them, while nothing is done, empty ones:
each side sees that the other lives.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

from aiohttp import web

from shim.admin.live.asked.groups import NotCertain
from shim.admin.live.asked.migration import NotKnown, Refused
from shim.admin.live.asked.shim import NotReady
from shim.admin.live.over_http.sending import Sending
from shim.admin.live.shown.documents import LINES, Row, encoded, one_line
from shim.admin.live.shown.migration_rows import failed_row, refused_row
from shim.counted import counted

log = logging.getLogger(__name__)

BEAT_SECONDS: Final = 5.0

_SIDE_BY_SIDE: Final = 8

Step = Callable[[Sequence[str]], Awaitable[Sequence[Row]]]
"""Of some groups, the row of each. Raises Refused, NotKnown, NotReady, NotCertain and TimeoutError for all of them."""


async def in_lines(
    request: web.Request,
    groups: Sequence[str],
    step: Step,
    *,
    together: int = 1,
    stopping: asyncio.Event,
    more: Row | None = None,
    changes: bool = False,
) -> web.StreamResponse:
    """Answers with a line for each of ``groups``: as many ``together`` in a step, of which one follows another, or
    several steps of one group at a time. ``changes``: something is changed; the log has of which group it was not.

    Once whoever has asked is gone, or the shim is ``stopping``, no step begins. Those under way go on to their end, or
    for two seconds where the shim stops; what fails of them is in the log.
    """
    lines = Sending(request, LINES)
    await lines.begin()
    await lines.send(_line({"groups": len(groups), **(more or {})}))
    steps = _parts(groups, together)
    done = 0

    async def take_steps() -> None:
        nonlocal done
        for part in steps:
            if lines.gone or stopping.is_set():
                return
            for row in await _rows(part, step):
                done += 1
                told = await lines.send(_line(row))
                if "error" not in row:
                    continue
                about = f"group {row['group']}: "
                said = f"{about}{row['kind']}: {one_line(row['error']).removeprefix(about)}"
                if not told:
                    log.warning("%s: whoever asked has gone and is not told: %s", request.path, said)
                elif changes:  # the message is the event: none is left out for others
                    log.info("%s", f"{request.path}: {said}")
            await asyncio.sleep(0)  # clients of the shim have their turn, even if no step has waited

    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(_beat(lines))
        await asyncio.gather(*(tasks.create_task(take_steps()) for _ in range(_SIDE_BY_SIDE if together == 1 else 1)))
        beating.cancel()
    if done < len(groups):
        why = "the shim stops" if stopping.is_set() else "whoever asked has gone"
        log.info("%s: %s, of %s not begun: %d", request.path, why, counted(len(groups), "group"), len(groups) - done)
    else:
        await lines.send(_line({"done": done}))
    return await lines.end()


async def _beat(lines: Sending) -> None:
    """An empty line again and again, until it is cancelled."""
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        await lines.send(b"\n")


def _line(row: Row) -> bytes:
    return encoded(row) + b"\n"


def _parts(groups: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (groups[at : at + size] for at in range(0, len(groups), size))


async def _rows(groups: Sequence[str], step: Step) -> Iterable[Row]:
    """One for each of ``groups``."""
    try:
        rows = {row["group"]: row for row in await step(groups)}
    except (Refused, NotKnown) as error:
        if len(groups) == 1:
            return [refused_row(groups[0], error)]
        # It may be for one of them alone.
        return itertools.chain.from_iterable([await _rows((group,), step) for group in groups])
    except TimeoutError:
        return [failed_row(group, "no answer in time") for group in groups]
    except (NotReady, NotCertain) as error:
        return [failed_row(group, one_line(error)) for group in groups]
    except Exception:
        log.exception("groups of the admin interface: %d, the first %r", len(groups), groups[0])
        return [failed_row(group, "failed, the shim's log says why") for group in groups]
    return [rows.get(group) or refused_row(group, NotKnown()) for group in groups]
