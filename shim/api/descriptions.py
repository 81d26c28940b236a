"""What the APIs that describe groups have to themselves: in all else one is answered as another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from shim.api import describe_groups
from shim.api.none_of_a_kind import NONE_OF_OTHER_KINDS


class Describes(NamedTuple):
    """``field``: of the request, that has the groups. ``failed``: what is answered of one of these; ``response``: of
    all that is answered, in its order."""

    field: str
    failed: Callable[[str, ErrorCode], Any]
    response: Callable[[tuple[Any, ...]], Any]

    def refused(self, errors: Mapping[str, ErrorCode]) -> Any:
        """The response of which that is all."""
        return self.response(tuple(self.failed(group_id, error) for group_id, error in errors.items()))


DESCRIBES: Final[Mapping[ApiKey, Describes]] = {
    ApiKey.DESCRIBE_GROUPS: Describes("groups", describe_groups.failed, describe_groups.response),
    **{ApiKey(each.API.key): Describes("group_ids", each.failed, each.response) for each in NONE_OF_OTHER_KINDS},
}
