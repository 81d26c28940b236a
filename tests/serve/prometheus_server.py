"""A real Prometheus that scrapes one shim, set up with the files of `deploy/`."""

from __future__ import annotations

import json
import math
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from shim.demo.parts import free_port
from shim.demo.parts.process import Child

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
_HOST: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 60.0
_ASK_TIMEOUT_S: Final = 10.0
_LOOKED_BACK_S: Final = 60
_OFTEN: Final = {
    "scrape_interval: 15s": "scrape_interval: 500ms",
    "evaluation_interval: 15s": "evaluation_interval: 500ms",
}
"""What a test cannot wait for."""


class Refused(AssertionError):
    """Prometheus answered with an error; its own words."""


class Prometheus:
    """Its HTTP API (https://prometheus.io/docs/prometheus/2.42/querying/api/)."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, path: str, **parameters: str | float) -> Any:
        """`data` of what it answers. Raises Refused."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=_ASK_TIMEOUT_S) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.read().decode()) from None

    def values(self, query: str, *, now: bool) -> list[float]:
        """All numbers of the answer, of this moment or, as a chart asks, of the last minute."""
        if now:
            return _numbers([each["value"] for each in self.ask("query", query=query)["result"]])
        end = time.time()
        found = self.ask("query_range", query=query, start=end - _LOOKED_BACK_S, end=end, step=1)
        return _numbers([value for each in found["result"] for value in each["values"]])

    def targets(self) -> list[dict[str, Any]]:
        return list(self.ask("targets", state="active")["activeTargets"])

    def rules(self) -> dict[str, dict[str, Any]]:
        """Of alerts, by name."""
        return {rule["name"]: rule for group in self.ask("rules")["groups"] for rule in group["rules"]}


def _numbers(samples: list[tuple[float, str]]) -> list[float]:
    """NaN is what a quantile of nothing is: no data."""
    return [number for _, text in samples if not math.isnan(number := float(text))]


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """It runs on what is in `folder`, and is gone at the end of the block."""
    program = shutil.which("prometheus")
    assert program is not None
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    for shipped, quick in _OFTEN.items():
        assert shipped in config
        config = config.replace(shipped, quick)
    config, replaced = re.subn(r'(targets: )\["[^"]*"\]', rf'\1["{target}"]', config)
    assert replaced == 1
    folder.mkdir()
    (folder / "prometheus.yml").write_text(config)
    shutil.copy(DEPLOY / "prometheus" / "alerts.yml", folder)
    address = f"{_HOST}:{free_port()}"
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    child = Child(command, ready="Server is ready to receive web requests", cwd=folder)
    try:
        child.wait_ready(_START_TIMEOUT_S)
        yield Prometheus(address)
    finally:
        child.stop(_STOP_TIMEOUT_S)
