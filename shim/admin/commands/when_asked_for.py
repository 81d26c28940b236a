"""Groups of commands of which each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click


class WhenAskedFor(click.Group):
    """They need little of each other, and what all of them import takes longer than most of them do."""

    def __init__(self, *args: Any, imported: Mapping[str, Callable[[], click.Command]], **kwargs: Any) -> None:
        """``imported``: commands by their names, beside those that are added. The rest as for :class:`click.Group`."""
        super().__init__(*args, **kwargs)
        self._imported = imported

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._imported})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (imported := self._imported.get(cmd_name)) is not None:
            return imported()
        return super().get_command(ctx, cmd_name)
