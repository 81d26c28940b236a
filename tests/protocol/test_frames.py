import gc
import struct
import weakref
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.frames import BadFrame, FrameParser, FrameTooLarge
from tests.examples import examples


def stream_of(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@settings(max_examples=examples(40), deadline=None, database=None, derandomize=True)
@given(frames=st.lists(st.binary(min_size=4, max_size=40), max_size=6), cuts=st.lists(st.integers(0, 300), max_size=20))
def test_any_split_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream = stream_of(frames)
    parser = FrameParser(max_size=40)
    found = []
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, stop in pairwise(edges):
        found += parser.feed(stream[start:stop])
    assert found == frames
    assert parser.unfinished == 0


def test_byte_by_byte_and_the_end_inside_a_frame() -> None:
    parser = FrameParser(max_size=100)
    stream = stream_of([b"first", b"second"])
    found = [frame for at in range(len(stream) - 1) for frame in parser.feed(stream[at : at + 1])]
    assert found == [b"first"]
    assert parser.unfinished == 4 + 5
    assert parser.feed(stream[-1:]) == [b"second"]


def test_a_frame_that_is_not_wanted_any_more() -> None:
    parser = FrameParser(max_size=100)
    stream = stream_of([b"first", b"unwanted", b"third"])
    assert parser.feed(stream[: 9 + 6]) == [b"first"]
    assert (parser.begun(5), parser.begun(100)) == (b"\0\0\0\x08u", b"\0\0\0\x08un")
    missing = parser.give_up()
    assert (missing, parser.unfinished) == (6, 0)
    assert parser.feed(stream[9 + 6 + missing :]) == [b"third"]


@pytest.mark.parametrize("head", [b"\x7f\xff\xff\xff", b"\0\0\0\x65", b"\x16\x03\x01\x02"])
@pytest.mark.parametrize("split", range(5))  # 4: all at once
def test_too_large_as_soon_as_the_size_is_there(head: bytes, split: int) -> None:
    parser = FrameParser(max_size=100)
    assert parser.feed(stream_of([b"good"])) == [b"good"]
    assert split == 4 or parser.feed(head[:split]) == []
    with pytest.raises(FrameTooLarge) as refused:
        parser.feed(head if split == 4 else head[split:])
    assert refused.value.size == int.from_bytes(head)
    assert parser.unfinished == 0
    with pytest.raises(FrameTooLarge):
        parser.feed(stream_of([b"more"]))


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 3])
def test_sizes_that_no_frame_has(size: int) -> None:
    parser = FrameParser(max_size=100)
    with pytest.raises(BadFrame) as refused:
        parser.feed(stream_of([b"good", b"fine"]) + struct.pack(">i", size))
    assert not isinstance(refused.value, FrameTooLarge)
    assert refused.value.frames == [b"good", b"fine"]
    assert FrameParser(max_size=100, min_size=0).feed(bytes(4)) == [b""]


class Held:
    """Something in a frame that a traceback keeps."""


def failure_of(parser: FrameParser, data: bytes) -> tuple[BadFrame, weakref.ref[Held]]:
    held = Held()
    try:
        parser.feed(data)
    except BadFrame as error:
        return error, weakref.ref(held)
    raise AssertionError("taken")


@pytest.mark.parametrize(("size", "kind"), [(101, FrameTooLarge), (3, BadFrame)])
def test_after_a_failure_each_feed_raises_one_of_its_own(size: int, kind: type[BadFrame]) -> None:
    parser = FrameParser(max_size=100)
    first, _ = failure_of(parser, stream_of([b"good"]) + struct.pack(">i", size))
    assert first.frames == [b"good"]
    for _ in range(3):
        again, held = failure_of(parser, stream_of([b"more"]))
        assert again is not first
        assert type(again) is type(first) is kind
        assert (again.reason, again.size, str(again)) == (first.reason, size, str(first))
        assert again.frames == []
        assert again.__traceback__ is not None
        assert again.__traceback__.tb_next is not None
        assert again.__traceback__.tb_next.tb_next is None
        # The parser keeps nothing of whoever fed it.
        assert held() is not None
        del again
        gc.collect()
        assert held() is None
    assert first.frames == [b"good"]
