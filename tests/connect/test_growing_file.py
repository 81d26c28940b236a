"""What the other tests here judge by."""

from pathlib import Path

import pytest

from tests.connect.growing_file import GrowingFile, first_left_out, gone_back, whole_lines


@pytest.mark.parametrize(
    ("came", "given", "found"),
    [
        ("abcd", "abcd", (4, 4)),
        ("abcbcd", "abcd", (3, 1)),
        ("abcdabcd", "abcd", (4, 0)),
        ("abcdd", "abcd", (4, 3)),
        ("aabcd", "abcd", (1, 0)),
        ("abababx", "ababx", (4, 2)),  # what there is twice anyway
        ("", "", (0, 0)),
        ("abd", "abcd", None),
        ("abc", "abcd", None),
        ("abdcd", "abcd", None),
        ("abcd", "abxd", None),
        ("abdabcd", "abcd", None),
        ("ababcbcd", "abcd", None),  # twice
    ],
)
def test_where_lines_come_again(came: str, given: str, found: tuple[int, int] | None) -> None:
    assert gone_back(came, given) == found


@pytest.mark.parametrize(
    ("numbers", "found"),
    [((), None), ((0, 1, 2), None), ((0, 1, 0, 1, 2, 1, 2, 3), None), ((1,), 0), ((0, 1, 3), 2), ((0, 1, 0, 2, 4), 3)],
)
def test_what_is_left_out(numbers: tuple[int, ...], found: int | None) -> None:
    assert first_left_out([f"{number} text" for number in numbers]) == found


def test_a_file_grows_by_whole_numbered_lines(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "file", 1)
    file.add(3)
    with file:
        while len(whole_lines(file.path)) < 100:
            pass
    assert whole_lines(file.path) == file.lines
    assert [int(line.split(" ")[0]) for line in file.lines] == list(range(len(file.lines)))
    with file.path.open("a") as unfinished:
        unfinished.write("1000 ab")
    assert whole_lines(file.path) == file.lines
