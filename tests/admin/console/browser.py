"""A headless Chromium, driven over WebDriver (https://www.w3.org/TR/webdriver2/)."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

TIMEOUT_S: Final = 30
TAB, ENTER, ESCAPE = "\ue004", "\ue007", "\ue00c"
_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_UNTIL: Final = """
const [condition, done] = [new Function(`return (${arguments[0]})`), arguments[1]];
const holds = () => {
  try {
    return condition();
  } catch (error) {
    if (error instanceof TypeError) return false; // of what is not in the page yet
    throw error;
  }
};
const look = () => (holds() ? done(true) : setTimeout(look, 30));
look();
"""


class Browser:
    """Methods raise AssertionError with the driver's own words where it cannot do what it is asked."""

    def __init__(self, driver: str, session: str) -> None:
        self._driver = driver
        self._at = f"{driver}/session/{session}"

    def open(self, url: str) -> None:
        self._post("/url", url=url)

    def run(self, script: str, *args: object) -> Any:
        """What the script returns."""
        return self._post("/execute/sync", script=script, args=list(args))

    def until(self, condition: str) -> None:
        """Waits for an expression to be true in the page."""
        self._post("/execute/async", script=_UNTIL, args=[condition])

    def click(self, selector: str) -> None:
        """As a person does: what is hidden or covered cannot be clicked."""
        self._post(f"/element/{self._element(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        self._post(f"/element/{self._element(selector)}/value", text=text)

    def press(self, *keys: str) -> None:
        """At whatever has the focus."""
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", actions=[{"type": "key", "id": "keyboard", "actions": steps}])

    def tab_to(self, selector: str, most: int = 60) -> None:
        for _ in range(most):
            if self.run("return document.activeElement.matches(arguments[0])", selector):
                return
            self.press(TAB)
        raise AssertionError(f"{most} times Tab have not come to {selector}")

    def resize(self, width: int, height: int = 900) -> None:
        """The page's own room, which may be smaller than any window of the browser."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._cdp("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._cdp("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, file: Path) -> None:
        """Of the whole page."""
        shot = self._cdp("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
        file.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """What the page has written to the console since this was asked last, and what was refused to it."""
        return [each["message"] for each in self._post("/se/log", type="browser")]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its room."""
        wide: int = self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return wide

    def _element(self, selector: str) -> str:
        found: str = self._post("/element", using="css selector", value=selector)[_ELEMENT]
        return found

    def _cdp(self, command: str, params: Mapping[str, object]) -> Any:
        return self._post("/goog/cdp/execute", cmd=command, params=params)

    def _post(self, path: str, **body: object) -> Any:
        return _asked(f"{self._at}{path}", body)

    def close(self) -> None:
        _asked(self._at, None, "DELETE")


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """``profile``: a folder that is not there yet."""
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert driver.stdout is not None
        lines = (re.search(r"successfully on port (\d+)", line) for line in driver.stdout)
        url = f"http://127.0.0.1:{next(found[1] for found in lines if found)}"
        options = {
            "goog:chromeOptions": {"args": [*_FLAGS, f"--user-data-dir={profile}"]},
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": TIMEOUT_S * 1000},
        }
        session = _asked(f"{url}/session", {"capabilities": {"alwaysMatch": options}})["sessionId"]
        browser = Browser(url, session)
        try:
            yield browser
        finally:
            browser.close()
    finally:
        driver.terminate()
        driver.wait(TIMEOUT_S)
        if driver.stdout is not None:
            driver.stdout.close()


def _asked(url: str, body: Mapping[str, object] | None, method: str = "POST") -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=2 * TIMEOUT_S) as response:
            return json.load(response)["value"]
    except urllib.error.HTTPError as error:
        with error:
            told = json.load(error)["value"]
        raise AssertionError(f"{told['error']}: {told['message']}") from None
