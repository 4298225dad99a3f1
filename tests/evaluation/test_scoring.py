"""Scores against sacreBLEU's own functions and by hand, perplexity against a sum one by one."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
import torch
from inference.translators import NumberTokenizer
from sacrebleu.metrics.ter import TER
from scarce_memory import allow_rows
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_cli.base.errors import CorpusError
from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config, ModelConfig, TrainingConfig
from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.data.batches import collate
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.evaluation import scoring
from transformer_cli.evaluation.scores import score
from transformer_cli.evaluation.scoring import TorchTranslator, evaluate, mean_loss
from transformer_cli.inference.search import TorchEngine
from transformer_cli.inference.translator import TextTranslator, Watcher
from transformer_cli.model.linear import autocast
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.metrics_log import perplexity
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, Tokenizers

REFERENCES = [
    "A black dog runs through the tall grass.",
    "Two men, both in hats, sit on a bench.",
    "A girl doesn't like the cold water.",
]
HYPOTHESES = [
    "a black dog is running through tall grass.",
    "Two men in hats sit on a bench.",
    "A Girl does not like the cold water.",
]

# --- scores ---------------------------------------------------------------------------------------


def test_scores_are_sacrebleus() -> None:
    scores = score(HYPOTHESES, REFERENCES)
    assert scores["bleu"].value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    lowercased = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True)
    assert scores["bleu_lc"].value == lowercased.score
    assert scores["chrf"].value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert 0 < scores["bleu"].value < scores["bleu_lc"].value < 100
    assert 0 < scores["chrf"].value < 100


def test_bleu_by_hand() -> None:
    # 1- to 4-grams are all right, so the brevity penalty exp(1 - 6/5) is all that counts.
    scores = score(["a b c d e"], ["a b c d e f"])
    assert scores["bleu"].value == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_perfect_hypotheses_have_all_points() -> None:
    scores = score(REFERENCES, REFERENCES)
    assert (scores["bleu"].value, scores["bleu_lc"].value, scores["chrf"].value) == pytest.approx(
        (100, 100, 100)
    )


def test_lowercased_bleu_ignores_case() -> None:
    scores = score([line.upper() for line in REFERENCES], REFERENCES)
    assert scores["bleu_lc"].value == pytest.approx(100)
    assert scores["bleu"].value < 20


def test_signatures_say_how() -> None:
    scores = score(HYPOTHESES, REFERENCES)
    assert {"case:mixed", "tok:13a", "nrefs:1"} <= set(scores["bleu"].signature.split("|"))
    assert {"case:lc", "tok:13a", "nrefs:1"} <= set(scores["bleu_lc"].signature.split("|"))
    assert {"case:mixed", "nw:0", "nc:6"} <= set(scores["chrf"].signature.split("|"))


def test_thorough_scores_are_the_cheap_ones_and_more() -> None:
    cheap, thorough = score(HYPOTHESES, REFERENCES), score(HYPOTHESES, REFERENCES, True)
    assert list(cheap) == ["bleu", "bleu_lc", "chrf"]
    assert list(thorough) == ["bleu", "bleu_lc", "chrf", "ter"]
    for name, of_cheap in cheap.items():
        assert thorough[name].value == of_cheap.value
        assert (thorough[name].half_width or 0) > 0
        assert of_cheap.half_width is None
    assert thorough["ter"].value == TER().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert thorough["ter"].half_width is not None
    assert "tok:tercom" in thorough["ter"].signature
    assert "|bs:1000|seed:12345|" in thorough["chrf"].signature


def test_ter_by_hand() -> None:
    # A word moved, a word replaced and a word too many: 3 edits to 8 words.
    scores = score(["b c d e a f x h i"], ["a b c d e f g h"], thorough=True)
    assert scores["ter"].value == pytest.approx(100 * 3 / 8)


# --- perplexity -----------------------------------------------------------------------------------

SRC_SIZE, TGT_SIZE = 14, 12
MAX_POSITIONS = 10
MODEL = ModelConfig(
    d_model=16,
    num_heads=2,
    d_ff=24,
    num_encoder_layers=1,
    num_decoder_layers=1,
    tying="none",
    positions="learned",
    max_positions=MAX_POSITIONS,
)
# An empty side is what a blank line becomes.
SRC = [[5, 6, 7], [13], [], [4, 4, 8, 10, 9], [6, 6], [12, 11]]
TGT = [[7, 6], [4, 4, 9, 11, 8, 10], [5, 5], [], [11], [8, 6, 7]]
TEXT = EncodedText(TokenArray.from_sentences(SRC), TokenArray.from_sentences(TGT))


def random_model() -> Transformer:
    model = Transformer(MODEL, SRC_SIZE, TGT_SIZE, PAD_ID)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.5)
    return model.eval()


@torch.no_grad()
def slow_mean_loss(model: Transformer) -> float:
    """Sentence by sentence, without padding."""
    total, tgt_tokens = 0.0, 0
    for src, tgt in zip(SRC, TGT, strict=True):
        logits = model(torch.tensor([[*src, EOS_ID]]), torch.tensor([[BOS_ID, *tgt]]))
        total += F.cross_entropy(logits[0], torch.tensor([*tgt, EOS_ID]), reduction="sum").item()
        tgt_tokens += len(tgt) + 1
    return total / tgt_tokens


@pytest.mark.parametrize("batch_tokens", [1, 8, 14, 4096])
def test_mean_loss_equals_one_by_one(batch_tokens: int) -> None:
    model = random_model()
    loss = mean_loss(model, TEXT, batch_tokens, torch.float32)
    assert loss == pytest.approx(slow_mean_loss(model), rel=1e-5)
    assert loss > 1


def test_a_model_that_knows_nothing_is_as_perplexed_as_its_vocabulary_is_large() -> None:
    model = random_model()
    nn.init.zeros_(model.output.weight)
    assert perplexity(mean_loss(model, TEXT, 10, torch.float32)) == pytest.approx(TGT_SIZE)


@torch.no_grad()
def whole_batch_loss(model: Transformer, precision: torch.dtype) -> float:
    """From all logits at once."""
    batch = collate(TEXT.take(np.argsort(np.maximum(*TEXT.lengths), kind="stable")))
    with autocast(torch.device("cpu"), precision):
        logits = model(batch.src, batch.tgt_in).float().flatten(0, 1)
    total = F.cross_entropy(logits, batch.tgt_out.flatten(), ignore_index=PAD_ID, reduction="sum")
    return total.double().item() / batch.tgt_tokens


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_mean_loss_is_that_of_all_logits_at_once_to_the_last_bit(precision: torch.dtype) -> None:
    model = random_model()
    assert mean_loss(model, TEXT, 4096, precision) == whole_batch_loss(model, precision)


def test_logits_are_computed_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model()
    expected = mean_loss(model, TEXT, 4096, torch.float32)
    sizes = []
    logits = Transformer.logits

    def noted(model: Transformer, hidden_states: Tensor) -> Tensor:
        sizes.append(len(hidden_states))
        return logits(model, hidden_states)

    monkeypatch.setattr(Transformer, "logits", noted)
    monkeypatch.setattr(scoring, "_LOGITS_AT_A_TIME", 5 * TGT_SIZE)
    assert mean_loss(model, TEXT, 4096, torch.float32) == pytest.approx(expected, rel=1e-6)
    # 6 rows of at most 7 positions
    assert sizes == [5] * 8 + [2]


def test_a_batch_that_does_not_fit_is_measured_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model()
    expected = mean_loss(model, TEXT, 4096, torch.float32)
    encoded = allow_rows(monkeypatch, 2)
    assert mean_loss(model, TEXT, 4096, torch.float32) == pytest.approx(expected, rel=1e-6)
    assert encoded == [2, 1, 2, 1]


def test_mean_loss_leaves_no_gradients() -> None:
    model = random_model()
    mean_loss(model, TEXT, 10, torch.float32)
    assert all(weight.grad is None for weight in model.parameters())


# --- both -----------------------------------------------------------------------------------------


def random_translator() -> TorchTranslator:
    config = Config(
        data=ToyData(kind="toy"),
        tokenizer=WordsConfig(kind="words"),
        model=MODEL,
        training=TrainingConfig(max_length=MAX_POSITIONS - 1),
    )
    tokenizers = Tokenizers(NumberTokenizer(SRC_SIZE), NumberTokenizer(TGT_SIZE), letterless=True)
    decoding = DecodingConfig(batch_tokens=14)
    engine = TorchEngine(random_model(), torch.float32)
    return TextTranslator(engine, tokenizers, config, decoding)


def as_lines(sentences: Sequence[Sequence[int]]) -> list[str]:
    return [" ".join(map(str, ids)) for ids in sentences]


def test_evaluate_translates_scores_and_measures() -> None:
    translator = random_translator()
    finished: list[int] = []
    result = evaluate(
        translator, ParallelText(as_lines(SRC), as_lines(TGT)), Watcher(finished.append)
    )
    assert result.hypotheses == translator.translate(as_lines(SRC))
    assert result.hypotheses[2] == ""
    assert result.scores == score(result.hypotheses, as_lines(TGT))
    assert result.loss == pytest.approx(slow_mean_loss(translator.engine.model), rel=1e-5)
    assert sum(finished) == len(SRC)  # the blank line too


def test_pairs_too_long_for_learned_positions_are_no_part_of_the_loss() -> None:
    long = " ".join(["5"] * MAX_POSITIONS)
    translator = random_translator()
    src, tgt = as_lines(SRC), as_lines(TGT)
    cuts: list[str] = []
    result = evaluate(
        translator,
        ParallelText(["5", *src, long], [long, *tgt, "5"]),
        Watcher(on_long_line=cuts.append),
    )
    assert result.loss == pytest.approx(slow_mean_loss(translator.engine.model), rel=1e-5)
    assert result.unmeasured == 2
    assert result.hypotheses[1:-1] == translator.translate(src)
    assert cuts == [f"line {len(SRC) + 2}: {MAX_POSITIONS} tokens, translated in 2 pieces"]


def test_pairs_that_are_all_too_long_are_refused_before_any_work() -> None:
    long = " ".join(["5"] * MAX_POSITIONS)
    finished: list[int] = []
    with pytest.raises(CorpusError, match=r"^every pair has a side with more than 9 tokens"):
        evaluate(random_translator(), ParallelText(["5"], [long]), Watcher(finished.append))
    assert not finished


def test_lines_without_words_are_scored_as_translate_writes_them() -> None:
    translator = random_translator()
    both = Tokenizers(translator.tokenizers.src, translator.tokenizers.tgt)
    result = evaluate(replace(translator, tokenizers=both), ParallelText(["5", "6 7"], ["5", "8"]))
    assert result.hypotheses == ["5", "6 7"]
