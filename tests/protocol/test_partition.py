import pytest

from protocol.partition import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("test-group", 627841412),
        ("hello", 99162322),
        ("größe", 98762257),
        ("\U0001f600", 1772899),  # two UTF-16 units
        ("polygenelubricants", -(2**31)),
        ("the quick brown fox jumps over the lazy dog", -2082818701),
    ],
)
def test_java_hash(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_partitions() -> None:
    assert partition_for("test-group", 50) == 12
    assert partition_for("the quick brown fox jumps over the lazy dog", 50) == 1
    # abs(Integer.MIN_VALUE) is taken to be 0.
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("anything", 1) == 0
