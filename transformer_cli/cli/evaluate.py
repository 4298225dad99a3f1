"""``transformer-cli evaluate``."""

import json as json_format
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from transformer_cli.cli import options
from transformer_cli.cli.display import align_columns, log, pair_bar, say, scoring_bar, warn
from transformer_cli.errors import UsageError
from transformer_cli.metrics import METRICS, Metrics
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli import compression
    from transformer_cli.data import corpus, tables
    from transformer_cli.evaluation import best_checkpoint, scores, scoring, seen_pairs
    from transformer_cli.inference import loading
    from transformer_cli.runs import directory as directories, metrics_log, trained_model

if TYPE_CHECKING:
    from transformer_cli.inference.ctranslate2_engine import CTranslate2Engine
    from transformer_cli.inference.torch_engine import TorchTranslator
    from transformer_cli.inference.translator import TextTranslator

Source = Annotated[Path | None, options.option("FILE", "Source text or table, instead of a split.")]
References = Annotated[Path | None, options.option("FILE", "Reference translations of --src.")]
ReferenceColumn = Annotated[str | None, options.option("N|NAME", "TSV: column of the references.")]
ReferenceField = Annotated[
    str | None, options.option("NAME", "JSONL, Parquet: field of the references.")
]
Comet = Annotated[bool, options.flag("COMET too, if its package is installed.", "--comet")]
Output = Annotated[
    Path | None,
    options.option("FILE", "Save the translations, line by line.", "--output", "-o"),
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
        _check_output(output, {"--src": src, "--ref": ref})
    if tag is not None and src is None:
        raise UsageError("evaluate: --tag is for --src and --ref; the lines of a split have theirs")
    directory = directories.RunDirectory(run)
    sides = _Side("src", src, src_column, src_field), _Side("ref", ref, ref_column, ref_field)
    name, text = _read_text(directory, split, *sides)
    compute = loading.ComputeOptions("auto", device, precision, threads, beam_size)
    if tag is not None:
        text = replace(text, tags=[tag] * len(text))
    report, hypotheses = _evaluate(
        directory, checkpoint, ensemble or [], compute, name, text, tag, comet
    )
    say(json_format.dumps(report) if json else "\n".join(_format(report)))
    if output is not None:
        lines = "".join(f"{line}\n" for line in hypotheses)
        compression.write_text(output, lines, is_named=True)


def _check_output(output: Path, inputs: dict[str, Path | None]) -> None:
    if tables.format_of(output) is not None:
        raise UsageError(
            f"evaluate: -o {output}: lines are written, not a table; give another name, or "
            "use translate"
        )
    options.check_output(output, inputs=inputs)


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
) -> "tuple[str, corpus.ParallelText]":
    """Return the name and text to evaluate on."""
    run.load_config()  # or it is no run
    columns = src.where, ref.where
    if src.path is None and ref.path is None:
        return options.load_split(run, split, "name text with --src and --ref")
    if src.path is None or ref.path is None or split is not None:
        raise UsageError("evaluate: give --split, or --src and --ref together")
    if any(columns):
        sides = (src.path, columns[0]), (ref.path, columns[1])
        return str(src.path), tables.read_parallel_tables(*sides)
    return str(src.path), corpus.ParallelFiles(src.path, ref.path, once=True).read()


def _evaluate(
    run: "directories.RunDirectory",
    checkpoint: str,
    ensemble: Sequence[Path],
    compute: "loading.ComputeOptions",
    name: str,
    text: "corpus.ParallelText",
    tag: str | None,
    comet: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Translate and score a text; return the report and the translations."""
    metrics = best_checkpoint.metrics_of_runs(run.load_config(), [run], log)
    opened = trained_model.open_checkpoint(run, checkpoint)
    # One checkpoint throughout, whatever training makes the best one meanwhile.
    weights = checkpoint if run.is_hub_model or ensemble else str(opened.path)
    others = [directories.RunDirectory(other) for other in ensemble]
    translator, searcher = options.load_models(run, weights, compute, others)
    # Before the long work, so that what is missing is told at once.
    if tag is not None:
        with options.prefix_errors("evaluate: --tag: "):
            translator.tokenizers.tag_id(tag)
    if comet:
        with options.prefix_errors("evaluate: --comet: ", ", or leave out --comet"):
            comet_score = scores.open_comet(translator.engine.device)
    seen = seen_pairs.find_seen([run, *others], text, pair_bar)
    result = _translate(translator, searcher, name, text, metrics)
    engine, fingerprint = translator.engine, (searcher or translator).engine.fingerprint
    environment = metrics_log.describe_environment(engine.device, engine.precision)
    differing = result.differing
    report = {
        "split": name,
        "sentences": len(text),
        "checkpoint": opened.path.as_posix(),
        "step": opened.step,
        **({"ensemble": [other.as_posix() for other in ensemble]} if ensemble else {}),
        "beam_size": translator.decoding.beam_size,
        "scores": {name: score._asdict() for name, score in result.scores.items()},
        "perplexity": metrics_log.perplexity(result.loss),
        **({} if differing is None else {"placeholders_differ": differing}),
        "seen": _report_seen(seen, name, result.hypotheses, text, metrics),
        "engine": fingerprint.get("engine", "torch"),
        "environment": {**environment, "precision": fingerprint["precision"]},
        "trained_with": metrics_log.environment_of_training(
            metrics_log.read_records(run.metrics), opened.step
        ),
    }
    if comet:
        report["comet"] = comet_score(text.src, result.hypotheses, text.tgt)
        report["comet_model"] = scores.COMET_MODEL
    return report, result.hypotheses


def _translate(
    translator: "TorchTranslator",
    searcher: "TextTranslator[CTranslate2Engine] | None",
    name: str,
    text: "corpus.ParallelText",
    metrics: Metrics,
) -> "scoring.Evaluation":
    """Translate and score behind a progress bar; warn about pairs that are too long."""
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


def _report_seen(
    seen: "seen_pairs.SeenPairs",
    name: str,
    hypotheses: Sequence[str],
    text: "corpus.ParallelText",
    metrics: Metrics,
) -> dict[str, Any]:
    """Return how many pairs are trained on, and the scores of the rest if both kinds are there."""
    rest = seen.rest
    if not rest:
        warn(name, "all its pairs were seen in training; scores on it say nothing of other text")
    if not 0 < len(rest) < len(text):
        return {**seen.report(), "rest": None}
    translated, references = ([side[number] for number in rest] for side in (hypotheses, text.tgt))
    of_rest = {
        name: score._asdict()
        for name, score in scores.score(translated, references, True, metrics).items()
        if not METRICS[name].is_thorough
    }
    return {**seen.report(), "rest": {"sentences": len(rest), "scores": of_rest}}


def _format(report: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that people read."""
    search = "greedy" if report["beam_size"] == 1 else f"beam {report['beam_size']}"
    weights = Path(report["checkpoint"]).absolute().name
    if report["step"] is not None:
        weights = f"step {report['step']:,}"
    if "ensemble" in report:
        weights += f", ensemble with {', '.join(report['ensemble'])}"
    yield f"{report['split']}: {report['sentences']:,} sentences, {search}, {weights}"
    rows = [
        (METRICS[name].label, f"{score['value']:6.2f} {_interval(score)}", score["signature"])
        for name, score in report["scores"].items()
    ]
    rows.append(("perplexity", f"{report['perplexity']:6.2f}", "of target tokens, not smoothed"))
    if "placeholders_differ" in report:
        differing = f"{report['placeholders_differ']:6,}"
        rows.append(("placeholders", differing, "lines whose translation has other ones"))
    if "comet" in report:
        rows.append(("COMET", f"{report['comet']:8.4f}", report["comet_model"]))
    yield from align_columns(rows, left=3)
    seen = report["seen"]
    yield from seen_pairs.describe_seen(seen, report["sentences"], "the model")
    if (rest := seen["rest"]) is not None:
        shown = (
            f"{METRICS[name].short or METRICS[name].label} {score['value']:.2f} {_interval(score)}"
            for name, score in rest["scores"].items()
        )
        yield f"of the other {rest['sentences']:,}: {', '.join(map(str.rstrip, shown))}"


def _interval(score: dict[str, Any]) -> str:
    return "" if score["half_width"] is None else f"±{score['half_width']:5.2f}"
