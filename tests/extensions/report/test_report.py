import base64
import json
import math
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Page, narrow_to_phone, open_page, style
from cli.conftest import Training
from cli.process import Finished, assert_refused, run

from transformer_cli.extensions.report.rendering import _sentence

HOSTILE = [
    "<script>alert('1')</script> & \"quoted\"",
    "</script><img src=x onerror=alert(1)> {{ 7 * 7 }}",
    "&amp; <b>bold</b> \u2028 <!-- ",
    "0 1 2 3",
]
SENTENCE = "3 1 </script><script>alert(2)</script> 2"


def point_at_files(path: Path, texts: Path) -> Path:
    """Make a run's settings name a test split of hostile text, with existing training text."""
    texts.mkdir()
    for name in ("train", "hostile"):
        for side in ("src", "tgt"):
            lines = HOSTILE if side == "src" else HOSTILE[::-1]
            (texts / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    settings = path / "config.yaml"
    train, test = (
        f"{{src: {texts}/{name}.src, tgt: {texts}/{name}.tgt}}" for name in ("train", "hostile")
    )
    old = settings.read_text()
    start, end = old.index("data:\n"), old.index("tokenizer:\n")
    data = (
        f"data: {{kind: files, src_lang: xx, tgt_lang: xx, train: {train}, val: {train}, "
        f"test: {{hostile: {test}}}}}\n"
    )
    settings.write_text(old[:start] + data + old[end:])
    return path


@pytest.fixture(scope="module")
def hostile(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run whose text contains markup and scripts."""
    directory = tmp_path_factory.mktemp("hostile")
    path = point_at_files(shutil.copytree(training.run, directory / "run"), directory / "texts")
    assert reported(path, "--sentence", SENTENCE) == path / "report.html"
    return path / "report.html"


def reported(*arguments: str | Path) -> Path:
    finished = run("report", *arguments)
    assert (finished.code, finished.err) == (0, "")
    return Path(finished.out.removesuffix("\n"))


def test_text_stays_text(hostile: Path) -> None:
    page = Page(hostile.read_text(encoding="utf-8"))
    shown = "".join(page.text)
    for line in HOSTILE:
        assert shown.count(line) >= 2  # at least the source and the reference of one example
    assert "49" not in shown.split()
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in page.tags)
    assert page.data["attention"][0]["title"] == SENTENCE
    assert "alert(" not in page.scripts[2]


def test_the_page_asks_nobody_for_anything(hostile: Path) -> None:
    page = Page(hostile.read_text(encoding="utf-8"))
    for tag, attributes in page.tags:
        assert not {"src", "srcset", "action", "poster", "background"} & attributes.keys(), tag
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    (style,) = page.styles
    assert "url(" not in style
    assert "@import" not in style
    assert "://" not in page.scripts[2]
    # Even if some text tried, the page forbids all scripts except its own.
    (policy,) = (
        attributes["content"] or ""
        for tag, attributes in page.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert len(re.findall(r"'sha256-[^']+'", policy)) == 2
    assert policy.rpartition("script-src")[2].count("'") == 4


def test_scores_equal_evaluates(training: Training, tmp_path: Path) -> None:
    page = Page(reported(training.run, "-o", tmp_path / "a.html").read_text(encoding="utf-8"))
    assert not (training.run / "report.html").exists()
    shown = " ".join(page.text)
    scores = json.loads(run("evaluate", training.run, "--json").out)
    for score in scores["scores"].values():
        assert f"{score['value']:.2f}" in shown
    assert f"{scores['perplexity']:.2f}" in shown
    assert "bs:1000|seed:12345" in shown
    charts = {chart["name"]: chart for chart in page.data["charts"]}
    assert charts.keys() == {"loss", "perplexity", "scores", "rate"}
    assert charts["scores"]["series"][0]["x"] == [20, 40, 60]
    assert "kind: files" in shown
    assert re.search(r"seed: \d+", shown)


def test_a_report_needs_neither_records_nor_training_text(own_run: Path, tmp_path: Path) -> None:
    point_at_files(own_run, tmp_path / "texts")
    (tmp_path / "texts" / "train.src").unlink()
    shutil.rmtree(own_run / "encoded")
    metrics = own_run / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(line for line in lines if "validation" not in line) + '{"kind"')
    shown = "".join(Page(reported(own_run).read_text(encoding="utf-8")).text)
    for words in ("was not validated yet", "missing, so"):
        assert words in shown
    metrics.unlink()
    shown = "".join(Page(reported(own_run).read_text(encoding="utf-8")).text)
    assert "no records in metrics.jsonl yet" in shown


def test_a_run_that_cannot_be_reported_gives_one_line(own_run: Path, tmp_path: Path) -> None:
    def refused(*options: str | Path) -> Finished:
        return run("report", own_run, *options)

    assert_refused(run("report", tmp_path), 2, "not a run directory")
    assert_refused(refused("--split", "tset"), 2, "no split 'tset'; did you mean 'test'?")
    assert_refused(refused("-o", tmp_path), 2, f"-o {tmp_path}: is a directory")
    assert_refused(refused("-o", tmp_path / "no" / "r.html"), 2, "there is no directory")
    assert_refused(refused("--sentence", " "), 2, "--sentence ' ': expected one line")
    assert_refused(refused("--sentence", "1 " * 201), 1, "has 201 tokens", "shorter")
    missing = run("report", own_run, before=_without_plotly)
    assert_refused(missing, 1, "report: needs the package plotly", " 'plotly>=")
    texts = tmp_path / "texts"
    point_at_files(own_run, texts)
    (texts / "hostile.tgt").unlink()
    assert_refused(refused(), 2, f"{texts}/hostile.tgt")
    assert not (own_run / "report.html").exists()


def _without_plotly() -> None:
    sys.modules["plotly"] = None  # type: ignore[assignment]


def test_a_page_appears_whole_or_not_at_all(own_run: Path) -> None:
    page = own_run / "report.html"
    page.write_text("the last one")
    failed = run("report", own_run, before=_with_a_full_disk)
    assert_refused(failed, 1, str(page), "No space left")
    assert page.read_text() == "the last one"
    assert not list(own_run.glob("*.partial-*"))


def _with_a_full_disk() -> None:
    def full(path: Path, *_: Any) -> int:
        raise OSError(28, "No space left on device")

    Path.write_bytes = full  # type: ignore[method-assign,assignment]


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture
def opened(hostile: Path, tmp_path: Path) -> Iterator[Any]:
    with open_page(hostile, tmp_path / "profile") as page:
        yield page


@pytest.mark.long
@pytest.mark.browser
def test_a_person_clicks_through_it(opened: Any, tmp_path: Path) -> None:
    page = opened
    assert page.locator(".plot svg.main-svg").count() >= 7
    curve = page.locator("[data-chart=loss] .scatterlayer path.js-line").first

    # light and dark
    paper, line = style(page, "body", "background-color"), curve.get_attribute("style")
    page.get_by_role("button", name="Switch to dark colours").click()
    assert style(page, "body", "background-color") != paper
    assert curve.get_attribute("style") != line
    page.get_by_role("button", name="Switch to light colours").click()
    assert style(page, "body", "background-color") == paper

    # attention: the requested sentence, then another one, by head
    data = json.loads(page.locator("#data").text_content())
    assert (
        page.get_by_role("combobox", name="Sentence").locator("option").first.text_content()
        == SENTENCE
    )
    page.get_by_role("combobox", name="Sentence").select_option(index=1)
    page.get_by_role("combobox", name="Attention").select_option(label="source → source")
    page.get_by_role("combobox", name="Layer").select_option(label="1")
    page.get_by_role("combobox", name="Head").select_option(label="2")
    kind = data["attention"][1]["kinds"]["encoder"]
    width = len(kind["keys"])
    weights = [byte / 255 for byte in base64.b64decode(kind["weights"])]
    first, row = (
        [weights[(head * width + query) * width :][:width] for query in range(width)]
        for head in (0, 1)
    )
    keys, queries = page.locator("#keys .token"), page.locator("#queries .token")
    assert keys.count() == width
    for query in (0, 1):
        queries.nth(query).hover()
        _assert_shaded(keys, row[query])
    page.locator("h1").hover()
    _assert_shaded(keys, [0.0] * width)
    queries.nth(2).click()
    page.locator("h1").hover()
    _assert_shaded(keys, row[2])
    assert queries.nth(2).get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowLeft")
    _assert_shaded(keys, row[1])
    assert re.search(r"looks at: .*\d+\xa0%", page.locator("#looks").text_content())
    # and the other way round
    keys.nth(0).hover()
    _assert_shaded(queries, [each[0] for each in row])
    # the mean of a layer's heads
    page.get_by_role("combobox", name="Head").select_option(label="mean of all")
    queries.nth(0).hover()
    mean = [(one + two) / 2 for one, two in zip(first[0], row[0], strict=True)]
    _assert_shaded(keys, mean)

    # the folded settings
    assert not page.locator("#config pre").is_visible()
    page.get_by_text("All settings, and where each was set").click()
    assert page.locator("#config pre").is_visible()

    page.screenshot(path=tmp_path / "desktop.png", full_page=True)
    narrow_to_phone(page)
    page.screenshot(path=tmp_path / "phone.png", full_page=True)
    for picture in ("desktop.png", "phone.png"):
        assert (tmp_path / picture).stat().st_size > 50_000


def _assert_shaded(tokens: Any, weights: list[float]) -> None:
    """Each token's shade is the square root of its weight, and a heavier one is painted darker."""
    shades = tokens.evaluate_all(
        "all => all.map(each => Number(each.style.getPropertyValue('--shown')))"
    )
    assert shades == pytest.approx([math.sqrt(weight) for weight in weights], abs=1e-3)
    painted = tokens.evaluate_all(
        "all => { for (const each of all) each.style.transition = 'none';"
        " return all.map(each => getComputedStyle(each).backgroundColor); }"
    )
    alphas = [float((re.findall(r"[\d.]+", colour)[3:] or ["1"])[0]) for colour in painted]
    assert alphas == pytest.approx(shades, abs=0.02)


@pytest.mark.long
@pytest.mark.browser
def test_text_from_right_to_left_is_laid_out_so(hostile: Path, tmp_path: Path) -> None:
    html = hostile.read_text(encoding="utf-8").replace(f">{HOSTILE[-1]}<", ">مرحبا بالعالم<")
    data = Page(html).data
    for kind in data["attention"][0]["kinds"].values():
        kind["keys"] = [each if each in data["marks"] else "كلمة" for each in kind["keys"]]
        kind["keys"].insert(0, kind["keys"].pop())  # a mark is no word of the text
    encoded = json.dumps(data).replace("<", "\\u003c")
    (tmp_path / "arabic.html").write_text(html.replace(Page(html).scripts[0], encoded), "utf-8")
    with open_page(tmp_path / "arabic.html", tmp_path / "profile") as page:
        cell = page.get_by_role("cell", name="مرحبا بالعالم").first
        box, text = cell.evaluate(
            """(cell) => {
              const range = document.createRange();
              range.selectNodeContents(cell);
              return [cell, range].map((each) => each.getBoundingClientRect().toJSON());
            }"""
        )
        assert box["right"] - text["right"] < 30 < text["left"] - box["left"]
        keys, queries = page.locator("#keys .token"), page.locator("#queries .token")
        assert keys.nth(0).bounding_box()["x"] > keys.nth(1).bounding_box()["x"]
        assert queries.nth(0).bounding_box()["x"] < queries.nth(1).bounding_box()["x"]
        for tokens, forward in ((keys, "ArrowLeft"), (queries, "ArrowRight")):
            tokens.nth(0).focus()
            page.keyboard.press(forward)
            assert tokens.nth(1).evaluate("each => each === document.activeElement")
        assert re.search("\u2068كلمة\u2069 \\d+\xa0%, ", page.locator("#looks").text_content())


def test_a_sentence_may_set_its_own_direction() -> None:
    assert _sentence("\u200fשלום\u202c \x1b") == "\u200fשלום\u202c \\x1b"
