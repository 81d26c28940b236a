"""The page of what `make soak` found."""

from __future__ import annotations

from tests.soak import PASSED, Result, merged, page_of, rows_of, rows_of_run

KILLED = "tests/crash/test_kill.py::test_killed"
BROKEN = "tests/log/test_damage.py::test_damage"


def passed(seconds: float) -> Result:
    return Result(outcome=PASSED, seconds=seconds)


def test_a_line_is_of_the_newest_run_of_all_parameters() -> None:
    before = page_of(rows_of_run({f"{KILLED}[1]": passed(1), BROKEN: passed(2)}, "2026-11-28, aaaaaaa"), "a machine")
    run = rows_of_run(
        {f"{KILLED}[1]": passed(1000), f"{KILLED}[2]": Result(outcome="FAILED (exit status 1)", seconds=234)},
        "2026-11-29, bbbbbbb",
    )
    rows = rows_of(page_of(rows_of(before) | run, "another"))
    assert rows[KILLED] == (KILLED, 2, 1, 1234.0, "2026-11-29, bbbbbbb")
    assert rows[BROKEN] == (BROKEN, 1, 0, 2.0, "2026-11-28, aaaaaaa")


def test_a_failure_is_not_forgotten_for_a_part_of_it_that_passes() -> None:
    failed = Result(outcome="FAILED (exit status 1)", seconds=1)
    before = rows_of_run({f"{KILLED}[1]": failed, f"{KILLED}[2]": passed(1)}, "2026-11-28, aaaaaaa")
    part = rows_of_run({f"{KILLED}[2]": passed(1)}, "2026-11-29, bbbbbbb")
    assert merged(before, part) == before
    whole = rows_of_run({f"{KILLED}[1]": passed(1), f"{KILLED}[2]": passed(1)}, "2026-11-29, bbbbbbb")
    assert merged(before, whole) == whole


def test_the_page_is_read_as_it_was_written() -> None:
    rows = rows_of_run({f"{KILLED}[a|b]": passed(1), "tests/x.py, 50 times as many examples": passed(2)}, "today, c")
    assert rows_of(page_of(rows, "a machine")) == rows
