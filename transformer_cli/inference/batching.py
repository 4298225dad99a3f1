"""Searching many sentences, in batches of like length and on all cores."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from transformer_cli.data.batches import cut_by_tokens, pad_rows
from transformer_cli.inference.search import NOT_FORCED, Hypothesis, SearchOptions, search
from transformer_cli.inference.workers import map_on_cores
from transformer_cli.model.device import autocast
from transformer_cli.model.linear import pack_weights
from transformer_cli.model.transformer import Transformer


def search_batches(
    model: Transformer,
    sources: Sequence[list[int]],
    prefixes: Sequence[list[int]],
    max_lengths: Sequence[int],
    options: SearchOptions,
    batch_tokens: int,
    precision: torch.dtype,
    progress: Callable[[int], object],
    give_up: Callable[[], bool],
) -> list[list[Hypothesis]]:
    """What ``search`` finds for each source, whatever else is in its batch.

    Args:
        model: in evaluation mode.
        sources: token ids, each with its end mark, or empty: then nothing is found.
        prefixes: what each one's outputs begin with.
        max_lengths: most tokens of each one's output.
        options: kind of search.
        batch_tokens: source tokens in a batch, times the beam.
        precision: type of the matrix products.
        progress: told how many sentences were finished each time some are.
        give_up: asked before each batch; once it is true, nothing is found for what is left.
    """
    outputs: list[list[Hypothesis]] = [[] for _ in sources]
    lengths = np.array([len(ids) for ids in sources])
    # Longest first: what does not fit into memory fails at once. Empty ones are left out.
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    device = next(model.parameters()).device
    # Each hypothesis of a beam takes as much memory as a sentence.
    batches = list(cut_by_tokens(order, lengths, batch_tokens // options.beam_size))

    def search_batch(batch: np.ndarray) -> list[list[Hypothesis]]:
        if give_up():
            return [[] for _ in batch]
        with autocast(device, precision):
            return search(
                model,
                pad_rows([sources[index] for index in batch]).to(device),
                torch.tensor([max_lengths[index] for index in batch], device=device),
                options,
                _padded([prefixes[index] for index in batch], device),
            )

    with autocast(device, precision), pack_weights(model):
        for batch, found in zip(batches, map_on_cores(search_batch, batches, device), strict=True):
            for index, hypotheses in zip(batch, found, strict=True):
                outputs[index] = hypotheses
            progress(len(batch))
    return outputs


def _padded(prefixes: list[list[int]], device: torch.device) -> Tensor | None:
    longest = max(map(len, prefixes))
    if not longest:
        return None
    rows = [ids + [NOT_FORCED] * (longest - len(ids)) for ids in prefixes]
    return torch.tensor(rows, device=device)
