"""What the package's README shows is what happens."""

import contextlib
import io
import re
from pathlib import Path

import protocol
from protocol.apis import APIS

README = Path(protocol.__file__).with_name("README.md").read_text(encoding="utf-8")


def test_a_captured_frame_decoded_in_five_lines() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    source, output = shown
    assert len([line for line in source.splitlines() if line]) == 5
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(source, {})
    assert printed.getvalue() == output


def test_the_number_of_apis() -> None:
    assert f"{len(APIS)} APIs" in README
