"""The page about a run: scores, curves, example translations and attention."""

import base64
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from torch import Tensor

from transformer_cli.base.errors import CorpusError, InputError
from transformer_cli.base.metrics import METRICS, USUAL, Metrics
from transformer_cli.config import setting_tree as tree
from transformer_cli.config.origins import Origins, load_origins
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.kinds import open_training_text
from transformer_cli.data.token_arrays import encode_text
from transformer_cli.evaluation.scoring import evaluate
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine
from transformer_cli.extensions.report import charts
from transformer_cli.extensions.report.attention_maps import AttentionMaps, compute_attention_maps
from transformer_cli.extensions.report.examples import SEED, choose_examples
from transformer_cli.extensions.report.rendering import render_page
from transformer_cli.inference.torch_engine import TorchTranslator
from transformer_cli.inference.translator import LongLine, TextTranslator, ignore
from transformer_cli.model.transformer import count_parameters
from transformer_cli.runs import metrics_log
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import corpus_directory
from transformer_cli.text.protocol import ProgressBar
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, SPECIALS, UNK_ID

ATTENTION_SENTENCES = 5  # sentences of the split whose attention is shown
ATTENTION_STEPS = 255  # attention weights from 0 to 1 are rounded to so many steps, a byte each
_FITTING_TOKENS = range(4, 31)  # sentences of this length fit a screen
_MAX_TOKENS = 200  # the size of the page grows with their square


@dataclass(frozen=True)
class Subject:
    """A trained run, and the text that it is judged by."""

    name: str
    run: RunDirectory
    translator: TorchTranslator
    checkpoint: str  # its name in the command, such as 'best'
    step: int
    split: str
    text: ParallelText
    searcher: TextTranslator[CTranslate2Engine] | None = None  # translates the text if it is faster
    metrics: Metrics = USUAL


def make_run_page(
    subject: Subject,
    attention: Sequence[dict[str, Any]],
    plotly: str,
    progress: ProgressBar,
    translated: Callable[[int], object] = ignore,
    on_long_line: Callable[[LongLine], object] = ignore,
) -> str:
    """Translate the split, score it, and return the page, with plotly.js in it.

    ``attention`` has results of ``pack_sentence`` for further sentences. ``progress`` wraps passes
    over lines, with a label, like tqdm; ``translated`` gets the number of sentences just done.
    """
    translator, text = subject.translator, subject.text
    encoded = encode_text(text, translator.tokenizers, progress)
    result = evaluate(
        translator,
        text,
        translated,
        on_long_line=on_long_line,
        thorough=True,
        searcher=subject.searcher,
        metrics=subject.metrics,
    )
    hypotheses, lengths = result.hypotheses, encoded.src.lengths.tolist()
    values: dict[str, Any] = {
        "decoding": translator.decoding,
        "scores": result.scores,
        "perplexity": metrics_log.perplexity(result.loss),
        "lengths": charts.score_by_length(lengths, hypotheses, text.tgt, subject.metrics),
        "rarity": _score_by_rarity(subject, hypotheses, progress),
        "examples": choose_examples(text, hypotheses),
        "trained": charts.read_trained(subject.run),
        "unknown": [  # shares of tokens
            float((side.ids == UNK_ID).mean()) if len(side.ids) else 0.0
            for side in (encoded.src, encoded.tgt)
        ],
        "attention": [*attention, *_attend(subject, lengths)],
    }
    return _render(subject, values, plotly)


def _render(subject: Subject, values: dict[str, Any], plotly: str) -> str:
    """Return the page about a run, with ``values`` from its translations."""
    run, config = subject.run, subject.translator.config
    records = metrics_log.read_records(run.metrics)
    validated = metrics_log.validations(records)
    drawn = [
        *charts.make_training_charts(records, subject.step),
        *charts.make_length_chart(values["trained"], (config.data.src_lang, config.data.tgt_lang)),
        *charts.make_breakdown_charts(values["lengths"], values["rarity"]),
    ]
    page_data = {
        "charts": [chart.as_json() for chart in drawn],
        "attention": values["attention"],
        "subwords": not subject.translator.tokenizers.tgt.is_word_level,
        "marks": {SPECIALS[BOS_ID]: "start", SPECIALS[EOS_ID]: "end"},
    }
    return render_page(
        "page",
        plotly,
        page_data,
        subject=subject,
        data=config.data,
        tokenizers=subject.translator.tokenizers,
        metrics=METRICS,
        charts={chart.name: chart for chart in drawn},
        parameters=count_parameters(subject.translator.engine.model),
        validations=validated,
        validated_metrics=charts.measured_metrics(validated),
        label_smoothing=config.training.label_smoothing,
        settings=chosen_settings(config, load_origins(run.origins)),
        trained_with=metrics_log.environment_of_training(records, subject.step),
        config=dump_config(config),
        **values,
    )


def _score_by_rarity(
    subject: Subject, hypotheses: Sequence[str], progress: ProgressBar
) -> list[charts.RarityBucket] | None:
    """Return the recall of rare words; None: the run was moved here without its text."""
    references = subject.text.tgt
    try:
        earlier = corpus_directory(subject.run)
        pairs = open_training_text(subject.translator.config.data, earlier).pairs()
        targets = progress((tgt for _, tgt in pairs), "counting words")
        seen = charts.count_words(targets, references)
    except CorpusError:
        return None
    return charts.score_by_rarity(seen, hypotheses, references)


def _attend(subject: Subject, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Return the attention of random sentences, if possible of those that fit a screen."""
    translator, text = subject.translator, subject.text
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
