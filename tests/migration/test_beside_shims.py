"""A shim with a log of its own, where others share one on topics of the same cluster: which groups they serve nobody
tells it, so it takes none over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.migration.test_changing_hands import administered
from tests.migration.test_first_contact import commit
from tests.shim_process import Shim

_ON_TOPICS: dict[str, str | int] = {"offsets.topic.num.partitions": 1, "offsets.mirror.upstream": "false"}


def test_nothing_is_taken_over_where_other_shims_serve(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(), fresh_name()
    commit(broker.bootstrap_servers, group, topic, 7)
    with administered(broker, tmp_path / "alone", **{"offsets.log": "local"}) as alone:
        with Shim(broker.bootstrap_servers, tmp_path / "sharing", settings=_ON_TOPICS, offsets_log="kafka") as sharing:
            shims = str(sharing.topics_prefix)
            planned = {each["group"]: each["hindrance"] for each in alone.migrate("plan").json["groups"]}
            assert shims not in planned
            beside = "shims that share a log on topics serve in front of this cluster, and this one is none of them"
            assert planned[group] == f"{beside}: they are in group {shims}"
            refused = alone.migrate("start", group)
            assert (refused.status, refused.json["not_done"][0]["error"]) == (1, f"group {group}: {planned[group]}")
            (about_theirs,) = alone.migrate("plan", shims).json["groups"]
            assert about_theirs["hindrance"] == "it is the group of shims that share a log on topics"
        started = alone.migrate("start", group)  # those have left
        assert started.json["groups"][0]["offsets_storage"] == "kafka", started
        assert alone.offsets(group) == {(topic, 0): 7}
