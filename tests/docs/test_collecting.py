"""What is taken for a command in a text, and which command covers which."""

from __future__ import annotations

import pytest

from tests.docs.collecting import as_command, commands_of_comments, commands_of_page
from tests.docs.covering import covers, not_covered, options

PAGE = """\
# A title

Say `offset-shim groups
  list` or `migrate status G`; a `group` is no command, nor is `make`, nor `groups`. With ``two `make x` `` neither.

```
make test      # everything, # really
.venv/bin/offset-shim serve --listen H:P \\
    --data-dir DIR
DIR/meta.properties    a file
curl -d '{"a": "#1"}' http://h/
```

1. In a list:

   ```
   kafka-acls.sh --add
   ```

```toml
make = "no command"
```
and `pip install .` at the end.
"""


def test_of_a_page() -> None:
    assert commands_of_page(PAGE) == [
        "offset-shim groups list",
        "offset-shim migrate status G",
        "make test",
        "offset-shim serve --listen H:P --data-dir DIR",
        """curl -d '{"a": "#1"}' http://h/""",
        "kafka-acls.sh --add",
        "pip install .",
    ]


def test_of_comments() -> None:
    text = "# Do this:\n#   systemctl daemon-reload\n# and `kubectl apply -f x`.\nmake: test\n  # pip install x\n"
    assert commands_of_comments(text) == ["systemctl daemon-reload", "kubectl apply -f x"]


@pytest.mark.parametrize(
    "text", ["", " ", "make", "groups", "log", "offsets", "docker-compose.yml", "kafka-topics", "log.level"]
)
def test_what_is_none(text: str) -> None:
    assert as_command(text) is None


@pytest.mark.parametrize(
    ("known", "command", "expected"),
    [
        ("a b --x 1", "a b --x 1", True),
        ("a b --x 1 --y", "a b --y", True),
        ("a b --x 1", "a b", True),
        ("a b --x 1", "a", True),
        ("a b --x 1", "a b --y", False),
        ("a b --x 1", "a c", False),
        ("a b", "a b c", False),
        ("a b --x 1", "b --x", False),
        ("a b --x [1]", "a b --x 1", True),
    ],
)
def test_covers(known: str, command: str, expected: bool) -> None:
    assert covers(known, command) is expected


def test_not_covered() -> None:
    assert not_covered(["a b", "a c --z"], ["a b --x", "a c"]) == ["a c --z"]


def test_options() -> None:
    assert options("a b -x --y=1 [--z] -- c") == ["--y", "--z"]
