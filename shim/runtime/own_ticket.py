"""The ticket of what the shim asks of a coordinator by itself, which is a request like any other."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from protocol.errors import ErrorCode

T = TypeVar("T")


class OwnTicket(Generic[T]):
    """``answered`` with what the coordinator has said, or with why it could not."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[T | ErrorCode] = asyncio.get_running_loop().create_future()

    def answer(self, response: T) -> None:
        self._tell(response)

    def fail(self, error: ErrorCode) -> None:
        self._tell(error)

    def _tell(self, answer: T | ErrorCode) -> None:
        if not self.answered.done():  # it is when the shim stops
            self.answered.set_result(answer)
