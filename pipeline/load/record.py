"""What stands beside the data of each batch, and becomes visible in the same moment: up to where a group has loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeline.load.offsets import Offsets, Range, TopicPartition, flat, nested

_FORM: Final = "offset-pipeline load"
_VERSION: Final = 1


class BadRecord(ValueError):
    """Bytes that look like a batch's record, and are none. Says why."""


@dataclass(frozen=True)
class BatchRecord:
    """One batch of a group in a table.

    ``number`` counts from 1. ``batch_id`` is of this very attempt. ``ends``: of every partition that the group ever
    loaded into this table, where it goes on. ``starts``: of the same partitions, where the last batch that read
    something of it began, before ``gaps`` of that batch, which retention had deleted, were passed over. ``cluster_id``
    and ``topic_ids`` (KIP-516) tell a topic that was made anew from the one that was read; empty where unknown.
    """

    group: str
    number: int
    batch_id: str
    cluster_id: str
    topic_ids: Mapping[str, str]
    starts: Offsets
    ends: Offsets
    gaps: tuple[Range, ...] = ()

    def as_json(self) -> str:
        gaps = [
            {"topic": gap.at.topic, "partition": gap.at.partition, "from": gap.start, "to": gap.end}
            for gap in self.gaps
        ]
        document = {
            "form": _FORM,
            "version": _VERSION,
            "group": self.group,
            "batch": self.number,
            "id": self.batch_id,
            "cluster": self.cluster_id,
            "topics": dict(self.topic_ids),
            "from": nested(self.starts),
            "to": nested(self.ends),
            "gaps": gaps,
        }
        return json.dumps(document, separators=(",", ":"))


def read_record(text: str) -> BatchRecord | None:
    """None for text of somebody else: tables have other writers. Raises :class:`BadRecord`."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("form") != _FORM:
        return None
    if document.get("version") != _VERSION:
        raise BadRecord(f"it is of version {document.get('version')}, and this release knows {_VERSION}")
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError) as error:
        raise BadRecord(f"{type(error).__name__}: {error}") from error


def _read(document: Mapping[str, Any]) -> BatchRecord:
    gaps = tuple(
        Range(TopicPartition(str(gap["topic"]), int(gap["partition"])), int(gap["from"]), int(gap["to"]))
        for gap in document["gaps"]
    )
    number = document["batch"]
    if type(number) is not int or number < 1:
        raise ValueError(f"batch {number!r}")
    topic_ids = {str(topic): str(topic_id) for topic, topic_id in document["topics"].items()}
    return BatchRecord(
        group=str(document["group"]),
        number=number,
        batch_id=str(document["id"]),
        cluster_id=str(document["cluster"]),
        topic_ids=topic_ids,
        starts=flat(document["from"]),
        ends=flat(document["to"]),
        gaps=gaps,
    )
