"""The offset table alone."""

from shim.coordinator.offsets import CommittedOffset, OffsetTable


def committed(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, 3, "m", 1_000)


def test_set_get_replace_delete() -> None:
    table = OffsetTable()
    assert table.get("g", "t", 0) is None
    table.set("g", "t", 0, committed(1))
    table.set("g", "t", 0, committed(2))
    assert table.get("g", "t", 0) == committed(2)
    assert table.get("g", "t", 1) is None
    assert table.get("g", "u", 0) is None
    assert table.get("h", "t", 0) is None
    table.delete("g", "t", 1)
    table.delete("g", "u", 0)
    table.delete("h", "t", 0)
    assert len(table) == 1
    table.delete("g", "t", 0)
    assert table.get("g", "t", 0) is None
    assert len(table) == 0


def test_groups_and_topics_without_offsets_are_gone() -> None:
    table = OffsetTable()
    table.set("g", "t", 0, committed(1))
    table.set("g", "u", 7, committed(2))
    table.set("g", "t", 1, committed(3))
    table.set("h", "t", 0, committed(4))
    assert table.topics("g") == ("t", "u")
    assert list(table.of_group("g")) == [("t", 0, committed(1)), ("t", 1, committed(3)), ("u", 7, committed(2))]
    table.delete("g", "u", 7)
    assert table.topics("g") == ("t",)
    table.delete("g", "t", 0)
    table.delete("g", "t", 1)
    assert not table.has_offsets("g")
    assert list(table.of_group("g")) == []
    assert table.has_offsets("h")
