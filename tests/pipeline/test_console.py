"""What `offset-pipeline` asks, and where it does not."""

from __future__ import annotations

import io

import pytest

from pipeline.console import NothingDone, agree


class Typed(io.StringIO):
    """Standard input, a terminal or not."""

    def __init__(self, text: str, *, terminal: bool) -> None:
        super().__init__(text)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(("terminal", "yes"), [(False, False), (False, True), (True, True)])
def test_nothing_is_asked_without_a_terminal_or_with_yes(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, yes: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("n\n", terminal=terminal))
    agree("Go on?", yes=yes)


@pytest.mark.parametrize("typed", ["n\n", ""], ids=["no", "the end of the input"])
def test_a_no_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str) -> None:
    monkeypatch.setattr("sys.stdin", Typed(typed, terminal=True))
    with pytest.raises(NothingDone) as no:
        agree("Go on?", yes=False)
    assert "Go on?" in capsys.readouterr().err
    no.value.show()
    assert capsys.readouterr().err == "nothing was done\n"
    assert no.value.exit_code == 1
