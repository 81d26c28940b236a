"""Who has shown a certificate, as the log tells it: no name is taken for what stands around it."""

from __future__ import annotations

import pytest

from shim.tls import name_told


@pytest.mark.parametrize("name", ["alice", "shim-1.example.org", "Jürgen Groß", "*.example.org", "a@b"])
def test_plain_ones_are_as_they_are(name: str) -> None:
    assert name_told(name) == name


@pytest.mark.parametrize("name", ["", "bob), with the token: {} (x", "a\nb", "a  b", "a'b", "a" * 201])
def test_others_are_quoted(name: str) -> None:
    assert name_told(name) == repr(name[:200])
