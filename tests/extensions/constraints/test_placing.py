"""Lost terms are put into translations."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.process import run

from transformer_cli.extensions.constraints.placing import insert_term
from transformer_cli.extensions.constraints.reserved import ReservedTokenizers, with_terms
from transformer_cli.extensions.constraints.terms import TermList, make_term, split_words
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.words import SpacyWords, Vocabulary, WordsTokenizer

_WORDS = WordsTokenizer(SpacyWords("xx", "de", lowercase=False), Vocabulary("abcdefghij"))


@pytest.mark.parametrize("text", ["", "%s", "The cat sat.", "One %s of <b>two</b> {words}!"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("target", ["big dog", "dog"])
def test_a_term_replaces_words_or_is_inserted(text: str, share: float, target: str) -> None:
    made = [*insert_term(text, make_term("x", [target]), share, spaced=True)]
    assert made
    words = len(split_words(text))
    for one in made:
        assert target in one.lower()
        assert all(part in one for part in ("%s", "<b>", "</b>", "{words}") if part in text)
        assert words <= len(split_words(one)) <= words + len(target.split())
        assert "  " not in one
    assert len({*made}) == len(made)


def test_candidates_near_the_place_of_the_source_come_first() -> None:
    term, text = make_term("x", ["dog"]), "a b c d"
    assert next(insert_term(text, term, 0.0, spaced=True)) == "dog b c d"
    assert next(insert_term(text, term, 0.75, spaced=True)) == "a b c dog"
    assert next(insert_term("The cat", term, 0.0, spaced=True)) == "Dog cat"
    assert [*insert_term("猫が", make_term("x", ["犬"]), 0.0, spaced=False)][:2] == [
        "犬が",
        "犬猫が",
    ]


def test_other_codecs_stay() -> None:
    class Marked(Tokenizers):
        def encode_source(self, line: str) -> Any:
            return super().encode_source(line.lower())

    made = with_terms(Marked(_WORDS, _WORDS), TermList([make_term("a", ["b"])]))
    assert isinstance(made, Marked)
    assert isinstance(made, ReservedTokenizers)
    assert made.encode_source("A").line == "a"
    assert made.find_lost("A", "")[0] == 1


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("placing") / "run"
    toy = Path(__file__).parents[3] / "configs" / "toy.yaml"
    fast = ("--set", "training.epochs=1")
    assert run("train", toy, *fast, "--run-dir", path, cwd=toy.parents[1]).code == 0
    return path


def test_a_model_that_has_learned_no_terms_keeps_them(toy_run: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list.tsv"
    # The model's vocabulary of words lacks 'dachshund'.
    listed.write_text("Hund*\tdachshund\nPferd*\tdog\nMann\tgirl\n")
    report = json.loads(run("evaluate", toy_run, "--terms", listed, "--json").out)
    assert report["terms"]["found"] > 50
    assert report["terms"]["kept"] > 0.9 * report["terms"]["found"]
    lines = (Path(__file__).parents[3] / "data" / "toy" / "test.de").read_bytes()
    texts = []
    for engine in ("torch", "ctranslate2"):
        done = run("translate", toy_run, "--terms", listed, "--engine", engine, stdin=lines)
        assert done.code == 0, done.err
        assert "terms are kept" in done.err
        texts.append(done.out)
    assert texts[0] == texts[1]
    assert "dachshund" in texts[0]


def test_terms_go_along_with_other_options(toy_run: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list.tsv"
    listed.write_text("Hund*\tbig dachshund\nMann\tgirl\nFrau\tdog\nKind\tred ball\nPferd\tbook\n")
    lines = (Path(__file__).parents[3] / "data" / "toy" / "test.de").read_text().splitlines()[:40]
    text = "".join(f"{line}\n" for line in lines).encode()
    terms = ("translate", toy_run, "--terms", listed, "--engine", "torch")

    pairs = tmp_path / "pairs"
    aligned = run(*terms, "--alignments", pairs, stdin=text)
    assert aligned.code == 0, aligned.err
    for line, links in zip(aligned.out.splitlines(), pairs.read_text().splitlines(), strict=True):
        ends = [int(link.split("-")[1]) for link in links.split()]
        assert max(ends, default=0) < len(line.split())

    replaced = run(*terms, "--replace-unk", stdin=text)
    assert "dachshund" in replaced.out
    assert not re.search(r"\b(Hund|Mann|Frau)\b", replaced.out)

    starts = tmp_path / "starts"
    starts.write_text("A big\n" * len(lines))
    begun = run(*terms, "--prefix-file", starts, stdin=text)
    assert all(line.startswith("A big") for line in begun.out.splitlines())

    scored = run(*terms, "--scores", stdin=text).out.splitlines()
    for one in (json.loads(line)["translations"][0] for line in scored):
        assert (one["score"] == one["log_probability"]) == (one["text"] == "")

    marked = tmp_path / "text.md"
    marked.write_text("\n\n".join(re.sub(r"(\w+)\.$", r"**\1**.", line) for line in lines))
    done = run(*terms, "-i", marked, "-o", tmp_path / "out.md")
    assert done.code == 0, done.err


def test_a_doubtful_translation_with_terms_stays_doubtful(toy_run: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list.tsv"
    listed.write_text("Mädchen\tdachshund\n")
    lines = [
        f"Ein Mädchen hebt {word} Taschen auf und {word} und {word}." for word in ("drei", "xyz")
    ]
    text = "".join(f"{line}\n" for line in lines * 20).encode()
    plain = run("translate", toy_run, stdin=text)
    told = [line for line in plain.err.splitlines() if "doubtful" in line]
    assert told  # the model has trained for one epoch
    with_terms = run("translate", toy_run, "--terms", listed, stdin=text)
    assert [line for line in with_terms.err.splitlines() if "doubtful" in line] == told
    sources = run("translate", toy_run, "--terms", listed, "--fallback", "source", stdin=text)
    for line, written in zip(lines * 20, sources.out.splitlines(), strict=True):
        assert written == line or "Mädchen" not in written


def test_a_term_beyond_the_positions_of_the_model_is_left_out(tmp_path: Path) -> None:
    settings = ("model.positions=learned", "model.max_positions=32", "training.max_length=31")
    given = [word for one in (*settings, "training.epochs=1") for word in ("--set", one)]
    toy = Path(__file__).parents[3] / "configs" / "toy.yaml"
    path = tmp_path / "run"
    assert run("train", toy, *given, "--run-dir", path, cwd=toy.parents[1]).code == 0
    listed = tmp_path / "list.tsv"
    listed.write_text(f"Hund\t{' '.join(['very'] * 28)} big dog\n")
    for engine in ("torch", "ctranslate2"):
        asked = ("translate", path, "--terms", listed, "--engine", engine)
        done = run(*asked, stdin=b"Der Hund und der Mann und die Frau und das Kind spielen.\n")
        assert done.code == 0, done.err
