"""The same model in transformers: its logits, its text, its files."""

import hashlib
import io
import random
import shutil
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file
from torch.nn.utils.rnn import pad_sequence

from extensions.exchange.marian_files import import_directory
from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.config.tokenizer_schema import SentencePieceConfig, TokenizerSection
from transformer_cli.extensions.constraints.reserved import ReservedTokenizers
from transformer_cli.extensions.exchange.formats import INTERFACE, check_expressible
from transformer_cli.extensions.exchange.to_transformers import (
    check_transformers,
    write_transformers,
)
from transformer_cli.extensions.exchange.weights import from_transformers
from transformer_cli.extensions.tokenizers.settings import SentencePieceFileConfig
from transformer_cli.inference.search import TorchEngine
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.model.transformer import build_model, weights_of
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel, load_trained_model
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, SPECIALS, Tokenizers
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers

GERMAN = ["Ein Hund läuft über die Straße.", "Ein Mann im T-Shirt sieht einen Hund."] * 20
ENGLISH = ["A dog runs across the street.", "A man in a T-shirt sees a dog."] * 20
LINES = ["Ein Hund sieht die Straße.", "Ein Mann", "żółw 😀 läuft <EOS><PAD>", "im  T-Shirt\tund"]
TEXT = [*LINES, *GERMAN[:2], *ENGLISH[:2], *" ".join(GERMAN[:2]).split()]
ODD = [
    *LINES,
    "",
    "  ",
    " a ",
    "<unk> <BOS> </s> <s>",
    "▁ a ▁▁b",
    "<0x0A>",
    "x" * 300,
    ">> a",
    "a\x00",
]
SMALL = {
    "d_model": 16,
    "num_heads": 2,
    "d_ff": 24,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
}
FORMS: dict[str, tuple[str, dict[str, Any], int]] = {
    "pre-norm": ("joint", {"tying": "all"}, 1),
    "pre-norm, tokenizer from a file": ("file", {"tying": "all", "activation": "gelu"}, 4),
    "post-norm": ("joint", {"tying": "all", "norm": "post", "activation": "swish"}, 1),
    "post-norm, output tied": ("joint", {"tying": "output", "norm": "post"}, 4),
    "post-norm, two vocabularies": ("two", {"tying": "output", "norm": "post"}, 1),
    "post-norm, nothing tied": ("two", {"tying": "none", "norm": "post", "activation": "gelu"}, 4),
}


@dataclass(frozen=True)
class Exported:
    """A model with random weights, and the directory that it was exported to."""

    trained: TrainedModel
    directory: Path
    model: Any
    tokenizer: Any


@pytest.fixture(scope="module")
def library() -> Any:
    """The package; importing it takes seconds, so only these tests should wait for it."""
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    return transformers


def spm(**settings: Any) -> bytes:
    """A model with another program's ids for special tokens."""
    model = io.BytesIO()
    trainer: Any = sentencepiece.SentencePieceTrainer
    trainer.train(
        sentence_iterator=iter([*GERMAN, *ENGLISH]),
        model_writer=model,
        vocab_size=44,
        minloglevel=2,
        **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, **settings},
    )
    return model.getvalue()


def learn(config: TokenizerSection, directory: Path) -> Tokenizers:
    directory.mkdir()
    return learn_tokenizers(config, TrainingText("de", "en", GERMAN, ENGLISH, "sum"), directory)


@pytest.fixture(scope="module")
def tokenizers(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[TokenizerSection, Tokenizers]]:
    directory = tmp_path_factory.mktemp("tokenizers")
    (directory / "t5.model").write_bytes(spm())
    kind: Any = {"kind": "sentencepiece"}
    configs: dict[str, TokenizerSection] = {
        "joint": SentencePieceConfig(**kind, vocab_size=330),
        "two": SentencePieceConfig(**kind, vocab_size=48, joint=False, byte_fallback=False),
        "file": SentencePieceFileConfig(kind="sentencepiece_file", model=directory / "t5.model"),
    }
    return {name: (each, learn(each, directory / name)) for name, each in configs.items()}


@pytest.fixture(scope="module", params=FORMS)
def exported(
    request: pytest.FixtureRequest,
    library: Any,
    tokenizers: dict[str, tuple[TokenizerSection, Tokenizers]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Exported:
    directory = tmp_path_factory.mktemp("exported")
    name, settings, beam_size = FORMS[request.param]
    tokenizer, sides = tokenizers[name]
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=tokenizer,
        model=ModelConfig(**SMALL | settings),
        # The longest output has ten tokens, for any source.
        decoding=DecodingConfig(beam_size=beam_size, length_penalty=0.0, max_length_ratio=1e-3),
    )
    torch.manual_seed(7)
    model = build_model(config.model, sides.src.size, sides.tgt.size, PAD_ID, seed=5).eval()
    with torch.no_grad():
        for weight in model.parameters():  # biases and norms too, which begin as 0 and 1
            weight.add_(torch.randn_like(weight) / 2)
        if beam_size > 1:
            # Make some hypotheses end.
            model.output.bias[EOS_ID] += 1.0 if config.model.norm == "pre" else 3.0
    trained = TrainedModel(config, sides, model, Path("step-00000001"), "sum")
    check_transformers(config, sides)
    write_transformers(RunDirectory(Path("runs/tiny")), trained, directory)
    return Exported(
        trained,
        directory,
        library.AutoModelForSeq2SeqLM.from_pretrained(directory).eval(),
        library.AutoTokenizer.from_pretrained(directory),
    )


@pytest.mark.long_cases
@torch.inference_mode()
def test_logits_are_the_same(exported: Exported) -> None:
    sides = exported.trained.tokenizers
    src, tgt = (
        pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=PAD_ID)
        for rows in (
            [[*sides.src.encode(line), EOS_ID] for line in LINES],
            [[BOS_ID, *sides.tgt.encode(line)] for line in ENGLISH[:2] * 2],
        )
    )
    mask = (src != PAD_ID).long()
    found = exported.model(input_ids=src, attention_mask=mask, decoder_input_ids=tgt).logits
    expected = exported.trained.model(src, tgt)
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.long_cases
def test_text_is_the_same(exported: Exported) -> None:
    trained = exported.trained
    engine = TorchEngine(trained.model, torch.float32)
    ours = TextTranslator(engine, trained.tokenizers, trained.config, trained.config.decoding)
    expected = [text.strip() for text in ours.translate(TEXT)]
    batch = exported.tokenizer(TEXT, padding=True, return_tensors="pt")
    outputs = exported.model.generate(**batch)
    found = exported.tokenizer.batch_decode(outputs, skip_special_tokens=True)
    if trained.config.decoding.beam_size > 1:
        # At the limit, transformers ranks unfinished hypotheses with finished ones.
        ended = (outputs == EOS_ID).any(dim=1).tolist()
        assert any(ended)
        expected, found = ([*compress(texts, ended)] for texts in (expected, found))
    else:
        assert outputs.size(1) == 1 + 10, "the limit is not reached"
        assert len(set(expected)) > 1, "the case is too easy"
    assert found == expected


def test_ids_of_lines_and_texts_of_ids_are_the_same(exported: Exported) -> None:
    sides = exported.trained.tokenizers
    for line in ODD:
        assert exported.tokenizer(line).input_ids == [*sides.src.encode(line), EOS_ID]
    assert exported.tokenizer(text_target=LINES[0]).input_ids == [
        *sides.tgt.encode(LINES[0]),
        EOS_ID,
    ]
    draw = random.Random(1)
    for _ in range(30):
        ids = [draw.randrange(len(SPECIALS), sides.tgt.size) for _ in range(9)]
        text = exported.tokenizer.decode([BOS_ID, *ids, EOS_ID], skip_special_tokens=True)
        assert text.replace("\n", " ").strip() == sides.tgt.decode(ids).strip()


def test_files_that_transformers_saves_have_our_weights(exported: Exported, tmp_path: Path) -> None:
    exported.model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    found = from_transformers(saved, exported.trained.config.model)
    expected = weights_of(exported.trained.model)
    assert found.keys() == expected.keys()
    assert all(found[name].equal(expected[name]) for name in expected)


@pytest.mark.long_cases
def test_an_exported_model_is_imported_unchanged_and_exported_again(
    exported: Exported, tmp_path: Path
) -> None:
    copy = shutil.copytree(exported.directory, tmp_path / "copy")
    imported = import_directory(copy, tmp_path / "run")
    found = load_trained_model(imported, "best")
    expected = weights_of(exported.trained.model)
    assert {name: hash_of(each) for name, each in weights_of(found.model).items()} == {
        name: hash_of(each) for name, each in expected.items()
    }
    assert found.config.model == exported.trained.config.model
    for line in ODD:
        assert found.tokenizers.src.encode(line) == exported.trained.tokenizers.src.encode(line)
    again = tmp_path / "again"
    again.mkdir()
    check_transformers(found.config, found.tokenizers)
    write_transformers(imported, found, again)
    for name in ("model.safetensors", "vocab.json", "source.spm", "target.spm", "config.json"):
        assert (again / name).read_bytes() == (copy / name).read_bytes()
    card = " ".join((again / "README.md").read_text().split())
    assert "imported by transformer-cli" in card
    assert "Imported from copy: describe its training text here." in card
    assert "Respect the licence of the model that it was imported from." in card
    entries = [tokenizer.size for tokenizer in (found.tokenizers.src, found.tokenizers.tgt)]
    is_joint = found.config.tokenizer.one_vocabulary
    assert (f"{entries[0]} entries for both languages" in card) == is_joint


def hash_of(weight: torch.Tensor) -> str:
    return hashlib.sha256(weight.contiguous().numpy().tobytes()).hexdigest()


@pytest.mark.long_cases
def test_loading_reports_nothing(
    exported: Exported, library: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    _, report = library.AutoModelForSeq2SeqLM.from_pretrained(
        exported.directory, output_loading_info=True
    )
    library.AutoTokenizer.from_pretrained(exported.directory)
    assert not any(report.values())
    assert capfd.readouterr() == ("", "")


def test_the_card_says_how_it_is_used(exported: Exported) -> None:
    card = (exported.directory / "README.md").read_text()
    assert "library_name: transformers\n" in card
    assert 'AutoTokenizer.from_pretrained("tiny")' in card


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "learned positions": ({"positions": "learned"}, {}, "train with sinusoidal"),
    "gates": ({"activation": "swiglu"}, {}, "train with relu, gelu or swish"),
    "other norms": ({"norm_kind": "rmsnorm"}, {}, "train with layernorm"),
    "output tied": ({"tying": "output"}, {}, "with norm: pre, ties all embeddings"),
    "nothing tied": ({"tying": "none"}, {}, "with tying: all, or with norm: post"),
    "lowercase": ({}, {"lowercase": True}, "does not lowercase; train with false"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_form_that_transformers_lacks_is_refused(
    what: str, tokenizers: dict[str, tuple[TokenizerSection, Tokenizers]]
) -> None:
    model, tokenizer, fragment = REFUSED[what]
    entry = registry.entries(INTERFACE)["transformers"]
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=SentencePieceConfig(kind="sentencepiece", **tokenizer),
        model=ModelConfig(**{"tying": "all", **model}),
    )
    with pytest.raises(UsageError, match=f"--format transformers: .*{fragment}"):
        check_expressible(entry, config, tokenizers["joint"][1])


def test_tokenizers_that_marian_cannot_be_are_refused(
    tokenizers: dict[str, tuple[TokenizerSection, Tokenizers]], tmp_path: Path
) -> None:
    settings, joint = tokenizers["joint"]
    model = ModelConfig(tying="all")
    config = Config(data=ToyData(kind="toy"), tokenizer=settings, model=model)
    with pytest.raises(UsageError, match=r"tokenizer\.protect: "):
        check_transformers(config, ReservedTokenizers.of(joint, ["printf"], []))
    with pytest.raises(UsageError, match="tag news: "):
        check_transformers(config, ReservedTokenizers.of(joint, [], ["news"]))
    (tmp_path / "odd.model").write_bytes(spm(pad_id=-1, user_defined_symbols=["<PAD>"]))
    odd = SentencePieceFileConfig(kind="sentencepiece_file", model=tmp_path / "odd.model")
    with pytest.raises(UsageError, match="a piece spelled like one of"):
        check_transformers(config, learn(odd, tmp_path / "odd"))
