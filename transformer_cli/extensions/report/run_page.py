"""The HTML page about a run: scores, curves, example translations and attention."""

import base64
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer_cli.base.errors import InputError, UsageError
from transformer_cli.base.messages import bar, log, warn
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions
from transformer_cli.cli.evaluate import EvaluateExtra, ScoredText
from transformer_cli.config.choices import METRICS
from transformer_cli.config.yaml import dump_config
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.store import encode_pairs, open_store, read_stats
from transformer_cli.evaluation.best_checkpoint import metrics_of_runs
from transformer_cli.evaluation.scoring import TorchTranslator, evaluate, load_split
from transformer_cli.extensions.report import charts
from transformer_cli.extensions.report.examples import SEED, choose_examples
from transformer_cli.extensions.report.rendering import plotly_script, render_page
from transformer_cli.inference.loading import ComputeOptions, load_scorer
from transformer_cli.inference.translator import Watcher
from transformer_cli.model.linear import autocast
from transformer_cli.model.transformer import count_parameters, record_attention
from transformer_cli.runs import metrics_log
from transformer_cli.runs.checkpoint import Checkpoint, find_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import BOS_ID, EOS_ID, SPECIALS, UNK_ID
from transformer_cli.text.tokenizer import fingerprint

ATTENTION_SENTENCES = 5  # sentences of the split whose attention is shown
ATTENTION_STEPS = 255  # weights from 0 to 1 are rounded to this many steps, one byte each
_FITTING_TOKENS = range(4, 31)  # sentences of this length fit a screen
_MAX_TOKENS = 200  # the size of the page grows with their square


def render_run(
    run: RunDirectory,
    split: str | None,
    checkpoint: str,
    compute: ComputeOptions,
    *,
    sentences: Sequence[str],
    given: CommandOptions,
) -> str:
    """Return the HTML page about a run, with a split's scores, and attention of ``sentences``.

    The notes of ``EvaluateExtra`` options in ``given`` go below the scores.
    """
    for sentence in sentences:
        # Python decodes each byte that is not valid UTF-8 as half a surrogate pair.
        is_utf8 = not any("\ud800" <= character <= "\udfff" for character in sentence)
        if not sentence.strip() or "\n" in sentence.strip() or not is_utf8:
            raise UsageError(f"--sentence {sentence!r}: expected one line of UTF-8 text")
    plotly = plotly_script()  # fail before the long work
    advice = f"score it on your text: transformer-cli evaluate {run.path} --src FILE --ref FILE"
    split, text = load_split(run, split, advice)
    # Use the same checkpoint throughout, even if training replaces the best one meanwhile.
    weights = find_checkpoint(run.checkpoints, checkpoint)
    translator, searcher = load_scorer(run, str(weights), compute)
    config, tokenizers = translator.config, translator.tokenizers
    learned = fingerprint(run.tokenizer)
    step = Checkpoint.open(weights, learned).load_state().step
    metrics = metrics_of_runs(run.load_config(), [run], log)
    with options.prefix_errors("--sentence: "):
        attention = [pack_sentence(translator, sentence) for sentence in sentences]
    scored = ScoredText(split, text, [run], metrics, searcher or translator)
    extras = (each for each in given.extras if isinstance(each, EvaluateExtra))
    notes = [*filter(None, (each.notes(given, scored) for each in extras))]
    with bar(len(text), split, " sentences") as shown:
        encoded = encode_pairs(text.pairs(), tokenizers)
        result = evaluate(
            translator,
            text,
            Watcher(shown.update, on_long_line=partial(warn, split)),
            thorough=True,
            searcher=searcher,
            metrics=metrics,
            notes=notes,
        )
    source_lengths = encoded.src.lengths.tolist()
    attention += _attend(translator, text, source_lengths)
    stats = read_stats(run.encoded)  # of the training text
    records = metrics_log.read_records(run.metrics)
    validated = charts.validations(records)
    lengths = charts.score_by_length(source_lengths, result.hypotheses, text.tgt, metrics)
    drawn = charts.make_training_charts(records, step)
    page_data = {
        "charts": [chart.as_json() for chart in drawn],
        "attention": attention,
        "subwords": not tokenizers.tgt.is_word_level,
        "marks": {SPECIALS[BOS_ID]: "start", SPECIALS[EOS_ID]: "end"},
    }
    return render_page(
        "page",
        plotly,
        page_data,
        run_name=run.path.absolute().name,
        checkpoint=checkpoint,
        step=step,
        split=split,
        text=text,
        data=config.data,
        tokenizers=tokenizers,
        decoding=translator.decoding,
        scores=result.scores,
        rows=[*chain.from_iterable(each.rows() for each in notes)],
        remarks=[*chain.from_iterable(each.remarks() for each in notes)],
        perplexity=metrics_log.perplexity(result.loss),
        lengths=lengths,
        examples=choose_examples(text, result.hypotheses),
        trained=None if stats is None else open_store(run.encoded, stats.text_sha256, learned),
        unknown=[  # shares of the tokens
            float((side.ids == UNK_ID).mean()) if len(side.ids) else 0.0
            for side in (encoded.src, encoded.tgt)
        ],
        attention=attention,
        metrics=METRICS,
        charts={chart.name: chart for chart in drawn},
        parameters=count_parameters(translator.engine.model),
        validations=validated,
        validated_metrics=charts.measured_metrics(validated),
        label_smoothing=config.training.label_smoothing,
        config=dump_config(config),
    )


# --- attention ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of one line and its translation, in float32 on the CPU.

    In ``decoder`` and ``cross``, row i is the step that wrote ``tgt_tokens[i]``. The weights in
    each row sum to 1, apart from rounding.

    Attributes:
        src_tokens: the source tokens in readable form; the last one is EOS.
        tgt_tokens: the target tokens, likewise.
        encoder: self-attention of the source.
        decoder: self-attention of the target: column j is the input of step j, which is
            ``tgt_tokens[j - 1]`` or, for j = 0, BOS.
        cross: attention of the target to the source.
    """

    src_tokens: list[str]
    tgt_tokens: list[str]
    encoder: Float[Tensor, "layer head src src"]
    decoder: Float[Tensor, "layer head tgt tgt"]
    cross: Float[Tensor, "layer head tgt src"]


@torch.inference_mode()
def compute_attention_maps(translator: TorchTranslator, line: str) -> AttentionMaps:
    """Translate a line; return the attention weights of one pass over it and its translation.

    A line without words is encoded as EOS alone.

    Raises:
        InputError: the line is too long to translate without splitting it.
    """
    tokenizers = translator.tokenizers
    encoded = translator.encode_line(line)
    source = [number for piece in encoded.pieces for number in piece[:-1]]
    if len(encoded.pieces) > 1:
        raise InputError(
            f"the line has {len(source):,} tokens, but at most {translator.longest_source:,} fit "
            "into one pass; give a shorter part of it"
        )
    longest = translator.longest_source  # leaves a position for EOS
    shorter = translator.with_search(max_length=min(longest, translator.max_length or longest))
    ((best, *_),) = shorter.translate_encoded([encoded], None)
    translation = [number for piece in best.pieces for number in piece.ids]
    model, device = translator.engine.model, translator.engine.device
    src = torch.tensor([[*source, EOS_ID]], device=device)
    tgt_in = torch.tensor([[BOS_ID, *translation]], device=device)
    with autocast(device, translator.engine.precision), record_attention(model) as recorded:
        model.hidden_states(src, tgt_in)

    def stack_layers(stack: str, kind: str, layers: int) -> Tensor:
        weights = [recorded[f"{stack}.{layer}.{kind}"][0][0] for layer in range(layers)]
        return torch.stack(weights).float().cpu()

    shown = []
    for tokenizer, ids in ((tokenizers.src, source), (tokenizers.tgt, translation)):
        numbers = [*ids, EOS_ID]
        tokens = tokenizer.filled_tokens(numbers, encoded.source.values)
        shown.append(
            [token or tokenizer.token(n) for token, n in zip(tokens, numbers, strict=True)]
        )
    return AttentionMaps(
        *(shown[0], shown[1]),
        stack_layers("encoder", "self_attention", len(model.encoder)),
        stack_layers("decoder", "self_attention", len(model.decoder)),
        stack_layers("decoder", "cross_attention", len(model.decoder)),
    )


def _attend(
    translator: TorchTranslator, text: ParallelText, lengths: Sequence[int]
) -> list[dict[str, Any]]:
    """Return random sentences' attention as JSON values; prefer sentences that fit on a screen."""
    # Longer sentences are translated in parts; a tag takes a token.
    most = min(_MAX_TOKENS, translator.longest_source - 1)
    whole = [number for number, length in enumerate(lengths) if 0 < length <= most]
    fit = [number for number in whole if lengths[number] in _FITTING_TOKENS] or whole
    maps = []
    for number in sorted(random.Random(SEED).sample(fit, min(ATTENTION_SENTENCES, len(fit)))):
        line = text.src[number]
        maps.append(pack_attention(line, compute_attention_maps(translator, line)))
    return maps


def pack_sentence(translator: TorchTranslator, sentence: str) -> dict[str, Any]:
    """Return the attention of a sentence as JSON values; raise InputError if it is too long."""
    tokens = len(translator.tokenizers.encode_source(sentence).ids)
    if tokens > _MAX_TOKENS:
        raise InputError(
            f"has {tokens:,} tokens, but at most {_MAX_TOKENS} can be shown; give a shorter one"
        )
    return pack_attention(sentence, compute_attention_maps(translator, sentence))


def pack_attention(title: str, maps: AttentionMaps) -> dict[str, Any]:
    """Return the attention weights of one sentence as JSON values."""
    src, tgt = maps.src_tokens, maps.tgt_tokens
    # Each step of the decoder reads the word before the one that it writes.
    put_in = [SPECIALS[BOS_ID], *tgt[:-1]]
    kinds = {
        "cross": _pack(tgt, src, maps.cross),
        "encoder": _pack(src, src, maps.encoder),
        "decoder": _pack(tgt, put_in, maps.decoder),
    }
    return {"title": title, "kinds": kinds}


def _pack(queries: Sequence[str], keys: Sequence[str], weights: Tensor) -> dict[str, Any]:
    """Return the weights of ``queries`` over ``keys`` as JSON values, packed into base64.

    Each weight is one byte; the order of the axes is layer, head, query, key.
    """
    layers, heads, rows, columns = weights.shape
    assert (rows, columns) == (len(queries), len(keys))
    steps = np.rint(weights.numpy() * ATTENTION_STEPS).clip(0, ATTENTION_STEPS).astype(np.uint8)
    return {
        "queries": list(queries),
        "keys": list(keys),
        "layers": layers,
        "heads": heads,
        "weights": base64.b64encode(steps.tobytes()).decode("ascii"),
    }
