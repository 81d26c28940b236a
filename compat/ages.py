"""How old a client is, as far as the versions of the APIs that it uses tell.

A client that negotiates uses the newest version that it knows, and one that does not uses those of its own time. So a
low version says: as Kafka's own clients did up to that release. Other libraries take up new versions later, if at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from compat.table import TRANSLATIONS
from protocol.apis import ApiKey

RELEASES: Final = ("0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2", "0.11", "1.0", "1.1", "2.0")
"""Of Kafka, those before 2.1: what Kafka 4 speaks to begins with that (KIP-896)."""

LAST_RELEASES: Final[Mapping[int, Sequence[str]]] = {
    ApiKey.PRODUCE: ("0.8.2", "0.9", "0.10.2", "0.11", "0.11", "1.1", "2.0"),
    ApiKey.FETCH: ("0.8.2", "0.9", "0.10.0", "0.10.2", "0.11", "0.11", "1.0", "1.1", "2.0"),
    ApiKey.LIST_OFFSETS: ("0.10.0", "0.10.2", "1.1", "2.0"),
    ApiKey.METADATA: ("0.9", "0.10.0", "0.10.2", "0.11", "0.11", "1.1", "2.0"),
    ApiKey.OFFSET_COMMIT: ("0.8.1", "0.8.2", "0.10.2", "1.1", "2.0"),
    ApiKey.OFFSET_FETCH: ("0.8.1", "0.10.1", "0.10.2", "1.1", "2.0"),
    ApiKey.JOIN_GROUP: ("0.10.0", "0.10.2", "1.1"),
}
"""By API key, and then by version: the last release whose clients knew no newer one. Versions that are not here, and
APIs, are used by clients of today, too."""

FIRST_IN_KAFKA_4: Final[Mapping[int, int]] = {
    **{key: translation.last + 1 for key, translation in TRANSLATIONS.items()},
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
}
"""By API key, the first version that brokers of Kafka 4 answer, of those APIs that once began lower (KIP-896). Of
JoinGroup 4.0 alone did not answer v0 and v1."""


def is_dropped(api_key: int, version: int) -> bool:
    """Whether Kafka 4 does not speak that version any more."""
    return version < FIRST_IN_KAFKA_4.get(api_key, 0)


def speaks_as(lowest: Iterable[tuple[int, int]]) -> str | None:
    """The last release of Kafka whose clients used versions as low as these, pairs of API key and version; None for a
    client of 2.1 or newer, or one that has used too little to tell."""
    told = [
        RELEASES.index(releases[version])
        for key, version in lowest
        if version < len(releases := LAST_RELEASES.get(key, ()))
    ]
    return RELEASES[min(told)] if told else None
