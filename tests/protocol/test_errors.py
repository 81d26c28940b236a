from typing import Any

import pytest
from kafka import errors as kafka_python

from protocol.errors import ErrorCode


def test_all_codes_without_a_gap() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)
    assert all(code.message.endswith(".") for code in ErrorCode)


@pytest.mark.parametrize(
    ("number", "name", "retriable"),
    [
        (14, "COORDINATOR_LOAD_IN_PROGRESS", True),
        (16, "NOT_COORDINATOR", True),
        (22, "ILLEGAL_GENERATION", False),
        (25, "UNKNOWN_MEMBER_ID", False),
        (27, "REBALANCE_IN_PROGRESS", False),
        (82, "FENCED_INSTANCE_ID", False),
        (88, "UNSTABLE_OFFSET_COMMIT", True),
    ],
)
def test_what_the_coordinator_says(number: int, name: str, retriable: bool) -> None:
    assert ErrorCode(number) is ErrorCode[name]
    assert ErrorCode[name] == number
    assert ErrorCode[name].retriable is retriable


def test_numbers_of_newer_servers() -> None:
    for code in ErrorCode:
        assert ErrorCode.for_code(int(code)) is code
    for number in (999, 134, -2, 2**15 - 1, -(2**15)):
        assert ErrorCode.for_code(number) is ErrorCode.UNKNOWN_SERVER_ERROR
        with pytest.raises(ValueError, match=str(number)):
            ErrorCode(number)


def test_names_agree_with_kafka_python() -> None:
    classes: list[Any] = [
        error
        for error in vars(kafka_python).values()
        if isinstance(error, type) and issubclass(error, kafka_python.BrokerResponseError)
    ]
    theirs = {error.errno: error.message for error in classes if isinstance(error.errno, int) and error.errno >= 0}
    ours = {int(code): code.name for code in ErrorCode}
    assert len(theirs) > 80
    differing = {name for number, name in theirs.items() if ours[number] != name}
    # Old names of the same errors.
    assert differing == {
        "NO_ERROR",
        "NOT_LEADER_FOR_PARTITION",
        "MESSAGE_SIZE_TOO_LARGE",
        "INVALID_TOPIC",
        "INVALID_REPLICATION_ASSIGNMENT",
    }
