"""The lines of the comparison: every sample decoded and encoded, and the record batches."""

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.codec.by_hand import decode_offset_commit_request_8
from benchmarks.codec.messages import SAMPLES, Sample
from benchmarks.codec.record_batches import batch_lines
from benchmarks.codec.rivals import RIVALS, Rival
from benchmarks.codec.sides import Column, Line, Side


def lines() -> Iterator[Line]:
    for sample in SAMPLES:
        yield from message_lines(sample)
    yield from batch_lines()


def message_lines(sample: Sample) -> tuple[Line, Line]:
    """The sample's body, decoded and encoded."""
    api, version, message = sample.api, sample.version, sample.message
    codec = api.request_codec(version) if sample.direction == "request" else api.response_codec(version)
    encode = partial(codec.encode, message)
    raw = encode()
    decode = partial(codec.decode, raw)
    rivals = [rival for make in RIVALS if (rival := make(sample, raw)) is not None]
    decoders = [Side(Column.OURS, decode, partial(_gives, decode, (message, len(raw))))]
    if (api.name, sample.direction, version) == ("OffsetCommit", "request", 8):
        by_hand = partial(decode_offset_commit_request_8, raw)
        decoders.append(Side(Column.BY_HAND, by_hand, partial(_gives, by_hand, (message, len(raw)))))
    return (
        Line(sample.label, "decode", (*decoders, *(_decoder(rival, raw) for rival in rivals))),
        Line(
            sample.label,
            "encode",
            (
                Side(Column.OURS, encode, partial(_gives, encode, raw)),
                *(Side(rival.column, rival.encode, partial(_gives, rival.encode, raw)) for rival in rivals),
            ),
        ),
    )


def _decoder(rival: Rival, raw: bytes) -> Side:
    def agrees() -> None:
        assert rival.encode_again(rival.decode()) == raw

    return Side(rival.column, rival.decode, agrees, rival.native_decode)


def _gives(run: Callable[[], object], expected: object) -> None:
    assert run() == expected
