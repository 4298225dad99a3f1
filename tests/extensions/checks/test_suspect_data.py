"""What train and evaluate say of text before they compute."""

import json
import random
import shutil
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.process import Finished, assert_refused, run

SMALL = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: train.de, tgt: train.en}
  val: {src: val.de, tgt: val.en}
  test:
    news: {src: news.de, tgt: news.en}
tokenizer: {kind: words, min_freq: 1}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}
training: {max_steps: 2, validate_every: 2, batch_tokens: 200}
"""
GERMAN = ["ein", "Hund", "läuft", "über", "die", "nasse", "Straße", "und", "sieht", "Vögel"]
ENGLISH = ["a", "dog", "runs", "across", "the", "wet", "street", "and", "sees", "birds"]
# So many that no two lines are near-copies.
MORE = [first + last for first in "abcdefgh" for last in string.ascii_lowercase]
GERMAN += [f"wort{letter}" for letter in MORE]
ENGLISH += [f"word{letter}" for letter in MORE]
INSIST = "--allow-suspect-data"


def _write(directory: Path, name: str, lines: int) -> None:
    draws = random.Random(name)
    words = [draws.choices(range(len(ENGLISH)), k=draws.randint(5, 15)) for _ in range(lines)]
    for language, known in (("de", GERMAN), ("en", ENGLISH)):
        text = "".join(" ".join(known[word] for word in line) + "\n" for line in words)
        (directory / f"{name}.{language}").write_text(text)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A small experiment on files of the user's own."""
    for name, lines in (("train", 400), ("val", 30), ("news", 30)):
        _write(tmp_path, name, lines)
    config = tmp_path / "small.yaml"
    config.write_text(SMALL)
    return config


def train(config: Path, *options: str) -> Finished:
    return run("train", config, *options, cwd=config.parent)


def warnings(finished: Finished) -> list[str]:
    return [line for line in finished.err.splitlines() if line.startswith("warning: ")]


def exchange(config: Path, old: str, new: str) -> None:
    config.write_text(config.read_text().replace(old, new))


def test_of_good_text_nothing_is_said(small: Path) -> None:
    finished = train(small)
    assert (finished.code, warnings(finished)) == (0, [])
    evaluated = run("evaluate", "runs/small", "--seen", cwd=small.parent)
    assert (evaluated.code, evaluated.err) == (0, "")
    assert evaluated.out.endswith("\nthe model has seen none of the 30 pairs in training\n")


def _remove(directory: Path) -> None:
    (directory / "news.de").unlink()


def _lengthen(directory: Path) -> None:
    with (directory / "news.en").open("a") as file:
        file.write("one more\n")


def _spoil(directory: Path) -> None:
    for name, line in (("news.de", b"\n"), ("news.en", b"sch\xf6n\n")):
        with (directory / name).open("ab") as file:
            file.write(line)


def _empty(directory: Path) -> None:
    for language in ("de", "en"):
        (directory / f"news.{language}").write_bytes(b"")


@pytest.mark.parametrize(
    ("harm", "code", "told"),
    [
        (_remove, 2, "news.de: there is no such file"),
        (_lengthen, 1, "news.de has 30 lines but "),
        (_spoil, 1, "news.en:31: not UTF-8"),
        (_empty, 1, "news.en are empty"),
    ],
)
def test_test_text_is_looked_at_before_training(
    small: Path, harm: Callable[[Path], None], code: int, told: str
) -> None:
    harm(small.parent)
    assert_refused(train(small), code, "split 'news': ", told)
    assert not (small.parent / "runs").exists()


@pytest.mark.parametrize("dry", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("setting", "code", "told"),
    [
        ("data.train.src=none", 2, "none: there is no such file"),
        ("data.val.tgt=none", 2, "none: there is no such file"),
        ("tokenizer={kind: sentencepiece, vocab_size: 30000}", 2, "vocab_size"),
        ("data.more=[{tsv: train.de, src_column: 1, tgt_column: 2}]", 1, "there is no column 2"),
        ("init=runs/none", 2, "not a run directory"),
    ],
)
def test_what_is_wrong_is_found_before_precision_is_measured(
    small: Path, dry: list[str], setting: str, code: int, told: str
) -> None:
    refused = run("train", small, *dry, "--set", setting, cwd=small.parent)
    assert refused.code == code
    assert told in refused.err
    assert "measured" not in refused.err


def test_a_run_goes_on_without_its_test_text_and_says_so(small: Path) -> None:
    assert train(small).code == 0
    _remove(small.parent)
    finished = train(small, "--set", "training.max_steps=3")
    assert finished.code == 0
    (warning,) = warnings(finished)
    assert warning.startswith("warning: news: cannot be evaluated: ")
    assert "news.de: there is no such file" in warning


MISTAKES = [
    (
        "news.de, tgt: news.en",
        "train.de, tgt: train.en",
        "news: ",
        "train.de is also training text",
    ),
    ("val.de, tgt: val.en", "./train.de, tgt: train.en", "val: ", "train.de is also training text"),
    (
        "tgt: news.en",
        "tgt: news.de",
        "news: ",
        "each target equals its source; the two files may be the same",
    ),
    (
        "tgt: train.en",
        "tgt: train.de",
        "train: ",
        "each target equals its source; the two files may be the same",
    ),
]


@pytest.mark.long_cases
@pytest.mark.parametrize(("old", "new", "where", "told"), MISTAKES)
def test_what_can_only_be_a_mistake_is_refused(
    small: Path, old: str, new: str, where: str, told: str
) -> None:
    exchange(small, old, new)
    assert_refused(train(small), 2, where, told, INSIST)
    assert not (small.parent / "runs").exists()
    dry = train(small, INSIST, "--dry-run")
    assert dry.code == 0
    assert any(line.startswith(f"warning: {where}") and told in line for line in warnings(dry))


def test_a_copy_of_the_training_text_is_refused(small: Path) -> None:
    for language in ("de", "en"):
        shutil.copy(small.parent / f"train.{language}", small.parent / f"news.{language}")
    assert_refused(train(small), 2, "news: its text equals the training text", INSIST)


def test_a_copy_of_the_source_is_refused_as_the_target(small: Path) -> None:
    shutil.copy(small.parent / "train.de", small.parent / "train.en")
    assert_refused(train(small), 2, "train: each target equals its source", INSIST)


def test_insisted_on_refused_text_is_not_prepared_again(small: Path) -> None:
    lines = small.read_text().splitlines()
    sources = "data: {kind: corpus, src_lang: de, tgt_lang: en, sources: [{src: train.de, "
    small.write_text("\n".join([sources + "tgt: copy.de}], split: {val: 30}}", *lines[8:]]))
    shutil.copy(small.parent / "train.de", small.parent / "copy.de")
    refused = train(small)
    assert (refused.code, refused.err.count("sources[0]")) == (2, 1)
    prepared = small.parent / "runs" / "small" / "corpus" / "train.src"
    before = prepared.stat().st_mtime_ns
    insisted = train(small, INSIST)
    assert (insisted.code, insisted.err.count("sources[0]")) == (0, 0)
    assert prepared.stat().st_mtime_ns == before


def test_one_file_for_both_sides_is_no_mistake_in_one_language(small: Path) -> None:
    exchange(small, "tgt_lang: en", "tgt_lang: de")
    exchange(small, ".en", ".de")
    finished = train(small, "--dry-run")
    assert (finished.code, warnings(finished)) == (0, [])


@pytest.mark.parametrize("split", ["train", "val", "news"])
def test_languages_the_wrong_way_round_are_refused(small: Path, split: str) -> None:
    exchange(small, "src_lang: de", "src_lang: ru")
    for name in ("train", "val", "news"):
        russian = small.parent / f"{name}.de"
        russian.write_text("собака бежит по улице\n" * len(russian.read_text().splitlines()))
    exchange(small, f"src: {split}.de, tgt: {split}.en", f"src: {split}.en, tgt: {split}.de")
    told = f"{split}: its source is in the script of 'en' and its target in that of 'ru'"
    assert_refused(train(small), 2, told, INSIST)


def test_shifted_and_leaked_text_is_told_once(small: Path) -> None:
    directory = small.parent
    lines = (directory / "train.de").read_text().splitlines(keepends=True)
    (directory / "train.de").write_text("".join([*lines[:240], *lines[241:], "ein Hund\n"]))
    for language in ("de", "en"):
        trained = (directory / f"train.{language}").read_text().splitlines(keepends=True)
        with (directory / f"news.{language}").open("a") as file:
            file.write("".join(trained[:10]))
    first = train(small)
    assert first.code == 0
    told = warnings(first)
    assert told[0].startswith("warning: train: from about line 2")
    assert told[0].endswith(
        "source line n matches target line n+1: a line is missing in the source, or one too many "
        "in the target"
    )
    assert told[1:] == []
    # The text is not read again.
    again = train(small, "--set", "training.max_steps=3")
    assert (again.code, warnings(again)) == (0, [])
    evaluated = run("evaluate", "runs/small", "--seen", cwd=directory)
    assert evaluated.err == ""
    assert "seen 10 of 40 pairs in training (10 by source, 10 by target)" in evaluated.out


def test_text_that_is_mostly_shifted_is_refused(small: Path) -> None:
    lines = (small.parent / "train.de").read_text().splitlines(keepends=True)
    (small.parent / "train.de").write_text("".join([*lines[1:], "ein Hund\n"]))
    told = "train: most lines are misaligned"
    assert_refused(train(small), 2, f"{told}, from line 1 on source line n", INSIST)
    checked = run("check", small, cwd=small.parent)
    assert (checked.code, f"mistake: {told}\n" in checked.out) == (1, True)
    insisted = train(small, INSIST)
    assert (insisted.code, [told in line for line in warnings(insisted)]) == (0, [True])


def test_vocab_refuses_what_train_does(small: Path) -> None:
    shutil.copy(small.parent / "train.de", small.parent / "train.en")
    refused = run("vocab", small, cwd=small.parent)
    assert_refused(refused, 2, "train: each target equals its source", INSIST)
    insisted = run("vocab", small, INSIST, cwd=small.parent)
    assert insisted.code == 0
    assert warnings(insisted)[0].startswith("warning: train: each target equals its source")


def test_vocab_tells_what_train_will_not_read_again(small: Path) -> None:
    lines = (small.parent / "train.de").read_text().splitlines(keepends=True)
    (small.parent / "train.de").write_text("".join([*lines[:240], *lines[241:], "ein Hund\n"]))
    finished = run("vocab", small, cwd=small.parent)
    assert finished.code == 0
    (told,) = warnings(finished)
    assert told.startswith("warning: train: from about line 2")


def test_evaluate_says_that_a_split_was_trained_on(small: Path) -> None:
    assert train(small).code == 0
    finished = run(
        "evaluate", "runs/small", "--seen", "--split", "train", "--json", cwd=small.parent
    )
    assert finished.code == 0
    assert warnings(finished) == [
        "warning: train: all its pairs were seen in training, so its scores are not meaningful"
    ]
    seen = json.loads(finished.out)["seen"]
    assert seen == {"pairs": 400, "by_source": 400, "by_target": 400, "unknown": [], "rest": None}


def _leak(directory: Path) -> None:
    """Put 3 sources and 5 targets of the training text into the test text, with other partners."""
    for language, count, end in (("de", 3, "\u200b \n"), ("en", 5, "\n")):
        trained = (directory / f"train.{language}").read_text().splitlines()
        path = directory / f"news.{language}"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines[:-count], *(line + end for line in trained[-count:])]))


@pytest.mark.long
def test_pairs_seen_by_a_side_are_counted_and_the_rest_is_scored_too(small: Path) -> None:
    assert train(small).code == 0
    _leak(small.parent)
    finished = run("evaluate", "runs/small", "--seen", "--json", "-o", "out", cwd=small.parent)
    assert (finished.code, finished.err) == (0, "")
    values = json.loads(finished.out)
    rest = values["seen"].pop("rest")
    assert values["seen"] == {"pairs": 5, "by_source": 3, "by_target": 5, "unknown": []}

    for name, kept in (("src", "news.de"), ("ref", "news.en"), ("hyp", "out")):
        lines = (small.parent / kept).read_text().splitlines(keepends=True)
        (small.parent / name).write_text("".join(lines[:-5]))
    files = ("--src", "src", "--ref", "ref")
    alone = json.loads(
        run("evaluate", "runs/small", "--seen", *files, "--json", cwd=small.parent).out
    )
    assert alone["seen"]["pairs"] == 0
    scores = rest.pop("scores")
    assert rest == {"sentences": alone["sentences"]}
    assert scores == {key: alone["scores"][key] for key in ("bleu", "bleu_lc", "chrf")}

    shown = [f"{score['value']:.2f} ± {score['half_width']:.2f}" for score in scores.values()]
    table = run("evaluate", "runs/small", "--seen", cwd=small.parent).out.splitlines()
    assert table[-2:] == [
        "the model has seen 5 of 30 pairs in training (3 by source, 5 by target)",
        f"of the other 25: BLEU {shown[0]}, lowercased {shown[1]}, chrF {shown[2]}",
    ]


@pytest.mark.long
def test_compare_scores_what_none_of_the_runs_has_seen(small: Path) -> None:
    directory = small.parent
    assert train(small).code == 0
    _write(directory, "other", 400)
    news = {language: directory / f"news.{language}" for language in ("de", "en")}
    for language, path in news.items():
        with (directory / f"other.{language}").open("a") as file:
            file.write("".join(path.read_text().splitlines(keepends=True)[:12]))
    exchange(small, "train: {src: train.de, tgt: train.en}", "init: x")
    text = small.read_text().replace("  init: x", "  train: {src: other.de, tgt: other.en}")
    (directory / "next.yaml").write_text(f"init: runs/small\n{text}")
    assert run("train", "next.yaml", cwd=directory).code == 0

    told = run("compare", "runs/small", "runs/next", "--split", "runs/small:news", cwd=directory)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert "next has seen 12 of 30 pairs in training (12 by source, 12 by target)" in lines
    assert not any(line.startswith("small has seen") for line in lines)
    tables = [number for number, line in enumerate(lines) if line.startswith("run  ")]
    assert len(tables) == 2
    assert lines[tables[1] - 2] == "the other 18:"

    split = ("--split", "runs/next:train", "--json")
    values = json.loads(run("compare", "runs/small", "runs/next", *split, cwd=directory).out)
    assert [each["seen"]["pairs"] for each in values["runs"]] == [0, 412]
    assert values["rest"] is None  # as nothing is left
    # What an adapted run started from was trained on counts as well.
    split = ("--split", "runs/small:train", "--json")
    values = json.loads(run("compare", "runs/small", "runs/next", *split, cwd=directory).out)
    assert [each["seen"]["pairs"] for each in values["runs"]] == [400, 400]


def test_what_cannot_be_told_is_not_called_none(small: Path) -> None:
    directory = small.parent
    assert train(small).code == 0
    shutil.rmtree(directory / "runs" / "small" / "encoded")  # as after a move
    found = json.loads(run("evaluate", "runs/small", "--seen", "--json", cwd=directory).out)
    assert found["seen"]["unknown"] == []  # the text itself is read

    (directory / "train.de").write_text("anders\n" * 400)
    finished = run("evaluate", "runs/small", "--seen", cwd=directory)
    told = (
        "cannot tell if the model has seen any of them: the training text of runs/small is missing"
    )
    assert (finished.err, finished.out.splitlines()[-1]) == ("", told)


def test_records_of_others_are_no_error(small: Path) -> None:
    directory = small.parent
    assert train(small, "--run-dir", "runs/student").code == 0
    (directory / "runs" / "loop").symlink_to("loop")
    names = ["runs/loop", "runs/none", "x" * 5000, "\0", "\ud800", "\x1b[2J", "text", 7]
    (directory / "runs" / "distill.json").write_text(json.dumps({"teachers": names}))
    finished = run("evaluate", "runs/student", "--seen", cwd=directory)
    assert (finished.code, finished.err) == (0, "")
    told = finished.out.splitlines()[-1]
    assert told.startswith("cannot tell if the model has seen any of them: ")
    assert "runs/none" in told
    assert "\\x1b[2J" in told


def test_runs_that_start_from_each_other_are_looked_at_once(small: Path) -> None:
    directory = small.parent
    assert train(small).code == 0
    config = directory / "runs" / "small" / "config.yaml"
    settings = config.read_text()
    shutil.copytree(directory / "runs" / "small", directory / "runs" / "next")
    for name, other in (("small", "../next"), ("next", "../loop/next")):
        path = directory / "runs" / name / "config.yaml"
        path.write_text(settings.replace("init: null", f"init: {directory}/runs/{name}/{other}"))
        assert path.read_text() != settings
    (directory / "runs" / "loop").symlink_to("loop")
    seen = json.loads(run("evaluate", "runs/small", "--seen", "--json", cwd=directory).out)["seen"]
    assert [Path(each).name for each in seen["unknown"]] == ["next"]
    assert "loop" in seen["unknown"][0]
