"""The alert rules, judged by Prometheus's own tool: each fires where it should, and not where it should not."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.packaging.files import DEPLOY, yaml_documents

RULES: Final = DEPLOY / "prometheus" / "alerts.yml"
CASES: Final = Path(__file__).with_name("alerts.test.yml")

needs_promtool: Final = pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on the path")


def promtool(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60)


def alerts() -> set[str]:
    (document,) = yaml_documents(RULES)
    return {rule["alert"] for group in document["groups"] for rule in group["rules"]}


def cases() -> list[dict[str, Any]]:
    (document,) = yaml_documents(CASES)
    return [case for test in document["tests"] for case in test["alert_rule_test"]]


def test_there_is_a_case_of_each_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    assert {case["alertname"] for case in cases() if case["exp_alerts"]} == alerts()
    assert {case["alertname"] for case in cases() if not case["exp_alerts"]} == alerts()


@needs_promtool
def test_each_fires_and_does_not() -> None:
    told = promtool(CASES)
    assert told.returncode == 0, told.stdout + told.stderr


@needs_promtool
def test_a_rule_that_cannot_fire_is_found(tmp_path: Path) -> None:
    rules = RULES.read_text()
    one_sided = re.sub(r"ignoring \(state\) ", "", rules)
    assert one_sided != rules
    (tmp_path / RULES.name).write_text(one_sided)
    (tmp_path / CASES.name).write_text(CASES.read_text().replace("../../deploy/prometheus/", ""))
    told = promtool(tmp_path / CASES.name)
    assert told.returncode != 0
    assert "OffsetShimGroupUnstable" in told.stdout + told.stderr
