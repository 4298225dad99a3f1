"""The page's modules write the same as NumPy and ONNX Runtime do with the same graphs."""

from pathlib import Path
from typing import Any

import pytest
from cli.process import run

from extensions.web.exporting import ROOT, export, in_node, write_small
from extensions.web.reference import Reference

LINES = (ROOT / "data" / "toy" / "test.de").read_text(encoding="utf-8").splitlines()
OTHER_TOKENIZER = "model_type: unigram, normalization: nmt_nfkc, joint: false, vocab_size: 400"
OTHER_MODEL = (
    "d_model: 32, norm: post, activation: swiglu, tying: none, positions: learned, "
    "max_positions: 300"
)
LONG = pytest.mark.long
pytestmark = pytest.mark.runtime


@pytest.mark.parametrize(
    ("alternatives", "lines", "search"),
    [
        (0, 15, {}),
        (3, 15, {}),
        pytest.param(3, 200, {}, marks=LONG),
        pytest.param(0, 50, {"beam_size": 2, "length_penalty": 2.0}, marks=LONG),
        pytest.param(3, 50, {"max_length_ratio": 0.2, "max_length_extra": 2}, marks=LONG),
        pytest.param(0, 50, {"no_repeat_ngram_size": 4, "never_written": [0, 1, 2, 3]}, marks=LONG),
    ],
)
def test_translations_are_those_of_onnx_runtime(
    exported: Path, tmp_path: Path, alternatives: int, lines: int, search: dict[str, Any]
) -> None:
    given = {"directory": str(exported), "texts": LINES[:lines], "search": search}
    found = in_node(tmp_path, alternatives=alternatives, **given)
    reference = Reference(exported, **search)
    beam_size = max(reference.about["search"]["beam_size"], 4 if alternatives else 1)
    for line, answer in zip(LINES, found, strict=False):
        first, *others = reference.translate(line, beam_size)
        distinct = dict.fromkeys(others[:alternatives])
        assert answer["translatedText"] == first
        assert answer["alternatives"] == [each for each in distinct if each != first]
    assert len({answer["translatedText"] for answer in found}) > lines / 4


@LONG
def test_sentences_and_white_space_are_kept(exported: Path, tmp_path: Path) -> None:
    first, second = LINES[:2]
    texts = [first, second, f"{first} {second}\n\n\t{second}  \n42 %", "", " 1\n"]
    found = in_node(tmp_path, directory=str(exported), texts=texts, alternatives=0, search={})
    one, two, *others = (answer["translatedText"] for answer in found)
    assert others == [f"{one} {two}\n\n\t{two}  \n42 %", "", " 1\n"]


@LONG
def test_abbreviations_ordinals_and_addresses_are_no_ends_of_sentences(
    exported: Path, tmp_path: Path
) -> None:
    sentences = [
        "Am 3. Mai kommt Dr. Meier z.B. mit Prof. Kurz von E.S.E. Bau.",
        "Zwei Hunde gehen.",
    ]
    address = "https://example.org/a_b ann@example.org"
    texts = [*sentences, " ".join(sentences), address, "gut@schlecht", "Ein PC. Ein Hund."]
    found = in_node(tmp_path, directory=str(exported), texts=texts, alternatives=0, search={})
    one, two, both, kept, no_address, _ = (answer["translatedText"] for answer in found)
    assert both == f"{one} {two}"
    assert kept == address
    assert no_address != "gut@schlecht"


@LONG
def test_a_long_sentence_is_split(exported: Path, tmp_path: Path) -> None:
    text = "a " * 1500
    search = {"max_length_ratio": 0.01, "max_length_extra": 3}
    given = {"directory": str(exported), "texts": [text], "search": search}
    assert in_node(tmp_path, alternatives=0, **given)[0]["translatedText"]


@LONG
def test_other_forms_of_models_translate_alike(tmp_path: Path) -> None:
    config = write_small(tmp_path)
    text = config.read_text(encoding="utf-8")
    text = text.replace("model_type: bpe, vocab_size: 500", OTHER_TOKENIZER)
    config.write_text(text.replace("d_model: 32", OTHER_MODEL), encoding="utf-8")
    assert run("train", config, cwd=tmp_path).code == 0
    exported = export(tmp_path / "runs" / "small", tmp_path)
    found = in_node(tmp_path, directory=str(exported), texts=LINES[:30], alternatives=3, search={})
    reference = Reference(exported)
    expected = [reference.translate(line, 4)[0] for line in LINES[:30]]
    assert [answer["translatedText"] for answer in found] == expected
    assert (exported / "tokenizer" / "tgt.json").exists()
