"""What the console has nothing of: pages, groups, and times at which the lag was not known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from shim.admin.live.asked.groups import Moved as MovedOffset
from shim.admin.live.asked.groups import Window
from tests.admin.console.browser import Browser
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of
from tests.admin.live.watching import OVERVIEW

_NO_DETAILS: Final = "404 (Not Found)"

CHARTED: Final = """
const given = arguments[0];
const plots = [];
const Plain = uPlot;
window.uPlot = class extends Plain {
  constructor(...all) {
    plots.push(super(...all));
  }
};
return import("/console/charts.js").then(async ({ lineChart }) => {
  const chart = lineChart("medium");
  document.querySelector("#main").append(chart.node);
  const now = Date.now();
  const values = given.map(([, value]) => value);
  chart.show("a test", given.map(([ago]) => now - ago), [{ label: "Records", values }]);
  await new Promise(requestAnimationFrame);
  const [plot] = plots;
  const { min, max } = plot.scales.x;
  const gaps = plot.series[1]._paths?.gaps?.length ?? 0;
  const alone = plot.series[1].points.filter(plot, 1, false);
  chart.stop();
  chart.node.remove();
  window.uPlot = Plain;
  return { wide: max - min, end: max - now / 1000, gaps, alone };
});
"""


@pytest.fixture(scope="module")
def admin() -> Iterator[str]:
    moved = Moved()
    moved.add("billing", step="kafka")
    with admin_of(moved) as address:
        yield f"http://{address}/"


def settled(browser: Browser) -> None:
    browser.until("document.querySelector('#live').dataset.state === 'good'")


class WithoutMoves(Grouped):
    async def history(self, group: str, window: Window) -> list[MovedOffset]:
        return []


@pytest.mark.parametrize("log_moves", [False, True])
def test_a_history_that_stayed_where_the_log_was(browser: Browser, log_moves: bool) -> None:
    moved = Moved()
    moved.add("billing", step="kafka")
    with admin_of(moved, WithoutMoves(moved), whole=OVERVIEW._replace(log_moves=log_moves)) as address:
        browser.open(f"http://{address}/#/group/billing")
        browser.until("document.querySelector('#main').innerText.includes('The history has nothing of this group')")
        told = browser.run("return document.querySelector('#main').innerText")
    assert ("the history there, which is not looked at." in told) is log_moves


def test_a_group_that_is_not_there(admin: str, browser: Browser) -> None:
    browser.open(f"{admin}#/group/nobody")
    browser.until("document.querySelector('.missing h1')?.textContent === 'There is no such group'")
    settled(browser)
    assert browser.run("return document.querySelector('#main').innerText").count("nobody") == 1
    assert browser.run("return document.querySelectorAll('#main button, #main table').length") == 0
    assert browser.run("return document.querySelector('#problem').hidden")
    browser.run("location.hash = '#/group/billing'")
    browser.until("document.querySelector('h1').textContent === 'billing'")
    assert all(_NO_DETAILS in each for each in browser.complaints())


@pytest.mark.parametrize("page", ["nope", "toString"])
def test_a_page_that_is_not_there(admin: str, browser: Browser, page: str) -> None:
    browser.open(f"{admin}#/{page}")
    settled(browser)
    told = browser.run("return document.querySelector('#main').innerText")
    assert "There is no such page" in told
    assert f"#/{page}" in told
    assert browser.run("return document.querySelectorAll('nav [aria-current]').length") == 0


def charted(browser: Browser, admin: str, *samples: tuple[int, int | None]) -> dict[str, Any]:
    """What is drawn of values, each so many ms ago."""
    browser.open(f"{admin}#/clients")
    settled(browser)
    drawn: dict[str, Any] = browser.run(CHARTED, samples)
    return drawn


@pytest.mark.parametrize(("ago_ms", "to_now"), [(0, True), (20_000, True), (86_400_000, False)])
def test_one_sample_is_five_minutes(admin: str, browser: Browser, ago_ms: int, to_now: bool) -> None:
    drawn = charted(browser, admin, (ago_ms, 7))
    assert drawn["wide"] == pytest.approx(300, abs=5)
    assert drawn["end"] == pytest.approx(0 if to_now else -ago_ms / 1000, abs=5)


def test_what_was_not_known_is_a_gap(admin: str, browser: Browser) -> None:
    values = (1, 2, None, 3, None, 4, 5)
    drawn = charted(browser, admin, *((900_000 - 100_000 * at, each) for at, each in enumerate(values)))
    assert drawn["gaps"] == 2
    assert drawn["alone"] == [3]
    assert drawn["wide"] == pytest.approx(600, abs=5)
