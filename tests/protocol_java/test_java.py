"""Byte-for-byte agreement with Kafka's own Java codecs: classes of two releases, and the schemas of an old one.

Two more oracles beside those of `tests/protocol/test_oracles.py`. The generated classes cover every version of
everything, and are the only oracle for header versions and for the records of `__consumer_offsets`.
"""

import re
from collections import Counter
from typing import Any, Final

import pytest

from protocol.apis import APIS
from protocol.codec import codec
from protocol.errors import DecodeError
from protocol.messages.produce import PartitionProduceData
from protocol.messages.share_fetch import PartitionData
from protocol.offsets_log import OffsetCommitValue
from protocol.schema import table
from shim.demo.parts.jars import KAFKA
from tests.examples import examples
from tests.legacy.parts import KAFKA_1, KAFKA_3
from tests.protocol.schemas import API_CASES, CASES, Case, each_version
from tests.protocol_java.corpus import all_defaults, inside, samples, spoilt
from tests.protocol_java.coverage import NEITHER_HAS, kafka_1_has
from tests.protocol_java.oracle import RELEASES, Answer, Question, Read, Refused, ask
from tests.protocol_java.values import same_in_wire_order, same_message

pytestmark = pytest.mark.examples

SAMPLES: Final = min(60, examples(6))
SPOILT: Final = min(120, examples(12))

# (API, version, direction) that each release has a class for, of all that there are here.
COVERED: Final = {KAFKA: 410, KAFKA_3: 400}

# Here the timestamp of an offset is "none" by default and 0 there; it is on the wire in every version. And records
# have no default: what is nothing is null there, even where null is not allowed.
DEFAULTS_OF_OUR_OWN: Final = {OffsetCommitValue, PartitionProduceData, PartitionData}

# Tagged fields that came after a release, which keeps them as it keeps any unknown one.
UNKNOWN_TO: Final[dict[str, dict[type[Any], dict[str, Any]]]] = {
    KAFKA: {},
    KAFKA_3: {OffsetCommitValue: {"topic_id": bytes(16)}},
}

# What only we refuse, and what Kafka's classes make of it. They write each of these back as something else.
STRICTER: Final = {
    "not UTF-8": "characters that cannot be read are replaced",
    "length -": "every negative length is null, where null is allowed",
    "neither 1 (a struct) nor -1 (null)": "every negative flag is null, every other a struct",
    "a tagged field of": "the size of a tagged field that is known is not looked at",
    "bytes wanted": "likewise, where the size goes beyond the end",
    "after tag": "tagged fields may come in any order, and more than once",
    "a null padded to several bytes": "a varint may be longer than it need be",
}

# And what only they refuse: a tag that is known, in a version before it was. Here it counts as unknown, and is kept.
LAXER: Final = re.compile(r".*RuntimeException: Tag \d+ is not valid for version \d+")


Answers = dict[Question, Answer]


def messages(case: Case) -> list[Any]:
    return [all_defaults(case), *samples(case, SAMPLES)]


def fresh(case: Case) -> list[Question]:
    """The message, and every struct in it, with nothing set."""
    return [Question(case, None), *(Question(struct, None, case) for struct in inside(case))]


@pytest.fixture(scope="module")
def told() -> dict[str, Answers]:
    """By release: what it says of all that is asked here."""
    questions: list[Question] = []
    for case in CASES:
        questions += fresh(case)
        questions += (Question(case, codec(*case).encode(message)) for message in messages(case))
        questions += (Question(case, raw) for raw in spoilt(case, SPOILT))
    return {release: ask(release, questions) for release in RELEASES}


@pytest.fixture(scope="module")
def told_by_kafka_1() -> Answers:
    """What 1.1.1 says of our messages."""
    cases = [case for case in API_CASES if not case.flexible]
    return ask(KAFKA_1, (Question(case, codec(*case).encode(msg)) for case in cases for msg in messages(case)))


def has(answers: Answers, case: Case) -> bool:
    return answers[Question(case, None)] is not None


def known_to(told: dict[str, Answers], case: Case) -> list[tuple[str, Answers]]:
    """The releases that have a version, and what they say."""
    known = [(release, answers) for release, answers in told.items() if has(answers, case)]
    assert known, "no release has it"
    return known


def header_version(case: Case) -> int | None:
    for api in APIS.values():
        if case.cls is api.request:
            return api.request_header_version(case.version)
        if case.cls is api.response:
            return api.response_header_version(case.version)
    return None


@each_version(CASES)
def test_agreement(told: dict[str, Answers], case: Case) -> None:
    for release, answers in known_to(told, case):
        later = UNKNOWN_TO[release].get(case.cls, {})
        for message in messages(case):
            raw = codec(*case).encode(message)
            answer = answers[Question(case, raw)]
            assert isinstance(answer, Read), (release, message, answer)
            assert (answer.left, answer.written) == (0, raw)
            assert answer.header == header_version(case)
            same_message(answer.values, message._replace(**later), table(*case))


@each_version([case for case in API_CASES if kafka_1_has(case)])
def test_agreement_with_hand_written_schemas(told_by_kafka_1: Answers, case: Case) -> None:
    # 1.1.1 fails over records that are null, which Kafka's message definitions allow in every version.
    shown = [message for message in messages(case) if "records=None" not in repr(message)]
    assert len(shown) > SAMPLES // 4
    for message in shown:
        raw = codec(*case).encode(message)
        answer = told_by_kafka_1[Question(case, raw)]
        assert isinstance(answer, Read), (message, answer)
        assert (answer.left, answer.written) == (0, raw)
        same_in_wire_order(answer.values, message, table(*case))


@each_version(CASES)
def test_the_same_defaults(told: dict[str, Answers], case: Case) -> None:
    for release, answers in known_to(told, case):
        for asked in (each for each in fresh(case) if each.case.cls not in DEFAULTS_OF_OUR_OWN):
            answer = answers[asked]
            assert isinstance(answer, Read), (release, asked, answer)
            assert answer.written == codec(*asked.case).encode(all_defaults(asked.case)), (release, asked)


def test_coverage(told: dict[str, Answers], told_by_kafka_1: Answers) -> None:
    """How much each release covers, and exactly what none of those with generated classes does."""
    assert {release: sum(has(told[release], case) for case in API_CASES) for release in RELEASES} == COVERED
    neither: dict[str, list[int]] = {}
    for case in CASES:
        if not any(has(answers, case) for answers in told.values()):
            neither.setdefault(case.cls.__name__, []).append(case.version)
    assert neither == NEITHER_HAS
    known = {asked.case for asked, answer in told_by_kafka_1.items() if answer is not None}
    assert known == {case for case in API_CASES if kafka_1_has(case)}


@pytest.mark.parametrize("release", RELEASES)
def test_spoilt_bytes(told: dict[str, Answers], release: str) -> None:
    """What both take is the same message; what one of them refuses it refuses for a reason that is listed here."""
    outcomes: Counter[str] = Counter()
    for case in CASES:
        if has(told[release], case) and case.cls not in UNKNOWN_TO[release]:
            outcomes.update(_compared(case, raw, told[release][Question(case, raw)]) for raw in spoilt(case, SPOILT))
    assert min(outcomes[outcome] for outcome in ("taken", "refused", "refused by us")) > 100, outcomes


def _compared(case: Case, raw: bytes, answer: Answer) -> str:
    where = f"{case} {raw.hex()} {answer}"
    refusal = ""
    try:
        message, end = codec(*case).decode(raw)
    except DecodeError as error:
        refusal = str(error)
    match refusal, answer:
        case "", Read(left=left, written=written):
            assert left == len(raw) - end, where
            # Offset metadata that is not UTF-8 is kept here, as surrogates; they replace it, as they do everywhere.
            assert written == codec(*case).encode(message) or re.search(r"\\udc[89a-f]", repr(message)), where
            return "taken"
        case "", Refused(reason=reason):
            assert LAXER.match(reason), where
            return "refused by them"
        case _, Read(left=left, written=written):
            assert written != raw[: len(raw) - left], where
            assert any(reason in refusal for reason in STRICTER), f"{where}: {refusal}"
            return "refused by us"
        case _:
            return "refused"
