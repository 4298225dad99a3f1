"""The model card (README.md) of an exported model, for readers and the Hugging Face Hub."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from transformer_cli.base.files import read_small
from transformer_cli.base.packages import __version__
from transformer_cli.base.text_files import write_text
from transformer_cli.config.choices import DEFAULT_TOKENIZER, METRICS
from transformer_cli.config.data_schema import DataSection, FilePair, FilesData, ToyData
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import iter_leaves, join_keys
from transformer_cli.evaluation.best_checkpoint import read_validated_by
from transformer_cli.evaluation.scores import USUAL, Metrics, measure
from transformer_cli.extensions.corpora.settings import CorpusData, SourceConfig, added_sources
from transformer_cli.extensions.exchange.hub_model import CARD
from transformer_cli.extensions.exchange.imported import ImportedData, find_import_source
from transformer_cli.model.transformer import count_parameters
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.metrics_log import read_records
from transformer_cli.runs.trained_model import TrainedModel

_TEMPLATES = Path(__file__).with_name("template")
Library = Literal["transformer-cli", "transformers", "ctranslate2"]  # the Hub's ``library_name``


@dataclass(frozen=True)
class ValidationScore:
    """The scores that training recorded for one validation, and how they were measured."""

    step: int
    scores: Mapping[str, float]  # by the metric's name
    metrics: Metrics = USUAL


def read_template(name: str) -> str:
    """Return a file of the folder ``template``: Markdown with fields for ``str.format``."""
    return read_small(_TEMPLATES / name).decode()


def write_card(
    run: RunDirectory,
    trained: TrainedModel,
    directory: Path,
    library: Library,
    use: str,
    **named: object,
) -> None:
    """Write the model card of an exported model into a directory; see ``model_card``.

    ``use`` is a format string with the fields ``name``, ``src``, ``tgt`` and the keys of ``named``.
    """
    config, name = trained.config, run.path.resolve().name
    src, tgt = trained.tokenizers.src.size, trained.tokenizers.tgt.size
    card = model_card(
        name,
        config,
        count_parameters(trained.model),
        [src] if config.tokenizer.one_vocabulary else [src, tgt],
        _score(run, trained),
        library,
        use.format(name=name, src=config.data.src_lang, tgt=config.data.tgt_lang, **named),
        find_import_source(run.path),
    )
    write_text(directory / CARD, card)


def _score(run: RunDirectory, trained: TrainedModel) -> ValidationScore | None:
    """Return the validation scores of the trained weights, or None if they were not validated."""
    begun = read_validated_by(run)
    for record in reversed(read_records(run.metrics)):
        is_of_these = trained.checkpoint.name == f"step-{record['step']:08d}"
        if begun and is_of_these and record["kind"] == "validation":
            scores = {
                name: value
                for name in Metrics().by_name()
                if isinstance(value := record.get(name), float) and math.isfinite(value)
            }
            if "bleu" in scores:
                return ValidationScore(record["step"], scores, Metrics(begun.tokenize))
    return None


def model_card(
    name: str,
    config: Config,
    parameters: int,
    sizes: Sequence[int],
    score: ValidationScore | None,
    library: Library,
    use: str,
    imported_from: str | None = None,
) -> str:
    """Return the text of README.md: YAML front matter, then Markdown.

    ``sizes`` are the vocabulary sizes; just one if the vocabulary is joint. ``use`` is Markdown.
    ``imported_from`` names the model from which this one, or the run in ``init``, was imported.
    """
    src, tgt = config.data.src_lang, config.data.tgt_lang
    corpus, licence = _corpus(config, imported_from)
    entries = f"{sizes[0]:,} entries for both languages"
    if len(sizes) == 2:
        entries = f"{sizes[0]:,} entries for {src}, {sizes[1]:,} for {tgt}"
    return read_template("card.md").format(
        front=_front_matter(config, library),
        name=_quote(name),
        src=src,
        tgt=tgt,
        parameters=parameters,
        made="imported by" if isinstance(config.data, ImportedData) else "trained with",
        version=__version__,
        use=use,
        scores=_scores(score, config.tokenizer.lowercase),
        corpus=corpus,
        entries=entries,
        tokenizer=config.tokenizer.kind,
        settings=_settings(config),
        licence=licence,
    )


def _front_matter(config: Config, library: Library) -> str:
    sides = (config.data.src_lang, config.data.tgt_lang)
    languages = [language for language in sides if language != "xx"]
    front: dict[str, Any] = {"language": languages} if languages else {}
    front |= {
        "library_name": library,
        "pipeline_tag": "translation",
        "tags": ["translation", "transformer-cli"],
    }
    if config.data.kind == "multi30k":
        front["datasets"] = ["multi30k"]
    return yaml.safe_dump(front, sort_keys=False, allow_unicode=True).rstrip()


def _corpus(config: Config, imported_from: str | None) -> tuple[str, str]:
    """Return a description of the training text, and a note on its licence."""
    data = config.data
    origin = imported_from and _quote(imported_from)
    licence = "Respect the licence of the text that it was trained on."
    match data:
        case DataSection(kind="multi30k"):
            text = "Multi30k, task 1: 29,000 image captions (Elliott et al. 2016)."
            licence = (
                "Multi30k is for non-commercial research and education, as its repository\n"
                "says; your choice must respect that."
            )
        case ToyData():
            text = "The toy captions of transformer-cli, made by a grammar: for trying things out."
            licence = "The training text is part of transformer-cli, under the MIT licence."
        case ImportedData():
            name = origin or "a model that was made elsewhere"
            text = f"Imported from {name}: describe its training text here."
            licence = "Respect the licence of the model that it was imported from."
        case FilesData(train=FilePair(src=src, tgt=tgt)):
            text = f"The lines of {_quote(src.name)} and {_quote(tgt.name)}: describe them here."
        case CorpusData():
            text = f"Pairs of {_list_sources(data.sources, '; ')}: describe them here."
            licence = "Respect the licences of the text that it was trained on."
        case _:
            text = f"Text of the kind {_code(data.kind)}: describe it here."
    if added := added_sources(data):
        text += f"\nTraining text was added to it: {_list_sources(added.values(), ', ')}."
    if config.init is not None:
        text += f"\nTraining began from the weights of another run, {_quote(config.init.name)}"
        text += f", imported from {origin}." if origin else "."
        licence += "\nRespect the licence of the imported model, too." if origin else ""
    return text + "\n", licence


def _list_sources(sources: Iterable[SourceConfig], separator: str) -> str:
    return separator.join(_quote(source.description) for source in sources)


def _scores(score: ValidationScore | None, lowercase: bool) -> str:
    if score is None:
        return "Not measured yet: see `transformer-cli evaluate`.\n"
    note = "\nThe model writes lower case, so cased BLEU is low.\n" if lowercase else ""
    # Use a list, because signatures contain bars, which would end a table's cells.
    listed = "".join(
        f"- {METRICS[name].label} {score.scores[name]:.2f} (`{signature}`)\n"
        for name, signature in describe_signatures(score.metrics).items()
        if name in score.scores
    )
    return (
        f"On the validation split, measured by sacreBLEU during training, at step "
        f"{score.step:,}:\n\n{listed}{note}"
    )


def _settings(config: Config) -> str:
    """Return a Markdown table of the settings that differ from the defaults."""
    left_out: Any = {"data": True, "init": True, "tokenizer": {"kind"}}
    changed = config.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
    leaves = iter_leaves(changed) if changed else ()
    rows = [f"| `{join_keys(keys)}` | {_cell(value)} |" for keys, value in leaves]
    return "\n".join(["| setting | value |", "|---|---|", *rows]) + "\n"


def _quote(name: str) -> str:
    """Return Markdown that shows a name as it is; the name may contain any characters."""
    return name if re.fullmatch(r"[\w .,+-]+", name) else _code(name)


def _code(text: str) -> str:
    """Return Markdown that shows text as code on one line."""
    text = text.replace("`", "'")
    return f"`{''.join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)}`"


def _cell(value: object) -> str:
    if isinstance(value, str) and Path(value).is_absolute():
        value = Path(value).name  # absolute paths are private
    return _code(json.dumps(value, ensure_ascii=False)).replace("|", r"\|")


def describe_signatures(metrics: Metrics) -> dict[str, str]:
    """Return sacreBLEU's signatures, keyed by metric, even if its tokenizer is not installed."""
    try:
        by_name, shown = metrics.by_name(), metrics.tokenize
    except RuntimeError:  # sacreBLEU lacks a package
        shown = DEFAULT_TOKENIZER
        by_name = replace(metrics, tokenize=shown).by_name()
    # A metric has no signature before its first score.
    return {
        name: measure(metric, ["."], ["."], resample=False).signature.replace(
            f"|tok:{shown}|", f"|tok:{metrics.tokenize}|"
        )
        for name, metric in by_name.items()
    }
