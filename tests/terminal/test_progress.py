"""Progress where no terminal is: a line every five seconds."""

from __future__ import annotations

import io
import os
import re
from typing import IO

from shim.terminal.progress import Ongoing


def test_a_line_every_five_seconds() -> None:
    now = 0.0
    said = io.StringIO()
    with Ongoing("reading", 200, stream=said, clock=lambda: now) as ongoing:
        ongoing.advance(10)
        now = 5.0
        ongoing.advance(10)
        now = 6.0
        ongoing.advance(100)
        now = 11.0
        ongoing.so_far(300)
    assert said.getvalue().splitlines() == ["reading: 10 %", "reading: 100 %"]


def test_where_the_total_is_not_known_yet() -> None:
    now = 0.0
    said = io.StringIO()
    with Ongoing("reading", None, stream=said, clock=lambda: now) as ongoing:
        now = 5.0
        ongoing.so_far(1_200)
        now = 10.0
        ongoing.so_far(1_200, 2_400)
    assert said.getvalue().splitlines() == ["reading: 1,200", "reading: 50 %"]


def test_a_bar_on_a_terminal_that_does_not_go_back() -> None:
    ours, terminal = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as seen:
        with os.fdopen(terminal, "w") as stream, Ongoing("reading", None, stream=stream) as ongoing:
            ongoing.so_far(10, 20)
            ongoing.so_far(10, 40)  # another stage has begun
            ongoing.so_far(40, 40)
        drawn = b"".join(iter(lambda: _read(seen), b"")).decode()
    shares = [int(each) for each in re.findall(r"(\d+) %", drawn)]
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert drawn.index("reading") < drawn.index("%")
    assert drawn.endswith("\x1b[2K"), "nothing is left of it"


def _read(terminal: IO[bytes]) -> bytes:
    try:
        return terminal.read(4096)
    except OSError:  # the other side is closed
        return b""
