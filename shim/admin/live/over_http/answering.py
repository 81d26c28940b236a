"""Answers that are one document, or say what is wrong."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from shim.admin.live.shown.documents import JSON, encoded

ANSWER_SECONDS: Final = 60.0
"""How long an answer may take, of what only looks."""


def json_response(document: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=encoded(document), content_type=JSON)


def error_response(status: int, reason: str) -> web.Response:
    """``reason``: one line."""
    response = json_response({"error": reason}, status)
    response.force_close()
    return response
