"""``transformer-cli evaluate``: translate a text and score the translations."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.messages import bar, log, warn
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, ExtraOptions, declared_by, option
from transformer_cli.cli.display import align_columns, plus_minus, say
from transformer_cli.config.choices import METRICS

with lazy_imports():
    from transformer_cli.base import text_files, writing
    from transformer_cli.data import corpus
    from transformer_cli.evaluation import best_checkpoint, scores, scoring
    from transformer_cli.inference import (
        loading,
        plain_text,
        translation,
        translator as translators,
    )
    from transformer_cli.runs import directory as directories, metrics_log, trained_model


@dataclass(frozen=True)
class ScoredText:
    """A text to translate and score, as passed to ``EvaluateExtra.notes``."""

    name: str
    pairs: "corpus.ParallelText"
    runs: "Sequence[directories.RunDirectory]"
    """The run whose model translates, then the runs that options of extensions name."""
    metrics: "scores.Metrics"
    translator: "translators.TextTranslator[Any]"
    """The translator that searches."""


@dataclass(frozen=True)
class ScoredTextOptions(CommandOptions):
    """The options of ``evaluate`` for the run, the text to score, and the output."""

    heading = "Input and output"
    run: options.Run
    split: options.Split = None
    src: Annotated[
        Path | None, option("FILE", "Source text to translate and score, instead of a split.")
    ] = None
    ref: Annotated[Path | None, option("FILE", "Reference translations of --src.")] = None
    output: Annotated[
        Path | None, option("FILE", "Write the translations to this file.", "--output", "-o")
    ] = None
    json: options.Json = False


@dataclass(frozen=True)
class EvaluateOptions(options.HardwareOptions, ScoredTextOptions):
    """All options of ``evaluate``: text, checkpoint, beam size and hardware."""

    heading = "Search and scores"
    checkpoint: options.Checkpoint = "best"
    beam_size: options.BeamSize = None

    @property
    def models(self) -> list[Path]:
        """The paths of the runs to read; the first one is the run that is scored."""
        return [self.run, *(run for _, run in self.marked("run"))]


class EvaluateExtra(ExtraOptions):
    """The base class of options that add notes to scores, in ``evaluate`` or another command."""

    def notes(self, given: Any, scored: ScoredText) -> "translation.Notes | None":
        """Return an object that adds facts about the translations to the scores, or None."""
        return None


@declared_by(EvaluateOptions)
def evaluate(given: EvaluateOptions) -> None:
    """Score a trained model: BLEU, chrF, TER and perplexity.

    sacreBLEU scores detokenized translations against raw references; the signature of each
    score says exactly how. ± is half the width of the 95 % confidence interval, estimated by
    bootstrap resampling. For TER, lower is better. Unlike translate, evaluate does not try again
    when a translation looks doubtful, e.g. repetitive.

    \b
    Example:
      transformer-cli evaluate runs/toy --split val --beam-size 5
    """
    given.check_extras()
    if given.output is not None:
        inputs = [("--src", given.src), ("--ref", given.ref), *given.marked("reads")]
        options.check_output(given.output, "-o", inputs, given.models)
    run = directories.RunDirectory(given.run)
    run.load_config()  # raises an error if this is not a run
    with writing.claim(given.output):
        report, result = _evaluate(run, given, *_read_text(run, given))
        say(json.dumps(report) if given.json else "\n".join(_format(report, result.notes)))
        if given.output is not None:
            text = "".join(f"{line}\n" for line in result.hypotheses)
            text_files.write_text(given.output, text, is_named=True)


def _read_text(
    run: "directories.RunDirectory", given: EvaluateOptions
) -> "tuple[str, corpus.ParallelText]":
    """Return the name and the content of the text to score."""
    src, ref = given.src, given.ref
    if src is None and ref is None:
        return scoring.load_split(run, given.split, "give text with --src and --ref")
    if src is None or ref is None:
        there, missing = ("--src", "--ref") if ref is None else ("--ref", "--src")
        raise UsageError(f"evaluate: {there} needs the other side too; give it with {missing}")
    if given.split is not None:
        raise UsageError("evaluate: give either --split, or --src and --ref")
    for path in (src, ref):
        plain_text.check_is_text(path, "lines of text")
    return str(src), corpus.ParallelFiles(src, ref, once=True).read()


def _evaluate(
    run: "directories.RunDirectory", given: EvaluateOptions, name: str, text: "corpus.ParallelText"
) -> "tuple[dict[str, Any], scoring.Evaluation]":
    metrics = best_checkpoint.metrics_of_runs(run.load_config(), [run], log)
    opened = trained_model.open_checkpoint(run, given.checkpoint)
    # Use one checkpoint throughout, even if training finds a better one meanwhile.
    weights = given.checkpoint if run.exported else str(opened.path)
    search = {"beam_size": given.beam_size}
    compute = loading.ComputeOptions("auto", given.device, given.precision, given.threads, search)
    translator, searcher = loading.load_scorer(
        run, weights, compute, list(dict(given.marked("torch")))
    )
    # Check this before the long work, so that missing files are reported at once.
    with options.prefix_errors("evaluate: "):
        translator = given.prepare(translator)
    searcher = searcher and replace(searcher, tokenizers=translator.tokenizers)
    runs = [*map(directories.RunDirectory, given.models)]
    scored = ScoredText(name, text, runs, metrics, searcher or translator)
    extras = (each for each in given.extras if isinstance(each, EvaluateExtra))
    notes = [*filter(None, (each.notes(given, scored) for each in extras))]
    with bar(len(text), name, " sentences") as shown:
        result = scoring.evaluate(
            translator,
            text,
            translators.Watcher(shown.update, on_long_line=partial(warn, name)),
            thorough=True,
            searcher=searcher,
            metrics=metrics,
            notes=notes,
        )
    if result.unmeasured:
        warn(
            name,
            f"perplexity leaves out {result.unmeasured:,} pairs with more than "
            f"{translator.longest_source:,} tokens on a side",
        )
    engine, searching = translator.engine, (searcher or translator).engine
    environment = metrics_log.describe_environment(engine.device, engine.precision)
    report = {
        "split": name,
        "sentences": len(text),
        "checkpoint": opened.path.as_posix(),
        "step": opened.step,
        "beam_size": translator.decoding.beam_size,
        "scores": {name: score._asdict() for name, score in result.scores.items()},
        "perplexity": metrics_log.perplexity(result.loss),
        "engine": searching.name,
        "environment": {**environment, "precision": searching.fingerprint["precision"]},
    }
    for note in result.notes:
        report |= note.facts
    return report, result


def _format(report: dict[str, Any], notes: "Sequence[translation.Notes]") -> Iterator[str]:
    """Yield the lines of the report as it is printed without ``--json``."""
    step, weights = report["step"], Path(report["checkpoint"]).absolute().name
    described = [format_search(report["beam_size"]), weights if step is None else f"step {step:,}"]
    yield f"{report['split']}: {report['sentences']:,} sentences, {', '.join(described)}"
    rows = []
    for name, score in report["scores"].items():
        value = f"{score['value']:6.2f}{plus_minus(score['half_width'])}"
        rows.append((METRICS[name].label, value, score["signature"]))
    rows.append(("perplexity", f"{report['perplexity']:6.2f}", "of target tokens, not smoothed"))
    rows += (row for note in notes for row in note.rows())
    yield from align_columns(rows, left=3)
    for note in notes:
        yield from note.remarks()


def format_search(beam_size: int) -> str:
    """Return a short name for a search with this beam size."""
    return "greedy" if beam_size == 1 else f"beam {beam_size}"
