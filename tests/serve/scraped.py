"""A running shim's admin port, asked as Prometheus and an orchestrator ask."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.waiting import wait_until

T = TypeVar("T")

_DEADLINE_SECONDS = 30.0


class Scrape:
    """One answer of ``/metrics``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Metric] = {each.name: each for each in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """Of the one sample with these labels; ``name`` without prefix. Raises KeyError where there is none."""
        return self._values[f"offset_shim_{name}", tuple(sorted(labels.items()))]

    def labels(self, name: str) -> list[dict[str, str]]:
        """Of all samples of that name."""
        return [dict(labels) for known, labels in self._values if known == f"offset_shim_{name}"]


class AdminPort:
    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str) -> tuple[int, str]:
        """Status and body. Raises OSError where nobody listens."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=_DEADLINE_SECONDS) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def document(self, path: str) -> tuple[int, Any]:
        status, body = self.get(path)
        return status, json.loads(body)

    def scrape(self) -> Scrape:
        status, body = self.get("/metrics")
        assert status == 200, body
        return Scrape(body)


def until(look: Callable[[], T | None]) -> T:
    """What it gives once that is something; an OSError is nothing. Nobody tells when that is so."""

    def found() -> T | None:
        try:
            return look()
        except OSError:
            return None

    return wait_until(found, "it did not come to that")
