"""Every API version that a broker dropped and that is answered all the same, by API key.

What brokers have: Kafka 4.0 to 4.3. Each translation goes to a version that all of them have, and Kafka 2.1 to 3.9 too.
"""

from __future__ import annotations

from collections.abc import Mapping

from compat import acls, describe_configs, fetch, list_offsets, produce, same_bytes
from compat.translation import Translation, renumbered
from protocol.messages import create_topics, delete_topics, describe_acls, offset_for_leader_epoch

TRANSLATIONS: Mapping[int, Translation] = {
    translation.api.key: translation
    for translation in (
        produce.TRANSLATION,
        fetch.TRANSLATION,
        list_offsets.TRANSLATION,
        Translation(create_topics.API, 0, 1, 2, renumbered),
        Translation(delete_topics.API, 0, 0, 1, renumbered),
        Translation(offset_for_leader_epoch.API, 0, 1, 2, renumbered),
        Translation(describe_acls.API, 0, 0, 1, renumbered),
        describe_configs.TRANSLATION,
        *acls.TRANSLATIONS,
        *same_bytes.TRANSLATIONS,
    )
}
