"""The console's files as they are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

PREFIX: Final = "/console/"
"""Where they are, but for the page itself, which is at ``/``."""

_PAGE: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


class PageFile(NamedTuple):
    """``content_type``: without its charset, which is UTF-8."""

    content: bytes
    content_type: str


def page_files() -> Mapping[str, PageFile]:
    """By path: all there are, so none of another folder can be asked for."""
    found = {PREFIX + name: file for name, file in _below(resources.files("shim.admin.console"), "")}
    found["/"] = found.pop(PREFIX + _PAGE)
    return found


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, PageFile]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _below(each, f"{prefix}{each.name}/")
        elif content_type := _TYPES.get(each.name[each.name.rfind(".") :]):
            yield prefix + each.name, PageFile(each.read_bytes(), content_type)
