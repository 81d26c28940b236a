"""The console's files: what is served, how, and that nothing else is."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import aiohttp
import pytest

from shim.admin.console import page_files

FILES: Final = page_files()
LINK: Final = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("path", FILES)
async def test_each_file_is_served_with_the_policy(port: int, path: str) -> None:
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}{path}") as response:
        assert response.status == 200
        assert await response.read() == FILES[path].content
        assert response.charset == "utf-8"
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_nothing_is_loaded_from_anywhere_else() -> None:
    for path, file in FILES.items():
        text = file.content.decode()
        if "vendor" not in path:
            addresses = set(re.findall(r"(?:https?:)?//[a-z][^\s\"'`)]*", text)) - {"http://www.w3.org/2000/svg"}
            assert {each for each in addresses if "." in each} == set(), path
            assert "innerHTML" not in text, path


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith(".js") and "vendor" not in path])
def test_each_module_is_small(path: str) -> None:
    assert FILES[path].content.count(b"\n") < 250


def test_the_charts_are_those_that_were_released() -> None:
    """uPlot 1.6.32, as the npm registry has it."""
    content = FILES["/console/vendor/uPlot.iife.min.js"].content
    assert hashlib.sha256(content).hexdigest() == "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
    assert b"v1.6.32" in content
    assert b"MIT" in FILES["/console/vendor/uPlot.LICENSE.txt"].content


async def test_a_link_on_another_site_leads_to_the_page_alone(port: int) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=LINK) as client:
        async with client.get("/") as response:
            assert response.status == 200
        async with client.get("/v1/groups") as response:
            assert response.status == 403


@pytest.mark.parametrize(
    "path", ["/console/__init__.py", "/console/files.py", "/console/vendor/", "/console/index.html"]
)
async def test_what_is_not_served(port: int, path: str) -> None:
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}{path}") as response:
        assert response.status == 404
