"""Faults for tests: a request or a response is delayed, dropped, cut, or answered with an error.

``fault.injection.file`` names a TOML file of rules (docs/limits.md).
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from shim.api import ROUTES, Refused, Served
from shim.config import INT32_MAX, SettingError

log = logging.getLogger(__name__)

REQUEST, RESPONSE = "request", "response"
DELAY, DROP, CUT, ERROR = "delay", "drop", "cut", "error"

_KEYS: Final = frozenset({"api", "versions", "group", "direction", "action", "ms", "bytes", "error", "skip", "times"})
_NAMES: Final = {key.name.replace("_", "").lower(): int(key) for key in ApiKey}


class Rule(NamedTuple):
    """``api`` and ``group`` None: any. ``skip``: so many that fit pass first; ``times``: so many are hit then."""

    action: str
    direction: str = REQUEST
    api: int | None = None
    versions: tuple[int, int] = (0, 32767)
    group: str | None = None
    delay_seconds: float = 0.0
    after_bytes: int = 0
    error: ErrorCode = ErrorCode.NONE
    skip: int = 0
    times: int = INT32_MAX


class Faults:
    """The rules, and how often each has fitted: on all connections together."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._fitted = [0] * len(self.rules)
        self._by_group = frozenset(rule.api for rule in self.rules if rule.group is not None)

    def wants_groups(self, api: int) -> bool:
        """Whether it matters which groups a request of this API is about."""
        return bool(self._by_group & {api, None})

    def find(self, direction: str, api: int, version: int, groups: Sequence[str]) -> Rule | None:
        """The first rule that fits and is due; it is counted."""
        for number, rule in enumerate(self.rules):
            if (
                rule.direction == direction
                and rule.api in (None, api)
                and rule.versions[0] <= version <= rule.versions[1]
                and (rule.group is None or rule.group in groups)
            ):
                self._fitted[number] += 1
                if rule.skip < self._fitted[number] <= rule.skip + rule.times:
                    name = ApiKey(api).name if api in ApiKey._value2member_map_ else str(api)
                    log.info("fault: %s, the %s of %s version %d", rule.action, direction, name, version)
                    return rule
        return None


def load_faults(path: Path) -> Faults:
    """Raises :class:`SettingError`, with the file's name, for a file or a rule that cannot be used."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
        if unknown := table.keys() - {"fault"}:
            raise ValueError(f"unknown key {min(unknown)}; rules stand in [[fault]]")
        return Faults([_rule(entry) for entry in table.get("fault", [])])
    except OSError as error:
        raise SettingError(f"fault.injection.file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise SettingError(f"fault.injection.file {path}: {error}") from error


def _rule(entry: dict[str, Any]) -> Rule:
    if unknown := entry.keys() - _KEYS:
        raise ValueError(f"unknown key {min(unknown)}")
    api = _NAMES.get(str(entry["api"]).lower()) if "api" in entry else None
    if "api" in entry and api is None:
        raise ValueError(f"there is no API {entry['api']!r}")
    action, direction = entry.get("action"), entry.get("direction", REQUEST)
    if action not in (DELAY, DROP, CUT, ERROR):
        raise ValueError(f"action {action!r} is not delay, drop, cut or error")
    if direction not in (REQUEST, RESPONSE):
        raise ValueError(f"direction {direction!r} is not request or response")
    low, high = entry.get("versions", (0, 32767))
    rule = Rule(
        *(action, direction, api, (int(low), int(high)), entry.get("group")),
        delay_seconds=int(entry.get("ms", 0)) / 1000,
        after_bytes=int(entry.get("bytes", 0)),
        error=_error(entry["error"]) if "error" in entry else ErrorCode.NONE,
        skip=int(entry.get("skip", 0)),
        times=int(entry.get("times", INT32_MAX)),
    )
    if action == ERROR and direction == REQUEST and not _is_served(api):
        raise ValueError('an API that the shim does not answer itself takes an error with direction = "response" only')
    if (action == ERROR) != ("error" in entry):
        raise ValueError('error names the error of action = "error"')
    return rule


def _error(name: str) -> ErrorCode:
    try:
        return ErrorCode[name]
    except KeyError:
        raise ValueError(f"there is no error {name!r}") from None


def _is_served(api: int | None) -> bool:
    """In all versions: those that are translated a broker answers."""
    found = [route.disposition for route in ROUTES.values() if route.key == api]
    return bool(found) and all(isinstance(disposition, Served | Refused) for disposition in found)
