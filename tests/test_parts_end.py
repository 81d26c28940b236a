"""When the parts that serve many tests end: none costs anything behind the last folder that uses it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

import pytest

from tests.conftest import ends_behind


class Item(NamedTuple):
    nodeid: str
    path: Path
    fixturenames: tuple[str, ...] = ()


def test_a_part_ends_with_the_last_folder_that_uses_it() -> None:
    tests = [
        Item("a/x", Path("a/test_1.py"), ("broker", "_broker")),
        Item("b/x", Path("b/test_1.py"), ("cluster", "_cluster", "_broker")),
        Item("b/y", Path("b/test_2.py")),  # what that folder shares may use it still
        Item("c/x", Path("c/test_1.py"), ("broker",)),  # one of its own
        Item("b/below/x", Path("b/below/test_1.py"), ("zookeeper", "_zookeeper")),
    ]
    ends = ends_behind([cast(pytest.Item, each) for each in tests])
    assert ends == {"b/y": ["_broker", "_cluster"], "b/below/x": ["_zookeeper"]}
