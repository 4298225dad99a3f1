"""`train --from`: a run grows with new text, and is accepted only if it gains enough."""

import json
import random
import re
from pathlib import Path

import pytest
from cli.process import assert_refused, run

from transformer_cli.extensions.experiments.growing import Growth, ScoreChange, next_run
from transformer_cli.runs.directory import RunDirectory


@pytest.mark.parametrize(
    ("old", "new"),
    [("runs/a", "runs/a+1"), ("runs/a+1", "runs/a+2"), ("a+9", "a+10"), ("c++", "c+++1")],
)
def test_a_grown_run_is_next_to_the_old_one(old: str, new: str) -> None:
    assert next_run(Path(old)) == Path(new)


@pytest.mark.parametrize(
    ("new", "old", "is_accepted"),
    [
        ((10.0, 10.1), (30.0, 29.6), True),
        ((10.0, 10.0), (30.0, 30.0), False),
        ((10.0, 20.0), (30.0, 29.5), False),
    ],
)
def test_a_run_is_accepted_if_it_gains_and_loses_little(
    new: tuple[float, float], old: tuple[float, float], is_accepted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a+1"
    for number in (1, 2):
        path.mkdir()
        growth = Growth(RunDirectory(tmp_path / "a"), RunDirectory(path), [])
        gained, lost = (ScoreChange(*scores, None, None, 9) for scores in (new, old))
        rejected = growth.settle(gained, lost, max_loss=0.5)
        if is_accepted:
            assert rejected is None
            assert json.loads((path / "growth.json").read_text())["taken_over"]
            return
        assert rejected == tmp_path / f"a+1.rejected{'-2' if number == 2 else ''}"
        assert not json.loads((rejected / "growth.json").read_text())["taken_over"]
        assert not path.exists()


def test_wrong_options_are_refused(own_run: Path, tmp_path: Path) -> None:
    few, text = tmp_path / "few.tsv", tmp_path / "text.de"
    few.write_text("1 2\t1 2\n" * 19)
    for arguments, said in (
        ((), "CONFIG: missing; give a config, or --from RUN --add FILE"),
        (("--add", few), "--add: needs --from RUN; add it"),
        (("--from", own_run), "--from: needs new text to adapt the run to; add --add FILE"),
        (("a.yaml", "--from", own_run, "--add", few), "--from: cannot be used with CONFIG"),
        (("--from", own_run, "--add", few, "--overwrite"), "cannot be used with --overwrite"),
        (("a.yaml", "--max-loss", "1"), "--max-loss: needs --from RUN; add it"),
        (("--from", own_run, "--add", few), "--add: 19 pairs; give at least 20"),
        (("--from", own_run, "--add", text), f"{text}: expected .tmx, .po or .tsv (two columns)"),
        (("--from", own_run, "--add", "x.csv"), "columns are separated by tabs, so save it as TSV"),
    ):
        assert_refused(run("train", *arguments), 2, said)
    assert sorted(path.name for path in own_run.parent.iterdir()) == ["few.tsv", "run"]


@pytest.mark.long
def test_a_run_grows_or_is_left_as_it_is(own_run: Path, tmp_path: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}

    before = files()
    draws = random.Random(1)
    lines = [" ".join(str(draws.randint(1, 6)) for _ in range(7)) for _ in range(300)]
    for name, turned in (("copies", 1), ("turned", -1)):
        pairs = "".join(f"{line}\t{line[::turned]}\n" for line in lines)
        (tmp_path / f"{name}.tsv").write_text(pairs)
    faster = ("--set", "training.schedule.peak=1e-2")
    grow = ("train", "--from", own_run, *faster, "--max-loss")
    grown = run(*grow, "20", "--add", tmp_path / "copies.tsv")
    assert grown.code == 0, grown.err
    number = r"[\d.]+"
    score = f"{number} → {number} ± {number} BLEU on"
    verdict = f"accepted: new text {score} 50 pairs; old text {score} 20 pairs"
    assert re.fullmatch(rf".*run\+1: {verdict}\n", grown.out)
    assert run(*grow, "20", "--add", tmp_path / "copies.tsv").out == grown.out
    other = run(*grow, "20", "--add", tmp_path / "turned.tsv")
    assert_refused(other, 2, "already exists with different text; grow it with --from")

    further = tmp_path / "run+1"
    still = ("--set", "training.schedule.peak=1e-12")
    rejected = run("train", "--from", further, *still, "--add", tmp_path / "turned.tsv")
    assert rejected.code == 1
    assert "run+2: rejected, and renamed to run+2.rejected: " in rejected.err
    assert not (tmp_path / "run+2").exists()
    assert (tmp_path / "run+2.rejected" / "growth.json").is_file()
    assert files() == before
