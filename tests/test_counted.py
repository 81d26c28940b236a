"""One of a thing is not several of it, in the shim's messages and in the pipeline's."""

from __future__ import annotations

import pytest

from pipeline.console import count_shown
from shim.counted import counted


@pytest.mark.parametrize(
    ("count", "what", "expected"),
    [
        (0, "group", "0 groups"),
        (1, "partition", "1 partition"),
        (2, "batch", "2 batches"),
        (1_234, "offset", "1,234 offsets"),
    ],
)
def test_counts(count: int, what: str, expected: str) -> None:
    assert counted(count, what) == count_shown(count, what) == expected
