"""Unknown words are copied from the source."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import run
from cli.test_translate_forms import in_small_chunks, killed_at_the_last_line
from inference.translators import random_translator

from transformer_cli.base.errors import UsageError
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.extensions.alignments.aligning import with_alignments, with_unk_replacement
from transformer_cli.extensions.alignments.options import AlignmentOptions
from transformer_cli.text.protocol import UNK_ID, Tokenizers
from transformer_cli.text.words import SpacyWords, Vocabulary, WordsTokenizer


def unsure_translator(lowercase: bool = False) -> TorchTranslator:
    """A translator of words that would write nothing but unknown ones, of random attention."""
    translator = random_translator(favoured=(UNK_ID,), end_bias=-1e4).with_search(max_length=4)
    words = WordsTokenizer(SpacyWords("xx", "de", lowercase), Vocabulary("abcdefghij"))
    return replace(translator, tokenizers=Tokenizers(words, words))


@pytest.mark.parametrize("lowercase", [False, True])
def test_unknown_words_are_taken_from_where_the_model_looks(lowercase: bool) -> None:
    translator = unsure_translator(lowercase)
    assert "<unk>" not in translator.translate(["Xaver a Yvonne"])[0]
    line = "Xaver a Yvonne Zita"
    (best,) = with_alignments(with_unk_replacement(translator)).translate_lines([line])[0]
    shown = line.lower() if lowercase else line
    assert best.text.split() == [
        shown.split()[src] for src, _ in sorted(best.alignment, key=by_target)
    ]
    assert len(best.text.split()) == 4


def by_target(link: tuple[int, int]) -> int:
    return link[1]


def test_replacing_is_in_the_fingerprint_and_refused_without_words() -> None:
    assert not AlignmentOptions().fingerprint()
    assert AlignmentOptions(replace_unk=True).fingerprint() == {"replace_unk": "True"}
    with pytest.raises(
        UsageError,
        match=r"^needs a word-level tokenizer; .* which can spell any word$",
    ):
        with_unk_replacement(random_translator())


def test_the_command_replaces_them(training: Training, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("x 2 y 4\n\n1 2\n")
    options = ("-i", "in", "--replace-unk", "--alignments", "links")
    finished = run("translate", training.run, *options, cwd=tmp_path)
    assert (finished.code, finished.err) == (0, "")
    found = finished.out.splitlines()
    assert "<unk>" not in "".join(found)
    assert found[1] == ""


@pytest.mark.long
def test_an_interrupted_translation_goes_on_only_with_them(
    training: Training, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("1 2 3 4\n\n4 3 2 1\n5 5\n")
    command = ("translate", training.run, "-i", "in", "-o", "out")
    assert run(*command, cwd=tmp_path, before=killed_at_the_last_line).code < 0
    go_on = partial(run, cwd=tmp_path, before=in_small_chunks)
    assert "replace_unk was none" in go_on(*command, "--replace-unk").err
