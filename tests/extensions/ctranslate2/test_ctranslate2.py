"""The same model in CTranslate2: its output, its probabilities, its files."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from cli.conftest import Training
from torch.nn.utils.rnn import pad_sequence

from transformer_cli.base.errors import CheckpointError, TransformerCliError, UsageError
from transformer_cli.config.choices import LONGEST_SOURCE, PrecisionName, Quantization
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config, ModelConfig, TrainingConfig
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.config.yaml import dump_config
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.extensions.ctranslate2.choosing import ENGINE
from transformer_cli.extensions.ctranslate2.engine import SINUSOIDS, CTranslate2Engine
from transformer_cli.extensions.ctranslate2.exported_models import write_sums
from transformer_cli.extensions.ctranslate2.spec import build_spec, write_model
from transformer_cli.extensions.exchange.to_ctranslate2 import write_ctranslate2
from transformer_cli.inference.engine import SearchOptions, repeats_itself
from transformer_cli.inference.loading import ComputeOptions, load_torch_translator
from transformer_cli.inference.search import TorchEngine, search
from transformer_cli.inference.translator import TextTranslator, Watcher, ignore, never
from transformer_cli.model.transformer import Transformer, build_model, weights_of
from transformer_cli.runs.checkpoint import save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel, load_trained_model
from transformer_cli.text.protocol import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    UNK_ID,
    Tokenizer,
    Tokenizers,
)
from transformer_cli.text.tokenizer import TrainingText, fingerprint, learn_tokenizers

DOCUMENT = Path(__file__).parents[3] / "docs" / "extensions" / "exchange.md"
SIZE = 40
BANNED = [UNK_ID, BOS_ID, PAD_ID]
# What a line-based or careless file would lose, and a token that is there twice.
ODD = [
    "\n",
    "\r",
    "\u2028",
    "\u0085",
    " ",
    '"',
    "\\",
    "\t",
    "<0x0A>",
    "▁",
    "é",
    "😀",
    "twice",
    "twice",
]


@dataclass(frozen=True)
class Names(Tokenizer):
    """The ids of the specials are ours; the other tokens have odd names."""

    size: int = SIZE

    def encode(self, line: str) -> list[int]:
        return [int(word) for word in line.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def token(self, number: int) -> str:
        return ODD[number - 4] if number < 4 + len(ODD) else f"token{number}"


def random_model(config: ModelConfig, size: int = SIZE) -> Transformer:
    """Every weight is random, biases and norms too, so that no output is like another."""
    model = build_model(config, size, size, PAD_ID, seed=1).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn_like(weight), alpha=0.3)
            else:
                weight.mul_(1.5)
    return model


def random_trained(model: Transformer | None = None, **form: Any) -> TrainedModel:
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=SentencePieceConfig(kind="sentencepiece"),
        model=ModelConfig(
            **{
                "d_model": 16,
                "num_heads": 4,
                "d_ff": 48,
                "num_encoder_layers": 2,
                "num_decoder_layers": 1,
                **form,
            }
        ),
        training=TrainingConfig(max_length=8),
    )
    model = model or random_model(config.model)
    return TrainedModel(
        config, Tokenizers(Names(), Names(), letterless=True), model, Path("none"), ""
    )


def converted(
    trained: TrainedModel, directory: Path, quantization: Quantization = "float32"
) -> Any:
    directory.mkdir()
    write_model(trained, quantization, directory)
    return ctranslate2.Translator(str(directory), inter_threads=2, intra_threads=1)


def names_of(ids: Sequence[int], directory: Path) -> list[str]:
    found = json.loads((directory / "shared_vocabulary.json").read_text())
    return [found[number] for number in ids]


def log_probabilities(model: Transformer, source: list[int], target: list[int]) -> torch.Tensor:
    """Of each token of a target and of its end mark."""
    tgt_in = torch.tensor([[BOS_ID, *target]])
    with torch.inference_mode():
        logits = model(torch.tensor([[*source, EOS_ID]]), tgt_in)
    rows = logits[0].log_softmax(dim=1)
    chosen: torch.Tensor = rows[torch.arange(len(target) + 1), torch.tensor([*target, EOS_ID])]
    return chosen


SOURCES = [[4 + (7 * n + 3 * i * i) % 36 for i in range(n)] for n in (1, 2, 3, 5, 8, 12)]

# --- the same model -------------------------------------------------------------------------------

# Each pair of choices is among them.
FORMS = [
    ("pre", "sinusoidal", "relu", "none"),
    ("pre", "learned", "gelu", "output"),
    ("pre", "sinusoidal", "swiglu", "all"),
    ("pre", "learned", "relu", "all"),
    ("post", "learned", "swiglu", "none"),
    ("post", "sinusoidal", "gelu", "all"),
    ("post", "sinusoidal", "swiglu", "output"),
    ("post", "sinusoidal", "relu", "output"),
    ("post", "learned", "gelu", "none"),
]


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("norm", "positions", "activation", "tying"), FORMS, ids=["-".join(form) for form in FORMS]
)
def test_every_form_has_the_same_greedy_output_and_probabilities(
    norm: str, positions: str, activation: str, tying: str, tmp_path: Path
) -> None:
    kind = "rmsnorm" if tying == "all" else "layernorm"
    trained = random_trained(
        norm=norm, norm_kind=kind, positions=positions, activation=activation, tying=tying
    )
    directory = tmp_path / "exported"
    engine = converted(trained, directory)
    limits = torch.tensor([2 * len(source) + 10 for source in SOURCES])
    found = search(
        trained.model,
        pad_sequence(
            [torch.tensor([*source, EOS_ID]) for source in SOURCES],
            batch_first=True,
            padding_value=PAD_ID,
        ),
        limits,
        SearchOptions(BOS_ID, EOS_ID, tuple(BANNED)),
    )
    ours = [best for best, *_ in found]
    sources = [names_of(source, directory) for source in SOURCES]
    theirs = engine.translate_batch(
        sources,
        beam_size=1,
        disable_unk=True,
        suppress_sequences=[["<BOS>"], ["<PAD>"]],
        min_decoding_length=0,
        max_decoding_length=int(limits.max()),
    )
    outputs = [names_of(hypothesis.ids, directory) for hypothesis in ours]
    assert len(set(map(tuple, outputs))) == len(SOURCES), "the case is too easy"
    for output, limit, result in zip(outputs, limits.tolist(), theirs, strict=True):
        assert result.hypotheses[0][:limit] == output
    scored = engine.score_batch(sources, outputs)
    for source, hypothesis, scores in zip(SOURCES, ours, scored, strict=True):
        expected = log_probabilities(trained.model, source, hypothesis.ids)
        torch.testing.assert_close(torch.tensor(scores.log_probs), expected, atol=1e-4, rtol=0.0)


def test_exporting_changes_no_weight_of_the_model() -> None:
    trained = random_trained(tying="all")
    before = {name: weight.clone() for name, weight in weights_of(trained.model).items()}
    for quantization in ("int8", "int16", "float16"):
        spec = build_spec(trained)
        spec.validate()
        spec.optimize(quantization)
    for name, weight in weights_of(trained.model).items():
        assert torch.equal(weight, before[name]), name


@pytest.mark.parametrize(("quantization", "most"), [("int8", 0.1), ("float16", 0.01)])
def test_rounded_weights_give_about_the_same_probabilities(
    quantization: Quantization, most: float, tmp_path: Path
) -> None:
    """In int8 on every processor: those without VNNI cut off sums of larger weights."""
    trained = random_trained()
    directory = tmp_path / "exported"
    engine = converted(trained, directory, quantization)
    names = [names_of(source, directory) for source in SOURCES]
    for source, scores in zip(SOURCES, engine.score_batch(names, names), strict=True):
        expected = log_probabilities(trained.model, source, source)
        difference = (torch.tensor(scores.log_probs) - expected).abs()
        assert 0.0 < difference.max() < most


def test_weights_in_int8_are_within_63(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that sums fit in 16 bits; processors with VNNI would show no difference."""
    saved: list[Any] = []
    kind = ctranslate2.specs.TransformerSpec
    monkeypatch.setattr(kind, "save", lambda spec, _: saved.append(spec))
    write_model(random_trained(), "int8", tmp_path)
    found = saved[0].variables()
    weights = [each for name, each in found.items() if f"{name}_scale" in found]
    assert {abs(each.numpy()).max() for each in weights if not isinstance(each, str)} == {63}


def test_tokens_have_one_name_each_in_the_order_of_their_ids(tmp_path: Path) -> None:
    converted(random_trained(), tmp_path / "exported")
    names = json.loads((tmp_path / "exported" / "shared_vocabulary.json").read_text())
    assert names[:4] == list(SPECIALS)
    assert names[4 : 4 + len(ODD)] == [*ODD[:-1], f"twice<{3 + len(ODD)}>"]
    assert len(set(names)) == len(names) == SIZE


# --- searching ------------------------------------------------------------------------------------


def both(
    directory: Path, model: Transformer | None = None, **form: Any
) -> tuple[TorchTranslator, TextTranslator[CTranslate2Engine]]:
    """Our translator and CTranslate2's, of the same random model."""
    trained = random_trained(model, **form)
    engine = converted(trained, directory)
    names = names_of(range(SIZE), directory)
    common = (trained.tokenizers, trained.config, DecodingConfig())
    model_config = trained.config.model
    learned = model_config.positions == "learned"
    most = model_config.max_positions if learned else SINUSOIDS
    return (
        TextTranslator(TorchEngine(trained.model, torch.float32), *common),
        TextTranslator(CTranslate2Engine(engine, names, names, most), *common),
    )


def favour(model: Transformer, ids: int | Sequence[int], bias: float) -> None:
    with torch.no_grad():
        model.output.bias[ids] += bias


LINES = ["5 6 7", "", "13 4 4 8 10 22 9 31 7 7", "9", "6 6", "12 11 10 9 8 7 6", "5 5 5 5 5"]


@pytest.mark.long_cases
@pytest.mark.parametrize("end_bias", [-100.0, 0.0, 3.0])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_text_is_translated_alike(beam_size: int, end_bias: float, tmp_path: Path) -> None:
    model = random_model(random_trained().config.model)
    favour(model, EOS_ID, end_bias)
    favour(model, BANNED, -100.0)  # what is never written has no probability in beam search either
    finished: list[int] = []
    ours, theirs = both(tmp_path / "exported", model)
    ours = ours.with_search(beam_size, batch_tokens=40 * beam_size)
    theirs = theirs.with_search(beam_size, batch_tokens=40 * beam_size)
    # Two source lengths or more in a batch: some are searched beyond their own limit.
    outputs = theirs.translate(LINES, watcher=Watcher(finished.append))
    assert outputs == ours.translate(LINES)
    assert outputs[1] == ""
    assert sum(finished) == len(LINES)
    if end_bias < 0:  # each stops at its own limit
        lengths = [len(output.split()) for output in outputs if output]
        assert lengths == [2 * len(line.split()) + 10 for line in LINES if line]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_repetitions_are_forbidden_alike(beam_size: int, tmp_path: Path) -> None:
    model = random_trained().model
    favour(model, EOS_ID, -100.0)
    favour(model, BANNED, -100.0)
    lines = [*LINES, "5 6 7 8 5 6 7 8", "5 6 7 8 9 5 6 7"]
    searches = (each.with_search(beam_size) for each in both(tmp_path / "exported", model))
    ours, theirs = (each.with_search(no_repeat_ngram_size=4) for each in searches)
    outputs = theirs.translate(lines)
    if beam_size == 1:
        assert outputs == ours.translate(lines)
    free = replace(theirs, decoding=DecodingConfig(beam_size=beam_size)).translate(lines)
    assert outputs[-2] == free[-2]
    for line, output in zip(lines, outputs, strict=True):
        ids = list(map(int, output.split()))
        assert not repeats_itself(ids, 4) or repeats_itself([*map(int, line.split())], 4)
    assert outputs != free


@pytest.mark.parametrize("beam_size", [1, 3])
def test_banned_ids_are_never_written(beam_size: int, tmp_path: Path) -> None:
    model, tags = random_trained().model, [20, 21]
    favour(model, tags, 9.0)
    _, theirs = both(tmp_path / "model", model)
    options = SearchOptions(BOS_ID, EOS_ID, (*BANNED, *tags), DecodingConfig(beam_size=beam_size))
    sources = [[*ids, EOS_ID] for ids in SOURCES]
    limits = [8 for _ in SOURCES]
    found = theirs.engine.search(sources, limits, options, 999, ignore, never)
    assert all(found)
    assert not {number for of_line in found for one in of_line for number in one.ids} & {*tags}


def test_scores_change_no_text(tmp_path: Path) -> None:
    # Without them batches mix lengths, as long as padding cannot be seen.
    _, theirs = both(tmp_path / "exported")
    scored = theirs.translate_lines(LINES)
    assert [best.text for best, *_ in scored] == theirs.translate(LINES)
    assert [bool(best.log_probability) for best, *_ in scored] == list(map(bool, LINES))


def test_giving_up_leaves_the_rest_empty(tmp_path: Path) -> None:
    _, theirs = both(tmp_path / "exported")
    assert theirs.translate(LINES, watcher=Watcher(should_stop=lambda: True)) == [""] * len(LINES)


def test_the_longest_source_and_output_have_positions(tmp_path: Path) -> None:
    ours, theirs = both(tmp_path / "exported")
    longest_output = ours._max_output_tokens([5] * LONGEST_SOURCE + [EOS_ID])
    assert max(LONGEST_SOURCE + 1, longest_output) <= SINUSOIDS
    line = " ".join(["5", "9", "11", "30"] * (LONGEST_SOURCE // 4))
    assert ours.longest_source == theirs.longest_source == LONGEST_SOURCE
    first = ours.with_search(max_length=4).translate([line])
    assert theirs.with_search(max_length=4).translate([line]) == first
    endless = replace(theirs, decoding=DecodingConfig(max_length_ratio=100.0))
    assert len(endless.translate(["5 6 7"])[0].split()) <= SINUSOIDS


def test_learned_positions_end_where_ours_do(tmp_path: Path) -> None:
    ours, theirs = both(tmp_path / "exported", positions="learned", max_positions=12)
    line = " ".join(["5", "9", "11", "30"] * 10)
    assert theirs.translate([line]) == ours.translate([line])


# --- directories ----------------------------------------------------------------------------------

TEXT = ["Ein Hund schläft.", "Zwei Katzen spielen im Garten.", "Der Mann trägt einen Hut."] * 3


def subword_run(path: Path, joint: bool) -> RunDirectory:
    """A run with real subwords and random weights."""
    run = RunDirectory(path)
    settings = SentencePieceConfig(kind="sentencepiece", vocab_size=300, joint=joint)
    for directory in (run.tokenizer, run.checkpoints):
        directory.mkdir(parents=True)
    tokenizers = learn_tokenizers(
        settings,
        TrainingText("de", "en", TEXT, TEXT[::-1], "0" * 64),
        run.tokenizer,
    )
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=settings,
        model=ModelConfig(
            d_model=32,
            num_heads=2,
            d_ff=32,
            num_encoder_layers=1,
            num_decoder_layers=1,
            tying="all" if joint else "none",
        ),
    )
    run.config.write_text(dump_config(config))
    model = random_model(config.model, tokenizers.src.size)
    favour(model, BANNED, -100.0)
    state = {"step": 1, "best_step": 1}
    save_checkpoint(run.checkpoints, weights_of(model), {}, state, fingerprint(run.tokenizer))
    return run


def exported(run: RunDirectory, directory: Path) -> Path:
    directory.mkdir()
    write_ctranslate2(run, load_trained_model(run, "best"), directory, "float32")
    return directory


def opened(path: Path, precision: PrecisionName = "auto") -> TextTranslator[CTranslate2Engine]:
    asked = ComputeOptions(device="cpu", precision=precision)
    return ENGINE.load(RunDirectory(path), "best", asked)


@pytest.mark.long
@pytest.mark.parametrize("joint", [True, False])
def test_a_run_and_what_is_exported_of_it_translate_alike(joint: bool, tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint)
    ours = load_torch_translator(run, "best", ComputeOptions(device="cpu"))
    expected = ours.translate(TEXT)
    assert len(set(expected)) == 3, "the case is too easy"
    directory = exported(run, tmp_path / "exported")
    of_run, of_export = opened(run.path), opened(directory)
    assert of_run.translate(TEXT) == of_export.translate(TEXT) == expected
    assert of_run.checkpoint == ours.checkpoint
    assert of_run.settings_fingerprint["engine"] == "ctranslate2"
    assert of_run.settings_fingerprint != ours.settings_fingerprint


def test_what_is_exported_has_files_that_others_read(tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    assert run.only_engine is None
    directory = exported(run, tmp_path / "exported")
    engine = RunDirectory(directory).only_engine
    assert engine is not None
    assert engine.name == "ctranslate2"
    files = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    assert files == {
        "README.md",
        "config.json",
        "settings.yaml",
        "sums.json",
        "model.bin",
        "shared_vocabulary.json",
        "tokenizer/joint.model",
        "tokenizer/tokenizer.json",
    }
    settings = json.loads((directory / "config.json").read_text())
    assert settings["layer_norm_epsilon"] == 1e-5
    assert settings["add_source_eos"] is True
    assert settings["decoder_start_token"] == "<BOS>"


@pytest.mark.long
def test_the_documented_snippet_translates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    exported(run, tmp_path / "exported")
    snippet, *_ = re.findall(r"```py\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(snippet, names)
    ours = load_torch_translator(run, "best", ComputeOptions(device="cpu"))
    endless = replace(ours, decoding=DecodingConfig(max_length_ratio=100.0), max_length=256)
    assert capsys.readouterr().out == f"{endless.translate(names['lines'])}\n"


@pytest.mark.parametrize("joint", [True, False])
def test_the_snippet_on_its_card_translates(
    joint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subword_run(tmp_path / "run", joint)
    (tmp_path / "there").mkdir()
    card = (exported(run, tmp_path / "there" / "run") / "README.md").read_text()
    assert "library_name: ctranslate2" in card
    code = "\n".join(re.findall(r"^    ((?!transformer-cli).*)$", card, re.M)[:8])
    monkeypatch.chdir(tmp_path / "there")
    names: dict[str, Any] = {}
    exec(code.replace('"..."', "'Ein Hund', 'Zwei Katzen'"), names)
    ours = load_torch_translator(run, "best", ComputeOptions(device="cpu"))
    endless = replace(ours, decoding=DecodingConfig(max_length_ratio=100.0), max_length=256)
    assert names["translations"] == endless.translate(["Ein Hund", "Zwei Katzen"])


def test_a_card_has_no_snippet_where_the_tokenizer_needs_this_program(
    training: Training, tmp_path: Path
) -> None:
    card = (exported(RunDirectory(training.run), tmp_path / "exported") / "README.md").read_text()
    assert "import sentencepiece" not in card
    assert "transformer-cli translate" in card


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.bin", b"\x06\x00\x00\x00garbage", "not a model of the ctranslate2 library"),
        ("config.json", b"{}", "unk_token is None, not <unk>"),
        ("config.json", b"[]", "has no settings"),
        ("config.json", None, "cannot be read"),
        ("shared_vocabulary.json", b'["a", "b"]', "2 tokens, but the tokenizer has 300"),
        ("shared_vocabulary.json", b"[", "cannot be read"),
        ("shared_vocabulary.json", b"[" * 100_000, "cannot be read"),
        ("shared_vocabulary.json", b"300", "has no list of tokens"),
        ("shared_vocabulary.json", None, "cannot be read"),
    ],
)
def test_damage_is_named(name: str, content: bytes | None, said: str, tmp_path: Path) -> None:
    directory = exported(subword_run(tmp_path / "run", joint=True), tmp_path / "exported")
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"do not match the checksums in sums\.json"):
        opened(directory)
    (directory / "sums.json").unlink()
    others = ("tokenizer", "settings.yaml", "README.md")
    for path in others:
        (directory / path).rename(tmp_path / path)
    if name == "shared_vocabulary.json" and content is None:
        (directory / "target_vocabulary.json").write_bytes(b"[]")
    write_sums(directory)  # as whoever has changed it would
    for path in others:
        (tmp_path / path).rename(directory / path)
    with pytest.raises(TransformerCliError, match=said) as error:
        opened(directory)
    assert isinstance(error.value, CheckpointError)
    assert str(directory) in str(error.value)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    run = subword_run(tmp_path / "run", joint=True)
    directory = exported(run, tmp_path / "exported")
    if "bfloat16" not in ctranslate2.get_supported_compute_types("cpu"):
        for path in (run.path, directory):
            with pytest.raises(UsageError, match="bfloat16"):
                opened(path, "bfloat16")
