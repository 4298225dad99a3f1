"""Nothing meets a tensor of another device, and a step does not wait for its device.

A GPU is not at hand where these run: tensors are on the CPU, or on a stand-in without values.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from inference.translators import LINES, random_translator
from stand_in_gpu import gpu as gpu, to_gpu
from synchronisations import watch_operations

from transformer_cli.base.ranks import SINGLE_PROCESS
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import Batch, collate
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.evaluation import scoring
from transformer_cli.evaluation.scoring import mean_loss
from transformer_cli.model import device
from transformer_cli.model.device import sum_dtype
from transformer_cli.model.transformer import Transformer, build_model
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.loss import GradientAccumulator
from transformer_cli.training.trainer import Trainer

TOKENS = 12
SRC = TokenArray.from_sentences([[5, 6, 7], [8, 9], [4, 4, 8, 10, 9], [6]] * 2)
TGT = TokenArray.from_sentences([[7, 6], [4, 9, 11, 8, 10], [5, 5, 6], [11]] * 2)
TEXT = EncodedText(SRC, TGT)


def config(model: dict[str, Any] | None = None, **training: Any) -> Config:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "dropout": 0.1, "attention_dropout": 0.1}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return Config.model_validate(
        {
            "data": {"kind": "toy"},
            "tokenizer": {"kind": "words"},
            "model": {**sizes, **layers, **(model or {})},
            "training": {"batch_tokens": 24, "ema_decay": 0.9, "clip_norm": 1.0, **training},
        }
    )


def model_of(settings: Config) -> Transformer:
    return build_model(settings.model, TOKENS, TOKENS, PAD_ID, 1)


def batch() -> Batch:
    return collate(TEXT)


# --- the CPU --------------------------------------------------------------------------------------


def steps(**training: Any) -> Callable[[], object]:
    settings = config(**training)
    taken = Trainer(model_of(settings), TEXT, settings, torch.float32).steps()
    next(taken)  # makes Adam's moments
    return lambda: next(taken)


def validation() -> Callable[[], object]:
    model = model_of(config()).eval()
    return lambda: mean_loss(model, TEXT, 24, torch.float32)


def greedy_search() -> Callable[[], object]:
    translator = random_translator()
    return lambda: translator.translate_lines(LINES)


def beam_search() -> Callable[[], object]:
    translator = random_translator(end_bias=4.0).with_search(beam_size=3)
    return lambda: translator.translate_lines(LINES, n_best=2)


# Made on the host and copied to the device at once, or used on a CPU only.
ON_THE_HOST = {
    "arange in model/transformer.py:sinusoids",  # follows its table
    "empty in model/transformer.py:Dropout.forward",  # a GPU's is torch's own
    # Copied by the search, into buffers where it has any.
    "tensor in inference/search.py:search_all.<locals>.search_rows",
}


@pytest.mark.long
@pytest.mark.parametrize("prepare", [steps, validation, greedy_search, beam_search])
def test_no_tensor_is_made_on_the_default_device(
    prepare: Callable[[], Callable[[], object]],
) -> None:
    run = prepare()
    with watch_operations() as watched:
        run()
    assert set(watched.unplaced) <= ON_THE_HOST


# The losses, and whether the gradient is finite.
WAITS_OF_A_STEP = {"tolist in training/optimizer.py:Optimizer.step"}


def test_a_step_waits_for_nothing_else() -> None:
    run = steps()
    with watch_operations() as watched:
        run()
    assert set(watched.synchronisations) <= WAITS_OF_A_STEP
    assert len(watched.synchronisations) <= 1


def test_a_step_launches_no_more_than_it_did() -> None:
    run = steps()
    with watch_operations() as watched:
        run()
    # 332 when this was written.
    assert watched.launches <= 340, watched.operations


def test_a_validation_loss_waits_once() -> None:
    run = validation()
    with watch_operations() as watched:
        run()
    waits = ["_local_scalar_dense in evaluation/scoring.py:mean_loss"]
    assert watched.synchronisations == waits


# --- the stand-in ---------------------------------------------------------------------------------


def forward_and_backward(settings: Config, device: torch.device) -> Callable[[], Transformer]:
    model = model_of(settings).to(device)
    gradients = GradientAccumulator(model, settings.training, torch.float32, 1, SINGLE_PROCESS)
    on_device = to_gpu(batch())

    def run() -> Transformer:
        gradients.accumulate(1, [on_device], on_device.tgt_tokens)
        return model

    return run


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("model", "training"),
    [
        ({}, {}),
        ({"norm": "post", "tying": "none", "positions": "learned", "max_positions": 300}, {}),
        ({"activation": "swiglu", "activation_dropout": 0.1}, {"rdrop_alpha": 1.0}),
    ],
)
def test_gradients_are_computed_where_the_model_is(
    model: dict[str, Any], training: dict[str, Any], gpu: torch.device
) -> None:
    trained = forward_and_backward(config(model, **training), gpu)()
    assert {each.grad.device for each in trained.parameters() if each.grad is not None} == {gpu}


def test_forward_and_backward_launch_no_more_than_they_did(gpu: torch.device) -> None:
    run = forward_and_backward(config(), gpu)
    with watch_operations() as watched:
        run()
    assert watched.synchronisations == []
    assert watched.unplaced == []
    # 275 when this was written. The stand-in's attention is not fused, as a GPU's is.
    assert watched.launches <= 280, watched.operations


def test_a_table_grows_where_it_is(gpu: torch.device) -> None:
    model = model_of(config()).to(gpu).eval()
    src = torch.full((2, 300), 5, device=gpu)
    with torch.inference_mode():
        assert model(src, src).device == gpu


def test_a_loss_is_summed_where_the_model_is(gpu: torch.device) -> None:
    model = model_of(config()).to(gpu).eval()
    with torch.inference_mode():
        found = scoring._sum_nll(model, to_gpu(batch()), torch.float32)
    assert (found.device, found.dtype) == (gpu, torch.float64)


def test_sums_are_of_no_dtype_that_mps_has_not(
    gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(device._SUM_DTYPES, "meta", device._SUM_DTYPES["mps"])
    model = model_of(config()).to(gpu).eval()
    with torch.inference_mode():
        found = scoring._sum_nll(model, to_gpu(batch()), torch.float32)
    assert found.dtype == sum_dtype(gpu) == torch.float32


@pytest.mark.long
@pytest.mark.parametrize("beam_size", [1, 3])
def test_decoding_steps_stay_where_the_model_is(beam_size: int, gpu: torch.device) -> None:
    model = model_of(config()).to(gpu).eval()
    tokens = torch.full((len(TEXT), 1), 5, device=gpu)
    with torch.inference_mode():
        state = model.init_state(to_gpu(batch()).src, beam_size)
        for _ in range(20):  # more than the caches hold at first
            model.logits(model.step(tokens, state))
            tokens = tokens[:, :1].expand(-1, beam_size)
            state.reorder(torch.zeros_like(tokens))
        state.select(torch.arange(2, device=gpu))
        assert model.step(tokens[:2], state).device == gpu


def test_the_stand_in_refuses_two_devices(gpu: torch.device) -> None:
    on_gpu, on_cpu = torch.ones(2, 2, device=gpu), torch.ones(2, 2)
    on_gpu.copy_(on_cpu)
    with pytest.raises(AssertionError, match=r"aten\.mm\.default on tensors of"):
        on_gpu @ on_cpu
    with pytest.raises(AssertionError, match="index"):
        on_gpu[torch.arange(2)]
