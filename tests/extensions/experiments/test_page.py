import json
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from browser import Page, narrow_to_phone, open_page, style

from transformer_cli.extensions.experiments.page import describe_groups, render_groups
from transformer_cli.extensions.experiments.results import (
    EvaluatedSplit,
    GroupResult,
    RunResult,
    SweepResults,
)
from transformer_cli.extensions.experiments.seed_statistics import (
    GroupDifference,
    GroupScore,
    MetricComparison,
)
from transformer_cli.extensions.report.rendering import plotly_script
from transformer_cli.runs.directory import RunDirectory

HOSTILE = "<script>alert('1')</script> & \"quoted\" {{ 7 * 7 }} <b>bold</b>"
RATE, KIND = "training.schedule.peak", "tokenizer.kind"


def write_run(path: Path, scores: Sequence[float], steps: Sequence[int] | None = None) -> None:
    """Write the records of a run that was validated so often."""
    path.mkdir(parents=True)
    records: list[dict[str, Any]] = [
        {
            "kind": "validation",
            "step": step,
            "loss": 100 / (score + 20),
            "bleu": score,
            "bleu_lc": score + 1,
            "seconds": step / 2,
        }
        for step, score in zip(steps or range(20, 20 * len(scores) + 1, 20), scores, strict=True)
    ]
    path.joinpath("metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))


States = Mapping[str, Sequence[str | None]]


def make_groups(
    root: Path, scores: dict[str, list[list[float]]], states: States = MappingProxyType({})
) -> list[GroupResult]:
    """Write runs of those validation scores: by group, seed and validation."""
    groups = []
    for number, (name, runs) in enumerate(scores.items()):
        directories = [root / f"{number}" / f"seed-{seed}" for seed in range(1, len(runs) + 1)]
        for directory, run in zip(directories, runs, strict=True):
            write_run(directory, run)
        results = [
            RunResult.read(RunDirectory(directory), "bleu", state)
            for directory, state in zip_longest(directories, states.get(name, []))
        ]
        groups.append(GroupResult(name, results))
    return groups


def compare(signature: str, scores: list[list[float]]) -> MetricComparison:
    """Return made-up numbers."""
    groups = [GroupScore(each, float(np.mean(each)), 0.5, 1.25) for each in scores]
    for group in groups[1:]:
        difference = group.mean - groups[0].mean
        group.difference = GroupDifference(difference, 0.75, 0.0004, 0.0123)
    return MetricComparison(signature, groups)


SCORES: dict[str, list[list[float]]] = {
    "reference": [[10.0, 20.0, 19.0], [12.0, 24.0, 25.0], [11.0, 22.0, 21.0]],
    HOSTILE: [[20.0, 30.0, 31.0], [10.0, 33.0, 32.0], [15.0, 35.0]],
    "slow": [[1.0, 2.0, 4.0]] * 2 + [[]],
    "not begun": [[], [], []],
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    states: States = {
        HOSTILE: [None, None, "failed"],
        "slow": [None, None, "pruned"],
        "not begun": ["waiting"] * 3,
    }
    groups = make_groups(tmp_path_factory.mktemp("groups"), SCORES, states)
    split = EvaluatedSplit(
        "hidden & sealed",
        sentences=3,
        groups=["reference", HOSTILE, "slow"],
        comparisons={
            "bleu": compare("signature of bleu", [[30.0, 31.0], [33.0, 34.0], [3.0, 4.0]]),
            "chrf": compare("signature of chrf", [[50.0, 51.0], [53.0, 54.0], [9.0, 10.0]]),
        },
    )
    settings: dict[str, list[object]] = {
        RATE: [1e-3, 2e-2, 5e-4, 1e-4],
        KIND: ["words", HOSTILE, "words", None],
    }
    return describe_groups(SweepResults(HOSTILE, groups, settings, "bleu", [split]))


@pytest.fixture(scope="module")
def page_path(report: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "groups.html"
    path.write_text(render_groups(report, plotly_script()), encoding="utf-8")
    return path


def test_a_group_is_scored_by_the_best_validations_of_its_finished_runs(
    report: dict[str, Any],
) -> None:
    reference, best, slow, waiting = report["groups"]
    assert reference.mean == pytest.approx(np.mean([20, 25, 22]))
    assert reference.deviation == pytest.approx(np.std([20, 25, 22], ddof=1))
    assert best.scores == [31.0, 33.0]  # not that of the run that failed, though it is higher
    assert (slow.mean, slow.deviation) == (4.0, 0.0)
    assert (waiting.mean, waiting.deviation, waiting.seconds) == (None, None, None)
    assert reference.seconds == 30.0
    assert waiting.unfinished == {"waiting": 3}
    assert report["order"] == [1, 0, 2, 3]
    assert report["best"] is best


def test_curves_are_means_in_bands_from_the_lowest_to_the_highest_seed(
    report: dict[str, Any],
) -> None:
    charts = {chart.name: chart for chart in report["curves"]}
    assert charts.keys() == {"curves-score", "curves-loss"}
    (line,) = (each for each in charts["curves-score"].series if each.name == HOSTILE)
    found = np.array([each[:2] for each in SCORES[HOSTILE]])
    assert line.x == [20, 40, 60]
    # What the failed run did not reach goes on without it.
    assert line.y == pytest.approx([*found.mean(axis=0), 31.5])
    assert line.low == pytest.approx([*found.min(axis=0), 31.0])
    assert line.high == pytest.approx([*found.max(axis=0), 32.0])
    losses = {each.name: each for each in charts["curves-loss"].series}
    assert losses["reference"].y[0] == pytest.approx(np.mean([100 / 30, 100 / 32, 100 / 31]))
    # Best first, as in the legend; a group without any validation has no line.
    assert [each.role for each in charts["curves-score"].series] == ["0", "1", "2"]


def test_validations_at_the_ends_of_epochs_are_averaged_epoch_by_epoch(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [10.0, 20.0], [100, 201])
    write_run(tmp_path / "b", [12.0, 24.0], [101, 200])
    runs = [RunResult.read(RunDirectory(tmp_path / name), "bleu") for name in "ab"]
    group = GroupResult("group", runs)
    (series,) = describe_groups(SweepResults("", [group], {}, "bleu"))["curves"][0].series
    assert (series.x, series.y) == ([100, 200], [11.0, 22.0])


def test_text_stays_text_and_asks_nobody_for_anything(page_path: Path) -> None:
    page = Page(page_path.read_text(encoding="utf-8"))
    shown = "".join(page.text)
    assert shown.count(HOSTILE) >= 5
    assert "49" not in shown.split()
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    assert "://" not in page.scripts[2]
    (policy,) = (
        attributes["content"] or ""
        for _, attributes in page.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    assert len(re.findall(r"'sha256-[^']+'", policy)) == 2


def test_the_finding_names_the_best_group_and_its_difference(page_path: Path) -> None:
    shown = " ".join("".join(Page(page_path.read_text(encoding="utf-8")).text).split())
    assert f"{HOSTILE} is best on the validation split, with 32.00 ± 1.41 BLEU" in shown
    assert (
        "(mean and deviation of 2 seeds), 9.67 more than the reference group, reference." in shown
    )
    assert "On hidden & sealed the difference in BLEU is +3.00 ± 0.75, p = 0.012" in shown
    for words in ("2 of 3 1 failed", "0 of 3 3 waiting", "signature of chrf"):
        assert words in shown


def test_pages_of_little_can_be_rendered(tmp_path: Path) -> None:
    groups = make_groups(tmp_path, {"one": [[3.0]], "two": [[]]})
    shown = render_groups(describe_groups(SweepResults("little", groups, {}, "bleu")), "")
    assert "it is the reference group" in shown
    shown = render_groups(describe_groups(SweepResults("less", groups[1:], {}, "bleu")), "")
    assert shown.count("No run was validated yet.") == 2
    untrained = make_groups(tmp_path / "untrained", {"one": [[0.0, 0.1]], "two": [[0.0]]})
    shown = render_groups(describe_groups(SweepResults("untrained", untrained, {}, "bleu")), "")
    assert "All scores are about 0, so they cannot be compared; train longer" in shown
    assert "is best" not in shown
    assert "best by validation" not in shown
    many = make_groups(tmp_path / "many", {f"g{n}": [[float(n)]] for n in range(30)})
    report = describe_groups(
        SweepResults("many", many, {RATE: [10**-n for n in range(30)]}, "bleu", reference=3)
    )
    assert report["legend"][:12] == [*range(29, 18, -1), 3]
    assert "Drawn at first are the 12 best groups" in render_groups(report, "")


@pytest.mark.long
@pytest.mark.browser
def test_a_person_clicks_through_it(page_path: Path, tmp_path: Path) -> None:
    with open_page(page_path, tmp_path / "profile") as page:
        assert page.locator(".plot").count() == 2
        assert page.locator(".plot .main-svg").count() >= 2
        lines = page.locator("[data-chart=curves-score] .scatterlayer path.js-line")
        drawn = lines.count()

        # light and dark
        paper = style(page, "body", "background-color")
        colour = lines.last.get_attribute("style")
        page.get_by_role("button", name="Switch to dark colours").click()
        assert style(page, "body", "background-color") != paper
        assert lines.last.get_attribute("style") != colour

        # the legend
        page.get_by_role("button", name="slow").click()
        assert lines.count() < drawn
        page.get_by_role("button", name="Hide all").click()
        assert lines.count() == 0
        page.get_by_role("button", name="Draw all").click()
        assert lines.count() == drawn

        # the table: by mouse, by keyboard, and what is missing stays last
        def column(head: str) -> list[str]:
            heads = [
                text.split("\xa0")[0].strip()
                for text in page.locator(".groups thead th").all_text_contents()
            ]
            cell = f".groups tbody tr > :nth-child({1 + heads.index(head)})"
            return [text.split()[0] for text in page.locator(cell).all_text_contents()]

        score = page.get_by_role("columnheader", name="validation BLEU")
        assert column("validation BLEU") == ["22.33", "32.00", "4.00", "–"]
        score.get_by_role("button").click()
        assert score.get_attribute("aria-sort") == "ascending"
        assert column("validation BLEU") == ["4.00", "22.33", "32.00", "–"]
        score.get_by_role("button").press("Enter")
        assert score.get_attribute("aria-sort") == "descending"
        assert column("validation BLEU") == ["32.00", "22.33", "4.00", "–"]
        page.get_by_role("columnheader", name="peak").get_by_role("button").press("Space")
        assert score.get_attribute("aria-sort") == "none"
        assert column("validation BLEU") == ["–", "4.00", "22.33", "32.00"]
        assert page.get_by_role("columnheader", name="sealed: chrF").count() == 0
        page.get_by_role("combobox", name="Metric").select_option(label="hidden & sealed: chrF")
        assert page.get_by_role("columnheader", name="sealed: chrF").is_visible()
        assert page.get_by_role("columnheader", name="sealed: BLEU").count() == 0

        page.screenshot(path=tmp_path / "dark.png", full_page=True)
        narrow_to_phone(page)
        page.screenshot(path=tmp_path / "phone.png", full_page=True)
