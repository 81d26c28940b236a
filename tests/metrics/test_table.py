"""The table of metrics: Prometheus's rules for names, the documentation, the dashboard and the alert rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.metrics import Kind, Metric, families

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "offset-shim.json"

_METRIC = re.compile(r"\boffset_shim_\w+")
_SELECTOR = re.compile(r"\b(offset_shim_\w+)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_PROMETHEUS_ADDS = {"instance", "le"}


def test_names() -> None:
    names = [metric.full_name for metric in families.ALL]
    assert len(set(names)) == len(names)
    for metric in families.ALL:
        assert re.fullmatch(r"offset_shim_[a-z]+(_[a-z]+)*", metric.full_name)
        assert not re.search(r"_(ms|millis|kb|mb|total|count|sum|bucket)$", metric.name)
        assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)
        assert metric.help.endswith(".")


def test_every_metric_has_its_place() -> None:
    defined = {value for value in vars(families).values() if isinstance(value, Metric)}
    assert set(families.ALL) == defined


def test_documented() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    rows = [
        f"| `{metric.full_name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in families.ALL
    ]
    assert [line for line in text.splitlines() if line.startswith("| `offset_shim_")] == rows


def expressions() -> Iterator[str]:
    found = re.findall(r"^ +expr: (.+)$", RULES.read_text(), re.MULTILINE)
    assert len(found) == RULES.read_text().count("alert:") > 0
    yield from found
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query")


def series() -> dict[str, set[str]]:
    """By what may be asked for, the labels that it has."""
    found = {}
    for metric in families.ALL:
        endings = ("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",)
        found.update({metric.full_name + ending: set(metric.labels) for ending in endings})
    return found


@pytest.mark.parametrize("expression", list(expressions()))
def test_queries_ask_for_what_there_is(expression: str) -> None:
    known = series()
    asked = _METRIC.findall(expression)
    assert asked
    assert set(asked) <= known.keys()
    for name, matchers in _SELECTOR.findall(expression):
        assert set(_LABEL.findall(matchers)) <= known[name] | _PROMETHEUS_ADDS
    labels = set().union(*(known[name] for name in asked)) | _PROMETHEUS_ADDS
    for by in re.findall(r"\bby \(([^)]*)\)", expression):
        assert set(by.replace(" ", "").split(",")) <= labels


def test_the_dashboard_shows_most_of_them() -> None:
    text = DASHBOARD.read_text() + RULES.read_text()
    shown = {metric.full_name for metric in families.ALL if metric.full_name in text}
    assert len(shown) >= 30


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stdout + checked.stderr
