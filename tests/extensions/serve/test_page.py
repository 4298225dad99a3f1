"""The page in Chromium: it translates, marks words, sends corrections, and fits everywhere."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM

from extensions.serve.conftest import Process

pytestmark = [pytest.mark.long, pytest.mark.browser]


@contextmanager
def _open(url: str, profile: Path) -> Iterator[Any]:
    """Open the page; what it asks other servers for, and any error of its own, fails the test."""
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile), executable_path=shutil.which("chromium"), args=CHROMIUM.split()
        )
        page = context.new_page()

        def complain(what: str, is_expected: bool = False) -> None:
            if not is_expected:
                complaints.append(what)

        # Chromium tries to keep the look of a word that is overwritten.
        page.on("console", lambda one: complain(one.text, "inline style" in one.text))
        page.on("pageerror", lambda error: complain(str(error)))
        page.on("request", lambda one: complain(one.url, one.url.startswith(url)))
        page.goto(url)
        page.locator("#source option").first.wait_for(state="attached")
        yield page
        context.close()
    assert complaints == []


def _translate(page: Any, text: str) -> Any:
    page.fill("#text", text)
    output = page.locator("#translation")
    output.locator("span").first.wait_for()
    return output


def test_translating_and_correcting_with_keys(served: Process, tmp_path: Path) -> None:
    with _open(served.url, tmp_path) as page:
        page.keyboard.type("1 2 3 4")  # the field has the focus
        output = page.locator("#translation")
        output.locator("span").first.wait_for()
        output.locator("span").first.hover()
        assert page.locator("#marks mark").count() >= 1
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.id") == "translation"
        page.keyboard.press("Control+a")
        page.keyboard.type("<img src=x onerror=alert(1)> five")
        page.keyboard.press("Control+Enter")
        page.get_by_text("Thank you").wait_for()
        assert "1 correction." in page.locator("#learned").inner_text()
        page.fill("#text", "")
        _translate(page, "1 2 3 4")
        assert output.inner_text() == "<img src=x onerror=alert(1)> five"
        assert page.locator("#translation img").count() == 0


def test_alternatives_and_files(served: Process, tmp_path: Path) -> None:
    with _open(served.url, tmp_path / "profile") as page:
        output = _translate(page, "1 2 3 4 5 6")
        other = page.locator("#alternatives button").first
        text = other.inner_text()
        other.click()
        assert output.inner_text() == text
        file = tmp_path / "a.txt"
        file.write_text("1 2\n3 4\n")
        page.set_input_files("#file", file)
        with page.expect_download() as download:
            page.locator("#link").click()
        assert Path(download.value.path()).read_text().count("\n") == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_text_from_right_to_left(
    served: Process, tmp_path: Path, scheme: str
) -> None:
    with _open(served.url, tmp_path) as page:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": 390, "height": 844})
        _translate(page, "1 2 3 4 5 6 " * 20)
        assert page.evaluate("() => document.documentElement.scrollWidth") == 390
        page.fill("#text", "مرحبا بالعالم")
        box = page.locator("#text")
        assert box.evaluate("(one) => getComputedStyle(one).direction") == "rtl"
        colours = box.evaluate("(one) => [getComputedStyle(one).color]")
        assert colours == ["rgb(27, 27, 27)" if scheme == "light" else "rgb(236, 236, 236)"]


def test_each_field_has_a_name_for_screen_readers(served: Process, tmp_path: Path) -> None:
    with _open(served.url, tmp_path) as page:
        for role, name in (
            ("combobox", "From"),
            ("combobox", "to"),
            ("textbox", "Text to translate"),
            ("textbox", "Translation"),
        ):
            assert page.get_by_role(role, name=name, exact=True).count() == 1
