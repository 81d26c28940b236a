"""The fuzzer: a short run of every target, the full counts, and that it would find what it looks for."""

from __future__ import annotations

import pytest

from protocol.errors import DecodeError
from tests.protocol import fuzz

SHARDS = 20
INPUTS_PER_SHARD = 520_000


@pytest.fixture
def one_target(monkeypatch: pytest.MonkeyPatch) -> list[fuzz.Target]:
    """The fuzzer with one target, which is to be put here."""
    chosen: list[fuzz.Target] = []
    monkeypatch.setattr(fuzz, "targets", lambda: {target.name: target for target in chosen})
    return chosen


def test_every_target_in_short(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        result = fuzz.run(20260105, 25_000, block=4)
    assert result.inputs == result.accepted.total() + result.refused.total() == 25_000
    assert result.accepted.keys() == fuzz.targets().keys()
    # Neither decoders that refuse everything nor ones that take anything would do.
    assert result.accepted.total() > 5_000
    assert result.refused.total() > 10_000


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS))
def test_ten_million_inputs(shard: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert SHARDS * INPUTS_PER_SHARD >= 10_000_000
    with capfd.disabled():  # what a hang leaves behind is to be seen
        result = fuzz.run(shard, INPUTS_PER_SHARD)
    assert result.inputs == result.accepted.total() + result.refused.total() == INPUTS_PER_SHARD
    # Damage is the rule, so a target may have accepted nothing; but each was reached, and refuses.
    # A message of no fields is there whatever the bytes.
    refusing = {name for name, target in fuzz.targets().items() if b"" not in target.samples or name == "frames"}
    assert refusing <= {name for name, count in result.refused.items() if count}
    assert result.accepted.total() > INPUTS_PER_SHARD // 5


def test_the_same_seed_gives_the_same_inputs() -> None:
    one, other = (fuzz.run(5, 1_000) for _ in range(2))
    assert one == other != fuzz.run(6, 1_000)


def test_a_broken_promise_is_found_and_can_be_replayed(
    one_target: list[fuzz.Target], capsys: pytest.CaptureFixture[str]
) -> None:
    def verdict(raw: bytes) -> bool:
        if b"\xff" in raw:
            raise KeyError(raw)
        return True

    one_target.append(fuzz.Target("a decoder", verdict, (b"sample",), fuzz.as_is, 1))
    with pytest.raises(fuzz.Failure, match=r"KeyError.*'a decoder' [0-9a-f]*ff") as failure:
        fuzz.run(1, 10_000)
    name, raw = str(failure.value).split("tests.protocol.fuzz ")[1].rsplit(" ", 1)
    with pytest.raises(KeyError):
        fuzz.main(name.strip("'"), raw)
    fuzz.main("a decoder", b"fine".hex())
    assert capsys.readouterr().out == "accepted\n"


def test_a_hang_is_found(one_target: list[fuzz.Target], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "_TICK", 0.02)

    def verdict(_: bytes) -> bool:
        while True:
            try:
                raise DecodeError("again", 0, "")
            except DecodeError:
                continue

    one_target.append(fuzz.Target("a decoder", verdict, (b"sample",), fuzz.as_is, 1))
    with pytest.raises(fuzz.Failure, match="Hang"):
        fuzz.run(1, 10)
