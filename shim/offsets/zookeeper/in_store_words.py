"""What went wrong at ZooKeeper, in the words of :mod:`shim.offsets.store`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from protocol.topic_partition import Partition
from shim.offsets.store import StoreError, StoreRefused, StoreUnavailable
from shim.offsets.zookeeper.znodes import EnsembleError, EnsembleRefused, EnsembleUnavailable, MultiFailed


@contextmanager
def in_store_words(written: Mapping[Partition, int] | None = None) -> Iterator[None]:
    """``written``: what of a commit has been, as it is when something goes wrong."""
    try:
        yield
    except EnsembleError as error:
        reason = error.reason if isinstance(error, MultiFailed) else error
        if isinstance(reason, EnsembleUnavailable):
            raise StoreUnavailable(str(error), written) from error
        if isinstance(reason, EnsembleRefused):
            raise StoreRefused(str(error), written) from error
        raise StoreError(str(error), written) from error
