"""Offsets of real brokers, by their files and live, both ways."""

from __future__ import annotations

import shutil
import time
from itertools import count
from pathlib import Path

from confluent_kafka import Producer

from protocol.partition import partition_for
from shim.demo.parts import Broker
from tests.admin.broker_groups import (
    Served,
    commit,
    commit_in_transaction,
    delete_group,
    delete_offset,
    end,
    fetch,
    simple_groups,
)
from tests.admin.running import commit_record, log, plainly, served, write_log
from tests.legacy.parts import KAFKA_0_10, KAFKA_3, LegacyBroker
from tests.protocol_live.place import Place
from tests.waiting import wait_until

_FLUSH_S = 30.0

HOUR_MS = 3_600_000
UNDECIDED = "a transaction that has not ended may change this"
# offsets.topic.compression.codec
SNAPPY, LZ4, ZSTD = 2, 3, 4


def fill(place: Place, *, transactions: bool, deletes: bool) -> Served:
    """Offsets of every kind that the broker has, overwritten and deleted ones among them; what it serves of them."""
    topics = [place.new_topic() for _ in range(3)]
    groups = simple_groups(place, topics, 8)
    with_retention = place.new_group()
    commit(place, with_retention, topics[0], 77, text="for an hour", retention_ms=HOUR_MS)
    member = place.new_member()
    groups += [with_retention, member.group]
    if deletes:
        delete_offset(place, groups[0], topics[0])
        delete_group(place, groups[1])
    if transactions:
        committed, aborted, left_open, mixed = (place.new_group() for _ in range(4))
        commit(place, aborted, topics[0], 5)
        commit(place, left_open, topics[0], 5, text=UNDECIDED)
        end(place, commit_in_transaction(place, committed, topics[0], 100), committed=True)
        end(place, commit_in_transaction(place, aborted, topics[0], 200), committed=False)
        # The one that was written last wins, although the transaction ends later.
        made = commit_in_transaction(place, mixed, topics[1], 300)
        commit(place, mixed, topics[1], 301)
        end(place, made, committed=True)
        commit_in_transaction(place, left_open, topics[0], 400)
        groups += [committed, aborted, left_open, mixed]
    found = fetch(place, groups)
    if transactions:
        assert found[committed, topics[0], 0][0] == 100
        assert found[aborted, topics[0], 0][0] == found[left_open, topics[0], 0][0] == 5
        assert found[mixed, topics[1], 0][0] == 301
    assert len(found) >= 20
    return found


def import_live_and_compare(place: Place, tmp_path: Path, expected: Served) -> None:
    """Of the groups without a transaction that has not ended: its offsets nobody can tell yet."""
    undecided = {group for (group, _, _), (_, _, text) in expected.items() if text == UNDECIDED}
    wanted = {at: its for at, its in expected.items() if at[0] not in undecided}
    chosen = [option for group in sorted({at[0] for at in wanted}) for option in ("--group", group)]
    data_dir = tmp_path / "live"
    result = log("import", "--data-dir", data_dir, "--from-bootstrap", f"127.0.0.1:{place.port}", *chosen, "--json")
    assert result.status == 0, result.stderr
    assert plainly(served(data_dir)) == wanted
    assert result.json["verified"] is True


def export_live(place: Place, tmp_path: Path) -> Served:
    """A new group, one that is there with other offsets, and one that has a member; what the cluster serves then."""
    bootstrap = f"127.0.0.1:{place.port}"
    topic = place.new_topic()
    produce(bootstrap, topic, 600)
    new, present, busy = place.new_group(), place.new_group(), place.new_member().group
    for other in (topic, second := place.new_topic()):
        commit(place, present, other, 1)
    data_dir = tmp_path / "to-export"
    records = [
        (group, commit_record(group, topic, 0, 500 + at, leader_epoch=at, metadata="live"))
        for at, group in enumerate((new, present, busy))
    ]
    write_log(data_dir, records, partitions=2)
    before = fetch(place, [new, present, busy])
    dry = log("export", "--data-dir", data_dir, "--to-bootstrap", bootstrap, "--dry-run", "--json")
    assert fetch(place, [new, present, busy]) == before
    done = log("export", "--data-dir", data_dir, "--to-bootstrap", bootstrap, "--json")
    for result, written in ((dry, "would be written"), (done, "written")):
        assert result.status == 1
        outcomes = {each["group"]: each["outcome"] for each in result.json["groups"]}
        assert outcomes == {new: written, present: "refused", busy: "refused"}
    assert fetch(place, [new]) == {(new, topic, 0): (500, 0, "live")}
    assert fetch(place, [present, busy]) == {at: its for at, its in before.items() if at[0] != new}

    chosen = ["--group", new, "--group", present, "--replace"]
    result = log("export", "--data-dir", data_dir, "--to-bootstrap", bootstrap, *chosen, "--json")
    assert result.status == 0, result.stderr
    assert {each["group"]: each["outcome"] for each in result.json["groups"]} == {new: "unchanged", present: "written"}
    assert fetch(place, [present]) == {(present, topic, 0): (501, 1, "live")}, f"{second} is deleted there, too"
    return fetch(place, [new, present])


def export_what_does_not_fit(place: Place, tmp_path: Path) -> Served:
    """To a cluster that lacks a topic, or a partition, or whose log is shorter: a consumer that went on from there
    would leave out what is written until then, or begin anywhere."""
    bootstrap = f"127.0.0.1:{place.port}"
    topic = place.new_topic()
    produce(bootstrap, topic, 10)
    some, none = place.new_group(), place.new_group()
    data_dir = tmp_path / "does-not-fit"
    records = [
        (some, commit_record(some, topic, 0, 10)),
        (some, commit_record(some, topic, 1, 5)),
        (some, commit_record(some, "nowhere", 0, 5)),
        (none, commit_record(none, topic, 0, 11)),
    ]
    write_log(data_dir, records)
    refused = [
        f"group {some} nowhere-0: not written, as nobody says where its log ends there "
        "(nowhere-0: UNKNOWN_TOPIC_OR_PARTITION)",
        f"group {some} {topic}-1: not written, as nobody says where its log ends there "
        f"({topic}-1: UNKNOWN_TOPIC_OR_PARTITION)",
    ]
    behind = [f"group {none} {topic}-0: not written, as 11 is past the end of its log there, 10"]
    for dry, outcome in ((("--dry-run",), "would be written"), ((), "written"), ((), "unchanged")):
        result = log("export", "--data-dir", data_dir, "--to-bootstrap", bootstrap, *dry, "--json")
        assert result.status == 1
        assert {each["group"]: (each["outcome"], each["problems"]) for each in result.json["groups"]} == {
            some: (outcome, refused),
            none: ("refused", behind),
        }
    found = fetch(place, [some, none])
    assert found == {(some, topic, 0): (10, -1, "")}
    return found


def import_and_compare(broker_data: Path, tmp_path: Path, expected: Served, **counts: int) -> None:
    data_dir = tmp_path / "imported"
    result = log("import", "--data-dir", data_dir, "--from-folder", broker_data, "--partitions", "7", "--json")
    assert result.status == 0, result.stderr
    assert plainly(served(data_dir)) == expected
    assert result.json["verified"] is True
    assert sum(group["partitions"] for group in result.json["groups"]) == len(expected)
    assert result.json["source"] | counts == result.json["source"]
    assert log("verify", "--data-dir", data_dir).status == 0


def produce(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(records):
        producer.produce(topic, b"", partition=0)
    assert producer.flush(_FLUSH_S) == 0


def codecs_in(broker_data: Path) -> set[int]:
    """The codecs of all batches, and of all messages of message sets, in a broker's offsets folders."""
    found = set()
    for segment in broker_data.glob("__consumer_offsets-*/*.log"):
        raw, at = segment.read_bytes(), 0
        while at < len(raw):
            found.add(raw[at + 22 if raw[at + 16] == 2 else at + 17] & 0x07)
            at += 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
    return found


def test_a_0_10_2_brokers_message_sets(tmp_path: Path) -> None:
    settings = {"offsets.topic.compression.codec": SNAPPY}
    broker = LegacyBroker(tmp_path / "broker", KAFKA_0_10, properties=settings)
    with broker, Place(broker.port, KAFKA_0_10) as place:
        expected = fill(place, transactions=False, deletes=False)
        import_live_and_compare(place, tmp_path, expected)
    assert SNAPPY in codecs_in(broker.data)
    import_and_compare(broker.data, tmp_path, expected, partitions=5)


def test_a_3_9_brokers_files(tmp_path: Path) -> None:
    settings = {"offsets.topic.compression.codec": LZ4}
    broker = LegacyBroker(tmp_path / "broker", KAFKA_3, properties=settings)
    with broker, Place(broker.port, KAFKA_3) as place:
        expected = fill(place, transactions=True, deletes=True)
        import_live_and_compare(place, tmp_path, expected)
    assert LZ4 in codecs_in(broker.data)
    import_and_compare(broker.data, tmp_path, expected, open=1, aborted=1)


def test_a_4_3_brokers_files_and_back(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker", properties={"offsets.topic.compression.codec": ZSTD})
    with broker, Place(broker.port, broker.release) as place:
        expected = fill(place, transactions=True, deletes=True)
        import_live_and_compare(place, tmp_path, expected)
        expected |= export_live(place, tmp_path)
        expected |= export_what_does_not_fit(place, tmp_path)
        running = log("import", "--data-dir", tmp_path / "running", "--from-folder", broker.data)
        assert (running.status, running.stdout) == (2, "")
        assert f"{broker.data} is in use by another process" in running.stderr
    assert ZSTD in codecs_in(broker.data)
    import_and_compare(broker.data, tmp_path, expected, open=1, aborted=1)

    exported = tmp_path / "exported"
    result = log("export", "--data-dir", tmp_path / "imported", "--to-folder", exported, "--partitions", "5")
    assert result.status == 0, result.stderr
    put_in_place(exported, broker.data)
    with broker, Place(broker.port, broker.release) as place:
        groups = sorted({group for group, _, _ in expected})
        assert fetch(place, groups) == expected


def test_what_is_older_than_a_broker_keeps_it(tmp_path: Path) -> None:
    """It is dropped soon, unless it was exported as of now. When the pass has been is told by an offset that has an
    expire timestamp of its own. Each in a partition of its own, so that one broker has both exports."""
    now_ms = time.time_ns() // 1_000_000
    data_dir = tmp_path / "data"

    def named(what: str, partition: int) -> str:
        return next(name for at in count() if partition_for(name := f"{what}-{at}", 5) == partition)

    def old(group: str, offset: int, **fields: int) -> tuple[str, tuple[bytes, bytes | None]]:
        return group, commit_record(group, "t", 0, offset, commit_timestamp=now_ms - 8 * 24 * HOUR_MS, **fields)

    exports = {"kept": 0, "now": 1}
    idle = {how: named("idle", partition) for how, partition in exports.items()}
    over = {how: named("over", partition) for how, partition in exports.items()}
    records = [old(group, 7) for group in idle.values()]
    write_log(data_dir, records + [old(group, 8, expire_timestamp=now_ms - 1) for group in over.values()])
    broker = Broker(tmp_path / "broker", properties={"offsets.retention.check.interval.ms": 1_000})
    with broker, Place(broker.port, broker.release) as place:
        commit(place, place.new_group(), place.new_topic(), 1)  # which makes the topic
    for how, partition in exports.items():
        exported = tmp_path / how
        to_folder: list[str | Path] = ["--to-folder", exported, "--partitions", "5", "--commit-timestamp", how]
        assert log("export", "--data-dir", data_dir, *to_folder).status == 0
        put_in_place(exported, broker.data, f"__consumer_offsets-{partition}")
    with broker, Place(broker.port, broker.release) as place:
        wait_until(lambda: not fetch(place, list(over.values())), "no offset expires")
        assert fetch(place, list(idle.values())) == {(idle["now"], "t", 0): (7, -1, "")}


def put_in_place(exported: Path, broker_data: Path, folders: str = "*") -> None:
    """As the page on these commands says: the exported segments instead of the broker's own, and no checkpoints."""
    for folder in exported.glob(folders):
        target = broker_data / folder.name
        for name in target.iterdir():
            if name.name != "partition.metadata":
                name.unlink()
        for segment in folder.iterdir():
            shutil.copy(segment, target)
    for checkpoint in broker_data.glob("*-checkpoint"):
        checkpoint.unlink()
