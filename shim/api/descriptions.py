"""What the APIs that describe groups have to themselves: in all else one is answered as another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from protocol.errors import ErrorCode


class Describes(NamedTuple):
    """``field``: of the request, that has the groups. ``failed``: what is answered of one of these; ``response``: of
    all that is answered, in its order."""

    field: str
    failed: Callable[[str, ErrorCode], Any]
    response: Callable[[tuple[Any, ...]], Any]

    def refused(self, errors: Mapping[str, ErrorCode]) -> Any:
        """The response of which that is all."""
        return self.response(tuple(self.failed(group_id, error) for group_id, error in errors.items()))
