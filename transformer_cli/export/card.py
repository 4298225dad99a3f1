"""The model card of a shared model, for readers and for the Hugging Face Hub."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from transformer_cli.config.data_schema import (
    CopyData,
    CorpusData,
    FilesData,
    ImportedData,
    Multi30kData,
    added_sources,
)
from transformer_cli.config.differences import differences
from transformer_cli.config.schema import Config
from transformer_cli.evaluation.metric_choice import read_validated_by
from transformer_cli.evaluation.scores import describe_signatures
from transformer_cli.files import write_text
from transformer_cli.metrics import METRICS, USUAL, Metrics
from transformer_cli.model.transformer import count_parameters
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.hub_model import CARD
from transformer_cli.runs.import_record import find_import_source
from transformer_cli.runs.records import read_records, validations
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.version import __version__

_CARD = """\
---
{front}
# license: left for you to choose; see "Licence" below.
---

# {name}: translation from {src} to {tgt}

An encoder-decoder Transformer of {parameters:,} parameters, {made}
transformer-cli {version}. It translates text from {src} to {tgt}, one sentence a line.

## Use

{use}
## Scores

{scores}
## Data

{corpus}
Vocabulary: {entries}, tokenizer `{tokenizer}`.

## Settings

Those that differ from transformer-cli's defaults.

{settings}
## Limits

It was trained on text of one kind and does worse on any other. Put one sentence on a line. Like any
such model it may leave out, invent or distort what the source says: have a person check what
matters.

## Licence

The licence of these weights is for whoever publishes them to choose: put it into the line `license`
at the top of this file. {licence}
"""

Library = Literal["transformer-cli", "transformers", "argostranslate"]
"""What reads the directory of a card; ``library_name`` on the Hub."""


@dataclass(frozen=True)
class ValidationScore:
    """Scores of a validation."""

    step: int
    scores: Mapping[str, float]
    """By the metric's name."""
    metrics: Metrics = USUAL


def write_card(
    run: RunDirectory, trained: TrainedModel, directory: Path, library: Library, use: str
) -> None:
    """Write the card of an exported model into ``directory``; see ``model_card``."""
    config = trained.config
    src, tgt = trained.tokenizers.src.size, trained.tokenizers.tgt.size
    is_imported = isinstance(config.data, ImportedData)
    first_run = run if is_imported or config.init is None else RunDirectory(config.init)
    card = model_card(
        run.path.resolve().name,
        config,
        count_parameters(trained.model),
        [src] if config.tokenizer.one_vocabulary else [src, tgt],
        _score(run, trained),
        library,
        use,
        find_import_source(first_run),
    )
    write_text(directory / CARD, card)


def _score(run: RunDirectory, trained: TrainedModel) -> ValidationScore | None:
    """Return the validation scores of these weights, if there are any."""
    begun = read_validated_by(run)
    for each in reversed(validations(read_records(run.metrics))):
        is_of_these = trained.checkpoint.name == f"step-{each['step']:08d}"
        scores = {name: each[name] for name in Metrics().by_name() if each[name] is not None}
        if begun and is_of_these and scores:
            return ValidationScore(each["step"], scores, Metrics(begun.tokenize))
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

    Args:
        name: of the model.
        config: the run's settings.
        parameters: number of weights.
        sizes: entries of the vocabularies, source and target; of a joint one, once.
        score: what was measured of these weights on the run's validation split, if anything.
        library: what reads the directory.
        use: how, as Markdown.
        imported_from: the model that this one, or the run in ``init``, was imported from.
    """
    src, tgt = config.data.src_lang, config.data.tgt_lang
    corpus, licence = _corpus(config, imported_from)
    front = yaml.safe_dump(
        _front_matter(name, config, score, library), sort_keys=False, allow_unicode=True
    ).rstrip()
    return _CARD.format(
        front=front,
        name=_quote(name),
        src=src,
        tgt=tgt,
        parameters=parameters,
        made="imported by" if isinstance(config.data, ImportedData) else "trained with",
        version=__version__,
        use=use,
        scores=_scores(score, config.tokenizer.lowercase),
        corpus=corpus,
        entries=_entries(sizes, src, tgt),
        tokenizer=config.tokenizer.kind,
        settings=_settings(config),
        licence=licence,
    )


def _front_matter(
    name: str, config: Config, score: ValidationScore | None, library: Library
) -> dict[str, Any]:
    languages = [each for each in (config.data.src_lang, config.data.tgt_lang) if each != "xx"]
    front: dict[str, Any] = {"language": languages} if languages else {}
    front |= {
        "library_name": library,
        "pipeline_tag": "translation",
        "tags": ["translation", "transformer-cli"],
    }
    if isinstance(config.data, Multi30kData):
        front["datasets"] = ["multi30k"]
    if score is not None:
        metrics = [
            {"type": name, "name": METRICS[name].label, "value": round(value, 2)}
            for name, value in score.scores.items()
            if not METRICS[name].needs_case  # the Hub knows no lowercased BLEU
        ]
        front["metrics"] = [each["type"] for each in metrics]
        result = {
            "task": {"type": "translation", "name": "Translation"},
            "dataset": {"name": _name(config), "type": config.data.kind, "split": "validation"},
            "metrics": metrics,
        }
        front["model-index"] = [{"name": name, "results": [result]}]
    return front


def _name(config: Config) -> str:
    return {"multi30k": "Multi30k", "toy": "toy captions", "copy": "copy task"}.get(
        config.data.kind, "own text files"
    )


def _corpus(config: Config, imported_from: str | None) -> tuple[str, str]:
    """Return a description of the training text, and what it means for a licence."""
    origin = imported_from and _quote(imported_from)
    other = origin or "a model that was made elsewhere"
    data = config.data
    if isinstance(data, Multi30kData):
        text = "Multi30k, task 1: 29,000 image captions (Elliott et al. 2016)."
        licence = (
            "Multi30k is for non-commercial research and education, as its repository\n"
            "says; respect that in what you choose."
        )
    elif isinstance(data, FilesData):
        src, tgt = _quote(data.train.src.name), _quote(data.train.tgt.name)
        text = f"The lines of {src} and {tgt}: say here what they are."
        licence = "Mind the licence of the text that it was trained on."
    elif isinstance(data, CorpusData):
        names = "; ".join(_quote(source.description) for source in data.sources)
        text = f"Pairs of {names}: say here what they are."
        licence = "Mind the licences of the text that it was trained on."
    elif isinstance(data, ImportedData):
        text = f"Imported from {other}: say here what that was trained on."
        licence = "Mind the licence of the model that it was imported from."
    elif isinstance(data, CopyData):
        text = "The copy task: random symbols that are their own translation."
        licence = "The training text was made by transformer-cli and is free."
    else:
        text = "The toy captions of transformer-cli, made by a grammar: for trying things out."
        licence = "The training text is part of transformer-cli, under the MIT licence."
    if added := added_sources(data):
        names = ", ".join(_quote(source.description) for source in added.values())
        text += f"\nTraining text was added to it: {names}."
    if config.init is not None:
        text += f"\nTraining began from the weights of another run, {_quote(config.init.name)}"
        text += f", imported from {origin}." if origin else "."
        if origin:
            licence += "\nMind the licence of the model that was imported, too."
    return text + "\n", licence


def _scores(score: ValidationScore | None, lowercase: bool) -> str:
    if score is None:
        return "Not measured yet: see `transformer-cli evaluate`.\n"
    note = "\nIt writes lower case, so that cased BLEU is low.\n" if lowercase else ""
    # A list: the signatures' bars would end a table's cells.
    listed = "".join(
        f"- {METRICS[name].label} {score.scores[name]:.2f} (`{signature}`)\n"
        for name, signature in describe_signatures(score.metrics).items()
        if name in score.scores
    )
    return (
        f"On the validation split, at step {score.step:,}, as it was measured in training, by\n"
        f"sacreBLEU:\n\n{listed}{note}"
    )


def _entries(sizes: Sequence[int], src: str, tgt: str) -> str:
    if len(sizes) == 1:
        return f"{sizes[0]:,} entries for both languages"
    return f"{sizes[0]:,} entries for {src}, {sizes[1]:,} for {tgt}"


def _settings(config: Config) -> str:
    """Return a Markdown table of the settings."""
    make: Any = type(config.tokenizer).model_construct
    # Its parts may not go together with defaults of others: it is compared, never used.
    defaults = Config.model_construct(data=config.data, tokenizer=make(kind=config.tokenizer.kind))
    rows = [
        f"| `{each.key}` | {_cell(_without_path(each.new))} |"
        for each in differences(defaults, config)
        # Null stands for what another kind of schedule has.
        if each.key != "init" and not (each.key.startswith("training.schedule.") and not each.new)
    ]
    return "\n".join(["| setting | value |", "|---|---|", *rows]) + "\n"


def _quote(name: str) -> str:
    """Return a name of others' choosing as Markdown, which might make more of it than text."""
    return name if re.fullmatch(r"[\w .,+-]+", name) else _code(name)


def _code(text: str) -> str:
    """Return text as code on one line."""
    text = text.replace("`", "'")
    return f"`{''.join(each if each.isprintable() else ascii(each)[1:-1] for each in text)}`"


def _cell(value: object) -> str:
    return _code(json.dumps(value, ensure_ascii=False)).replace("|", r"\|")


def _without_path(value: object) -> object:
    """Return a file's name for its absolute path, which is private."""
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value
