"""The comparison with other codecs compares like with like: every side of every line, once. Nothing is timed here."""

import gc
import json
from collections.abc import Callable, Iterator

import aiokafka.record.default_records
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.codec.__main__ import main
from benchmarks.codec.by_hand import decode_offset_commit_request_8
from benchmarks.codec.lines import lines
from benchmarks.codec.sides import Column, Line, Side
from benchmarks.codec.timing import Effort, time_lines
from protocol.errors import DecodeError
from protocol.messages.offset_commit import API as OFFSET_COMMIT
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.examples import examples
from tests.protocol.strategies import messages

LINES = list(lines())
unhurried = settings(max_examples=examples(60), deadline=None, database=None, derandomize=True)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_all_sides_agree(line: Line) -> None:
    assert line.sides[0].column is Column.OURS
    for side in line.sides:
        side.agrees()


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_nobody_takes_part_twice_or_alone(line: Line) -> None:
    columns = [side.column for side in line.sides]
    assert len(columns) == len(set(columns)) > 2


def test_every_rival_is_met_in_every_message() -> None:
    met: dict[str, set[Column]] = {}
    for line in LINES:
        message = line.label.partition(" v")[0].partition(", ")[0]
        met.setdefault(f"{message}, {line.work}", set()).update(side.column for side in line.sides)
    rivals = {Column.KAFKA_PYTHON, Column.AIOKAFKA, Column.KIO}
    # Requests and responses of four APIs, Metadata responses; batches of two sizes.
    assert len(met) == 2 * (4 * 2 + 1 + 2)
    assert all(columns >= rivals for columns in met.values())


def _disagreeing(run: Callable[[], object]) -> Line:
    def agrees() -> None:
        assert run() == 1

    return Line("one", "count", (Side(Column.OURS, lambda: 1, lambda: None), Side(Column.KIO, run, agrees)))


@pytest.fixture
def _little_garbage() -> Iterator[None]:
    """It is collected before each sample."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_little_garbage")
def test_who_disagrees_is_not_timed() -> None:
    effort = Effort(rounds=1, sample_ns=1)
    (result,) = time_lines([_disagreeing(lambda: 1)], effort)
    assert [timing.column for timing in result.timings] == [Column.OURS, Column.KIO]
    with pytest.raises(AssertionError):
        time_lines([_disagreeing(lambda: 2)], effort)


@unhurried
@given(messages(OffsetCommitRequest, 8, True))
def test_the_decoder_by_hand_is_a_decoder(message: OffsetCommitRequest) -> None:
    raw = OFFSET_COMMIT.encode_request(8, message)
    assert decode_offset_commit_request_8(b"\0" + raw + b"\0", 1) == (message, len(raw) + 1)


@unhurried
@given(messages(OffsetCommitRequest, 8, True), st.data())
def test_the_decoder_by_hand_refuses_what_ours_refuses(message: OffsetCommitRequest, data: st.DataObject) -> None:
    raw = bytearray(OFFSET_COMMIT.encode_request(8, message))
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] = data.draw(st.integers(0, 255))
    malformed = bytes(raw[: data.draw(st.integers(position, len(raw)))])
    try:
        expected = OFFSET_COMMIT.decode_request(8, malformed)
    except DecodeError:
        with pytest.raises(DecodeError):
            decode_offset_commit_request_8(malformed)
    else:
        assert decode_offset_commit_request_8(malformed) == expected


def test_both_codecs_of_aiokafka_are_what_they_are_said_to_be() -> None:
    batch = next(line for line in LINES if line.label.startswith("batch") and line.work == "read")
    classes = {side.column: side.run.args[0] for side in batch.sides if side.column.startswith("aiokafka")}  # type: ignore[attr-defined]
    assert {column: cls.__module__ for column, cls in classes.items()} == {
        Column.AIOKAFKA: "aiokafka.record.default_records",
        Column.AIOKAFKA_C: "aiokafka.record._crecords.default_records",
    }
    assert aiokafka.record.default_records.DefaultRecordBatch is classes[Column.AIOKAFKA_C]


def test_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.codec.__main__.lines", lambda: LINES)  # it takes a second to make them anew
    told = CliRunner().invoke(main, ["--quick", "--json", "--only", "ApiVersions request v4"])
    assert told.exit_code == 0, told.output
    (decode, encode) = json.loads(told.stdout)["lines"]
    assert (decode["work"], encode["work"]) == ("decode", "encode")
    assert set(decode["sides"]) == {"ours", "kafka-python", "kio"}
    assert decode["sides"]["kio"]["native"]
    assert not encode["sides"]["kio"]["native"]
    shown = CliRunner().invoke(main, ["--quick", "--only", "ApiVersions request v4"])
    assert shown.exit_code == 0, shown.output
    assert "ApiVersions request v4" in shown.stdout
    refused = CliRunner().invoke(main, ["--only", "no such line"])
    assert refused.exit_code == 2
