"""`groups reset` does what Kafka's own tool does to a group of the same name at the broker, with each option."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shim.demo.parts import Broker
from tests.clients.group_commands import GroupCommands
from tests.conftest import TopicFactory
from tests.groups.place import Hours, Place, post

NONE = -1001


def test_each_option_sets_what_kafkas_tool_sets(
    place: Place, broker: Broker, hours: Hours, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    topic, group = hours.topic, fresh_name()
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,4\n{topic},1,600\n")
    scoped = ["--topic", topic]
    # What is given to both tools, and where the partitions are led.
    resets: list[tuple[list[str], list[int]]] = [
        ([*scoped, "--to-latest"], [10, 10]),
        ([*scoped, "--to-earliest"], [0, 0]),
        ([*scoped, "--to-offset", "7"], [7, 7]),
        ([*scoped, "--to-offset", "1000"], [10, 10]),
        ([*scoped, "--shift-by", "-3"], [7, 7]),
        ([*scoped, "--shift-by", "-100"], [0, 0]),
        ([*scoped, "--by-duration", "PT3H30M"], [7, 7]),
        ([*scoped, "--by-duration", "P30D"], [0, 0]),
        ([*scoped, "--to-datetime", hours.at(5)], [6, 6]),
        ([*scoped, "--to-datetime", hours.at(20)], [10, 10]),
        (["--topic", f"{topic}:1", "--to-offset", "3"], [10, 3]),
        (["--all-topics", "--shift-by", "2"], [10, 5]),
        (["--from-file", str(plan)], [4, 10]),
        ([*scoped, "--to-current"], [4, 10]),
    ]
    with GroupCommands(tmp_path / "log") as commands:
        theirs = commands.run_all(
            broker.bootstrap_servers,
            [["--group", group, "--reset-offsets", *asked, "--execute"] for asked, _ in resets],
        )
    for (asked, expected), kafka in zip(resets, theirs, strict=True):
        planned = place.done("reset", group, *asked, "--dry-run")
        before = place.committed(group, topic)
        told = place.done("reset", group, *asked, "--yes")
        assert told["offsets"] == planned["offsets"], asked
        assert [row["offset"] or 0 for row in told["offsets"]] == [
            max(before[row["partition"]], 0) for row in told["offsets"]
        ], "the dry run changes nothing"
        ours = sorted((row["topic"], row["partition"], row["new_offset"]) for row in told["offsets"])
        assert ours == sorted((row[1], int(row[2]), int(row[3])) for row in kafka.rows(group)), asked
        assert place.committed(group, topic) == expected, asked


def test_a_group_of_the_cluster_is_reset_there(
    place: Place, broker: Broker, hours: Hours, fresh_name: Callable[[], str]
) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3, 4, bootstrap=broker.bootstrap_servers)
    told = place.done("reset", group, "--all-topics", "--shift-by", "2", "--yes")
    assert [row["new_offset"] for row in told["offsets"]] == [5, 6]
    assert place.at.status(group)["offsets_storage"] == "upstream"
    assert place.committed(group, topic, bootstrap=broker.bootstrap_servers) == [5, 6]
    assert place.committed(group, topic) == [5, 6]
    status, refused = post(
        place,
        "/v1/groups/reset",
        group=group,
        offsets=[{"topic": topic, "partition": number, "offset": 3, "new_offset": 0} for number in (0, 1)],
    )
    assert status == 409
    assert "another offset is committed by now" in refused["error"]
    assert place.committed(group, topic) == [5, 6]
    assert "is not served by the shim" in place.refused("reset", group, "--undo")


def test_what_cannot_be_reset_is_refused_in_a_line(
    place: Place, hours: Hours, make_topic: TopicFactory, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    topic, group = hours.topic, fresh_name()
    place.commit(group, topic, 3)
    there_is_no = "there is no partition"
    assert there_is_no in place.refused("reset", group, "--to-earliest", "--topic", f"{topic}:0,9")
    assert "there is no topic" in place.refused("reset", group, "--to-earliest", "--topic", "no-such-topic")
    assert "no committed offset to shift" in place.refused("reset", group, "--shift-by", "1", "--topic", topic)
    assert "history knows of no reset" in place.refused("reset", group, "--undo")
    assert "the history has nothing of it" in place.refused(
        "reset", group, "--from-history", "2020-01-01", "--all-topics"
    )
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0\n")
    assert "line 1" in place.refused("reset", group, "--from-file", str(plan), status=2)
    plan.write_text(f"{topic},99,1\n")
    assert there_is_no in place.refused("reset", group, "--from-file", str(plan))
    plan.write_text(f"another-group,{topic},0,1\n")
    assert "has no offset of group" in place.refused("reset", group, "--from-file", str(plan), status=2)
    assert place.committed(group, topic) == [3, NONE]


def test_parquet_of_the_pipeline(place: Place, hours: Hours, fresh_name: Callable[[], str], tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    topic, group = hours.topic, fresh_name()
    columns = {"group": [group, "other", group], "topic": [topic] * 3, "partition": [0, 0, 1], "offset": [2, 9, 5]}
    parquet.write_table(pa.table(columns), tmp_path / "state.parquet")
    place.done("reset", group, "--from-file", str(tmp_path / "state.parquet"), "--yes")
    assert place.committed(group, topic) == [2, 5]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    assert "bad.parquet" in place.refused("reset", group, "--from-file", str(tmp_path / "bad.parquet"), status=2)
