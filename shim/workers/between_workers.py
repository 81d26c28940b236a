"""Forwarding between the workers of one shim: each has a socket beside what it notes, and knows who has what."""

from __future__ import annotations

from pathlib import Path

from shim.config import Settings
from shim.counted import counted
from shim.forwarding import Peer
from shim.forwarding.between import Between, Way
from shim.forwarding.over_unix import UnixPort, dial_over_unix, of_this_user
from shim.log import Share
from shim.workers_folder import requests_path


def between_workers(data_dir: Path, share: Share, settings: Settings) -> Between:
    def owner_of(partition: int) -> Peer | None:
        return None if share.has(partition) else requests_path(data_dir, share.holder(partition))

    path = requests_path(data_dir, share.number)
    names: dict[Peer, str] = {requests_path(data_dir, number): f"worker {number}" for number in range(share.of)}
    way = Way(
        owner_of,
        dial_over_unix,
        lambda: f"{data_dir}, {counted(share.of, 'worker')}",
        f"worker {share.number}",
        str(path),
        lambda server: UnixPort(server, path),
        of_this_user,
        [requests_path(data_dir, number) for number in range(share.of) if number != share.number],
        names.__getitem__,
    )
    return Between(way, settings)
