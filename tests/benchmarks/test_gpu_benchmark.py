"""The GPU's benchmark, shrunk and on the CPU: it has all sections, with figures above 0."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import gpu
from benchmarks.environments import ROOT
from benchmarks.flops import training_flops
from benchmarks.stopwatch import WARM_UP
from transformer_cli.config.yaml import load_config
from transformer_cli.data.token_arrays import EncodedText, TokenArray
from transformer_cli.errors import UsageError
from transformer_cli.text.vocabulary import SPECIALS


def random_text(pairs: int, vocab: int) -> EncodedText:
    random = np.random.default_rng(1)

    def side() -> TokenArray:
        lengths = random.integers(5, 25, pairs)
        return TokenArray.from_sentences(
            random.integers(len(SPECIALS), vocab, n).tolist() for n in lengths
        )

    return EncodedText(side(), side())


def cells(section: str) -> list[list[str]]:
    """What the section's table has below its header, names aside."""
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in table[2:]]


def test_the_small_benchmark_has_all_sections_and_positive_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Multi30k's own ids take a minute to make, and speed does not depend on what is learned.
    monkeypatch.setattr(gpu, "prepare_data", lambda: None)
    monkeypatch.setattr(gpu, "read_ids", lambda split: random_text(500, 8000))
    monkeypatch.setattr(gpu, "WORKSHOP", tmp_path)
    # A model so young writes every sentence to its limit, which shape checks make slow.
    tiny = replace(gpu.SMALL, sentences=4, alone=1, batches=(512,))
    monkeypatch.setattr(gpu, "SMALL", tiny)

    report = gpu.main(["--device", "cpu", "--small"])

    head, training, decoding, whole = report.split("\n### ")
    assert head.startswith("## ")
    for section, title, rows, numbers in (
        (training, "Training", 3, 6),
        (decoding, "Decoding", 4, 3),
        (whole, "From raw text to a score", 1, 3),
    ):
        assert section.startswith(title)
        figures = cells(section)
        assert len(figures) == rows
        for row in figures:
            # The score after so few steps may be 0.
            assert all(float(re.sub("[,%]", "", cell)) > 0 for cell in row[:numbers])


def test_what_is_counted_is_what_the_timed_updates_train_on() -> None:
    # The text is one batch, so each update is an epoch.
    text, vocab, timed = random_text(40, 50), 50, 3
    config = load_config(
        ROOT / "configs" / "multi30k_de_en_bpe.yaml",
        (
            f"tokenizer.vocab_size={vocab}",
            "model={d_model: 8, num_heads: 2, d_ff: 8, tying: all}",
            "training.batch_tokens=1000",
            f"training.max_steps={WARM_UP + timed}",
        ),
    )
    watch, flops = gpu._train(config, text, WARM_UP + timed, torch.device("cpu"))

    src_lengths, tgt_lengths = text.src.lengths + 1, text.tgt.lengths + 1
    assert watch.tgt_tokens == timed * tgt_lengths.sum()
    epoch = training_flops(config.model, vocab, src_lengths.tolist(), tgt_lengths.tolist())
    assert flops == timed * epoch


def test_without_a_gpu_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=r"^--device cuda: torch sees no CUDA device.*$") as found:
        gpu.main([])
    assert isinstance(found.value.__cause__, UsageError)
