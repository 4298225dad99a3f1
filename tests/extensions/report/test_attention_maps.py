"""Attention maps compared with the model's own numbers."""

from dataclasses import replace

import pytest
import torch
from inference.translators import MAX_POSITIONS, numbers, random_translator, translate_ids
from synchronisations import watch_operations

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.report.run_page import compute_attention_maps
from transformer_cli.text.protocol import EOS_ID


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_rows_are_steps_and_columns_the_tokens_they_look_at(precision: torch.dtype) -> None:
    translator = random_translator()
    translator = replace(translator, engine=replace(translator.engine, precision=precision))
    maps = compute_attention_maps(translator, "5 6 7 8")
    (written,) = translate_ids(translator, [[5, 6, 7, 8, EOS_ID]])
    assert written, "the case is too easy"
    end = translator.tokenizers.tgt.token(EOS_ID)
    assert maps.src_tokens == ["5", "6", "7", "8", end]
    assert maps.tgt_tokens == [*map(str, written), end]
    tgt = len(written) + 1
    assert maps.encoder.shape == (1, 2, 5, 5)
    assert maps.decoder.shape == (1, 2, tgt, tgt)
    assert maps.cross.shape == (1, 2, tgt, 5)
    assert not maps.decoder.triu(1).any(), "a step looks at what is written later"
    for weights in (maps.encoder, maps.decoder, maps.cross):
        assert weights.dtype == torch.float32
        assert weights.sum(dim=3).numpy() == pytest.approx(1.0, abs=1e-2)


def test_a_blank_line_is_its_end_mark() -> None:
    maps = compute_attention_maps(random_translator(), " ")
    assert len(maps.src_tokens) == len(maps.tgt_tokens) == 1


def test_learned_positions_leave_one_for_the_end_mark() -> None:
    translator = random_translator(end_bias=-1e4, positions="learned")
    maps = compute_attention_maps(translator, "5 6")
    assert len(maps.tgt_tokens) == MAX_POSITIONS
    with pytest.raises(InputError, match=r"^the line has 12 tokens, but at most 11 fit"):
        compute_attention_maps(translator, numbers(12))


def test_the_model_is_as_it_was() -> None:
    translator = random_translator()
    before = translator.translate(["5 6 7"])
    compute_attention_maps(translator, "5 6 7")
    assert translator.translate(["5 6 7"]) == before


def test_tensors_are_made_on_the_models_device() -> None:
    translator = random_translator()
    with watch_operations() as watched:
        compute_attention_maps(translator, "5 6 7")
    # It depends on its table of positions, or the search copies it.
    assert {place.partition(" in ")[2].partition(":")[0] for place in watched.unplaced} <= {
        "model/transformer.py",
        "inference/search.py",
    }
