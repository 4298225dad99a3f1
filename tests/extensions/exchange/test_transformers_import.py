"""Models that transformers makes give the same logits, greedy and beam outputs once imported."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from extensions.exchange.marian_files import (
    ENGLISH,
    GERMAN,
    JOINT,
    TWO,
    import_directory,
    write_json,
    write_model,
    write_tokenizer,
)
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.extensions.exchange import form, to_transformers
from transformer_cli.inference.engine import SearchOptions
from transformer_cli.inference.search import search
from transformer_cli.inference.translator import rank
from transformer_cli.runs.trained_model import TrainedModel, load_trained_model
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID

LINES = [*GERMAN, ">>fra<< Ein Bär ☃ schläft!", "x", "Über 3 Straßen"]
LENGTH = 30


class Form(NamedTuple):
    """The differences between models."""

    type: str = "marian"
    activation: str = "swish"
    two: bool = False
    tied: bool = True
    own_start: bool = False


FORMS = [
    Form(),
    Form(activation="relu", tied=False),
    Form(activation="gelu", two=True),
    Form(two=True, tied=False),
    Form(type="pegasus", activation="relu"),
    Form(type="pegasus", activation="gelu", own_start=True),
]


class Both(NamedTuple):
    """A model in both programs."""

    form: Form
    theirs: Any
    tokenizer: Any
    ours: TrainedModel


def test_a_setting_of_the_search_that_has_their_name_goes_there_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (form, to_transformers):
        monkeypatch.setattr(module, "NOT_SHARED", {"beam_size", "length_penalty", "batch_tokens"})
    decoding = DecodingConfig(max_length_ratio=3.0)
    config = Config(data=ToyData(kind="toy"), tokenizer=WordsConfig(kind="words"))
    written = [
        to_transformers._generation_config(each, {}).get("max_length_ratio")
        for each in (config, config.model_copy(update={"decoding": decoding}))
    ]
    assert written == [None, 3.0]
    write_model(tmp_path)
    generation = tmp_path / form.GENERATION
    write_json(generation, {"num_beams": 1, "max_length_ratio": 3.0})
    assert form.read_form(form.ModelFiles(tmp_path)).decoding == decoding
    write_json(generation, {"max_length_ratio": 0})
    with pytest.raises(form.ImportedModelError, match=f"{form.GENERATION}: max_length_ratio: "):
        form.read_form(form.ModelFiles(tmp_path))


def make(form: Form, directory: Path) -> Any:
    """Write a randomly initialised model; return it."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(FORMS.index(form))
    src, tgt = TWO if form.two else (JOINT, JOINT)
    pad = tgt["<pad>"]
    settings: dict[str, Any] = {
        "vocab_size": len(src),
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "activation_function": form.activation,
        "scale_embedding": True,
        "max_position_embeddings": 64,
        "tie_word_embeddings": form.tied,
        "pad_token_id": pad,
        "eos_token_id": tgt["</s>"],
        "bos_token_id": 0,
        "decoder_start_token_id": tgt["<s>"] if form.own_start else pad,
        "forced_eos_token_id": None,
        "init_std": 0.3,
    }
    if form.two:
        settings |= {"decoder_vocab_size": len(tgt), "share_encoder_decoder_embeddings": False}
    kind = "Marian" if form.type == "marian" else "Pegasus"
    config = getattr(transformers, f"{kind}Config")(**settings)
    name = "MarianMTModel" if form.type == "marian" else "PegasusForConditionalGeneration"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_()
        # All outputs end, because transformers also ranks outputs that are cut off.
        model.final_logits_bias[0, tgt["</s>"]] += 2.5
        for name, weight in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(directory)
    write_tokenizer(directory, form.two)
    return model


@pytest.fixture(scope="module", params=FORMS, ids=lambda form: "-".join(map(str, form)))
def both(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Both:
    path = tmp_path_factory.mktemp("imported")
    directory = path / "theirs"
    directory.mkdir()
    model = make(request.param, directory)
    tokenizer = pytest.importorskip("transformers").MarianTokenizer.from_pretrained(directory)
    return Both(
        request.param,
        model,
        tokenizer,
        load_trained_model(import_directory(directory, path / "run"), "best"),
    )


def rows_of(both: Both) -> list[int]:
    """Return the model's id for each target id of a run."""
    ids = TWO[1] if both.form.two else JOINT
    vocabulary: Any = both.ours.tokenizers.tgt
    start = both.theirs.config.decoder_start_token_id
    specials = [ids["<unk>"], start, ids["</s>"], ids["<pad>"]]
    return specials + [ids[token] for token in vocabulary.vocabulary.tokens[4:]]


def source(both: Both) -> torch.Tensor:
    rows = [[*both.ours.tokenizers.src.encode(line), EOS_ID] for line in LINES]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD_ID] * (longest - len(row))] for row in rows])


@pytest.mark.long_cases
def test_logits_are_equal(both: Both) -> None:
    theirs = both.tokenizer(LINES, return_tensors="pt", padding=True)
    rows = rows_of(both)
    targets = [both.ours.tokenizers.tgt.encode(line) for line in ENGLISH * 2]
    longest = max(map(len, targets))
    ours_in = torch.tensor([[BOS_ID, *row, *[EOS_ID] * (longest - len(row))] for row in targets])
    decoder_in = torch.tensor(rows)[ours_in]
    with torch.no_grad():
        expected = both.theirs(
            input_ids=theirs["input_ids"],
            attention_mask=theirs["attention_mask"],
            decoder_input_ids=decoder_in,
        ).logits[..., rows]
        found = both.ours.model(source(both), ours_in)
    if not both.form.own_start:
        # A copy of the padding row must have no share in the softmax.
        assert found[..., BOS_ID].max() < -80
        expected[..., BOS_ID] = found[..., BOS_ID]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [1, 3])
def test_outputs_are_equal(both: Both, beam_size: int) -> None:
    theirs = both.tokenizer(LINES, return_tensors="pt", padding=True)
    rows = rows_of(both)
    banned = sorted({rows[n] for n in (0, 1, 3)})
    written = both.theirs.generate(
        input_ids=theirs["input_ids"],
        attention_mask=theirs["attention_mask"],
        num_beams=beam_size,
        length_penalty=0.0,
        early_stopping=True,
        max_new_tokens=LENGTH,
        bad_words_ids=[[number] for number in banned],
        do_sample=False,
    )
    options = SearchOptions(BOS_ID, EOS_ID, (0, 1, 3), DecodingConfig(beam_size=beam_size))
    limits = torch.full((len(LINES),), LENGTH)
    found = search(both.ours.model, source(both), limits, options)
    for hypotheses, row in zip(found, written.tolist(), strict=True):
        best, ids = rank(hypotheses, length_penalty=0.0)[0], row[1:]
        end = ids.index(rows[EOS_ID]) if rows[EOS_ID] in ids else LENGTH
        assert [rows[n] for n in best.ids] == ids[:end]
        text = both.tokenizer.decode(ids[:end], skip_special_tokens=True)
        assert both.ours.tokenizers.tgt.decode(best.ids) == text


def test_sources_are_encoded_alike(both: Both) -> None:
    theirs = both.tokenizer(LINES)["input_ids"]
    src = both.ours.tokenizers.src
    tokens = both.tokenizer.convert_ids_to_tokens
    if not both.form.two:
        assert [[*map(src.token, src.encode(line)), "</s>"] for line in LINES] == list(
            map(tokens, theirs)
        )
    assert [len(src.encode(line)) + 1 for line in LINES] == list(map(len, theirs))


def test_the_form_is_recorded(both: Both) -> None:
    config = both.ours.config
    assert config.model.norm == ("post" if both.form.type == "marian" else "pre")
    assert config.model.activation == both.form.activation
    tying = ("output" if both.form.two else "all") if both.form.tied else "none"
    assert config.model.tying == tying
    assert config.tokenizer.one_vocabulary is not both.form.two
