"""The console with groups that are in memory: many of them, odd ones, and at any width."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from shim.admin.live.asked.groups import Details, Generation, Member, OffsetAt, Presence, Window
from shim.admin.live.asked.groups import Moved as MovedOffset
from shim.admin.live.asked.migration import STEPS, Difference
from tests.admin.console.browser import ENTER, Browser
from tests.admin.live.grouped import MOVED, NOW_MS, Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of
from tests.admin.live.watching import CLIENTS, OVERVIEW

GROUPS: Final = 1_000
PARTITIONS: Final = 100
MOVES: Final = 120
HOSTILE: Final = '<img src=x onerror="alert(1)">\u202e'
PAGES: Final = ("#/", "#/groups", "#/group/group-0001", "#/clients", "#/migration")


AWAITED: Final = Presence(
    *("m-1", "etl", "/10.0.0.4"),
    leads=True,
    heard_ms=NOW_MS - 4_000,
    session_timeout_ms=45_000,
    removed_ms=NOW_MS + 41_000,
)


class Large(Grouped):
    """Each group has so many partitions, and so many moves of one, the first to offset 0."""

    generation = Generation(
        *(7, "PreparingRebalance", 1_700_000_000_000, f"member {HOSTILE} has joined", "m-0, gone"),
        *([AWAITED], [str(number) for number in range(7)], 1_700_000_300_000),
    )

    async def history(self, group: str, window: Window) -> Sequence[MovedOffset]:
        self.windows.append(window)
        return [MOVED._replace(offset=number, before=number - 1) for number in range(MOVES)]

    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        offsets = [
            OffsetAt("orders", number, 10**12, 10**12 + number, 1_700_000_000_000) for number in range(PARTITIONS)
        ]
        its = [("orders", number) for number in range(PARTITIONS)]
        member = Member("m-1", None, "etl", "/10.0.0.4", its, *AWAITED[-3:])
        elsewhere = Member("m-2", None, "elsewhere", "/10.0.0.5", None)
        return Details("consumer", [member, elsewhere], offsets, MOVED, self.generation, NOW_MS)


@pytest.fixture(scope="module")
def moved() -> Moved:
    moved = Moved()
    for number in range(GROUPS):
        moved.add(f"group-{number:04}", step=STEPS[number % len(STEPS)])
    moved.add(HOSTILE, f"long-{'name' * 40}", step="kafka+dual")
    moved.tell(HOSTILE, 7.0, "its members go past the shim")
    moved.differing[HOSTILE] = [Difference("orders", 3, 5, None, "zookeeper")]
    return moved


@pytest.fixture(scope="module")
def admin(moved: Moved) -> Iterator[str]:
    old, java = CLIENTS
    many = [old._replace(client_id=f"etl-{number:03}") for number in range(100)]
    with admin_of(moved, Large(moved), clients=[*many, old._replace(client_id=HOSTILE), java]) as address:
        yield f"http://{address}/"


def loaded(browser: Browser) -> None:
    browser.until("document.querySelector('#live').dataset.state === 'good'")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_its_room(admin: str, browser: Browser, page: str, width: int, scheme: str) -> None:
    browser.resize(width)
    browser.prefer(scheme)
    browser.open(f"{admin}{page}")
    loaded(browser)
    assert browser.overflow() <= 0
    nameless = browser.run(
        "return [...document.querySelectorAll('button, a, input, select, [role=img]')].filter((each) => !each.hidden"
        " && !(each.textContent.trim() || each.ariaLabel || each.labels?.length)).map((each) => each.outerHTML)"
    )
    assert nameless == []


def test_a_thousand_groups_are_shown_in_parts(admin: str, browser: Browser) -> None:
    browser.open(f"{admin}#/groups")
    browser.until("document.querySelectorAll('tbody tr').length === 50")
    assert browser.run("return document.querySelector('.pager').textContent").startswith("Previous1\u201350 of 1,002")
    browser.click(".pager button:last-child")
    browser.until("document.querySelector('.pager').textContent.includes('\u2013100')")
    browser.type("#search", "group-09")
    browser.until("document.querySelector('.pager').textContent.includes('of 100')")
    browser.run("document.querySelector('#step').focus()")
    browser.type("#step", "kafka+dual")
    browser.until("document.querySelector('.pager').textContent.includes('of 17')")
    browser.tab_to("th:first-child .sort")
    browser.press(ENTER)
    browser.until("document.querySelector('th[aria-sort=ascending]')?.textContent === 'Group'")
    assert browser.run("return document.querySelector('tbody a').textContent") == "group-0902"


@pytest.mark.parametrize("width", [1280, 400])
def test_moves_are_shown_in_parts_the_newest_first(admin: str, browser: Browser, width: int) -> None:
    rows = "document.querySelectorAll('[aria-label^=Moves] tbody tr').length"
    newest = "document.querySelector('[aria-label^=Moves] tbody td[data-label=To]').textContent"
    moves = "[aria-label^=Moves] + .pager"
    browser.resize(width)
    browser.open(f"{admin}#/group/group-0003")
    browser.until(f"{rows} === 50 && {newest} === '119'")
    assert browser.run(f"return document.querySelector('{moves}').textContent").startswith("Previous1\u201350 of 120")
    browser.click(f"{moves} button:last-child")
    browser.until(f"{rows} === 50 && {newest} === '69'")
    browser.click(f"{moves} button:last-child")
    browser.until(f"{rows} === 20 && {newest} === '19'")
    assert browser.run(f"return document.querySelector('{moves} button:last-child').disabled")
    browser.click(f"{moves} button:first-child")
    browser.until(f"{rows} === 50 && {newest} === '69'")
    assert browser.overflow() <= 0


def test_a_group_of_another_protocol_is_told_as_such(browser: Browser) -> None:
    moved = Moved()
    moved.add("web", "shared")
    moved.groups["shared"] = moved.groups["shared"]._replace(type="Share")
    grouped = Grouped(moved)
    grouped.without_offsets = True
    with admin_of(moved, grouped) as address:
        browser.open(f"http://{address}/#/groups")
        browser.until("document.querySelectorAll('tbody tr').length === 2")
        kinds = (
            "[...document.querySelectorAll('tbody td[data-label=State]')].map((each) => each.innerText.trim()).sort()"
        )
        assert browser.run(f"return {kinds}") == ["Stable", "Stable Share group"]
        browser.open(f"http://{address}/#/group/shared")
        browser.until("document.querySelector('.title')?.innerText.includes('Share group')")
        says = "where a share group stands kafka-share-groups.sh --describe --offsets says"
        browser.until(f"document.body.innerText.includes('No committed offsets: {says}')")
        browser.open(f"http://{address}/#/group/web")
        browser.until("document.body.innerText.includes('No offsets.')")
        assert not browser.run("return document.querySelector('.title').innerText.includes('group')")


def test_who_committed_last_is_not_known_of_a_group_that_the_cluster_has(admin: str, browser: Browser) -> None:
    told = "[...document.querySelectorAll('.tile')].map((each) => each.textContent).join()"
    for group, step in enumerate(STEPS):
        browser.open(f"{admin}#/group/group-{group:04}")
        browser.until(f"/Last commit({'not known here' if step == 'upstream' else '.* ago'})/.test({told})")
        assert browser.overflow() <= 0


def test_how_far_a_rebalance_is(admin: str, browser: Browser) -> None:
    browser.open(f"{admin}#/group/group-0003")
    browser.until("document.querySelector('main').innerText.includes('Generation 7, ')")
    shown = browser.run("return document.querySelector('main').innerText")
    assert f"Last rebalance: member {HOSTILE} has joined" in shown
    assert ". It had to wait for: m-0, gone. " in shown
    awaited = (
        r"m-1 \(etl at /10\.0\.0\.4, the leader, last heard of 4 s ago, removed in 41 s unless it is heard of again\)"
    )
    pending = "0, 1, 2, 3, 4 and 2 more"
    assert re.search(rf"\. Awaited until [^.]+: {awaited}\. Given an id, and not joined: {pending}", shown)
    browser.until("document.querySelector('td[data-label=Assigned]').textContent.startsWith('awaited; orders 0, 1')")


def test_when_members_were_heard_of(admin: str, browser: Browser) -> None:
    """By the shim's clock, which may be another one than the browser's; of one at the brokers it is not known."""
    browser.open(f"{admin}#/group/group-0003")
    browser.until("document.querySelectorAll('[aria-label=Members] tbody tr').length === 2")
    told = browser.run(
        "return [...document.querySelectorAll('[aria-label=Members] tbody tr')].map((row) => "
        "['Heard of', 'Session'].map((label) => row.querySelector(`[data-label=\"${label}\"]`).textContent))"
    )
    assert told == [["4 s ago", "45 s, ends in 41 s"], ["\u2013", "\u2013"]]


def test_the_board_shows_some_of_each_step(admin: str, browser: Browser) -> None:
    browser.open(f"{admin}#/migration")
    browser.until("document.querySelectorAll('.card').length === 60")
    assert "and 157 groups more" in browser.run("return document.querySelector('[data-step=kafka]').textContent")
    browser.click("[data-step=kafka] > button")
    browser.until("document.querySelectorAll('[data-step=kafka] .card').length === 167")
    browser.resize(400)
    assert browser.overflow() <= 0


def test_names_that_others_chose_are_only_names(admin: str, browser: Browser) -> None:
    browser.open(f"{admin}#/migration")
    browser.type("#search", "<img")
    browser.until("document.querySelectorAll('.card').length === 1")
    assert browser.run("return document.querySelector('.card h3').textContent") == HOSTILE
    assert browser.run("return document.images.length") == 1  # the shim's own sign
    assert "its members go past the shim" in browser.run("return document.querySelector('.card').textContent")
    browser.click(".card .actions button")
    browser.until("document.querySelector('dialog td')")
    assert "1 of 3 offsets differ" in browser.run("return document.querySelector('dialog').textContent")
    browser.click("dialog .actions button")
    browser.click(".card h3 a")
    browser.until("document.querySelectorAll('tbody tr').length >= 100")
    assert browser.run("return document.querySelector('h1').textContent") == HOSTILE


def test_clients_are_shown_in_parts_and_found(admin: str, browser: Browser) -> None:
    rows = "[...document.querySelectorAll('tbody tr')].map((row) => row.innerText)"
    browser.open(f"{admin}#/clients")
    browser.until("document.querySelectorAll('tbody tr').length === 50")
    assert browser.run("return document.querySelector('.pager').textContent").startswith("Previous1\u201350 of 102")
    browser.tab_to(".pager button:last-child")
    browser.press(ENTER)
    browser.until("document.querySelector('.pager').textContent.includes('51\u2013100')")
    browser.type("#search", "USER:A")
    browser.until("document.querySelectorAll('tbody tr').length === 1")
    (java,) = browser.run(f"return {rows}")
    for text in ("apache-kafka-java", "4.3.1", "2.1 or newer", "Fetch v15", "billing, 10.0.0.4, User:alice"):
        assert text in java
    browser.run("document.querySelector('#search').value = ''")
    browser.type("#search", "<img")
    browser.until("document.querySelectorAll('tbody tr').length === 1")
    assert HOSTILE in browser.run("return document.querySelector('tbody .name').textContent")
    assert browser.run("return document.images.length") == 1
    browser.run("document.querySelector('#search').value = ''")
    browser.type("#search", "e")
    browser.type("#which", "before")
    browser.until("document.querySelector('.pager').textContent.includes('of 101')")


@pytest.mark.parametrize(
    ("owned", "word", "partitions"),
    [
        (25, "ready", "25 of the 25 that are this shim's loaded (50 in all; others: 10.0.0.5:19092)"),
        (0, "stands by", "0 of the 0 that are this shim's loaded (50 in all; others: 10.0.0.5:19092)"),
    ],
)
def test_a_shim_with_a_part_of_the_log(browser: Browser, owned: int, word: str, partitions: str) -> None:
    whole = OVERVIEW._replace(owned=owned, loaded=owned, others=["10.0.0.5:19092"])
    with admin_of(Moved(), whole=whole) as address:
        browser.open(f"http://{address}/#/")
        browser.until(f"document.body.textContent.includes({partitions!r})")
        badges = browser.run(
            "return [...document.querySelectorAll('.badge')].map((each) => [each.textContent, each.dataset.kind])"
        )
    assert [word, "ready"] in badges


def test_the_theme_is_kept(admin: str, browser: Browser) -> None:
    def ground() -> str:
        colour: str = browser.run("return getComputedStyle(document.documentElement).backgroundColor")
        return colour

    browser.open(admin)
    loaded(browser)
    light = ground()
    browser.prefer("dark")
    dark = ground()
    assert light != dark
    browser.tab_to("#theme")
    browser.press(ENTER)
    assert ground() == light
    browser.open("about:blank")
    browser.open(admin)
    loaded(browser)
    assert ground() == light
    browser.click("#theme")
    assert ground() == dark
    browser.prefer("light")
    assert ground() == dark
    browser.click("#theme")
    assert ground() == light


def test_a_shim_that_is_gone(browser: Browser) -> None:
    groups = Moved()
    groups.add("a")
    with admin_of(groups) as address:
        browser.open(f"http://{address}/#/groups")
        loaded(browser)
    browser.until("document.querySelector('#live').dataset.state === 'bad'")
    assert "does not answer" in browser.run("return document.querySelector('#problem').textContent")
    assert browser.run("return document.querySelectorAll('tbody tr').length") == 1, "what was known is still shown"
    assert all("ERR_CONNECTION_REFUSED" in each for each in browser.complaints())
