"""What the table says, beside what the group has committed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pipeline.errors import NotDone
from pipeline.load.offsets import Range, TopicPartition
from pipeline.load.reconciling import check_same, made_anew, reconcile
from pipeline.load.record import BadRecord, BatchRecord, read_record

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
LAST = BatchRecord(
    group="g",
    number=4,
    batch_id="0d1f7a52-0000-4000-8000-000000000000",
    cluster_id="c",
    topic_ids={"a": "id-1"},
    starts={A0: 100, A1: 0},
    ends={A0: 200, A1: 50},
    gaps=(Range(A1, 0, 7),),
)


def test_a_group_that_the_table_does_not_know_goes_on_where_it_is() -> None:
    found = reconcile(None, {A0: 5}, [A0, A1])
    assert found.starts == {A0: 5}
    assert found.behind == {}


def test_a_group_that_is_where_the_table_is() -> None:
    found = reconcile(LAST, {A0: 200, A1: 50}, [A0, A1])
    assert found.starts == {A0: 200, A1: 50}
    assert found.behind == {}


def test_a_load_that_broke_off_before_the_group_was_committed() -> None:
    """The group is where the batch began, or, of a first batch, nowhere."""
    found = reconcile(LAST, {A0: 100}, [A0, A1])
    assert found.starts == {A0: 200, A1: 50}
    assert found.behind == {A0: 200, A1: 50}


@pytest.mark.parametrize(("offset", "harm"), [(150, "loads records again"), (201, "leaves records out")])
def test_a_group_that_somebody_has_moved(offset: int, harm: str) -> None:
    with pytest.raises(NotDone, match=f"a-0 is at {offset}, in the table up to 200.*{harm}"):
        reconcile(LAST, {A0: offset, A1: 50}, [A0, A1])
    found = reconcile(LAST, {A0: offset, A1: 50}, [A0, A1], accept=True)
    assert found.starts == {A0: offset, A1: 50}
    assert [one.at for one in found.moved] == [A0]


def test_other_topics_of_the_group_do_not_matter() -> None:
    assert reconcile(LAST, {A0: 7, A1: 50}, [A1]).starts == {A1: 50}


def test_a_topic_made_anew_is_refused() -> None:
    with pytest.raises(NotDone, match="topic a was deleted and made anew since batch 4"):
        check_same(LAST, "c", {"a": "id-2"}, accept=False)
    assert check_same(LAST, "c", {"a": "id-2"}, accept=True) == {"a"}
    assert check_same(LAST, "c", {"a": "id-1", "b": "id-9"}, accept=False) == set()
    assert reconcile(LAST, {}, [A0], anew={"a"}).starts == {}


def test_brokers_that_have_come_to_have_ids_or_none_have_the_same_topics() -> None:
    before = replace(LAST, topic_ids={"a": ""})
    assert check_same(before, "c", {"a": "id-1"}, accept=False) == set()
    assert check_same(LAST, "c", {"a": ""}, accept=False) == set()
    assert made_anew({"a": "id-1", "b": "", "c": "id-3"}, {"a": "id-2", "b": "id-4", "c": "", "d": "id-5"}) == {"a"}


def test_another_cluster_is_refused() -> None:
    with pytest.raises(NotDone, match="loaded from cluster c, and this is d"):
        check_same(LAST, "d", {"a": "id-1"}, accept=False)


def test_a_record_as_json_and_back() -> None:
    assert read_record(LAST.as_json()) == LAST


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"form": "of somebody else"}', "null"])
def test_what_somebody_else_has_written_is_no_record(text: str) -> None:
    assert read_record(text) is None


@pytest.mark.parametrize(
    "change",
    [
        *({"version": 2}, {"batch": 0}, {"batch": "1"}, {"to": None}, {"gaps": [1]}),
        *({"from": {"a": {"0": -1}}}, {"to": {"a": {"x": 1}}}),
    ],
)
def test_a_record_that_is_damaged(change: dict[str, object]) -> None:
    with pytest.raises(BadRecord):
        read_record(json.dumps(json.loads(LAST.as_json()) | change))
