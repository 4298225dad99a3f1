"""Concatenation of random pairs: every pair once an epoch, in fewer, longer rows."""

import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
from stored_corpus import BATCH_TOKENS, HUNDRED, corpus, rows

from transformer_cli.data.batches import EpochBatches
from transformer_cli.extensions.augmentation.epoch_text import Concatenation
from transformer_cli.text.protocol import EOS_ID, PAD_ID


def pairs_of_row(side: list[int]) -> list[tuple[int, int]]:
    """The pairs that a row holds, each with its number of tokens."""
    ids = [id for id in side if id not in (EOS_ID, PAD_ID)]
    return [(id - 4, len(list(run))) for id, run in groupby(ids)]


@pytest.mark.parametrize("max_length", [99, 11])
def test_concatenation_has_every_pair_once_an_epoch(tmp_path: Path, max_length: int) -> None:
    text = corpus(tmp_path, HUNDRED).text
    epochs = EpochBatches(text, BATCH_TOKENS, 1, Concatenation(0.6, max_length))
    for epoch in (0, 1):
        found, counts = [], []
        for batch in epochs.iter_epoch(epoch):
            for src, tgt in zip(*rows(batch), strict=True):
                src_pairs, tgt_pairs = pairs_of_row(src), pairs_of_row(tgt)
                assert [pair for pair, _ in src_pairs] == [pair for pair, _ in tgt_pairs]
                assert (
                    max(sum(tokens for _, tokens in side) for side in (src_pairs, tgt_pairs))
                    <= max_length
                )
                found += [
                    (pair, (src, tgt))
                    for (pair, src), (_, tgt) in zip(src_pairs, tgt_pairs, strict=True)
                ]
                counts.append(len(src_pairs))
            assert batch.tgt_tokens == int((batch.tgt_out != PAD_ID).sum())
        assert sorted(found) == list(enumerate(HUNDRED))
        assert max(counts) > 1


def test_concatenation_is_another_in_each_epoch_and_resumes_in_any_batch(tmp_path: Path) -> None:
    text = corpus(tmp_path, HUNDRED).text
    epochs = EpochBatches(text, BATCH_TOKENS, 1, Concatenation(0.6, 99))
    first, second = ([rows(batch) for batch in epochs.iter_epoch(epoch)] for epoch in (0, 1))
    assert [rows(batch) for batch in epochs.iter_epoch(1, first=7)] == second[7:]
    assert {max(map(len, src)) for src, _ in first} != {max(map(len, src)) for src, _ in second}


def test_its_setting_is_read_without_numpy() -> None:
    module = Concatenation.__module__
    code = f"import sys, {module}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
