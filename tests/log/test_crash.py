"""Crashes at any call, of the process or of the machine: what was acknowledged is there, and nothing else is.

And the proof that it would be noticed: with any one sync left out, something is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from shim.log.errors import LogError
from tests.log.crashing import DataDirLives, Lives
from tests.log.sync_sites import CallPath, Site, sites, watching

KINDS = (Lives, DataDirLives)
LIVES = 4
SHORT = 150
SEEDS_FOR_A_PROOF = 6_000
PROVED_BEFORE = (23, 33, 44, 49, 68, 83, 103, 6, 9, 13, 153, 158, 168, 243, 451, 723, 51125)
"""Seeds that have found what few others do, tried first: ten seconds less for the rarest. Where the code is another one
by now, and they find nothing, the others do."""
ELSEWHERE = frozenset({"cleaner", "cleaning", "compaction", "names", "retention", "shares", "snapshot", "swap"})
"""Modules with tests of their own."""
NOT_PROVED = frozenset({"open_share", "open_to_move"})
"""Functions of which these lives have none: a share of a directory (test_shares.py proves it), and a directory whose
partitions are moved (tests/relocation/test_power.py has the power fail there, between steps alone)."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("kind", KINDS)
def test_crashes(kind: type[Lives] | type[DataDirLives]) -> None:
    crashes = 0
    for seed in range(SHORT):
        lives = kind(seed)
        lives.run(LIVES)
        crashes += lives.crashes
    assert crashes == SHORT * LIVES


@pytest.mark.soak
@pytest.mark.parametrize("first_seed", range(500, 40_500, 1_000))
@pytest.mark.parametrize("kind", KINDS)
def test_many_crashes(kind: type[Lives] | type[DataDirLives], first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 1_000):
        kind(seed).run(LIVES)


@pytest.fixture(scope="module")
def paths() -> set[CallPath]:
    """Every way that led to a sync in some lives."""
    watched = watching()
    for seed in range(100):
        for kind in KINDS:
            kind(seed, watched).run(LIVES)
    return watched.seen


@pytest.mark.parametrize("site", [site for site in sites(ELSEWHERE) if site.function not in NOT_PROVED], ids=str)
def test_no_sync_can_be_left_out(site: Site, paths: set[CallPath]) -> None:
    through = sorted(path for path in paths if (path.module, path.line) == (site.module, site.line))
    assert through, "nothing that is tested here comes by this sync"
    for path in through:
        assert any(loses(path, seed) for seed in (*PROVED_BEFORE, *range(SEEDS_FOR_A_PROOF))), f"not missed: {path}"


def loses(path: CallPath, seed: int) -> bool:
    try:
        for kind in KINDS:
            kind(seed, watching(path)).run(LIVES)
    except (AssertionError, LogError):
        return True
    return False
