"""Which runs can be compared on which text, and the reports about them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU

from transformer_cli.base.errors import CorpusError, RunError, TransformerCliError, UsageError
from transformer_cli.config.data_schema import FilesData
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelText
from transformer_cli.evaluation.scores import score
from transformer_cli.extensions.experiments.compared_runs import (
    ComparedRun,
    distinct_names,
    load_common_text,
    load_texts,
    open_runs,
)
from transformer_cli.extensions.experiments.seed_statistics import paired_bootstrap, score_systems
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run

SRC = ["eins zwei", "drei", "vier fünf"]
TGT = ["one two", "three", "four five"]


def compared_run(name: str, **sections: Any) -> ComparedRun:
    required = {"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}}
    config = Config.model_validate({**required, **sections})
    path = Path("runs") / name
    checkpoint = path / "checkpoints" / "step"
    return ComparedRun(name, RunDirectory(path), config, checkpoint, 1, 1, 1.0)


def on_files(
    directory: Path,
    name: str,
    src: Sequence[str] = SRC,
    tgt: Sequence[str] = TGT,
    **changes: Any,
) -> ComparedRun:
    """A compared run whose only test split, 'news', consists of files named after it."""
    pair = {}
    for side, lines in (("src", src), ("tgt", tgt)):
        path = directory / f"{name}.{side}"
        path.write_text("".join(f"{line}\n" for line in lines))
        pair[side] = str(path)
    files = {"kind": "files", "src_lang": "de", "tgt_lang": "en", "train": pair, "val": pair}
    return compared_run(name, data={**files, "test": {"news": pair}, **changes})


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a", "runs/b"], ["a", "b"]),
        (["runs/a", "old/a", "runs/b"], ["runs/a", "old/a", "b"]),
        (["x/runs/a", "y/runs/a"], ["x/runs/a", "y/runs/a"]),
        (["/a", "/x/a"], ["/a", "x/a"]),
        (["/runs", "/runs/runs"], ["/runs", "runs/runs"]),
        (["runs/a/", "./b"], ["a", "b"]),
    ],
)
def test_names_are_as_short_as_possible_and_unique(paths: list[str], names: list[str]) -> None:
    assert distinct_names([Path(path) for path in paths]) == names


def test_the_current_directory_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert distinct_names([Path(), Path("other")]) == [tmp_path.name, "other"]


@pytest.mark.posix
def test_a_run_by_two_paths_is_one_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with pytest.raises(UsageError, match="link is named twice; name each run once"):
        open_runs([tmp_path / "run", tmp_path / "link"], "best")


# --- text -----------------------------------------------------------------------------------------


def test_the_same_text_in_other_files_compares(tmp_path: Path) -> None:
    runs = [on_files(tmp_path, name) for name in ("a", "b", "c")]
    text = ParallelText(SRC, TGT)
    assert load_texts(runs, []) == [("news", text)]
    assert load_texts(runs, ["val", "news", "val"]) == [("val", text), ("news", text)]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"src": ["eins zwei", "DREI", "vier fünf"]}, "line 2 differs"),
        ({"tgt": ["one two", "three", "four  five"]}, "line 3 differs"),
        ({"src": SRC[:2], "tgt": TGT[:2]}, "3 and 2 sentences"),
        ({"src": TGT, "tgt": SRC, "src_lang": "en", "tgt_lang": "de"}, "de-en and en-de"),
        ({"tgt_lang": "fr"}, "languages de-en and de-fr"),
    ],
)
def test_another_text_is_refused_in_one_line_with_both_names(
    tmp_path: Path, changes: dict[str, Any], found: str
) -> None:
    runs = [on_files(tmp_path, "a"), on_files(tmp_path, "b"), on_files(tmp_path, "c")]
    runs[2] = on_files(tmp_path, "c", **changes)
    with pytest.raises(UsageError) as refused:
        load_common_text(runs, "news")
    message = str(refused.value)
    assert message.startswith("runs/a and runs/c: split 'news' is not the same in both (")
    assert found in message
    assert "\n" not in message


def test_a_split_that_one_run_lacks_is_reported_with_the_run(tmp_path: Path) -> None:
    runs = [on_files(tmp_path, "a"), compared_run("b")]
    said = r"^runs/b: data\.kind toy has no split 'news'; --split runs/a:news compares"
    for order in (runs, runs[::-1]):
        with pytest.raises(CorpusError, match=said):
            load_common_text(order, "news")
    with pytest.raises(CorpusError, match=r"^runs/a: data\.kind files has no split 'new'; did you"):
        load_common_text(runs, "new")


def save(run: ComparedRun, directory: Path) -> Path:
    """Write the run's settings, as in any run."""
    path = directory / run.name
    initialize_run(RunDirectory(path), run.config)
    return path


def test_one_runs_split_is_a_text_for_all(tmp_path: Path) -> None:
    other = on_files(tmp_path, "b", src=["sechs"], tgt=["six"])
    runs = [on_files(tmp_path, "a"), other]
    named = f"{save(other, tmp_path / 'C:')}:news"
    first = f"{save(runs[0], tmp_path)}:val"
    loaded = load_texts(runs, [named, first])
    assert loaded == [(named, ParallelText(["sechs"], ["six"])), (first, ParallelText(SRC, TGT))]


def with_test(run: ComparedRun, name: str) -> ComparedRun:
    """The same with its validation pairs as an additional test split."""
    data = run.config.data
    assert isinstance(data, FilesData)
    return compared_run(run.name, data=data.model_copy(update={"test": {name: data.val}}))


@pytest.mark.posix
def test_names_of_splits_may_have_colons_too(tmp_path: Path) -> None:
    other = with_test(on_files(tmp_path, "b", src=["sechs"], tgt=["six"]), "c:d")
    runs = [with_test(on_files(tmp_path, "a"), "b:val"), compared_run("copy")]
    named = f"{save(other, tmp_path / 'x:y')}:c:d"
    assert load_texts(runs[:1], [named]) == [(named, ParallelText(["sechs"], ["six"]))]
    # A split's name takes precedence over a run's.
    assert load_texts(runs[:1], ["b:val"]) == [("b:val", ParallelText(SRC, TGT))]
    with pytest.raises(CorpusError, match="--split runs/a:b:val compares all runs on it"):
        load_texts(runs, ["b:val"])


def test_an_imported_run_takes_the_text_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    imported = compared_run("m", data={"kind": "imported", "src_lang": "de", "tgt_lang": "en"})
    adapted = on_files(tmp_path, "a")
    save(adapted, Path("runs"))
    text = ParallelText(SRC, TGT)
    assert load_texts([imported, adapted], []) == [("runs/a:news", text)]
    said = "^runs/m: data.kind imported has no split 'val'; --split runs/a:val compares all"
    with pytest.raises(CorpusError, match=said):
        load_texts([imported, adapted], ["val"])
    with pytest.raises(CorpusError, match=r"^runs/m: an imported model comes without text"):
        load_texts([imported], [])


@pytest.mark.parametrize(
    ("split", "error", "said"),
    [
        ("{}/a:tests", CorpusError, r"^{}/a: data\.kind files has no split 'tests'"),
        ("{}/none:news", RunError, "^{}/none: "),
        ("{}/fr:news", UsageError, "^--split {}/fr:news: its languages are fr-en, but runs/a tr"),
        (":news", UsageError, "^--split :news: expected RUN:NAME"),
        ("{}/a:", UsageError, "^--split {}/a:: expected RUN:NAME"),
    ],
)
def test_a_split_that_no_run_has_is_refused_in_one_line(
    tmp_path: Path, split: str, error: type[TransformerCliError], said: str
) -> None:
    runs = [on_files(tmp_path, "a")]
    save(runs[0], tmp_path)
    save(on_files(tmp_path, "fr", src_lang="fr"), tmp_path)
    with pytest.raises(error, match=said.format(tmp_path)) as refused:
        load_texts(runs, [split.format(tmp_path)])
    assert "\n" not in str(refused.value)


# --- what is said ---------------------------------------------------------------------------------


def test_each_compared_run_has_its_scores_in_the_order_of_runs() -> None:
    references = [
        "A black dog runs through the grass.",
        "Two men sit on a bench.",
        "A girl is here.",
    ]
    good = ["A black dog runs through tall grass.", "Two men sit on a bench.", "A girl is there."]
    lower = [line.lower() for line in good]
    poor = ["A dog.", "Two men on a bench.", "A girl is here."]
    translations = [poor, good, lower]
    compared = score_systems(translations, references)
    alone = [score(each, references) for each in translations]
    assert [{name: each.value for name, each in own.items()} for own in compared] == [
        {name: each.value for name, each in own.items()} for own in alone
    ]
    cased = paired_bootstrap(translations, references, BLEU())
    lowercased = paired_bootstrap(translations, references, BLEU(lowercase=True))
    assert [own["bleu"] for own in compared] == cased
    assert [own["bleu_lc"] for own in compared] == lowercased
    assert [own["chrf"][:3] for own in compared] == [own["chrf"] for own in alone]
    assert cased != lowercased
