"""The page about a run: scores, curves, example translations and attention."""

import base64
import random
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from torch import Tensor

from transformer_cli.base.errors import CorpusError, InputError
from transformer_cli.base.messages import log, show_progress, warn
from transformer_cli.base.metrics import METRICS
from transformer_cli.cli import options
from transformer_cli.cli.display import scoring_bar
from transformer_cli.config import setting_tree as tree
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.kinds import open_training_text
from transformer_cli.data.token_arrays import encode_text
from transformer_cli.evaluation.best_checkpoint import metrics_of_runs
from transformer_cli.evaluation.scoring import evaluate, load_split
from transformer_cli.extensions.config_tools.origins import Origins, load_origins
from transformer_cli.extensions.report import charts
from transformer_cli.extensions.report.attention_maps import AttentionMaps, compute_attention_maps
from transformer_cli.extensions.report.command_attention import check_sentence
from transformer_cli.extensions.report.examples import SEED, choose_examples
from transformer_cli.extensions.report.rendering import plotly_script, render_page
from transformer_cli.inference.loading import ComputeOptions, load_scorer
from transformer_cli.inference.torch_engine import TorchTranslator
from transformer_cli.inference.translation import Watcher
from transformer_cli.model.transformer import count_parameters
from transformer_cli.runs import metrics_log
from transformer_cli.runs.checkpoint import Checkpoint, find_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, SPECIALS, UNK_ID

ATTENTION_SENTENCES = 5  # sentences of the split whose attention is shown
ATTENTION_STEPS = 255  # attention weights from 0 to 1 are rounded to so many steps, a byte each
_FITTING_TOKENS = range(4, 31)  # sentences of this length fit a screen
_MAX_TOKENS = 200  # the size of the page grows with their square


def render_run(
    run: RunDirectory,
    split: str | None,
    checkpoint: str,
    compute: ComputeOptions,
    sentences: Sequence[str],
) -> str:
    """Return the page about a run that translates a split, with the attention of sentences."""
    for sentence in sentences:
        check_sentence(sentence, "--sentence")
    plotly = plotly_script()  # before long work
    advice = f"score it on yours with: transformer-cli evaluate {run.path} --src FILE --ref FILE"
    split, text = load_split(run, split, advice)
    # The same checkpoint throughout, even if a training replaces the best one meanwhile.
    weights = find_checkpoint(run.checkpoints, checkpoint)
    translator, searcher = load_scorer(run, str(weights), compute)
    config, tokenizers = translator.config, translator.tokenizers
    step = Checkpoint.open(weights, fingerprint(run.tokenizer)).load_state().step
    metrics = metrics_of_runs(run.load_config(), [run], log)
    with options.prefix_errors("--sentence: "):
        attention = [pack_sentence(translator, sentence) for sentence in sentences]
    with scoring_bar(len(text), split) as translated:
        encoded = encode_text(text, tokenizers)
        result = evaluate(
            translator,
            text,
            Watcher(translated, on_long_line=partial(warn, split)),
            thorough=True,
            searcher=searcher,
            metrics=metrics,
        )
        rarity = _score_by_rarity(run, config, result.hypotheses, text.tgt)
    source_lengths = encoded.src.lengths.tolist()
    attention += _attend(translator, text, source_lengths)
    records = metrics_log.read_records(run.metrics)
    validated = metrics_log.validations(records)
    trained = charts.read_trained(run)
    lengths = charts.score_by_length(source_lengths, result.hypotheses, text.tgt, metrics)
    drawn = [
        *charts.make_training_charts(records, step),
        *charts.make_length_chart(trained, (config.data.src_lang, config.data.tgt_lang)),
        *charts.make_breakdown_charts(lengths, rarity),
    ]
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
        perplexity=metrics_log.perplexity(result.loss),
        lengths=lengths,
        rarity=rarity,
        examples=choose_examples(text, result.hypotheses),
        trained=trained,
        unknown=[  # shares of tokens
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
        settings=chosen_settings(config, load_origins(run.path)),
        trained_with=metrics_log.environment_of_training(records, step),
        config=dump_config(config),
    )


def _score_by_rarity(
    run: RunDirectory, config: Config, hypotheses: Sequence[str], references: Sequence[str]
) -> list[charts.RarityBucket] | None:
    """Return the recall of rare words; None: the run was moved here without its text."""
    try:
        pairs = open_training_text(config.data, run.text_place).pairs()
        seen = charts.count_words(
            show_progress((tgt for _, tgt in pairs), "counting words"), references
        )
    except CorpusError:
        return None
    return charts.score_by_rarity(seen, hypotheses, references)


def _attend(
    translator: TorchTranslator, text: ParallelText, lengths: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the attention of random sentences, if possible of those that fit a screen."""
    # Longer ones are translated in parts; a tag takes a token.
    most = min(_MAX_TOKENS, translator.longest_source - 1)
    whole = [number for number, length in enumerate(lengths) if 0 < length <= most]
    fit = [number for number in whole if lengths[number] in _FITTING_TOKENS] or whole
    maps = []
    for number in sorted(random.Random(SEED).sample(fit, min(ATTENTION_SENTENCES, len(fit)))):
        tag, line = text.tags[number] if text.tags else None, text.src[number]
        maps.append(pack_attention(line, compute_attention_maps(translator, line, tag=tag)))
    return maps


def pack_sentence(translator: TorchTranslator, sentence: str) -> dict[str, Any]:
    """Return a sentence's attention by ``pack_attention``; raise InputError if it is too long."""
    tokens = len(translator.tokenizers.encode_source(sentence).ids)
    if tokens > _MAX_TOKENS:
        raise InputError(
            f"has {tokens:,} tokens, and at most {_MAX_TOKENS} can be shown; give a shorter one"
        )
    return pack_attention(sentence, compute_attention_maps(translator, sentence))


def pack_attention(title: str, maps: AttentionMaps) -> dict[str, Any]:
    """Return the weights of one sentence as JSON values."""
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
    """Return the weights with which queries attend to keys.

    They are in base64, a byte each, ordered by layer, head and query.
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


# --- settings -------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """A setting that is not as it would be if nobody had said anything."""

    key: str
    value: object
    instead_of: object  # its value in the base, or else by default
    required: bool  # there is neither
    origin: str | None  # where it was written; None: that is not known
    base: str | None  # where the other value was; None also for a default


def chosen_settings(config: Config, origins: Origins) -> list[Setting]:
    """Return the settings that differ from a base or from the default, in the schema's order."""
    chosen = []
    for keys, value in tree.iter_leaves(config.model_dump(mode="json")):
        key, default = tree.join_keys(keys), _default(config, keys)
        origin, *earlier = origins.get(key, ()) or (None,)
        # A file may say again what its base says.
        base = next((one for one in earlier if one and one.value != value), None)
        required = default is PydanticUndefined and base is None
        instead_of = base.value if base else None if required else default
        if required or value != instead_of:
            where = (str(origin) if origin else None, str(base) if base else None)
            chosen.append(Setting(key, value, instead_of, required, *where))
    return chosen


def _default(section: object, keys: tree.Keys) -> object:
    """Return a setting's default as YAML has it; PydanticUndefined if it has none."""
    default: object = None
    for key in keys:
        if isinstance(section, BaseModel):
            if isinstance(default, type(section)):
                default = getattr(default, str(key))
            else:
                field = type(section).model_fields[str(key)]
                default = field.get_default(call_default_factory=True)
            section = getattr(section, str(key))
        elif isinstance(section, dict):
            section = section[key]
    return list(default) if isinstance(default, tuple) else default
