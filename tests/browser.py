"""A report's page as its HTML, and in Chromium."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

CHROMIUM = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


class Page(HTMLParser):
    """What of a page a test looks at."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        kinds = {"script": self.scripts, "style": self.styles}
        kinds.get(self._inside, self.text).append(data)

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


@contextmanager
def open_page(path: Path, profile: Path) -> Iterator[Any]:
    """Open a page in Chromium; anything it asks for, and any error of its own, fails the test."""
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile),
            executable_path=shutil.which("chromium"),
            args=CHROMIUM.split(),
            headless=True,
            viewport={"width": 1280, "height": 900},
            color_scheme="light",
        )

        def only_the_page(route: Any) -> None:
            if route.request.url == path.as_uri():
                route.continue_()
            else:
                complaints.append(f"asks for {route.request.url}")
                route.abort()

        context.route("**/*", only_the_page)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.goto(path.as_uri())
        yield page
        context.close()
    assert complaints == []


def narrow_to_phone(page: Any) -> None:
    """Make the window as wide as a phone, into which the page fits."""
    page.set_viewport_size({"width": 390, "height": 844})
    # Charts are drawn again. The page's policy lets nobody wait by a function in a string.
    page.evaluate(
        """() => new Promise((done) => {
          const fits = (svg) => svg.clientWidth < 390;
          const look = () => [...document.querySelectorAll(".main-svg")].every(fits)
            ? done() : requestAnimationFrame(look);
          look();
        })"""
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def style(page: Any, selector: str, name: str) -> str:
    """Return an element's computed style."""
    value = page.locator(selector).evaluate(
        "(element, name) => getComputedStyle(element).getPropertyValue(name)", name
    )
    assert isinstance(value, str)
    return value
