"""How far work is, and what is waited for, on standard error: on a terminal while it lasts, else in lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

import click

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status

_LINE_EVERY_S: Final = 5.0
_WAITING_AFTER_S: Final = 3.0
_ALL: Final = Fraction(1)


class Ongoing:
    """One stretch of work, while it is under way: a bar on a terminal, else a line every five seconds."""

    def __init__(
        self,
        what: str,
        total: int | None,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``total`` is in whatever :meth:`advance` is told in; None while it is not known."""
        self._what = what
        self._total = total
        self._stream = stream or sys.stderr
        self._clock = clock
        self._done = 0
        self._share = Fraction(0)
        self._next_line = 0.0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._bar = _started_bar(self._what, self._stream, known=self._total is not None)
        else:
            self._next_line = self._clock() + _LINE_EVERY_S
        return self

    def advance(self, done: int) -> None:
        self.so_far(self._done + done)

    def so_far(self, done: int, total: int | None = None) -> None:
        """``total``: where more of it has become known; what is shown does not go back for that."""
        self._done = done
        self._total = self._total if total is None else total
        if self._total is not None:
            self._share = max(
                self._share, min(Fraction(done, self._total), Fraction(1)) if self._total else Fraction(1)
            )
        if self._bar is not None:
            known = None if self._total is None else 1.0
            self._bar.update(self._bar.task_ids[0], completed=float(self._share), total=known)
        elif (now := self._clock()) >= self._next_line:
            so_far = f"{done:,}" if self._total is None else f"{int(100 * self._share)} %"
            print(f"{self._what}: {so_far}", file=self._stream, flush=True)
            self._next_line = now + _LINE_EVERY_S

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _started_bar(what: str, stream: TextIO, *, known: bool) -> Progress:
    # Only now: `serve` and most commands do without.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(file=stream), transient=True)
    bar.add_task(what, total=1.0 if known else None)
    bar.start()
    return bar


class Waiting:
    """Says what is waited for, once that takes some seconds: on a terminal for as long as it lasts, else in a line."""

    def __init__(self, what: str) -> None:
        """``what``: behind `waiting for`."""
        self._line = f"waiting for {what}"
        self._status: Status | None = None
        self._timer = threading.Timer(_WAITING_AFTER_S, self._tell)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def _tell(self) -> None:
        if sys.stderr.isatty():
            # Only now: whoever is answered soon does without.
            from rich.console import Console
            from rich.status import Status
            from rich.text import Text

            self._status = Status(Text(self._line), console=Console(stderr=True))
            self._status.start()
        else:
            click.echo(self._line, err=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._timer.join()  # it may be about to tell
        if self._status is not None:
            self._status.stop()
