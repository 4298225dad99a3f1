"""``transformer-cli evaluate``."""

import json as json_format
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import bar, warn
from transformer_cli.errors import UsageError

if TYPE_CHECKING:
    from transformer_cli.config.schema import Config
    from transformer_cli.data.corpus import ParallelText


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
    """Score a trained model: BLEU, chrF and perplexity.

    BLEU is cased and lowercased, of detokenised translations against raw references, by sacreBLEU;
    the signatures printed with the scores say exactly how.

    \b
    Example:
      transformer-cli evaluate runs/multi30k_de_en --split test_2017_flickr --beam-size 5
    """
    from transformer_cli.files import write_text
    from transformer_cli.inference import evaluation
    from transformer_cli.inference.translator import Translator
    from transformer_cli.model.device import choose_device, choose_precision, use_threads
    from transformer_cli.model.perplexity import perplexity
    from transformer_cli.runs.directory import RunDirectory

    if output is not None:
        options.check_output(output)
    directory = RunDirectory(run)
    name, text = _text(directory.load_config(), split, src, ref)
    use_threads(threads)
    torch_device = choose_device(device)
    translator = Translator.load(
        directory, checkpoint, torch_device, choose_precision(precision, torch_device)
    ).searching(beam_size)
    with bar(len(text), name, " sentences") as sentences:
        result = evaluation.evaluate(translator, text, sentences.update, on_cut=partial(warn, name))
    if result.unmeasured:
        warn(
            name,
            f"perplexity leaves out {result.unmeasured:,} pairs of more than "
            f"{translator.longest_source:,} tokens on a side",
        )
    report = {
        "split": name,
        "sentences": len(text),
        "beam_size": translator.decoding.beam_size,
        "bleu": result.scores.bleu,
        "bleu_lc": result.scores.bleu_lc,
        "chrf": result.scores.chrf,
        "perplexity": perplexity(result.loss),
        "signature": result.scores.signature,
        "signature_lc": result.scores.signature_lc,
        "signature_chrf": result.scores.signature_chrf,
    }
    typer.echo(json_format.dumps(report) if json else _table(report))
    if output is not None:
        write_text(output, "".join(f"{line}\n" for line in result.hypotheses))


def _text(
    settings: "Config", split: str | None, src: Path | None, ref: Path | None
) -> tuple[str, "ParallelText"]:
    """What to evaluate on, and its name."""
    from transformer_cli.data.corpus import read_parallel
    from transformer_cli.data.sources import default_split, load_split

    if src is not None and ref is not None and split is None:
        return str(src), read_parallel(src, ref)
    if src is not None or ref is not None:
        raise UsageError("evaluate: give --split, or --src and --ref together")
    name = split or default_split(settings.data)
    return name, load_split(settings.data, name)


def _table(report: dict[str, Any]) -> str:
    search = "greedy" if report["beam_size"] == 1 else f"beam {report['beam_size']}"
    return "\n".join(
        [
            f"{report['split']}: {report['sentences']:,} sentences, {search}",
            f"BLEU             {report['bleu']:6.2f}   {report['signature']}",
            f"BLEU lowercased  {report['bleu_lc']:6.2f}   {report['signature_lc']}",
            f"chrF             {report['chrf']:6.2f}   {report['signature_chrf']}",
            f"perplexity       {report['perplexity']:6.2f}   of target tokens, not smoothed",
        ]
    )
