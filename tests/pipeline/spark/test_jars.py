"""The connector jars: who waits for them is told."""

from __future__ import annotations

from typing import NoReturn

import pytest

from pipeline.errors import CannotRun
from pipeline.spark.jars import SPARK_JARS, jar_files
from shim.demo.parts import PartsUnavailable, jars
from shim.terminal import progress
from tests.waiting import wait_until


def test_who_waits_for_maven_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fetched(_: str) -> NoReturn:
        wait_until(lambda: "waiting for Maven" in capsys.readouterr().err, "a line", 30)
        raise PartsUnavailable("no way to fetch it")

    monkeypatch.setattr(progress, "_WAITING_AFTER_S", 0)
    monkeypatch.setattr(jars, "jar_set", fetched)
    with pytest.raises(CannotRun, match="no way"):
        jar_files(SPARK_JARS)
