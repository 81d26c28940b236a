"""The page: whole, self-contained, and readable on a desk and on a phone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest

from pipeline.audit.report import Shown, page
from pipeline.audit.summary import LAG_BUCKETS, Totals
from pipeline.audit.words import PAIRS, Verdict

HOSTILE: Final = '</td><script>alert("1")</script>\x1b[2J&amp;\u202e'
_VOID: Final = frozenset({"meta", "input", "br"})
_TIME: Final = datetime(2026, 11, 23, 10, 0, 0)  # as PySpark gives them


class Parsed(HTMLParser):
    """Raises AssertionError for tags that do not close as they opened."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["script"], ["style"]):
            self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def row(group: str, partition: int, **fields: Any) -> Mapping[str, Any]:
    made = {
        "group": group,
        "topic": "orders",
        "partition": partition,
        "step": "kafka+dual",
        "zookeeper": 4,
        "log": 5,
        "upstream": 5,
        "lag": 4,
        "zookeeper_log": "behind",
        "upstream_log": "equal",
        "zookeeper_upstream": None,
        "mtime": _TIME,
        "zookeeper_read": _TIME,
        "log_read": _TIME,
        "upstream_read": None,
        "problem": None,
    }
    return {**made, **fields}


def shown(*differences: Mapping[str, Any]) -> Shown:
    verdicts = {pair.column: dict.fromkeys(map(str, Verdict), 0) for pair in PAIRS}
    for each in differences:
        for pair in PAIRS:
            if each[pair.column]:
                verdicts[pair.column][each[pair.column]] += 1
    names = dict.fromkeys(each["group"] for each in differences)
    groups = [
        {
            "group": name,
            "step": "kafka+dual",
            **dict.fromkeys(["partitions", "zookeeper", "log", "upstream"], 3),
            **dict.fromkeys(["differing", "moving", "lag"], 1),
        }
        for name in names
    ]
    totals = Totals(
        groups=40, partitions=2_000, differing_groups=len(groups), differences=len(differences), moving=2,
        looked_again=60, outside=1, lag=123_456, verdicts=verdicts, lags={name: 3 for name, _, _ in LAG_BUCKETS},
        steps={"kafka+dual": 40}, read={"log": ("2026-11-23T10:00:00.000Z", "2026-11-23T10:00:01.000Z")},
        left_out_groups=1, left_out_partitions=3,
    )  # fmt: skip
    left_out = [{"group": "gone", "step": "kafka", "partitions": 3, "why": "only zookeeper has it"}]
    sources = {"zookeeper": "zk:2181/kafka", "log": "shim:19092", "upstream": "kafka:9092"}
    return Shown(
        "2026-11-23T10:00:00Z", sources, totals, groups, differences, left_out, {"offsets.parquet": "all"}, 3.0
    )


def test_it_loads_nothing_from_anywhere() -> None:
    text = page(shown(row("billing", 0)))
    parsed = Parsed(text)
    for tag, attributes in parsed.tags:
        assert not {"src", "href", "srcset", "action"} & attributes.keys(), tag
    assert "url(" not in text
    assert "@import" not in text
    assert any("default-src 'none'" in (each.get("content") or "") for each in parsed.of("meta"))


def test_it_says_what_differs() -> None:
    text = page(shown(row("billing", 3), row("etl", 0, zookeeper=None, zookeeper_log="missing")))
    parsed = Parsed(text)
    said = " ".join(" ".join(parsed.text).split())
    assert "2 of 2,000 partitions differ, in 2 groups" in said
    assert [each["data-verdicts"] for each in parsed.of("tr") if "data-verdicts" in each] == [
        "behind|equal",
        "missing|equal",
    ]
    assert "billing orders 3 kafka+dual 4 5 5 zookeeper behind / log" in said
    assert len(parsed.of("svg")) >= 2 + len(LAG_BUCKETS)
    assert all(each["aria-label"] for each in parsed.of("svg"))


def test_names_that_others_chose_are_only_names() -> None:
    parsed = Parsed(page(shown(row(HOSTILE, 0, topic=HOSTILE, problem=HOSTILE))))
    assert len(parsed.of("script")) == 1
    assert any("alert(" in each for each in parsed.text), "it is shown"
    assert "\x1b" not in "".join(parsed.text)
    assert "\u202e" not in "".join(parsed.text)


def test_without_differences_there_is_no_table_to_filter() -> None:
    parsed = Parsed(page(shown()))
    assert "All places agree about 40 groups" in " ".join(parsed.text)
    assert [each["id"] for each in parsed.of("table")] == ["left-out"]
    assert not parsed.of("input")
    assert "gone kafka 3 only zookeeper has it" in " ".join(" ".join(parsed.text).split())


def test_one_in_a_million_is_seen_in_the_chart() -> None:
    made = shown(row("billing", 0))
    verdicts = {
        **made.totals.verdicts,
        "zookeeper_log": {**dict.fromkeys(map(str, Verdict), 0), "equal": 10**6, "behind": 1},
    }
    parsed = Parsed(page(made._replace(totals=made.totals._replace(verdicts=verdicts))))
    (behind,) = [each for each in parsed.of("rect") if each["class"] == "v-behind"]
    assert float(behind["width"] or 0) > 5


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on the path")
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it_without_a_scroll_bar_at_the_side(tmp_path: Path, width: int) -> None:
    """The filter's script has run in it, too: it says how many rows are shown."""
    file = tmp_path / "report.html"
    probe = "<script>document.title = [document.documentElement.scrollWidth, innerWidth].join(' of ')</script></body>"
    differences = [row(f"billing-{'long' * 20}", number) for number in range(30)]
    file.write_text(page(shown(*differences)).replace("</body>", probe), encoding="utf-8")
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         f"--window-size={width},900", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    dom = done.stdout
    wide, _, room = dom.partition("<title>")[2].partition("</title>")[0].partition(" of ")
    assert int(wide) <= int(room)
    assert "30 of 30 shown" in dom
