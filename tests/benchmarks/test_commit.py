"""The comparison of commits does what it says, on next to nothing: both sides answer every request as is due."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.commit.__main__ import main
from benchmarks.commit.generator import Load, Member, Stream, carry
from benchmarks.commit.rounds import LINES
from benchmarks.commit.sides import flush_times_us
from benchmarks.commit.wire import COMMIT_VERSION, FETCH_VERSION, Frames, commits, fetches
from protocol.messages.offset_commit import API as OFFSET_COMMIT
from protocol.messages.offset_fetch import API as OFFSET_FETCH

PARTS = 3


def requests(frames: Frames) -> list[bytes]:
    return [bytes(frames.buffer[at : at + frames.size]) for at in range(0, len(frames.buffer), frames.size)]


def test_a_number_changes_the_offsets_of_one_frame_and_nothing_else() -> None:
    frames = commits("group", 1, "member", list(range(PARTS)), 4)
    before = [OFFSET_COMMIT.parse_request(COMMIT_VERSION, frame, 4) for frame in requests(frames)]
    frames.number(2, 0x1234)
    after = [OFFSET_COMMIT.parse_request(COMMIT_VERSION, frame, 4) for frame in requests(frames)]
    assert [header.correlation_id for header, _ in after] == [0, 1, 2, 3]
    assert after[:2] + after[3:] == before[:2] + before[3:]
    (topic,) = before[2][1].topics
    numbered = tuple(p._replace(committed_offset=p.committed_offset + 0x1234) for p in topic.partitions)
    assert after[2][1] == before[2][1]._replace(topics=(topic._replace(partitions=numbered),))


def test_fetches_are_of_what_the_first_commit_leaves() -> None:
    commit = OFFSET_COMMIT.parse_request(COMMIT_VERSION, requests(commits("group", 1, "member", [7, 8], 1))[0], 4)[1]
    frames = fetches("group", [[7], [8]])
    frames.number(0, 1)  # there is nothing to number
    for place, wanted in enumerate(commit.topics[0].partitions):
        fetch = OFFSET_FETCH.parse_request(FETCH_VERSION, requests(frames)[place], 4)[1]
        assert fetch.groups[0].topics is not None
        assert fetch.groups[0].topics[0].partition_indexes == (7 + place,)
        response = frames.responses[place * frames.response_size : (place + 1) * frames.response_size]
        (group,) = OFFSET_FETCH.parse_response(FETCH_VERSION, response, 4)[1].groups
        (found,) = group.topics[0].partitions
        assert (found.partition_index, found.committed_offset) == (wanted.partition_index, wanted.committed_offset)


def test_an_answer_that_is_not_as_due_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames = commits("group", 1, "member", [7], 2)
        stream = Stream(ours, frames, 2)
        stream.send(2)
        theirs.sendall(frames.responses[: frames.response_size + 1])
        assert stream.receive() == 1
        assert [count for _, count in stream.latencies] == [1]
        refused = bytearray(frames.responses[frames.response_size + 1 : 2 * frames.response_size])
        refused[-4] ^= 1
        theirs.sendall(refused)
        with pytest.raises(RuntimeError, match="is due"):
            stream.receive()


def test_a_load_counts_every_answer_once() -> None:
    """Against a server that answers at once and counts."""
    load = Load("commit", 2, 3, PARTS, 0.05)
    answered = [0, 0]
    pairs = [socket.socketpair() for _ in range(load.connections)]
    members = [_Connected(ours, load) for ours, _ in pairs]

    def serve(number: int, sock: socket.socket, frames: Frames) -> None:
        received = b""
        while data := sock.recv(65_536):
            received += data
            while len(received) >= frames.size:
                header, _ = OFFSET_COMMIT.parse_request(COMMIT_VERSION, received[: frames.size], 4)
                received = received[frames.size :]
                start = header.correlation_id * frames.response_size
                sock.sendall(frames.responses[start : start + frames.response_size])
                answered[number] += 1

    threads = [
        threading.Thread(target=serve, args=(number, theirs, member.frames))
        for number, ((_, theirs), member) in enumerate(zip(pairs, members, strict=True))
    ]
    for thread in threads:
        thread.start()
    carried = carry(list(members), load)
    for ours, _ in pairs:
        ours.close()
    for thread in threads:
        thread.join()
    for _, theirs in pairs:
        theirs.close()
    assert carried.done == sum(answered) > load.connections * load.pipelined
    assert 0 < carried.p50_us <= carried.p99_us


class _Connected(Member):
    """One that needs no server to join."""

    def __init__(self, sock: socket.socket, load: Load) -> None:
        self.sock = sock
        self.frames = commits("group", 1, "member", list(range(load.partitions)), load.pipelined)

    def stream(self, load: Load) -> Stream:
        return Stream(self.sock, self.frames, load.pipelined)


def test_the_disk_is_timed(tmp_path: Path) -> None:
    times = flush_times_us(tmp_path, 0.05)
    assert times
    assert min(times) > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lines", ["8x8", pytest.param("", id="all", marks=pytest.mark.soak)])
def test_both_sides_carry_every_line(lines: str) -> None:
    quick = ["--rounds", "1", "--seconds", "0.05", "--warm-up", "0.05"]
    told = CliRunner().invoke(main, [*quick, "--only", lines, "--json"])
    assert told.exit_code == 0, told.output
    results = json.loads(told.stdout)["lines"]
    assert [result["line"] for result in results] == [line.name for line in LINES if lines in line.name]
    assert all(result[side]["per_second"] > 0 for result in results for side in ("shim", "kafka"))
    assert all(result["ratio"] > 0 for result in results)
    assert all(result["flush_us"] > 0 for result in results if result["line"] == "commits 1x1")


def test_a_line_that_there_is_not_is_refused() -> None:
    assert CliRunner().invoke(main, ["--only", "no such line"]).exit_code == 2
