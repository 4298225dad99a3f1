"""``transformer-cli evaluate``."""

import json as json_format
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import log, pair_bar, say, scoring_bar, warn
from transformer_cli.errors import UsageError
from transformer_cli.metrics import METRICS, Metrics
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli import compression
    from transformer_cli.data import corpus, sources, tables
    from transformer_cli.evaluation import best_checkpoint, scores, scoring, seen_pairs
    from transformer_cli.inference import loading
    from transformer_cli.model import device as devices
    from transformer_cli.runs import directory as directories, initialize, records, trained_model
    from transformer_cli.training import metrics as training_metrics

if TYPE_CHECKING:
    from transformer_cli.inference.ctranslate2_engine import CTranslate2Engine
    from transformer_cli.inference.torch_engine import TorchTranslator
    from transformer_cli.inference.translator import TextTranslator

Source = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Source text or table, instead of a split.")
]
References = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Reference translations of --src.")
]
ReferenceColumn = Annotated[
    str | None, typer.Option(metavar="N|NAME", help="TSV: column of the references.")
]
ReferenceField = Annotated[
    str | None, typer.Option(metavar="NAME", help="JSONL, Parquet: field of the references.")
]
Comet = Annotated[bool, typer.Option("--comet", help="COMET too, if its package is installed.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Save the translations, line by line."),
]


def evaluate(
    run: options.Run,
    split: options.Split = None,
    src: Source = None,
    ref: References = None,
    src_column: options.SourceColumn = None,
    src_field: options.SourceField = None,
    ref_column: ReferenceColumn = None,
    ref_field: ReferenceField = None,
    tag: options.Tag = None,
    checkpoint: options.Checkpoint = "best",
    ensemble: options.Ensemble = None,
    beam_size: options.BeamSize = None,
    comet: Comet = False,
    json: options.Json = False,
    output: Output = None,
    device: options.Device = "auto",
    precision: options.SearchPrecision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Score a trained model: BLEU, chrF, TER and perplexity.

    BLEU is cased and, where letters have case, lowercased, of detokenised translations against raw
    references, by sacreBLEU; the signatures printed with the scores say exactly how. ± is half of
    the 95 % interval, by bootstrap resampling. Of TER, edits to a hundred words, less is better.

    \b
    Example:
      transformer-cli evaluate runs/multi30k_de_en --split test_2017_flickr --beam-size 5
    """
    if output is not None:
        if tables.format_of(output) is not None:
            raise UsageError(
                f"evaluate: -o {output}: lines are written, not a table; give another name, or "
                "use translate"
            )
        options.check_output(output, inputs={"--src": src, "--ref": ref})
    directory = directories.RunDirectory(run)
    if tag is not None and src is None:
        raise UsageError("evaluate: --tag is for --src and --ref; the lines of a split have theirs")
    sides = _Side("src", src, src_column, src_field), _Side("ref", ref, ref_column, ref_field)
    name, text = _read_text(directory, split, *sides)
    compute = loading.ComputeOptions("auto", device, precision, threads, beam_size)
    engine = loading.choose_engine(directory, compute, ["--ensemble"] if ensemble else [])
    compute = replace(compute, engine=engine)
    metrics = best_checkpoint.metrics_of_runs(directory.load_config(), [directory], log)
    devices.use_threads(threads)  # before COMET
    comet_score = None
    if comet:  # before the long work, so that what is missing is told at once
        with options.prefix_errors("evaluate: --comet: ", ", or leave out --comet"):
            comet_score = scores.open_comet(devices.choose_device(device))
    opened = trained_model.open_checkpoint(directory, checkpoint)
    # One checkpoint throughout, whatever training makes the best one meanwhile.
    weights = checkpoint if directory.is_hub_model or ensemble else str(opened.path)
    others = [directories.RunDirectory(other) for other in ensemble or ()]
    translator = options.load_translator(directory, weights, compute, others)
    if tag is not None:
        with options.prefix_errors("evaluate: --tag: "):
            translator.tokenizers.tag_id(tag)
        text = replace(text, tags=[tag] * len(text))
    searcher = options.load_searcher(directory, weights, compute)
    seen = seen_pairs.find_seen([directory, *others], text, pair_bar)
    result = _evaluate(translator, searcher, name, text, metrics)
    report = {
        "split": name,
        "sentences": len(text),
        "checkpoint": opened.path.as_posix(),
        "step": opened.step,
        **({"ensemble": [other.as_posix() for other in ensemble]} if ensemble else {}),
        "beam_size": translator.decoding.beam_size,
        **_scores(result),
        "seen": _report_seen(seen, name, result, text, metrics),
        **_describe_environments(directory, opened.step, translator, searcher),
    }
    if comet_score is not None:
        report["comet"] = comet_score(text.src, result.hypotheses, text.tgt)
        report["comet_model"] = scores.COMET_MODEL
    say(json_format.dumps(report) if json else _table(report))
    if output is not None:
        lines = "".join(f"{line}\n" for line in result.hypotheses)
        compression.write_text(output, lines, is_named=True)


def _evaluate(
    translator: "TorchTranslator",
    searcher: "TextTranslator[CTranslate2Engine] | None",
    name: str,
    text: "corpus.ParallelText",
    metrics: Metrics,
) -> "scoring.Evaluation":
    """Evaluate on a text behind a progress bar, and warn about lines that are too long."""
    with scoring_bar(len(text), name) as count_sentences:
        result = scoring.evaluate(
            translator,
            text,
            count_sentences,
            on_long_line=partial(warn, name),
            thorough=True,
            searcher=searcher,
            metrics=metrics,
        )
    if result.unmeasured:
        warn(
            name,
            f"perplexity leaves out {result.unmeasured:,} pairs of more than "
            f"{translator.longest_source:,} tokens on a side",
        )
    return result


def _describe_environments(
    run: "directories.RunDirectory",
    step: int | None,
    translator: "TorchTranslator",
    searcher: "TextTranslator[CTranslate2Engine] | None",
) -> dict[str, Any]:
    engine = translator.engine
    fingerprint = (searcher or translator).engine.fingerprint
    described = asdict(records.describe_environment(engine.device, engine.precision))
    trained_with = records.environment_of_training(records.read_records(run.metrics), step)
    return {
        "engine": fingerprint.get("engine", "torch"),
        "environment": {**described, "precision": fingerprint["precision"]},
        "trained_with": trained_with,
    }


def _scores(result: "scoring.Evaluation") -> dict[str, Any]:
    differing = result.differing
    return {
        "scores": {name: score._asdict() for name, score in result.scores.items()},
        "perplexity": training_metrics.perplexity(result.loss),
        **({} if differing is None else {"placeholders_differ": differing}),
    }


def _report_seen(
    seen: "seen_pairs.SeenPairs",
    name: str,
    result: "scoring.Evaluation",
    text: "corpus.ParallelText",
    metrics: Metrics,
) -> dict[str, Any]:
    """Return how many pairs are trained on, and the scores of the rest if both kinds are there."""
    rest = seen.rest
    if not len(rest):
        warn(name, "all its pairs were seen in training; scores on it say nothing of other text")
    if not 0 < len(rest) < len(text):
        return {**seen.report(), "rest": None}
    hypotheses, references = ([side[n] for n in rest] for side in (result.hypotheses, text.tgt))
    of_rest = {
        name: score._asdict()
        for name, score in scores.score(hypotheses, references, True, metrics).items()
        if not METRICS[name].is_thorough
    }
    return {**seen.report(), "rest": {"sentences": len(rest), "scores": of_rest}}


class _Side(NamedTuple):
    """The options that name one side of a text."""

    name: str
    path: Path | None
    column: str | None
    field: str | None

    @property
    def where(self) -> "tables.TextColumn | None":
        """Where the text is in a table; None: it is text, or no path is given."""
        if self.path is not None:
            return tables.find_text(self.path, self.column, self.field, self.name)
        for option, value in (("column", self.column), ("field", self.field)):
            if value is not None:
                raise UsageError(
                    f"evaluate: --{self.name}-{option} needs a file; add --{self.name}"
                )
        return None


def _read_text(
    run: "directories.RunDirectory", split: str | None, src: _Side, ref: _Side
) -> tuple[str, "corpus.ParallelText"]:
    """Return the name and text to evaluate on."""
    data = run.load_config().data
    columns = src.where, ref.where
    if src.path is not None and ref.path is not None and split is None:
        if any(columns):
            sides = (src.path, columns[0]), (ref.path, columns[1])
            return str(src.path), tables.read_parallel_tables(*sides)
        return str(src.path), corpus.ParallelFiles(src.path, ref.path, once=True).read()
    if src.path is not None or ref.path is not None:
        raise UsageError("evaluate: give --split, or --src and --ref together")
    sources.check_has_splits(data, run.path, "name text with --src and --ref")
    name = split or sources.default_split(data)
    return name, sources.load_split(data, name, initialize.corpus_directory(run))


def _table(report: dict[str, Any]) -> str:
    search = "greedy" if report["beam_size"] == 1 else f"beam {report['beam_size']}"
    weights = Path(report["checkpoint"]).absolute().name
    if report["step"] is not None:
        weights = f"step {report['step']:,}"
    if "ensemble" in report:
        weights += f", ensemble with {', '.join(report['ensemble'])}"
    lines = [f"{report['split']}: {report['sentences']:,} sentences, {search}, {weights}"]
    for name, score in report["scores"].items():
        half = score["half_width"]
        interval = "" if half is None else f"±{half:5.2f}"
        value = f"{score['value']:6.2f} {interval}"
        lines.append(_row(METRICS[name].label, value, score["signature"]))
    lines.append(
        _row("perplexity", f"{report['perplexity']:6.2f}", "of target tokens, not smoothed")
    )
    if "placeholders_differ" in report:
        differing = f"{report['placeholders_differ']:6,}"
        lines.append(_row("placeholders", differing, "lines whose translation has other ones"))
    if "comet" in report:
        lines.append(_row("COMET", f"{report['comet']:8.4f}", report["comet_model"]))
    return "\n".join([*lines, *_seen_lines(report)])


def _seen_lines(report: dict[str, Any]) -> list[str]:
    seen = report["seen"]
    lines = seen_pairs.describe_seen(seen, report["sentences"], "the model")
    rest = seen["rest"]
    if rest is not None:
        shown = (
            f"{METRICS[name].short or METRICS[name].label} {score['value']:.2f}"
            + ("" if score["half_width"] is None else f" ± {score['half_width']:.2f}")
            for name, score in rest["scores"].items()
        )
        lines.append(f"of the other {rest['sentences']:,}: {', '.join(shown)}")
    return lines


def _row(name: str, score: str, how: str) -> str:
    return f"{name:<15}  {score:<13}   {how}"
