"""``transformer-cli evaluate``."""

import json as json_format
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import bar, warn
from transformer_cli.errors import UsageError

if TYPE_CHECKING:
    import torch

    from transformer_cli.data.corpus import ParallelText
    from transformer_cli.evaluation.comet import CometScore
    from transformer_cli.evaluation.scoring import Evaluation
    from transformer_cli.inference.translator import TorchTranslator
    from transformer_cli.runs.directory import RunDirectory


def evaluate(
    run: options.Run,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Split of the run's corpus.  [default: its first test]"),
    ] = None,
    src: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Source text, instead of a split.")
    ] = None,
    ref: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Reference translations of --src.")
    ] = None,
    checkpoint: options.Checkpoint = "best",
    beam_size: options.BeamSize = None,
    comet: Annotated[
        bool, typer.Option("--comet", help="COMET too, if its package is installed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Keep the translations here."),
    ] = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Score a trained model: BLEU, chrF, TER and perplexity.

    BLEU is cased and lowercased, of detokenised translations against raw references, by sacreBLEU;
    the signatures printed with the scores say exactly how. ± is half of the 95 % interval, by
    bootstrap resampling. Of TER, edits to a hundred words, less is better.

    \b
    Example:
      transformer-cli evaluate runs/multi30k_de_en --split test_2017_flickr --beam-size 5
    """
    from transformer_cli.files import write_text
    from transformer_cli.inference.loading import load_torch_translator
    from transformer_cli.model.device import choose_device, choose_precision, use_threads
    from transformer_cli.runs.directory import RunDirectory
    from transformer_cli.runs.environment import describe_environment, environment_of_training
    from transformer_cli.runs.records import read_records
    from transformer_cli.runs.trained import open_checkpoint

    if output is not None:
        options.check_output(output, inputs={"--src": src, "--ref": ref})
    directory = RunDirectory(run)
    name, text = _text(directory, split, src, ref)
    use_threads(threads)
    torch_device = choose_device(device)
    comet_score = _open_comet(torch_device) if comet else None
    torch_precision = choose_precision(precision, torch_device)
    opened = open_checkpoint(directory, checkpoint)
    translator = load_torch_translator(
        directory, checkpoint, torch_device, torch_precision
    ).with_search(beam_size)
    result = _evaluated(translator, name, text)
    report = {
        "split": name,
        "sentences": len(text),
        "checkpoint": str(opened.path),
        "step": opened.told_step,
        "beam_size": translator.decoding.beam_size,
        **_scores(result),
        "environment": asdict(describe_environment(torch_device, torch_precision)),
        "trained_with": environment_of_training(read_records(directory.metrics), opened.told_step),
    }
    if comet_score is not None:
        from transformer_cli.evaluation.comet import MODEL

        report["comet"] = comet_score(text.src, result.hypotheses, text.tgt)
        report["comet_model"] = MODEL
    typer.echo(json_format.dumps(report) if json else _table(report))
    if output is not None:
        write_text(output, "".join(f"{line}\n" for line in result.hypotheses))


def _open_comet(device: "torch.device") -> "CometScore":
    """COMET's model, before the long work: what it lacks is then told at once."""
    from transformer_cli.evaluation.comet import open_comet

    return open_comet(device)


def _evaluated(translator: "TorchTranslator", name: str, text: "ParallelText") -> "Evaluation":
    """What becomes of a text, with a bar while it does, and lines about what is too long."""
    from transformer_cli.evaluation import scoring

    with bar(len(text), name, " sentences") as sentences:
        result = scoring.evaluate(
            translator,
            text,
            sentences.update,
            on_long_line=partial(warn, name),
            thorough=True,
        )
    if result.unmeasured:
        warn(
            name,
            f"perplexity leaves out {result.unmeasured:,} pairs of more than "
            f"{translator.longest_source:,} tokens on a side",
        )
    return result


def _scores(result: "Evaluation") -> dict[str, Any]:
    from transformer_cli.model.perplexity import perplexity

    scores = result.scores
    return {
        "bleu": scores.bleu,
        "bleu_half_width": scores.bleu_ci,
        "bleu_lc": scores.bleu_lc,
        "bleu_lc_half_width": scores.bleu_lc_ci,
        "chrf": scores.chrf,
        "chrf_half_width": scores.chrf_ci,
        "ter": scores.ter,
        "ter_half_width": scores.ter_ci,
        "perplexity": perplexity(result.loss),
        "signature": scores.signature,
        "signature_lc": scores.signature_lc,
        "signature_chrf": scores.signature_chrf,
        "signature_ter": scores.signature_ter,
    }


def _text(
    run: "RunDirectory", split: str | None, src: Path | None, ref: Path | None
) -> tuple[str, "ParallelText"]:
    """What to evaluate on, and its name; it is said if the run was trained on it."""
    from transformer_cli.audit.text_audit import trained_on
    from transformer_cli.data.corpus import ParallelFiles, ParallelText
    from transformer_cli.data.sources import default_split, open_split
    from transformer_cli.runs.found import corpus_directory
    from transformer_cli.text.tokenizer import load_text_sha256

    data = run.load_config().data
    earlier = corpus_directory(run)
    if src is not None and ref is not None and split is None:
        name = str(src)
        source: ParallelFiles | ParallelText = ParallelFiles(src, ref)
    elif src is not None or ref is not None:
        raise UsageError("evaluate: give --split, or --src and --ref together")
    else:
        name = split or default_split(data)
        source = open_split(data, name, earlier)
    text = source if isinstance(source, ParallelText) else source.read()
    files = source if isinstance(source, ParallelFiles) else None
    learned = load_text_sha256(run.tokenizer) if run.tokenizer.is_dir() else None
    if told := trained_on(data, learned, text, files, earlier):
        warn(name, f"{told}; scores on it say nothing of other text")
    return name, text


def _table(report: dict[str, Any]) -> str:
    search = "greedy" if report["beam_size"] == 1 else f"beam {report['beam_size']}"
    weights = Path(report["checkpoint"]).absolute().name
    if report["step"] is not None:
        weights = f"step {report['step']:,}"
    lines = [f"{report['split']}: {report['sentences']:,} sentences, {search}, {weights}"]
    for name, key, signature in (
        ("BLEU", "bleu", "signature"),
        ("BLEU lowercased", "bleu_lc", "signature_lc"),
        ("chrF", "chrf", "signature_chrf"),
        ("TER", "ter", "signature_ter"),
    ):
        half = report[f"{key}_half_width"]
        interval = "" if half is None else f"±{half:5.2f}"
        lines.append(_row(name, f"{report[key]:6.2f} {interval}", report[signature]))
    lines.append(
        _row("perplexity", f"{report['perplexity']:6.2f}", "of target tokens, not smoothed")
    )
    if "comet" in report:
        lines.append(_row("COMET", f"{report['comet']:8.4f}", report["comet_model"]))
    return "\n".join(lines)


def _row(name: str, score: str, how: str) -> str:
    return f"{name:<15}  {score:<13}   {how}"
