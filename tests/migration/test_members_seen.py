"""When members were last heard of: the oldest are forgotten first, and only as many as have to be."""

from __future__ import annotations

import pytest

from shim.migration.hands import members_seen
from shim.migration.hands.members_seen import MembersSeen


def test_who_goes_on_is_not_forgotten_for_those_who_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members_seen, "_MOST", 3)
    seen = MembersSeen()
    for member in ("alive", "gone", "other"):
        seen.saw("billing", member, 1)
    seen.saw("billing", "alive", 2)
    seen.saw("billing", "new", 1)
    assert seen.seen("billing", "gone", 60) is None
    assert [found.generation for each in ("alive", "other", "new") if (found := seen.seen("billing", each, 60))] == [
        2,
        1,
        1,
    ]
