"""What is kept of who owned a partition, by whoever reads it from its beginning and by whoever follows it for long."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from protocol.own.position import Position
from protocol.own.topic_log import Owner, OwnerKey, encode_own
from protocol.records.batches import BatchHeader, Record, encode_records, read_header
from shim.kafka_log.lease import Claim, waiting_seconds
from shim.kafka_log.reading import read_part
from shim.kafka_log.reading.read_part import LEFT_ALONE_SECONDS, NotWhole, ReadPart
from shim.log import LogError
from shim.upstream.topic_leaders import Leader


class Written:
    """Claims, a batch each, from one offset on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.part = ReadPart("t", 0)
        self.claims: list[tuple[float, Claim]] = []
        monkeypatch.setattr(read_part, "boottime", lambda: self.now)

    def claim(self, who: int, lease_ms: int, *, released: bool = False) -> None:
        owner = Owner(bytes([who] * 16), f"shim {who}", lease_ms, released)
        self.part.take(*batch(len(self.claims), [encode_own((OwnerKey(), owner))]))
        self.claims.append((self.now, Claim(lease_ms / 1000, released, who == 1)))


def batch(
    offset: int, records: list[tuple[bytes, bytes | None]], producer_id: int = 7, epoch: int = 0
) -> tuple[BatchHeader, list[Record]]:
    made = [Record(key, value, (), 0, offset + place) for place, (key, value) in enumerate(records)]
    raw = encode_records(made, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    return read_header(raw)._replace(base_offset=offset, partition_leader_epoch=3), made


@pytest.mark.parametrize("seed", range(100))
def test_who_follows_waits_for_whom_a_reading_would(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever compaction has removed by then: it leaves the last minute, and the one before that. And what is kept
    does not grow with what was read."""
    rng = Random(seed)
    its = Written(monkeypatch)
    for _ in range(rng.randint(1, 200)):
        its.now += rng.choice([0.0, 0.1, 20.0, 90.0])
        its.claim(rng.randint(1, 3), rng.choice([0, 500, 1000, 10_000]), released=rng.random() < 0.2)
        its.part.forget_claims()
    later = its.now + rng.choice([0.0, 30.0, 100.0])
    left = [claim for at, claim in its.claims[:-1] if at > later - LEFT_ALONE_SECONDS]
    before = [claim for at, claim in its.claims if at <= later - LEFT_ALONE_SECONDS][-1:]
    read = [*before, *left, its.claims[-1][1]]
    followed = its.part.claims(bytes([1] * 16))
    assert followed[-1] == read[-1]
    for served in (True, False):
        least = waiting_seconds(read, served_last_claim=served)
        assert waiting_seconds(followed, served_last_claim=served) >= least
    since = [at for at, _ in its.claims if at >= its.now - LEFT_ALONE_SECONDS]
    assert len(followed) <= len(since) + 2


def test_an_old_lease_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    its = Written(monkeypatch)
    its.claim(2, 10_000)
    for _ in range(5):
        its.now += 40
        its.claim(3, 1000)
        its.part.forget_claims()
    assert [each.lease_seconds for each in its.part.claims(b"")] == [1.0]


def _whole() -> tuple[BatchHeader, list[Record]]:
    return batch(2, [(b"k", b"v"), (b"l", b"v")])


def _one_is_missing() -> tuple[BatchHeader, list[Record]]:
    header, records = _whole()
    return header._replace(record_count=1), records[1:]


def _all_are_missing() -> tuple[BatchHeader, list[Record]]:
    """As brokers keep the last batch of a producer."""
    return _whole()[0]._replace(record_count=0), []


def _a_batch_is_missing() -> tuple[BatchHeader, list[Record]]:
    return batch(3, [(b"k", b"v")])


def _read_to_2() -> ReadPart:
    part = ReadPart("t", 0)
    part.told_by(Leader(1, 4))
    part.take(*batch(0, [(b"k", b"v"), (b"l", b"v")]))
    part.at_end()
    return part


@pytest.mark.parametrize("compacted", [_one_is_missing, _all_are_missing, _a_batch_is_missing])
def test_behind_what_one_leader_has_told_nothing_may_be_missing_at_another(
    compacted: Callable[[], tuple[BatchHeader, list[Record]]],
) -> None:
    part = _read_to_2()
    part.told_by(Leader(2, 5))
    part.told_by(Leader(2, 5))
    with pytest.raises(NotWhole, match=r"^what stands behind offset 2 was compacted, at another leader "):
        part.take(*compacted())


@pytest.mark.parametrize("compacted", [_one_is_missing, _all_are_missing, _a_batch_is_missing])
def test_at_the_same_leader_it_is_what_compaction_leaves(
    compacted: Callable[[], tuple[BatchHeader, list[Record]]],
) -> None:
    part = _read_to_2()
    part.told_by(Leader(1, 4))
    part.take(*compacted())


@pytest.mark.parametrize(
    ("leader", "goes_on"),
    [
        (Leader(1, 5), True),  # with each follower that falls behind, before Kafka 3.6
        (Leader(1, 6), False),  # another one may have led under 5
        (Leader(2, 5), False),
        (Leader(1, 3), False),
    ],
)
def test_it_is_the_same_leader_where_nobody_can_have_led_between(leader: Leader, goes_on: bool) -> None:
    part = _read_to_2()
    part.told_by(leader)
    if goes_on:
        part.take(*_one_is_missing())
    else:
        with pytest.raises(NotWhole):
            part.take(*_one_is_missing())


def test_before_anything_was_taken_nothing_can_have_gone() -> None:
    part = ReadPart("t", 0)
    part.told_by(Leader(1, 4))
    part.told_by(Leader(2, 5))
    part.take(*_a_batch_is_missing())


def test_from_the_end_on_it_is_the_other_leader_that_has_told_it() -> None:
    part = _read_to_2()
    part.told_by(Leader(2, 5))
    part.take(*_whole())
    part.at_end()
    part.take(*batch(7, [(b"k", b"v")]))


def test_what_was_read() -> None:
    part = ReadPart("t", 0)
    owner = Owner(bytes(16), "a", 500)
    own = encode_own((OwnerKey(), owner))
    logged = part.take(*batch(0, [(b"k", b"v"), own], 7, 1))
    assert [(each.offset, each.key, each.value) for each in logged] == [(0, b"k", b"v"), (1, *own)]
    part.take(*batch(4, [encode_own((OwnerKey(), owner._replace(name="the fence")))], 8, 3), fence=4)
    assert part.epochs == {7: 1, 8: 3}
    assert part.position == Position(0, 5, 3, 0)
    assert part.last_owner == owner, "the own fence is nobody's before"


@pytest.mark.parametrize(
    ("change", "record", "why"),
    [
        ({"attributes": 0x10}, (b"k", b"v"), "a batch that no shim has written"),
        ({"attributes": 0x20}, (b"k", b"v"), "a batch that no shim has written"),
        ({"producer_id": -1}, (b"k", b"v"), "a batch that no shim has written"),
        ({}, encode_own((OwnerKey(), Owner(bytes(16), "a", 10_001))), "has a lease of 10001 ms"),
        ({}, (encode_own((OwnerKey(), Owner(bytes(16), "a", 1)))[0], b"\0"), "the record cannot be decoded"),
    ],
)
def test_what_no_shim_has_written(change: dict[str, int], record: tuple[bytes, bytes], why: str) -> None:
    header, records = batch(0, [record])
    with pytest.raises(LogError, match=f"^t-0.*{why}"):
        ReadPart("t", 0).take(header._replace(**change), records)


def test_a_record_without_a_key() -> None:
    header, (record,) = batch(0, [(b"k", b"v")])
    with pytest.raises(LogError, match="without a key"):
        ReadPart("t", 0).take(header, [record._replace(key=None)])
