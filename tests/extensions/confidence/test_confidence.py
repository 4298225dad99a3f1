"""Estimates of how likely translations are good, and translations that are left to a person."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli.process import assert_refused, run

from transformer_cli.base.errors import RunError, UsageError
from transformer_cli.extensions.confidence.calibration import (
    Calibration,
    calibration_error,
    find_bins,
    fit,
    read_calibration,
)

TOY = Path(__file__).parents[3]


def _draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw mean log-probabilities, and which translations are good, from a known calibration."""
    draws = np.random.default_rng(seed)
    means = -draws.exponential(0.6, count)
    truth = Calibration(2.0, 3.0, 50.0, count, "")
    chances = np.array([truth.estimate(each) for each in means])
    return means, draws.random(count) < chances


def test_a_known_calibration_is_found_again() -> None:
    means, good = _draw(20_000, 1)
    learned = fit(means.tolist(), good.tolist(), "sum")
    assert learned.intercept == pytest.approx(2.0, abs=0.1)
    assert learned.slope == pytest.approx(3.0, abs=0.2)
    others, good = _draw(5_000, 2)
    estimates = np.array([learned.estimate(each) for each in others])
    assert calibration_error(find_bins(estimates, good)) < 0.03
    assert calibration_error(find_bins(1 - estimates, good)) > 0.2


@pytest.mark.parametrize("means", [[-0.1, -3.0] * 100, [0.0, -1e9] * 100])
def test_the_estimates_stay_finite(means: list[float]) -> None:
    learned = fit(means, [True, False] * 100, "")
    assert 0.5 < learned.estimate(0.0) < 1.0
    assert 0.0 < learned.estimate(-1e9) < 0.5


def test_too_few_translations_are_refused() -> None:
    for count, good in ((99, 50), (200, 4), (200, 196)):
        with pytest.raises(UsageError, match=f"of {count} translations of the validation text"):
            fit([-1.0] * count, [number < good for number in range(count)], "")


def test_estimates_that_contradict_the_text_are_refused() -> None:
    with pytest.raises(UsageError, match="likelier translations of the validation text are not"):
        fit([-0.1, -3.0] * 100, [False, True] * 100, "")


@pytest.mark.parametrize("slope", [1e3, 1e6])
def test_a_steep_calibration_does_not_overflow(slope: float) -> None:
    assert 0.0 <= Calibration(1.0, slope, 50.0, 9, "").estimate(-8.0) < 1e-9


@pytest.mark.parametrize("content", ["", "[]", '{"intercept": 1.0}', '{"slope": "x"}'])
def test_a_damaged_file_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    assert read_calibration(path) is None
    path.write_text(content)
    with pytest.raises(RunError, match="is damaged"):
        read_calibration(path)
    made = Calibration(1.0, 2.0, 50.0, 3, "sum")
    path.write_text(json.dumps(vars(made)))
    assert read_calibration(path) == made


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("confidence") / "run"
    settings = ("--set", "training.epochs=3", "--threads", "1")
    finished = run("train", "configs/toy.yaml", *settings, "--run-dir", path, cwd=TOY)
    assert finished.code == 0, finished.err
    return path


def test_risky_translations_are_left_to_a_person(toy_run: Path, tmp_path: Path) -> None:
    test = TOY / "data" / "toy" / "test.de"
    limited = ("translate", toy_run, "-i", test, "--engine", "ctranslate2", "--max-risk")
    (toy_run / "calibration.json").unlink(missing_ok=True)  # another test may have made it
    told = "has no calibration; first run: transformer-cli evaluate"
    assert_refused(run(*limited, "30%"), 2, told)
    report = json.loads(run("evaluate", toy_run, "--calibrate", "--json", cwd=TOY).out)
    learned = report["calibration"]
    assert 0 <= learned["error"] < 0.3
    assert sum(each["size"] for each in learned["bins"]) == report["sentences"]
    shown = run("evaluate", toy_run, "--calibrate", cwd=TOY).out
    assert "estimated to be good (chrF of 50 or more)" in shown

    whole = run("translate", toy_run, "-i", test).out.splitlines()
    scored = run("translate", toy_run, "-i", test, "--scores", "--engine", "ctranslate2").out
    chances = [json.loads(line)["translations"][0]["good"] for line in scored.splitlines()]
    middle = float(np.median(chances))
    found = run(*limited, f"{100 * (1 - middle):.2f}%")
    written = found.out.splitlines()
    assert 0 < written.count("") < len(written)
    assert "lines: doubtful, left to a person; line" in found.err
    assert all(one in ("", line) for one, line in zip(written, whole, strict=True))
    # The scores are of the first search; a second search may change a few translations.
    kept, left = (
        [chance for chance, one in zip(chances, written, strict=True) if bool(one) == is_kept]
        for is_kept in (True, False)
    )
    assert sum(chance < middle - 0.001 for chance in kept) < 0.3 * len(kept)
    assert sum(chance > middle + 0.001 for chance in left) < 0.3 * len(left)

    for wrong, said in (
        (("--max-risk", "5"), "expected a percentage such as 5%, found '5'"),
        (("--max-risk", "5%", "--n-best", "2"), "judges one translation; leave out --n-best"),
    ):
        assert_refused(run("translate", toy_run, "-i", test, *wrong), 2, said)
    terms = tmp_path / "terms.tsv"
    terms.write_text("Hund\tdog\n")
    refused = run("evaluate", toy_run, "--calibrate", "--terms", terms, cwd=TOY)
    assert_refused(refused, 2, "--calibrate: is for the run as it is; leave out --terms")
    links = tmp_path / "links"
    asked = ("translate", toy_run, "-i", test, "--max-risk", "0%", "--alignments", links)
    nothing = run(*asked, "--terms", terms)
    assert nothing.code == 0, nothing.err
    assert set(nothing.out) == set(links.read_text()) == {"\n"}
    assert "terms are kept" not in nothing.err
    path = toy_run / "calibration.json"
    path.write_text(path.read_text().replace('"checkpoint": "', '"checkpoint": "x'))
    assert_refused(run(*limited, "30%"), 2, "has no calibration for this checkpoint")


def test_risky_segments_of_a_document_are_not_filled(toy_run: Path, tmp_path: Path) -> None:
    assert run("evaluate", toy_run, "--calibrate", cwd=TOY).code == 0
    document = tmp_path / "menu.po"
    document.write_text(
        'msgid ""\nmsgstr "Language: en\\nContent-Type: text/plain; charset=UTF-8\\n"\n'
        '\nmsgid "Xylophon Quatsch."\nmsgstr ""\n'
    )
    for limit, is_filled in (("99%", True), ("0%", False)):
        filled, page = tmp_path / "filled.po", tmp_path / "page.html"
        given = ("-i", document, "-o", filled, "--max-risk", limit, "--report", page)
        done = run("translate", toy_run, *given)
        assert done.code == 0, done.err
        assert ("left to a person" in done.err + done.out) != is_filled
        assert ('msgstr ""' not in filled.read_text().split("Quatsch")[1]) == is_filled
        assert "estimated probability that a translation is good" in page.read_text()


def test_risky_segments_with_tags_stay_as_they_are(toy_run: Path, tmp_path: Path) -> None:
    assert run("evaluate", toy_run, "--calibrate", cwd=TOY).code == 0
    page, filled = tmp_path / "page.html", tmp_path / "filled.html"
    page.write_text("<p>Ein <b>Hund</b> schläft am Strand, <code>%s</code>.</p>\n")
    done = run("translate", toy_run, "-i", page, "-o", filled, "--max-risk", "0%")
    assert done.code == 0, done.err
    assert "not filled: 1; first:" in done.err
    assert done.err.rstrip().endswith("left to a person")
    assert filled.read_text() == page.read_text()
