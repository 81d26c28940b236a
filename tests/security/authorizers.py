"""Clusters with an authorizer and without, for tests that have no cluster."""

from __future__ import annotations

from typing import NamedTuple, cast

from shim.security.authorizer import Authorizer


class _Known(NamedTuple):
    absent: bool
    can_be_asked: bool = True
    is_known: bool = True


NO_AUTHORIZER = cast(Authorizer, _Known(absent=True))
AUTHORIZER = cast(Authorizer, _Known(absent=False))
NOT_KNOWN_YET = cast(Authorizer, _Known(absent=False, is_known=False))
OLD_AUTHORIZER = cast(Authorizer, _Known(absent=False, can_be_asked=False))
