"""Each fault by itself, in an otherwise clean corpus of made-up sentences."""

import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from transformer_cli.base.errors import CorpusError
from transformer_cli.config.schema import Config
from transformer_cli.extensions.checks.findings import (
    CorpusReport,
    Finding,
    check_corpus,
)

Pairs = list[tuple[str, str]]
SPLITS = ("train", "val", "news")
SRC_TEXT = "ein Hund läuft über die nasse Straße und sieht große Vögel im hohen Gras"
TGT_TEXT = "a dog runs across the wet street and sees big birds in tall grass"
# More words, so that no two pairs are near-copies.
MORE = [letter * count for letter in string.ascii_lowercase for count in range(1, 9)]
GERMAN = SRC_TEXT.split() + [f"w{word}" for word in MORE]
ENGLISH = TGT_TEXT.split() + [f"{word}w" for word in MORE]


def clean(name: str, count: int, words_known: int = len(GERMAN)) -> Pairs:
    """Pairs of sentences that say the same, word by word; no two are alike."""
    draws = random.Random(name)
    pairs: dict[tuple[str, str], None] = {}
    while len(pairs) < count:
        words = draws.choices(range(words_known), k=draws.randint(5, 20))
        src, tgt = (" ".join(side[word] for word in words) for side in (GERMAN, ENGLISH))
        pairs[f"{src} .", f"{tgt} ."] = None
    return list(pairs)


CLEAN = {"train": clean("train", 600), "val": clean("val", 50), "news": clean("news", 50)}


class Corpus:
    """A corpus on disk, clean until somebody spoils it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pairs = {name: list(pairs) for name, pairs in CLEAN.items()}
        self.languages = ("de", "en")
        self.more: list[dict[str, str]] = []

    def config(self, **sections: object) -> Config:
        files = {}
        for name, pairs in self.pairs.items():
            for side, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
                path = self.directory / f"{name}.{side}"
                path.write_bytes("".join(f"{line}\n" for line in lines).encode())
                files[name, side] = str(path)
        pair = {name: {side: files[name, side] for side in ("src", "tgt")} for name in self.pairs}
        return Config.model_validate(
            {
                "data": {
                    "kind": "files",
                    "src_lang": self.languages[0],
                    "tgt_lang": self.languages[1],
                    "train": pair["train"],
                    "val": pair["val"],
                    "test": {"news": pair["news"]},
                    "more": [pair[name] for name in self.pairs if name not in SPLITS],
                },
                "tokenizer": {"kind": "words"},
                **sections,
            }
        )

    def check(self, **sections: object) -> CorpusReport:
        return check_corpus(self.config(**sections))

    def only(self, **sections: object) -> Finding:
        (finding,) = self.check(**sections).findings
        return finding


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.chdir(tmp_path)
    return Corpus(tmp_path)


def what(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(finding.split, finding.what) for finding in findings]


# --- a clean corpus -------------------------------------------------------------------------------


def test_nothing_is_found_in_a_clean_corpus(corpus: Corpus) -> None:
    report = corpus.check()
    assert report.findings == []
    assert report.warnings == 0
    assert report.pairs == {"train": 600, "val": 50, "news": 50}


# --- each fault -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """What is done to line 8 of a split, and what has to be found there."""

    what: str
    spoil: Callable[[str, str], tuple[str, str]]
    place: str


def written_in(letter: str, line: str) -> str:
    return "".join(letter if character.isalpha() else character for character in line)


FAULTS = [
    Fault("blank", lambda src, tgt: ("", tgt), "{split}.src:8 (source)"),
    Fault("blank", lambda src, tgt: (src, " \u00a0"), "{split}.src:8 (target)"),
    Fault("blank", lambda src, tgt: ("", ""), "{split}.src:8 (both sides)"),
    Fault("identical", lambda src, tgt: (tgt, tgt), "{split}.src:8"),
    Fault("length_ratio", lambda src, tgt: (src, tgt * 8), "{split}.src:8"),
    Fault("length_ratio", lambda src, tgt: ("@@", tgt * 2), "{split}.src:8"),
    Fault(
        "script",
        lambda src, tgt: (written_in("я", src), tgt),
        "{split}.src:8 (source: Cyrillic)",
    ),
    Fault(
        "script",
        lambda src, tgt: (src, written_in("क", tgt)),
        "{split}.src:8 (target: Devanagari)",
    ),
    Fault("encoding", lambda src, tgt: (f"{src} schÃ¶n", tgt), "{split}.src:8 (Ã¶)"),
]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.what))
def test_a_fault_is_found_where_it_is(corpus: Corpus, fault: Fault, split: str) -> None:
    corpus.pairs[split][7] = fault.spoil(*corpus.pairs[split][7])
    finding = corpus.only()
    assert (finding.split, finding.what, finding.count) == (split, fault.what, 1)
    assert finding.places == [fault.place.format(split=split)]
    assert finding.share == 1 / len(corpus.pairs[split])
    assert f"{split}: " in str(finding)
    assert finding.places[0] in str(finding)


def test_repeated_pairs_are_found_but_the_first_of_their_kind(corpus: Corpus) -> None:
    train = corpus.pairs["train"]
    train[100], train[300], train[5] = train[7], train[7], train[200]
    finding = corpus.only()
    assert (finding.what, finding.count) == ("duplicates", 3)
    assert finding.places == [
        "train.src:101",
        "train.src:201",
        "train.src:301",
    ]


def test_a_source_with_another_translation_is_no_repetition(corpus: Corpus) -> None:
    train = corpus.pairs["train"]
    train[100] = (train[7][0], train[100][1])
    # Nor are many blank pairs.
    train[1] = train[2] = ("", "")
    assert [each for each in corpus.check().findings if each.what == "duplicates"] == []


def test_pairs_that_are_trained_on_are_found(corpus: Corpus) -> None:
    train, news = corpus.pairs["train"], corpus.pairs["news"]
    news[3] = train[41]
    news[9] = (train[17][0], news[9][1])
    pairs = corpus.only()
    assert (pairs.split, pairs.what, pairs.count) == ("news", "in_training", 1)
    assert pairs.places == ["news.src:4"]
    assert pairs.warning


def test_what_more_is_trained_on_counts_too_and_has_its_own_lines(corpus: Corpus) -> None:
    corpus.pairs["extra"] = clean("extra", 40)
    corpus.pairs["val"][0] = corpus.pairs["extra"][11]
    corpus.pairs["extra"][39] = corpus.pairs["extra"][2]
    found = corpus.check().findings
    assert what(found) == [
        ("data.more[0]", "duplicates"),
        ("val", "in_training"),
    ]
    assert found[0].places == ["extra.src:40"]
    assert found[1].places == ["val.src:1"]


def test_the_first_few_lines_are_named_and_all_are_counted(corpus: Corpus) -> None:
    for index in range(10, 20):
        corpus.pairs["train"][index] = ("", "")
    finding = corpus.only()
    assert finding.count == 10
    assert finding.places == [f"train.src:{line} (both sides)" for line in (11, 12, 13)]
    assert str(finding) == (
        "train: pairs where a side has only invisible characters [blank]: 10 (1.67%): "
        "train.src:11 (both sides); train.src:12 (both sides); train.src:13 (both sides); …"
    )


# --- what is worth a warning ----------------------------------------------------------------------


@pytest.mark.parametrize(("copies", "warning"), [(5, False), (6, True)])
def test_what_any_text_has_is_worth_a_warning_from_one_per_cent(
    corpus: Corpus, copies: int, warning: bool
) -> None:
    train = corpus.pairs["train"]
    train[300 : 300 + copies] = train[:copies]
    assert corpus.only().warning is warning


@pytest.mark.parametrize(("pairs", "warning"), [(1000, True), (1001, False)])
def test_what_no_text_should_have_is_worth_one_from_one_in_a_thousand(
    corpus: Corpus, pairs: int, warning: bool
) -> None:
    corpus.pairs["train"] = [*clean("many", pairs - 1), ("", "")]
    report = corpus.check()
    assert what(report.findings) == [("train", "blank")]
    assert report.findings[0].warning is warning
    assert report.warnings == int(warning)


# --- scripts --------------------------------------------------------------------------------------


def test_a_few_words_of_another_script_are_no_fault(corpus: Corpus) -> None:
    corpus.pairs["train"][0] = (
        "ein Hund namens Барбос läuft über die Straße",
        "a dog called Барбос runs across the street",
    )
    corpus.pairs["train"][1] = ("Ω µ ª 中", "Ω µ ª 中 a")
    assert corpus.check().findings == []


def test_of_a_language_without_known_scripts_none_is_asked_for(corpus: Corpus) -> None:
    corpus.languages = ("tlh", "en")
    corpus.pairs["train"][0] = ("собака бежит по улице", "a dog in the street")
    assert corpus.check().findings == []


# --- errors ---------------------------------------------------------------------------------------


def test_sides_of_other_lengths_are_refused(corpus: Corpus) -> None:
    config = corpus.config()
    with (corpus.directory / "news.tgt").open("a") as file:
        file.write("one more\n")
    with pytest.raises(CorpusError, match=r"news.src has 50 lines but .*news.tgt has 51"):
        check_corpus(config)


def test_a_split_without_any_text_is_refused(corpus: Corpus) -> None:
    corpus.pairs["val"] = [("", "a"), ("b", "")]
    with pytest.raises(CorpusError, match=r"^split 'val': every pair has a blank side"):
        corpus.check()
