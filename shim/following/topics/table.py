"""What is known of the cluster's topics, and what it means when one of them is seen, or is not."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from protocol.wire import ZERO_UUID
from shim.following.topics.doubts import TopicDoubts
from shim.upstream.cluster_topics import Topic


class Identity(NamedTuple):
    """``confirmed``: all brokers have said so."""

    topic_id: bytes
    confirmed: bool

    def is_of_another(self, topic: Topic) -> bool:
        return topic.topic_id not in (self.topic_id, ZERO_UUID)


class TopicTable:
    """Of topics for which there may be offsets. One that is not there may exist."""

    def __init__(self) -> None:
        self.partition_counts: dict[str, int] = {}
        """Of those that are known and not in doubt."""
        self.identities: dict[str, Identity] = {}
        self.doubts = TopicDoubts()
        self._unused: set[str] = set()

    def concerns(self, name: str) -> bool:
        return name in self.partition_counts or name in self.doubts

    # -- what one broker has said

    def saw(self, name: str, topic: Topic) -> None:
        before = self.identities.get(name)
        has_changed = before is not None and before.is_of_another(topic)
        doubt = self.doubts.get(name)
        if before is not None and before.confirmed and has_changed:
            if doubt is None:
                doubt = self.doubts.begin(name, self.partition_counts.pop(name, 0), blocks=True)
            doubt.blocks = True
        if doubt is not None:
            doubt.seen = topic.topic_id
            return
        if (before is None or has_changed) and topic.topic_id != ZERO_UUID:
            self.identities[name] = Identity(topic.topic_id, confirmed=False)
        known = 0 if has_changed else self.partition_counts.get(name, 0)
        self.partition_counts[name] = max(topic.partitions, known)  # it grows only: who says less is behind

    def missed(self, name: str) -> None:
        """It was not there."""
        if name in self.partition_counts:
            self.doubts.begin(name, self.partition_counts.pop(name), blocks=False)

    # -- what all have said

    def unconfirmed(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.identities and not self.identities[name].confirmed]

    def confirm(self, name: str, topic: Topic) -> None:
        """If it is still the one that was seen."""
        before = self.identities.get(name)
        if before is not None and topic.topic_id == before.topic_id:
            self.identities[name] = Identity(topic.topic_id, confirmed=True)

    def is_surely_another(self, name: str, topic: Topic) -> bool:
        """Whether it is not the one that all have named before."""
        before = self.identities.get(name)
        return before is not None and before.confirmed and before.is_of_another(topic)

    def settle_present(self, name: str, topic: Topic) -> None:
        """It is this one, and there is no offset of another one's any more."""
        if topic.topic_id != ZERO_UUID:
            self.identities[name] = Identity(topic.topic_id, confirmed=True)
        if self.doubts[name].seen in (None, ZERO_UUID, topic.topic_id):  # otherwise somebody saw a third one
            self.partition_counts[name] = topic.partitions
            self.doubts.end(name)

    def settle_gone(self, name: str) -> None:
        """It is gone, and so are its offsets; there may be another one by now."""
        self.identities.pop(name, None)
        self.doubts.end(name)

    def leave_unsettled(self, name: str) -> None:
        """It is as before, to be looked at again."""
        self.partition_counts[name] = self.doubts[name].partitions
        self.doubts.end(name)

    def forget_unused(self, in_use: Collection[str]) -> None:
        """Those that are not in use, and were not when this was called last."""
        unused = self.partition_counts.keys() - in_use
        for name in unused & self._unused:
            del self.partition_counts[name]
            self.identities.pop(name, None)
        self._unused = unused
