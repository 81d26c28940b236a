"""Settings that change while the shim runs: on SIGHUP the configuration is read again, all of it or nothing taken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from shim.apart import apart
from shim.config import BY_NAME, HIDDEN, SettingError, Settings, is_per_listener, named, value_shown
from shim.given import Given
from shim.listener_config import Listener
from shim.logs import LogOutput

log = logging.getLogger("shim")


@runtime_checkable
class TakesSettings(Protocol):
    """A part that goes by other settings from now on, where they are reloadable."""

    def take_settings(self, settings: Settings) -> None: ...


class TakesListeners(Protocol):
    """As :class:`TakesSettings`, with what each listener has for itself."""

    def take_listeners(self, settings: Settings, listeners: Sequence[Listener]) -> None: ...


class Reloading:
    """For the event loop. ``settings`` and ``listening`` are those in force."""

    def __init__(
        self,
        given: Given,
        reread: Callable[[], Given] | None,
        logs: LogOutput | None = None,
    ) -> None:
        """``reread`` gives what ``serve`` would be given now, or raises :class:`SettingError`; it is called beside the
        event loop, as it reads a file."""
        self.settings = given.settings
        self.listening = given.listening
        self._reread = reread
        self._logs = logs
        self._parts: list[TakesSettings] = [] if logs is None else [logs]
        self._listeners: TakesListeners | None = None
        self._has_changed = False
        self._wanted = asyncio.Event()
        self._going_on: asyncio.Future[None] | None = None
        # What was last said to take a restart: not to be said again by each reload.
        self._for_later: Mapping[str, object] = {}

    def tell(self, parts: Iterable[TakesSettings], listeners: TakesListeners) -> None:
        """Have these told, too: of what has changed since they were made, and from now on."""
        self._parts += parts
        self._listeners = listeners
        if self._has_changed:
            self._tell_parts()

    def begin(self) -> None:
        """:meth:`reload`, now, or once more behind the one that goes on."""
        self._wanted.set()
        if self._going_on is None:
            self._going_on = asyncio.ensure_future(self._go_on())

    async def _go_on(self) -> None:
        try:
            while self._wanted.is_set():
                self._wanted.clear()
                await self.reload()
        finally:
            self._going_on = None

    async def reload(self) -> None:
        """Read and take what is new. An error is logged in a line, and everything stays as it was."""
        if self._reread is None:
            return
        try:
            given = await apart(self._reread)
            if self._logs is not None:
                self._logs.conceal_also(given.secrets)
            settings = _taken(self.settings, given.settings)
            by_name = {listener.name: listener.settings for listener in given.listening}
            listening = tuple(
                each._replace(settings=_taken(each.settings, by_name.get(each.name, each.settings)))
                for each in self.listening
            )
        except SettingError as error:
            log.error("the settings stay as they were: %s", error)
            return
        before, wanted = _flat(self.settings, self.listening), _flat(given.settings, given.listening)
        self.settings, self.listening = settings, listening
        after = _flat(settings, listening)
        if after != before:
            self._has_changed = True
            self._tell_parts()
        taken = [f"{name}={_shown(name, after)} (was {_shown(name, before)})" for name in _differing(before, after)]
        log.info("settings read again: %s", ", ".join(taken) or "nothing to take over")
        for_later = {name: wanted.get(name) for name in _differing(after, wanted)}
        if for_later and for_later != self._for_later:
            log.warning("changed settings that take a restart: %s", ", ".join(for_later))
        self._for_later = for_later

    def _tell_parts(self) -> None:
        for part in self._parts:
            part.take_settings(self.settings)
        if self._listeners is not None:
            self._listeners.take_listeners(self.settings, self.listening)


def _taken(running: Settings, read: Settings) -> Settings:
    """Raises :class:`SettingError` where what is reloadable does not go together with what is not."""
    reloadable = {field.name: getattr(read, field.name) for field in BY_NAME.values() if field.metadata["reloadable"]}
    return replace(running, **reloadable)


def _flat(settings: Settings, listening: Iterable[Listener]) -> dict[str, Any]:
    """By the names that users know; of a listener what differs from the others."""
    values = {name: getattr(settings, field.name) for name, field in BY_NAME.items()}
    for listener in listening:
        for name in filter(is_per_listener, BY_NAME):
            value = getattr(listener.settings, BY_NAME[name].name)
            if value != values[name]:
                values[f"listener.name.{listener.name.lower()}.{name}"] = value
    return values


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _shown(name: str, values: Mapping[str, Any]) -> str:
    """What a listener has not for itself is as everywhere."""
    if name not in values:
        return "as everywhere"
    return HIDDEN if named(name).is_secret else value_shown(values[name])
