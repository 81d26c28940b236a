"""How an application may say where the shim is."""

from __future__ import annotations

from typing import Any

import pytest

from shim.client import ConditionalCommits


@pytest.mark.parametrize(
    ("server", "address"),
    [
        (("shim", 19092), ("shim", 19092)),
        (("::1", 19092), ("::1", 19092)),
        ("shim:19092", ("shim", 19092)),
        (" 127.0.0.1:1 ", ("127.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_it_connects_there(server: tuple[str, int] | str, address: tuple[str, int]) -> None:
    def connect(to: tuple[str, int]) -> Any:
        raise ConnectionRefusedError(str(to))

    with pytest.raises(ConnectionRefusedError) as refused:
        ConditionalCommits(server, "g", connect=connect).commit({})
    assert str(refused.value) == str(address)


@pytest.mark.parametrize(
    "server",
    [
        "", "shim", ":19092", "shim:", "shim:0", "shim:65536", "shim:-1", "shim:x", "shim:\u00b2", "[]:1", "::1:19092",
        "one:1,two:2", (), ("shim",), ("shim", "19092"), ("", 1), ("shim", 0), ("shim", 65536), ("a", 1, 2), None, 7,
    ],
)  # fmt: skip
def test_what_is_no_server(server: Any) -> None:
    with pytest.raises(ValueError, match="is no server: expected one"):
        ConditionalCommits(server, "g")
