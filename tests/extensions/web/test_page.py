"""The page in Chromium: it translates, and needs no network after the first visit."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browser import CHROMIUM

from extensions.web.exporting import DIST, export
from extensions.web.reference import Reference

LINE = "Ein Hund schläft."
TEXT = f"{LINE} Zwei Männer spielen!\n\n  {LINE} 123"
WAIT = 60_000.0  # milliseconds, on a busy machine

pytestmark = [pytest.mark.browser, pytest.mark.runtime]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve(directory: Path) -> Iterator[str]:
    handler = partial(_Quiet, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/"
        finally:
            http.shutdown()
            thread.join()


@contextmanager
def open_browser(profile: Path) -> Iterator[tuple[Any, list[str]]]:
    """Yield a browser's context and page, and a list that gets the page's complaints."""
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile),
            executable_path=shutil.which("chromium"),
            args=CHROMIUM.split(),
            headless=True,
        )
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        try:
            yield page, complaints
        finally:
            context.close()


def translate(page: Any, text: str) -> str:
    """Return what the page shows for a text; it must have loaded the model."""
    page.wait_for_selector("#source option", state="attached", timeout=WAIT)
    page.fill("#text", text)
    page.wait_for_selector("#translation:not(:empty)", timeout=WAIT)
    shown = page.locator("#translation").evaluate("(element) => element.textContent")
    assert isinstance(shown, str)
    return shown


def test_the_page_works_without_a_network_after_the_first_visit(
    trained: Path, tmp_path: Path
) -> None:
    exported = export(trained, tmp_path, with_runtime=True)
    asked: list[str] = []
    with open_browser(tmp_path / "profile") as (page, complaints):
        page.context.on("request", lambda request: asked.append(request.url))
        with serve(exported) as url:
            page.goto(url)
            shown = translate(page, TEXT)
            page.evaluate("navigator.serviceWorker.ready.then(() => null)")
        first, second = (
            Reference(exported).translate(line, 4)[0] for line in (LINE, "Zwei Männer spielen!")
        )
        assert shown == f"{first} {second}\n\n  {first} 123"
        assert page.locator("#target option").evaluate("(option) => option.value") == "en"
        assert all(each.startswith((url, "blob:")) for each in asked)

        page.context.set_offline(True)  # and the server is gone
        page.reload()
        assert translate(page, LINE) == first
        assert complaints == []


@pytest.mark.long
def test_the_runtime_may_come_from_a_cdn(exported: Path, tmp_path: Path) -> None:
    def answer(route: Any) -> None:
        name = route.request.url.rpartition("/")[2]
        if name == broken:
            route.abort()
        else:
            headers = {"Access-Control-Allow-Origin": "*"}
            route.fulfill(body=(DIST / name).read_bytes(), headers=headers)

    broken = "ort.wasm.min.mjs"
    with open_browser(tmp_path / "profile") as (page, complaints), serve(exported) as url:
        page.context.route("https://cdn.jsdelivr.net/**", answer)
        page.goto(url)
        page.locator("#notes", has_text="Cannot load https://cdn.jsdelivr.net").wait_for(
            timeout=WAIT
        )
        assert "check the connection" in page.inner_text("#notes")
        broken = ""
        complaints.clear()
        page.reload()
        assert translate(page, LINE) == Reference(exported).translate(LINE, 4)[0]
        page.context.unroute("https://cdn.jsdelivr.net/**")
        page.context.set_offline(True)
        page.reload()
        assert translate(page, LINE)
        assert complaints == []


@pytest.mark.long
def test_an_update_that_breaks_off_leaves_the_old_page_working(
    trained: Path, tmp_path: Path
) -> None:
    exported = export(trained, tmp_path, with_runtime=True)
    weights = exported / "weights.bin"
    with open_browser(tmp_path / "profile") as (page, complaints):
        with serve(exported) as url:
            page.goto(url)
            first = translate(page, LINE)
            page.evaluate("navigator.serviceWorker.ready.then(() => null)")
            content = json.loads((exported / "web.json").read_text())
            content["files"]["weights.bin"] |= {"url": "weights.bin?2", "integrity": "sha256-2"}
            (exported / "web.json").write_text(json.dumps(content))
            whole = weights.read_bytes()
            weights.write_bytes(whole[:1000])
            page.reload()
            assert translate(page, LINE) == first
        page.context.set_offline(True)
        page.reload()
        assert translate(page, LINE) == first
        assert all("weights.bin" in each or "ERR_" in each for each in complaints)


@pytest.mark.long
def test_a_new_text_does_not_wait_for_the_old_one(trained: Path, tmp_path: Path) -> None:
    exported = export(trained, tmp_path, with_runtime=True)
    with open_browser(tmp_path / "profile") as (page, _), serve(exported) as url:
        page.goto(url)
        expected = translate(page, LINE)
        page.fill("#text", "")
        page.locator("#translation").filter(has_not_text=expected).wait_for(timeout=WAIT)
        for count in (3000, 3100, 3200):  # each takes minutes
            page.fill("#text", "x" * count)
            page.wait_for_timeout(500)
        page.fill("#text", LINE)
        page.locator("#translation", has_text=expected).wait_for(timeout=WAIT)
