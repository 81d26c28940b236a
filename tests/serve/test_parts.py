"""The parts of a shim, before anything goes on in them."""

from __future__ import annotations

from pathlib import Path

from shim.config import load_configuration
from shim.disk_log.opening import open_log
from shim.given import given_to_serve
from shim.net import Limits
from shim.serve.log_on_disk import Opened
from shim.serve.parts import Parts


async def test_who_is_told_of_changed_settings(tmp_path: Path) -> None:
    """All who can be, whatever is added."""
    needed = ("bootstrap.servers=127.0.0.1:1", "listen=127.0.0.1:1", f"data.dir={tmp_path / 'data'}")
    given = given_to_serve(load_configuration(None, (*needed, "offsets.topic.num.partitions=1")))
    log = open_log(given.data_dir, given.settings)
    parts = Parts(given, Opened(log.data_dir, log), Limits.of(given.settings, 3), {})
    try:
        assert {type(part).__name__ for part in parts.reloadable} == {
            *("Runtime", "OffsetsRetention", "Cluster", "Topics", "Authorizer", "FirstContact")
        }
    finally:
        await parts.close()
