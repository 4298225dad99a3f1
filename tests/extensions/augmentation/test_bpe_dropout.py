"""Sampled subwords: the same text in other cuts, decided by a seed and by nothing else."""

import io
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from scipy.stats import chi2_contingency
from validating import refusal

from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.data.batches import Batch, EpochBatches
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.extensions.augmentation.bpe_dropout import (
    BpeDropout,
    Subwords,
)
from transformer_cli.extensions.augmentation.epoch_text import find_changes
from transformer_cli.extensions.constraints.reserved import ReservedTokenizers
from transformer_cli.extensions.tokenizers.made_elsewhere import SpecialIds
from transformer_cli.extensions.tokenizers.sentencepiece_file import SentencePieceFileTokenizer
from transformer_cli.text.protocol import EOS_ID, PAD_ID, Tokenizers
from transformer_cli.text.sentencepiece import SentencePieceTokenizer, learn_model
from transformer_cli.training.preparation import build_augmentation

WORDS = ["Straßenbahn", "Bahnhof", "Hofhund", "Hundehütte", "hutlos", "Männer", "Frauen"]
LINES = [f"Der {a} und die {b} {c}." for a in WORDS for b in WORDS for c in WORDS]


SETTINGS = SentencePieceConfig(kind="sentencepiece", vocab_size=310, lowercase=True)
BPE = SentencePieceTokenizer(
    learn_model(SETTINGS, LINES, "training text"), SETTINGS.lowercase, Path("joint.model")
)
SUBWORDS = Subwords(BPE)
DRAWS = 5000  # of each text, which has few cuts


def encoded(lines: Sequence[str]) -> EncodedText:
    store = TokenArray.from_sentences(map(BPE.encode, lines))
    return EncodedText(store, store)


def sentences(store: TokenArray) -> list[list[int]]:
    return [store[index].tolist() for index in range(len(store))]


def test_the_text_stays_and_its_cuts_change() -> None:
    whole = [BPE.encode(line) for line in LINES[:50]]
    cut = SUBWORDS.sample(whole, rate=0.2, seed=1)
    assert list(map(BPE.decode, cut)) == list(map(BPE.decode, whole))
    assert sum(map(len, cut)) > 1.2 * sum(map(len, whole))
    assert cut != whole


def test_a_seed_decides_the_cuts_whatever_was_drawn_before() -> None:
    whole = [BPE.encode(line) for line in LINES[:50]]
    first = SUBWORDS.sample(whole, rate=0.2, seed=1)
    other = SUBWORDS.sample(whole, rate=0.2, seed=2)
    assert SUBWORDS.sample(whole, rate=0.2, seed=1) == first != other


def test_a_higher_rate_cuts_more() -> None:
    whole = [BPE.encode(line) for line in LINES]
    tokens = [sum(map(len, SUBWORDS.sample(whole, rate, seed=1))) for rate in (0.01, 0.1, 0.3)]
    assert tokens == sorted(tokens)
    assert tokens[0] < tokens[2]


def test_each_side_has_its_rate() -> None:
    text = encoded(LINES[:50])
    for rates in ((0.3, 0.0), (0.0, 0.3)):
        src, tgt = (SUBWORDS if rate else None for rate in rates)
        sampled = BpeDropout(src, tgt, *rates, max_length=100)(text, 5)
        for side, rate in ((sampled.src, rates[0]), (sampled.tgt, rates[1])):
            assert (sentences(side) == sentences(text.src)) == (rate == 0.0)


def test_a_sentence_that_would_be_too_long_stays_as_it_is() -> None:
    text = encoded(LINES[:50])
    longest = int(text.src.lengths.max())
    sampled = BpeDropout(SUBWORDS, None, 0.5, 0.0, max_length=longest)(text, 5)
    assert sampled.src.lengths.max() <= longest
    kept = [a == b for a, b in zip(sentences(sampled.src), sentences(text.src), strict=True)]
    assert any(kept)


def test_a_sentence_with_an_unknown_character_stays_as_it_is() -> None:
    settings = SETTINGS.model_copy(update={"byte_fallback": False, "vocab_size": 60})
    model = learn_model(settings, LINES, "training text")
    tokenizer = SentencePieceTokenizer(model, settings.lowercase, Path("joint.model"))
    store = TokenArray.from_sentences(map(tokenizer.encode, ["Die Männer Ω", "Die Männer"]))
    sampled = BpeDropout(Subwords(tokenizer), None, 0.5, 0.0, max_length=100)
    (unknown, _), (old, _) = (
        sentences(side) for side in (sampled(EncodedText(store, store), 5).src, store)
    )
    assert unknown == old


MODELS = {
    "words": {},
    "across_words": {"split_by_whitespace": False},
    "space_behind": {"treat_whitespace_as_suffix": True},
    "indivisible": {"user_defined_symbols": ["bahn", "ü"]},
    "bytes": {"vocab_size": 330, "byte_fallback": True},
}


def made_with(options: dict[str, Any]) -> SentencePieceFileTokenizer:
    model = io.BytesIO()
    trainer: Any = sentencepiece.SentencePieceTrainer
    trainer.train(
        sentence_iterator=iter([*LINES, *["aaaa aaaaaaaa"] * 300]),
        model_writer=model,
        **{"model_type": "bpe", "vocab_size": 80, "minloglevel": 2, **options},
    )
    specials = SpecialIds(unk=0, bos=1, eos=2, pad=None)
    return SentencePieceFileTokenizer(model.getvalue(), False, Path("a.model"), specials)


@pytest.mark.long_cases
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_cuts_are_as_often_drawn_as_by_sentencepiece(options: dict[str, Any]) -> None:
    tokenizer = made_with(options)
    subwords = Subwords(tokenizer)
    processor: Any = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.sentencepiece_model)
    for text in ("Hundehütte", "die Bahn", "aaaaaa", "Hof Bahnhof"):
        for rate in (0.1, 0.5):
            ours = subwords.sample([tokenizer.encode(text)] * DRAWS, rate, 1)
            cuts = Counter(tuple(map(tokenizer.token, ids)) for ids in ours)
            sampling = {"enable_sampling": True, "alpha": rate, "nbest_size": -1}
            others = Counter(
                tuple(processor.encode(text, out_type=str, **sampling)) for _ in range(DRAWS)
            )
            pairs = [(cuts[cut], others[cut]) for cut in cuts | others]
            often = [pair for pair in pairs if sum(pair) >= 20]
            assert len(often) > 2
            # No seed decides what some versions of SentencePiece draw: one run in a billion fails.
            assert chi2_contingency(often).pvalue > 1e-9, text


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_with_all_merges_the_cuts_are_the_tokenizers(options: dict[str, Any]) -> None:
    tokenizer = made_with(options)
    whole = [tokenizer.encode(line) for line in [*LINES, "aaaaaaaaaaa  Ω  ▁a"]]
    assert Subwords(tokenizer).sample(whole, 0.0, 1) == whole


def batches(text: EncodedText, epoch: int, first: int = 0) -> list[Batch]:
    sampler = BpeDropout(SUBWORDS, SUBWORDS, 0.2, 0.1, max_length=100)
    return list(EpochBatches(text, 200, 1, sampler).iter_epoch(epoch, first))


def lines_of(batch: Batch) -> list[tuple[str, str]]:
    rows = zip(batch.src.tolist(), batch.tgt_out.tolist(), strict=True)
    return [(BPE.decode(src), BPE.decode(tgt)) for src, tgt in rows]


def test_batches_hold_the_pairs_that_were_planned_in_new_cuts_each_epoch() -> None:
    text = encoded(LINES[:60])
    plain = EpochBatches(text, 200, 1)
    for epoch in (0, 1):
        sampled = batches(text, epoch)
        assert list(map(lines_of, sampled)) == list(map(lines_of, plain.iter_epoch(epoch)))
        for batch in sampled:
            assert batch.tgt_tokens == int((batch.tgt_out != PAD_ID).sum())
            assert int((batch.src == EOS_ID).sum()) == len(batch.src)
    cuts = [
        sorted(tuple(row) for batch in batches(text, epoch) for row in batch.src.tolist())
        for epoch in (0, 1)
    ]
    assert cuts[0] != cuts[1]


def test_an_epoch_can_be_gone_on_from_anywhere() -> None:
    text = encoded(LINES[:60])
    rest = batches(text, epoch=3, first=2)
    for batch, expected in zip(rest, batches(text, epoch=3)[2:], strict=True):
        assert np.array_equal(batch.src, expected.src)
        assert np.array_equal(batch.tgt_in, expected.tgt_in)


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_settings_ask_for_it(side: str) -> None:
    values = {
        "data": {"kind": "toy"},
        "tokenizer": SETTINGS.model_dump(),
        "training": {f"{side}_bpe_dropout": 0.1, "max_length": 9},
    }
    store: Any = None  # which only terms are drawn from
    (found,) = find_changes(Config.model_validate(values), Tokenizers(BPE, BPE), store)
    what, sampling = found
    assert what == "subwords"
    assert isinstance(sampling, BpeDropout)
    rates = (0.1, 0.0) if side == "src" else (0.0, 0.1)
    assert (sampling.src_rate, sampling.tgt_rate, sampling.max_length) == (*rates, 9)
    assert (sampling.src is None, sampling.tgt is None) == (side == "tgt", side == "src")
    plain = Config.model_validate(values | {"training": {}})
    assert build_augmentation(plain, Tokenizers(BPE, BPE), store) is None


def test_reserved_ids_stay_where_they_are() -> None:
    both = ReservedTokenizers.of(Tokenizers(BPE, BPE), ["printf"], ["news"])
    tokenizer = both.tagged("news").src
    source = both.tagged("news").encode_source("%s: Straßenbahn Hundehütte %d")
    ids = [*source.start, *source.ids]
    sampled, empty = Subwords(tokenizer).sample([ids, []], 0.5, 1)
    assert empty == []
    assert len(sampled) > len(ids)
    reserved = [number for number in ids if number >= BPE.size]
    assert [number for number in sampled if number >= BPE.size] == reserved
    assert (sampled[0], sampled[1]) == (ids[0], ids[1])
    filled = [tokenizer.filled_tokens(each, source.values) for each in (ids, sampled)]
    assert tokenizer.detokenize(sampled, filled[1]) == tokenizer.detokenize(ids, filled[0])


@pytest.mark.long
def test_two_threads_draw_as_one_does() -> None:
    # The prefetching of batches samples on a thread, while the forecast does on the main one.
    sentences = [BPE.encode(line) for line in LINES[:60]]

    def sample(seed: int) -> list[list[int]]:
        return SUBWORDS.sample(sentences, 0.5, seed)

    seeds = range(20)
    expected = [sample(seed) for seed in seeds]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(sample, seeds)) == expected
    assert len(set(map(str, expected))) > 15


DRAW = """
import sys
from pathlib import Path

from transformer_cli.extensions.augmentation.bpe_dropout import Subwords
from transformer_cli.text.sentencepiece import SentencePieceTokenizer

tokenizer = SentencePieceTokenizer(Path(sys.argv[1]).read_bytes(), True, Path("joint.model"))
print(Subwords(tokenizer).sample([tokenizer.encode("Straßenbahnhofhund hutlos")] * 20, 0.3, 7))
"""


@pytest.mark.long
def test_a_seed_decides_the_cuts_in_every_process(tmp_path: Path) -> None:
    model = tmp_path / "joint.model"
    model.write_bytes(learn_model(SETTINGS, LINES, "training text"))
    drawn = [
        subprocess.run([sys.executable, "-c", DRAW, str(model)], capture_output=True, check=True)
        for _ in range(2)
    ]
    assert drawn[0].stdout == drawn[1].stdout
    cuts = SUBWORDS.sample([BPE.encode("Straßenbahnhofhund hutlos")] * 20, 0.3, 7)
    assert drawn[0].stdout.decode() == f"{cuts}\n"


# --- tokenizers without merges --------------------------------------------------------------------


@pytest.mark.parametrize(
    "tokenizer",
    [
        "{kind: words}",
        "{kind: sentencepiece, model_type: unigram}",
        "{kind: huggingface, file: tokenizer.json}",
    ],
)
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_bpe_dropout_needs_merges(tokenizer: str, side: str) -> None:
    refused = refusal(
        f"data: {{kind: toy}}\ntokenizer: {tokenizer}\ntraining: {{{side}_bpe_dropout: 0.1}}\n"
    )
    assert "bpe_dropout" in refused
    assert "model_type: bpe" in refused


def test_a_run_that_records_defaults_is_as_if_it_did_not() -> None:
    values = {"data": {"kind": "toy"}, "tokenizer": SETTINGS.model_dump()}
    defaults = {"src_bpe_dropout": 0.0, "tgt_bpe_dropout": 0.0, "concatenate": 0.0}
    recorded = Config.model_validate(values | {"training": defaults})
    plain = Config.model_validate(values)
    assert recorded == plain
    assert recorded.model_dump() == plain.model_dump()
