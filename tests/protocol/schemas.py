"""Every struct that goes over a wire or into a log on its own, in each of its versions."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from protocol.apis import APIS
from protocol.codec import codec
from protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.headers import RequestHeader, ResponseHeader
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue


class Case(NamedTuple):
    cls: Any
    version: int
    flexible: bool

    def __str__(self) -> str:
        return f"{self.cls.__name__}-v{self.version}"


API_CASES = [
    Case(cls, version, api.is_flexible(version))
    for api in APIS.values()
    for cls in (api.request, api.response)
    for version in range(api.versions[0], api.versions[1] + 1)
]
OTHER_CASES = [
    Case(RequestHeader, 1, False),
    Case(RequestHeader, 2, True),
    Case(ResponseHeader, 0, False),
    Case(ResponseHeader, 1, True),
    *(Case(OffsetCommitKey, version, False) for version in (0, 1)),
    Case(GroupMetadataKey, 2, False),
    *(Case(cls, version, version >= 4) for cls in (OffsetCommitValue, GroupMetadataValue) for version in range(5)),
    *(
        Case(cls, version, False)
        for cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
        for version in range(4)
    ),
]
CASES = [*API_CASES, *OTHER_CASES]


def distinct(cases: list[Case]) -> list[Case]:
    """One of those versions whose decoders are the same code."""
    return list({(case.cls, codec(*case).decode_source): case for case in cases}.values())


DECODERS = distinct(CASES)


def by_message(cases: list[Case]) -> dict[str, list[Case]]:
    """The versions of each."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(case.cls.__name__, []).append(case)
    return found


def each_version(cases: list[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Of a test that takes a ``case``, one of all versions of each message: that a test begins and ends costs as much
    as most of them. Which version it was that failed is in a note."""
    messages = by_message(cases)

    def of_versions(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*, versions: list[Case], **others: Any) -> None:
            for case in versions:
                try:
                    test(case=case, **others)
                except BaseException as error:
                    error.add_note(f"of {case}")
                    raise

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]  # by which pytest knows what it takes
            parameters=[
                name.replace(name="versions") if name.name == "case" else name for name in signature.parameters.values()
            ]
        )
        marked: Callable[..., None] = pytest.mark.parametrize("versions", messages.values(), ids=messages)(run)
        return marked

    return of_versions
