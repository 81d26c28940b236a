"""Answers of brokers that refuse, and patience with those that pass by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Final, TypeVar

from protocol.errors import ErrorCode

PATIENCE_SECONDS: Final = 15.0
"""For as long what passes by itself at a broker is waited for."""

_AGAIN_SECONDS: Final = 0.1

Answer = TypeVar("Answer")


class NotYet(Exception):
    """An answer with an error code that passes by itself. The message is one line."""


class BrokerRefused(Exception):
    """An answer with another error code. The message is one line."""


def raise_for(code: int, what: str) -> None:
    """Raises :class:`NotYet` and :class:`BrokerRefused` for any code but 0."""
    if code:
        raise (NotYet if ErrorCode.for_code(code).retriable else BrokerRefused)(f"{what}: {ErrorCode.name_of(code)}")


def patiently(ask: Callable[[], Answer]) -> Answer:
    """Asks again for as long as what refuses it passes by itself. Raises :class:`BrokerRefused` in the end."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = Event()
    while True:
        try:
            return ask()
        except NotYet as not_yet:
            if time.monotonic() > deadline:
                raise BrokerRefused(str(not_yet)) from None
        pause.wait(_AGAIN_SECONDS)  # a broker tells nobody when it is ready
