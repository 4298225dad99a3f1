"""Several models decoded as one."""

from dataclasses import replace

import pytest
import torch
from inference.translators import LINES, random_translator, search_ids
from torch import Tensor

from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.extensions.ensembles.ensemble import Ensemble
from transformer_cli.inference.search import TorchEngine
from transformer_cli.model.transformer import Transformer

SRC = torch.tensor([[5, 9, 4, 2], [7, 8, 2, 3], [6, 2, 3, 3]])
TGT_IN = torch.tensor([[1, 5, 6], [1, 9, 4], [1, 13, 3]])


def make_models(count: int) -> list[Transformer]:
    torch.manual_seed(1)
    return [random_translator().engine.model for _ in range(count)]


def with_models(translator: TorchTranslator, models: list[Transformer]) -> TorchTranslator:
    return replace(translator, engine=TorchEngine(Ensemble(models), torch.float32))


@pytest.mark.long
@torch.inference_mode()
def test_probabilities_are_the_mean_of_the_models() -> None:
    models = make_models(3)
    ensemble = Ensemble(models)
    found = ensemble.logits(ensemble.hidden_states(SRC, TGT_IN)).exp()
    expected = torch.stack([model(SRC, TGT_IN).softmax(dim=2) for model in models]).mean(dim=0)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found.sum(dim=2), torch.ones(TGT_IN.shape))


@pytest.mark.long
@torch.inference_mode()
def test_steps_equal_all_positions_at_once() -> None:
    ensemble = Ensemble(make_models(2))
    state = ensemble.init_state(SRC)
    whole = ensemble.hidden_states(SRC, TGT_IN)
    for position in range(TGT_IN.size(1)):
        found = ensemble.step(TGT_IN[:, position, None], state)
        torch.testing.assert_close(found[:, 0], whole[:, position])


@pytest.mark.long
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_model_with_itself_is_the_model(beam_size: int) -> None:
    translator = random_translator().with_search(beam_size)
    model = translator.engine.model
    twice = with_models(translator, [model, model])
    for alone, both in zip(
        translator.translate_lines(LINES, n_best=beam_size),
        twice.translate_lines(LINES, n_best=beam_size),
        strict=True,
    ):
        assert [each.text for each in both] == [each.text for each in alone]
        assert [each.score for each in both] == pytest.approx([each.score for each in alone])


def best_by_exhaustion(models: list[Transformer], src: Tensor, length: int) -> float:
    """Return the greatest mean-probability product of all two-token outputs that end."""
    ensemble = Ensemble(models)
    allowed = range(4, ensemble.tgt_size)
    best = float("-inf")
    for first in allowed:
        for second in allowed:
            tgt_in = torch.tensor([[1, first, second]])
            log_probs = ensemble.logits(ensemble.hidden_states(src, tgt_in))[0]
            ids = torch.tensor([first, second, 2])
            best = max(best, float(log_probs[torch.arange(length + 1), ids].sum()))
    return best


@pytest.mark.long
@torch.inference_mode()
def test_a_wide_beam_finds_the_best_of_the_ensemble() -> None:
    models = make_models(2)
    options = random_translator().with_search(60)
    translator = with_models(options, models)
    found = search_ids(translator, [[5, 9, 2]])[0]
    of_two = max(each.log_probability for each in found if len(each.ids) == 2)
    assert of_two == pytest.approx(best_by_exhaustion(models, torch.tensor([[5, 9, 2]]), 2), 1e-5)


def test_alignments_are_of_all_models() -> None:
    aligning = pytest.importorskip("transformer_cli.extensions.alignments.aligning")
    models = make_models(2)
    found = [
        aligning.align_tokens(TorchEngine(Ensemble(order), torch.float32), [[5, 6, 2]], [[7, 8]], 9)
        for order in (models, models[::-1])
    ]
    assert found[0] == found[1]
