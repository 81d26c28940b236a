"""What `serve` does beside requests."""

from __future__ import annotations

import asyncio

import pytest

from shim.serve.tasks import keep_up


async def test_a_chore_that_breaks_off_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    begun = 0
    enough = asyncio.Event()

    async def chore() -> None:
        nonlocal begun
        begun += 1
        if begun == 3:
            enough.set()
            await asyncio.Event().wait()
        raise RuntimeError("a bug")

    task = asyncio.create_task(keep_up("the look", chore, 0.0))
    await asyncio.wait_for(enough.wait(), 30)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert caplog.text.count("the look broke off") == 2
    assert "a bug" in caplog.text
