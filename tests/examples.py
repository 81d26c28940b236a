"""How many examples the tests of properties have: few, and many in `make soak` (those of hypothesis, and those that are
marked `examples`)."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "EXAMPLES_TIMES"
"""Of the environment: how many times as many."""

_TIMES: Final = int(os.environ.get(VARIABLE, "1"))


def examples(few: int) -> int:
    """``few``: in the short form."""
    return few * _TIMES
