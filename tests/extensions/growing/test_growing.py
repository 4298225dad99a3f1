"""`train --from`: a run grows with corrections, recalls them, and is rejected only if worse."""

import json
import random
import re
from pathlib import Path

import pytest
from cli.process import assert_refused, run

from transformer_cli import Translation, Translator
from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.growing.growth import CorrectedPairs, Growth, find_faults, next_run
from transformer_cli.extensions.growing.judging import ScoreChange, Verdict, settle
from transformer_cli.runs.directory import RunDirectory


def _words(count: int, seed: int = 1) -> list[str]:
    draws = random.Random(seed)
    return [" ".join(str(draws.randint(1, 6)) for _ in range(7)) for _ in range(count)]


@pytest.mark.parametrize(
    ("old", "new"),
    [("runs/a", "runs/a+1"), ("runs/a+1", "runs/a+2"), ("a+9", "a+10"), ("c++", "c+++1")],
)
def test_a_grown_run_is_next_to_the_old_one(old: str, new: str) -> None:
    assert next_run(Path(old)) == Path(new)


@pytest.mark.parametrize(
    ("new", "old", "accepts", "is_accepted"),
    [
        (ScoreChange(10, 8, 3.0, 9), ScoreChange(30, 28, 3.0, 9), False, True),  # by chance
        (ScoreChange(10, 8, 1.0, 9), ScoreChange(30, 30, 0.0, 9), False, False),
        (ScoreChange(10, 20, 1.0, 9), ScoreChange(30, 29.4, 0.5, 9), False, False),
        (ScoreChange(10, 20, 1.0, 9), ScoreChange(30, 29.6, 0.1, 9), False, True),  # small
        (ScoreChange(10, 8, 1.0, 9), ScoreChange(30, 28, 1.0, 9), True, True),
    ],
)
def test_a_run_is_rejected_only_if_it_is_significantly_worse(
    new: ScoreChange, old: ScoreChange, accepts: bool, is_accepted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a+1"
    for number in (1, 2):
        path.mkdir()
        few = CorrectedPairs({"a": "b"}, {}, 1)
        growth = Growth(RunDirectory(tmp_path / "a"), RunDirectory(path), few)
        rejected = settle(growth, Verdict(new, old), 0.5, accepts)
        if is_accepted:
            assert rejected is None
            assert json.loads((path / "growth.json").read_text())["taken_over"]
            return
        assert rejected == tmp_path / f"a+1.rejected{'-2' if number == 2 else ''}"
        assert not json.loads((rejected / "growth.json").read_text())["taken_over"]
        assert not path.exists()


@pytest.mark.parametrize("count", [1, 19, 20, 333, 2_000, 2_001, 30_000])
def test_each_correction_is_judged_by_a_model_that_has_not_seen_it(
    count: int, tmp_path: Path
) -> None:
    pairs = {str(number): "x" for number in range(count)}
    growth = Growth(
        RunDirectory(tmp_path / "a"), RunDirectory(tmp_path / "b"), CorrectedPairs(pairs, {}, count)
    )
    trainings = growth.trainings
    assert bool(trainings) == (count >= 20)
    judged = [pair for each in trainings for pair in each.held]
    for each in trainings:
        assert not set(each.train) & set(each.held)
        assert len(each.train) + len(each.held) == count
    if 20 <= count <= 2_000:
        assert sorted(judged) == sorted(pairs.items())
        assert trainings[-1].train == [*pairs.items()]  # the new run learns from all of them
    elif count > 2_000:
        assert len(trainings) == 1
        assert len(judged) == min(count // 20, 500)


def test_only_what_the_old_run_has_not_learned_is_trained_on(tmp_path: Path) -> None:
    old = RunDirectory(tmp_path / "a")
    old.path.mkdir()
    (old.path / "corrections.tsv").write_text("learned\tx\nwaiting\tx\nwrong\tx\n")
    (old.path / "growth.json").write_text('{"waiting": ["waiting"]}')
    new = {"wrong": "right", "learned": "x", "new": "y"}
    growth = Growth(old, RunDirectory(tmp_path / "b"), CorrectedPairs(new, {}, 3))
    assert dict(growth.pairs) == {"waiting": "x", "wrong": "right", "new": "y"}
    assert growth.memory == {"learned": "x", **dict(growth.pairs)}


def test_faulty_corrections_are_left_out() -> None:
    data = load_config(Path("configs/toy.yaml")).data
    good = "Die Katze liegt heute auf dem Sofa.", "The cat is on the sofa today."
    pairs = [
        good,
        (good[0], good[0]),
        (good[0], "cat cat cat cat cat cat cat cat"),
        (good[0], "No."),
        (good[0], "Кошка сегодня на диване."),
        ("Öffne %s", "Open it"),
        ("Ã¼ber alles", "about all"),
    ]
    assert [bool(fault) for fault in find_faults(pairs, data)] == [False] + 6 * [True]


def test_wrong_options_are_refused(own_run: Path, tmp_path: Path) -> None:
    few, text, bad = tmp_path / "few.tsv", tmp_path / "text.de", tmp_path / "bad.tsv"
    few.write_text("1 2\t1 2\n" * 19)
    bad.write_text("Öffne %s\tOpen it\n")
    for arguments, said in (
        ((), "CONFIG: missing; give a config, or --from RUN --add FILE"),
        (("--add", few), "--add: needs --from RUN; add it"),
        (("a.yaml", "--accept"), "--accept: needs --from RUN; add it"),
        (("--from", own_run), "--from: needs corrections to adapt the run to; add --add FILE"),
        (("a.yaml", "--from", own_run, "--add", few), "--from: cannot be used with CONFIG"),
        (("--from", own_run, "--add", few, "--overwrite"), "cannot be used with --overwrite"),
        (("a.yaml", "--max-loss", "1"), "--max-loss: needs --from RUN; add it"),
        (("--from", own_run, "--add", bad), "no corrections to learn from: 1 of 1 pairs left out"),
        (("--from", own_run, "--add", text), f"{text}: expected .tmx, .po or .tsv (two columns)"),
        (("--from", own_run, "--add", few, "--run-dir", own_run), "is the run to start from"),
        (("--from", own_run, "--add", few, "--run-dir", few), "is a file; choose another"),
        (("--from", own_run, "--add", "x.csv"), "columns are separated by tabs, so save it as TSV"),
    ):
        assert_refused(run("train", *arguments), 2, said)
    names = sorted(path.name for path in own_run.parent.iterdir())
    assert names == ["bad.tsv", "few.tsv", "run"]


def test_a_few_corrections_are_recalled_and_change_nothing_else(
    own_run: Path, tmp_path: Path
) -> None:
    first, second, *others = _words(40)
    (tmp_path / "few.tsv").write_text(f"{first}\tthe one\n{second}\tthe other\n")
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{line}\n" for line in (f" {second} ", *others, first)))
    grow = ("train", "--from", own_run, "--add", tmp_path / "few.tsv")
    planned = run(*grow, "--dry-run")
    assert planned.code == 0, planned.err
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == ["run"]
    grown = run(*grow)
    assert grown.code == 0, grown.err
    assert "run+1: accepted: it translates 2 corrected texts as corrected, and all" in grown.out
    assert run(*grow).out == grown.out
    before = run("translate", own_run, "-i", lines).out.splitlines()
    for search in ((), ("--beam-size", "3", "--engine", "torch")):
        after = run("translate", tmp_path / "run+1", "-i", lines, *search).out.splitlines()
        assert (after[0], after[-1]) == ("the other", "the one")
        if not search:
            assert after[1:-1] == before[1:-1]
    translator = Translator.load(tmp_path / "run+1")
    assert translator.translate([first, second], beam_size=2) == ["the one", "the other"]
    assert translator.translate_n_best([second], 2) == [[Translation("the other")]]
    (begun,) = translator.translate([second], prefixes=["1 1"])
    assert begun.startswith("1 1")

    prefixes = tmp_path / "prefixes.txt"
    prefixes.write_text("1 1\n" * 40)
    prefixed = run("translate", tmp_path / "run+1", "-i", lines, "--prefix-file", prefixes)
    assert all(line.startswith("1 1") for line in prefixed.out.splitlines())

    # A second growth recalls the first corrections, too; a later correction replaces an earlier.
    (tmp_path / "more.tsv").write_text(f"{first}\tthe better one\n")
    grown = run("train", "--from", tmp_path / "run+1", "--add", tmp_path / "more.tsv")
    assert grown.code == 0, grown.err
    after = run("translate", tmp_path / "run+2", "-i", lines).out.splitlines()
    assert (after[0], after[-1]) == ("the other", "the better one")

    edited = tmp_path / "run+2" / "corrections.tsv"
    edited.write_text(f"\ufeff{first}\tthe best\n")  # as Windows' Notepad writes it
    assert run("translate", tmp_path / "run+2", "-i", lines).out.endswith("the best\n")
    for wrong in ("no tab", "a\tb\tc", "\tb", "a\t"):
        edited.write_text(f"x\ty\n{wrong}\n")
        refused = run("translate", tmp_path / "run+2", "-i", lines)
        said = "corrections.tsv: line 2: expected a source and its translation"
        assert_refused(refused, 1, said)


def test_a_segment_of_a_document_may_have_a_correction_of_several_sentences(
    own_run: Path, tmp_path: Path
) -> None:
    (own_run / "corrections.tsv").write_text("1 2. 3 4!\tOne. Two.\n3 4!\tThree.\n")
    document = tmp_path / "menu.po"
    texts = ("1 2. 3 4!", "5 6. 3 4!")
    document.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
        + "".join(f'\nmsgid "{text}"\nmsgstr ""\n' for text in texts)
    )
    filled = tmp_path / "filled.po"
    done = run("translate", own_run, "-i", document, "-o", filled, "--no-fuzzy")
    assert done.code == 0, done.err
    written = re.findall('msgstr "(.*)"', filled.read_text())[1:]
    assert written[0] == "One. Two."
    assert written[1].endswith(" Three.")


def test_corrections_of_segments_with_tags_have_the_tags(own_run: Path, tmp_path: Path) -> None:
    pairs = (("ein <b>Hund</b> da", "a <b>dog</b> there"), ("eine <i>Katze</i>", "a cat"))
    text = "".join(f"{src}\t{tgt}\n" for src, tgt in pairs)
    (own_run / "corrections.tsv").write_text(text)
    page, filled = tmp_path / "page.html", tmp_path / "filled.html"
    page.write_text("".join(f"<p>{src}</p>\n" for src, _ in pairs))
    done = run("translate", own_run, "-i", page, "-o", filled)
    assert done.code == 0, done.err
    first, second = filled.read_text().splitlines()
    assert first == "<p>a <b>dog</b> there</p>"
    assert "cat" not in second  # its tags would be lost
    assert "<i>" in second


@pytest.mark.long
def test_a_run_grows_or_is_left_as_it_is(own_run: Path, tmp_path: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}

    before = files()
    for name, turned in (("copies", 1), ("turned", -1)):
        pairs = "".join(f"{line}\t{line.split()[turned]}\n" for line in _words(300))
        (tmp_path / f"{name}.tsv").write_text(pairs)
    faster = ("--set", "training.schedule.peak=1e-2")
    grow = ("train", "--from", own_run, *faster, "--max-loss")
    grown = run(*grow, "20", "--add", tmp_path / "copies.tsv")
    assert grown.code == 0, grown.err
    number = r"[\d.]+"
    score = f"{number} → {number} BLEU \\([+-]{number} ± {number}, "
    verdict = f"as corrected; new text {score}300 pairs\\); old text {score}20 pairs\\)"
    assert re.fullmatch(rf".*run\+1: accepted: it translates 300 .*{verdict}\n", grown.out)
    assert run(*grow, "20", "--add", tmp_path / "copies.tsv").out == grown.out
    stricter = run(*grow, "0", "--add", tmp_path / "copies.tsv")  # it was accepted before
    assert (stricter.code, stricter.out) == (0, grown.out)
    other = run(*grow, "20", "--add", tmp_path / "turned.tsv")
    assert_refused(other, 2, "already exists with different text; grow it with --from")
    assert not any((tmp_path / "run+1" / "growth").glob("[12]"))
    assert files() == before
    spoilt = run(
        "train",
        "--from",
        own_run,
        *faster,
        "--run-dir",
        tmp_path / "bad",
        "--max-loss",
        "0",
        "--add",
        tmp_path / "turned.tsv",
        "--set",
        "training.init_share=0.01",
        "--set",
        "training.schedule.peak=0.5",
    )
    assert spoilt.code == 1
    assert "bad: rejected, and renamed to bad.rejected: it translates 300" in spoilt.err
    assert not (tmp_path / "bad").exists()
    assert run("evaluate", tmp_path / "bad.rejected", "--split", "val").code == 0
