"""No web page has a browser ask in its place."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from shim.admin.live.guard.cross_site import Own, turned_away

HERE = {"Host": "127.0.0.1:9644"}


OWN = Own("Shim.example.org")
OVER_TLS = OWN._replace(over_tls=True, names=frozenset({"other.example.org"}))


def status(
    headers: dict[str, str], method: str = "GET", content_type: str = "application/json", own: Own = OWN
) -> int | None:
    away = turned_away(method, CIMultiDict(headers), content_type, own)
    return None if away is None else away.status


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9644", "10.0.0.5", "[::1]:9644", "[::1]", "localhost:9644", "LOCALHOST", "shim.example.org:9644"],
)
def test_hosts_that_no_site_can_have_for_its_name(host: str) -> None:
    assert status({"Host": host}) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example:9644", "127.0.0.1.evil.example", "localhost.evil.example", "[evil]", ":"]
)
def test_hosts_of_other_sites(host: str) -> None:
    assert status({"Host": host}) == 421


def test_no_host() -> None:
    assert status({}) == 421


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9645", "http://127.0.0.1", "http://localhost:9644", ""]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_no_page_of_another_origin(origin: str, method: str) -> None:
    assert status({**HERE, "origin": origin}, method) == 403


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_shims_own_page(scheme: str) -> None:
    own = {**HERE, "Origin": f"{scheme}://127.0.0.1:9644", "Sec-Fetch-Site": "same-origin"}
    assert status(own, "POST") is None
    assert status({**HERE, "Sec-Fetch-Site": "same-origin"}) is None


def test_over_tls_a_page_without_it_is_another_sites() -> None:
    """Who sits between browser and shim can have one in its place."""
    for scheme, expected in (("https", None), ("http", 403)):
        own = {**HERE, "Origin": f"{scheme}://127.0.0.1:9644", "Sec-Fetch-Site": "same-origin"}
        assert status(own, "POST", own=OVER_TLS) == expected
        assert status({**HERE, "Origin": f"{scheme}://127.0.0.1:9644"}, "POST", own=OVER_TLS) == expected
    assert status(HERE, "POST", own=OVER_TLS) is None  # no page at all


@pytest.mark.parametrize("host", ["other.example.org", "OTHER.example.org:9644", "shim.example.org", "127.0.0.1"])
def test_names_of_the_certificate_are_own_ones(host: str) -> None:
    assert status({"Host": host}, own=OVER_TLS) is None
    assert status({"Host": "an.other.example.org"}, own=OVER_TLS) == 421


def test_a_site_that_calls_itself_by_the_shims_address() -> None:
    rebound = {"Host": "evil.example:9644", "Origin": "http://evil.example:9644", "Sec-Fetch-Site": "same-origin"}
    assert status(rebound, "POST") == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_that_send_no_origin(site: str) -> None:
    assert status({**HERE, "Sec-Fetch-Site": site}) == 403
    assert status({**HERE, "Sec-Fetch-Site": "none"}) is None  # somebody typed it


LINK = {**HERE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_a_link_on_another_site_leads_to_the_page_and_to_nothing_else() -> None:
    def linked(headers: dict[str, str], method: str = "GET") -> int | None:
        away = turned_away(method, CIMultiDict(headers), "", OWN, linked=True)
        return None if away is None else away.status

    assert status(LINK) == 403
    assert linked(LINK) is None
    assert linked(LINK, "POST") == 403
    assert linked({**LINK, "Origin": "https://evil.example"}) == 403
    assert linked({**LINK, "Sec-Fetch-Dest": "iframe"}) == 403
    assert linked({**LINK, "Sec-Fetch-Mode": "no-cors"}) == 403
    assert linked({**LINK, "Host": "evil.example"}) == 421


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_post_that_a_form_could_send(kind: str) -> None:
    assert status(HERE, "POST", kind) == 415
    assert status(HERE, "GET", kind) is None
