"""Which messages Kafka's own codecs have, as data, to be asked without Java; `test_java.py` holds it to them."""

from typing import Final

from protocol.apis import APIS
from tests.protocol.schemas import Case

NEITHER_HAS: Final[dict[str, list[int]]] = {}
"""By struct, the versions that neither of the two releases with generated classes has one for."""

# fmt: off
NEWEST_OF_1: Final = {
    0: 5, 1: 7, 2: 2, 3: 5, 8: 3, 9: 3, 10: 1, 11: 2, 12: 1, 13: 1, 14: 1, 15: 1, 16: 1, 17: 1, 18: 1, 19: 2, 20: 1,
    22: 0, 23: 0, 24: 0, 25: 0, 26: 0, 27: 0, 28: 0, 29: 0, 32: 1, 36: 0, 42: 0,
}
# fmt: on
"""By API key, the newest version that 1.1.1 has a schema for; it has those before, and requests and responses alike."""


def generated_has(case: Case) -> bool:
    return case.version not in NEITHER_HAS.get(case.cls.__name__, [])


def kafka_1_has(case: Case) -> bool:
    (key,) = (key for key, api in APIS.items() if case.cls in (api.request, api.response))
    return case.version <= NEWEST_OF_1.get(key, -1)
