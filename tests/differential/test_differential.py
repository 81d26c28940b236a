"""The same requests to the real group coordinator and to the shim's: the same answers, the same visible state."""

from collections import Counter
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from shim.demo.parts import Broker
from tests.differential.checking import Report, check
from tests.differential.pair import USUAL, Pair, pair_with
from tests.differential.steps import Timing

SHORT_SEQUENCES = 60
SHORT_DELAYED = 4
SHORT_ON_TOPICS = 20
SOAK_PARTS = 20
SOAK_SEQUENCES = 500
SOAK_FIRST = 1_000_000

OFTEN = 20
"""An API that is asked for so often a version has been asked in each; some are seldom asked in one part."""

EXPECTED_ERRORS = {
    "JoinGroup": {"NONE", "MEMBER_ID_REQUIRED", "INCONSISTENT_GROUP_PROTOCOL", "UNKNOWN_MEMBER_ID"},
    "SyncGroup": {"NONE", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"},
    "Heartbeat": {"NONE", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"},
    "LeaveGroup": {"NONE", "UNKNOWN_MEMBER_ID"},
    "OffsetCommit": {"NONE", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "OFFSET_METADATA_TOO_LARGE"},
    "DeleteGroups": {"NONE", "NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND"},
    "OffsetDelete": {"NONE", "GROUP_SUBSCRIBED_TO_TOPIC", "GROUP_ID_NOT_FOUND"},
    "OffsetFetch": {"NONE"},
    "DescribeGroups": {"NONE"},
    "ListGroups": {"NONE"},
    "FindCoordinator": {"NONE"},
}
"""What honest and other clients meet in a few sequences already: a test that never got so far would prove little."""

STATES = {"Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}


def unasked(pair: Pair) -> list[tuple[str, int]]:
    """Versions in which an API that was asked for often was never asked."""
    asked: Counter[tuple[str, int]] = Counter()
    for (name, version, _), count in pair.answers.items():
        asked[name, version] += count
    missing = []
    for api in pair.compared_apis():
        versions = pair.versions_of(api)
        if sum(asked[api.name, version] for version in versions) >= OFTEN * len(versions):
            missing += [(api.name, version) for version in versions if not asked[api.name, version]]
    return missing


def assert_same(report: Report) -> None:
    assert not report.differences, "\n\n".join(report.differences)
    # Few sequences may end early.
    assert report.results["Undetermined"] <= 2 + report.sequences // 10, report.undetermined
    assert report.results["TooSlow"] <= 2 + report.sequences // 10, report.results
    assert report.steps >= 5 * report.sequences, report.steps


def test_the_same_answers_and_the_same_state(usual_pair: Pair) -> None:
    assert_same(check(usual_pair, range(SHORT_SEQUENCES)))
    met: dict[str, set[str]] = {}
    for api, _, error in usual_pair.answers:
        met.setdefault(api, set()).add(ErrorCode(error).name)
    missing = {api: errors - met.get(api, set()) for api, errors in EXPECTED_ERRORS.items()}
    assert not any(missing.values()), missing
    assert {state for transition in usual_pair.transitions for state in transition} == STATES


def test_the_same_with_an_initial_rebalance_delay(delayed_pair: Pair) -> None:
    assert_same(check(delayed_pair, range(SHORT_DELAYED), Timing.DELAY))


def test_the_same_with_the_log_on_topics(usual_broker: Broker, tmp_path: Path) -> None:
    with pair_with(usual_broker, tmp_path, USUAL, offsets_log="kafka") as both:
        assert_same(check(both, range(SHORT_ON_TOPICS)))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS - 1))
def test_soak(usual_pair: Pair, part: int) -> None:
    first = SOAK_FIRST + part * SOAK_SEQUENCES
    assert_same(check(usual_pair, range(first, first + SOAK_SEQUENCES)))
    assert not unasked(usual_pair)


@pytest.mark.soak
def test_soak_with_an_initial_rebalance_delay(delayed_pair: Pair) -> None:
    first = SOAK_FIRST + (SOAK_PARTS - 1) * SOAK_SEQUENCES
    assert_same(check(delayed_pair, range(first, first + SOAK_SEQUENCES), Timing.DELAY))
