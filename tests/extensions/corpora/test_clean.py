from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli.process import Finished, assert_refused, run, signal_at
from cli.test_missing_packages import hide

CONFIG = """\
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources:
    - {src: a.de, tgt: a.en}
    - {src: b.de, tgt: b.en, filters: []}
  filters: [identical, markup, duplicates]
  split: {val: 5}
tokenizer: {kind: words}
"""
HOSTILE = "<script>alert(1)</script> {{ 7 * 7 }}\t\x1b[31m"
GOOD = [(f"Satz Nummer {n}", f"sentence number {n}") for n in range(30)]
SAME = ("This is not translated at all.",) * 2
A = [*GOOD[:20], ("", "x"), SAME, GOOD[3], (HOSTILE, "bold")]
B = [*GOOD[20:], ("<b>fett</b>", "bold"), (" ", ""), GOOD[4]]
TAKEN = {21: "blank", 22: "identical", 23: "duplicates", 24: "markup", 36: "blank"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name, pairs in (("a", A), ("b", B)):
        for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{name}.{side}").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "my.yaml").write_text(CONFIG)
    return tmp_path


def clean(directory: Path, *options: str, before: Callable[[], None] | None = None) -> Finished:
    return run("clean", "my.yaml", "-o", "out", *options, cwd=directory, before=before)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_each_pair_is_kept_or_dropped_with_its_reason(corpus: Path) -> None:
    finished = clean(corpus)
    assert (finished.code, finished.err) == (0, "")
    assert [row.split()[:-1] for row in finished.out.splitlines()[1:]] == [
        ["blank", "2"],
        ["identical", "1"],
        ["markup", "1"],
        ["duplicates", "1"],
        ["held_out", "0"],
        ["kept", "in", "train", "27"],
        ["kept", "in", "val", "5"],
        ["all"],
    ]
    pairs = [*A, *B]
    head, *dropped = (line.split("\t") for line in lines(corpus / "out" / "dropped.tsv"))
    assert head == ["pair", "source", "filter", "de", "en"]
    assert {int(number): reason for number, _, reason, _, _ in dropped} == TAKEN
    for number, source, _, *sides in dropped:
        assert source == ("sources[0] a.de" if int(number) <= len(A) else "sources[1] b.de")
        assert sides == [side.replace("\t", " ") for side in pairs[int(number) - 1]]
    kept = [
        pair
        for split in ("train", "val")
        for pair in zip(
            *(lines(corpus / "out" / f"{split}.{side}") for side in ("src", "tgt")), strict=True
        )
    ]
    expected = [pair for number, pair in enumerate(pairs, start=1) if number not in TAKEN]
    assert sorted(kept) == sorted(expected)


@pytest.mark.posix
def test_killed_anywhere_it_ends_in_the_same_bytes(corpus: Path) -> None:
    assert clean(corpus).code == 0
    expected = {path.name: path.read_bytes() for path in (corpus / "out").iterdir()}
    (corpus / "out").rename(corpus / "first")
    for where, attribute, call in (
        ("transformer_cli.extensions.checks.rules:FilterPass", "add", 2),
        ("transformer_cli.extensions.corpora.deciding", "decide", 1),
        ("transformer_cli.extensions.corpora.preparing", "append_dropped", 1),
        ("transformer_cli.extensions.corpora.preparing", "list_reasons", 1),
    ):
        killed = clean(corpus, before=partial(signal_at, where, attribute, call))
        assert killed.code == -9
        if attribute != "list_reasons":
            assert not (corpus / "out").exists()
            assert clean(corpus).code == 0
        assert {path.name: path.read_bytes() for path in (corpus / "out").iterdir()} == expected
        (corpus / "out").rename(corpus / f"{attribute}{call}")
    assert not [path for path in corpus.iterdir() if path.name.startswith((".", "out"))]


def test_what_cannot_be_cleaned_is_refused_in_one_line(corpus: Path) -> None:
    (corpus / "full").mkdir()
    (corpus / "full" / "file").touch()
    assert_refused(run("clean", "my.yaml", "-o", "full", cwd=corpus), 2, "full: already exists")
    toy = ("--set", "data={kind: toy}")
    assert_refused(clean(corpus, *toy), 2, "data.kind is toy", "kind corpus")
    language = ("--set", "data.filters=[language]")
    assert_refused(
        clean(corpus, *language, before=partial(hide, ("py3langid",))), 1, "py3langid", "language"
    )
    assert sorted(path.name for path in corpus.iterdir() if path.is_dir()) == ["full"]


def test_nothing_of_the_extra_is_loaded_where_no_filter_needs_it(corpus: Path) -> None:
    finished = clean(corpus, before=partial(hide, ("py3langid",)))
    assert finished.code == 0, finished.err
