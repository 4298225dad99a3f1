"""``transformer-cli check``."""

import json as json_format
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.completion import complete_run
from transformer_cli.cli.display import align_columns, pair_bar, say
from transformer_cli.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from transformer_cli.audit.checks import CorpusReport
    from transformer_cli.audit.filter_effects import FilterEffect
    from transformer_cli.config.schema import Config


def check(
    config: options.Config,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Run whose tokenizer counts tokens.  [default: runs/<config name>]",
            autocompletion=complete_run,
        ),
    ] = None,
    set_: options.Set = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Finding, by its name in brackets, to accept without a warning; repeatable.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if there is a warning.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    version: options.Version = False,
) -> None:
    """Check an experiment's text before training on it.

    Finds blank, repeated and copied pairs, sides that are shifted by some lines, test pairs that
    are trained on, unusual length ratios, lines of another script, odd characters and those that
    the vocabulary lacks. A few of them make a note; more make a warning, unless --ignore accepts
    them. What can only be a mistake, such as training text to test on, makes the exit code 1; with
    --strict, a warning does too. Lengths are in tokens if `vocab` has run before, otherwise in
    words, or in characters where there are no spaces between words. Of data.kind corpus, it also
    says what each filter would take of the sources, on or off.

    \b
    Example:
      transformer-cli check configs/toy.yaml
    """
    from transformer_cli.audit.checks import check_corpus
    from transformer_cli.config.yaml import load_config
    from transformer_cli.data.sources import check_has_text
    from transformer_cli.text.tokenizer import load_tokenizers

    run = options.run_directory(config, run_dir)
    options.restore_previous(run)
    ignored = ignore or []
    _check_finding_names(ignored)
    settings = load_config(config, set_ or [])
    check_has_text(settings.data, config)
    directory = _tokenizer(settings, run, run_dir is not None)
    tokenizers = None if directory is None else load_tokenizers(directory)
    report = check_corpus(settings, tokenizers, pair_bar, ignored)
    effects = _filter_effects(settings)
    if json:
        found = {"config": str(config), "tokenizer": directory and str(directory)}
        filters = {} if effects is None else {"filters": [asdict(each) for each in effects]}
        content = {**found, "warnings": report.warnings, **asdict(report), **filters}
        say(json_format.dumps(content))
    else:
        of = f" of {directory}" if directory else ": no tokenizer yet (see vocab)"
        lines = [
            *_lines(report, f"{config}: lengths in {report.unit}{of}"),
            *_filter_lines(effects or []),
        ]
        say("\n".join(lines))
    if report.mistakes or (strict and report.warnings):
        raise typer.Exit(1)


def _check_finding_names(names: Iterable[str]) -> None:
    from transformer_cli.audit.checks import FINDINGS

    for name in names:
        if name not in FINDINGS:
            hint = did_you_mean(name, FINDINGS) or f"choose from {', '.join(FINDINGS)}"
            raise UsageError(f"--ignore {name}: there is no finding of that name; {hint}")


def _tokenizer(settings: "Config", path: Path, named: bool) -> Path | None:
    """Return the directory of the experiment's tokenizers, if there is one.

    Args:
        settings: the experiment's.
        path: the run's.
        named: whether the user has named it.
    """
    from transformer_cli.errors import RunError
    from transformer_cli.runs.directory import RunDirectory

    run = RunDirectory(path)
    if named:
        if not run.tokenizer.is_dir():
            raise RunError(
                f"{run.tokenizer}: is not there; make it with transformer-cli vocab, or leave out "
                "--run-dir"
            )
        return run.tokenizer
    if run.config.is_file() and run.tokenizer.is_dir():
        own = run.load_config()
        same = ("data", "tokenizer", "init")
        if all(getattr(own, key) == getattr(settings, key) for key in same):
            return run.tokenizer
    if settings.init is not None and RunDirectory(settings.init).tokenizer.is_dir():
        return RunDirectory(settings.init).tokenizer
    return None


def _lines(report: "CorpusReport", heading: str) -> Iterable[str]:
    from transformer_cli.data.lengths import PERCENTILES

    yield heading
    yield ""
    shares = "/".join(map(str, PERCENTILES))
    rows = [
        ("split", "pairs", f"source, percentiles {shares}", "target"),
        *(
            (
                split.name,
                f"{split.pairs:,}",
                *("/".join(map(str, side)) for side in (split.src_lengths, split.tgt_lengths)),
            )
            for split in report.splits
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *padded])
    yield ""
    yield from (f"mistake: {mistake}" for mistake in report.mistakes)
    yield from (f"warning: {finding}" for finding in report.findings if finding.warning)
    notes = [
        *(str(finding) for finding in report.findings if not finding.warning),
        *(
            f"no script is known of '{language}', so lines of another one are not found"
            for language in report.unknown_scripts
        ),
        *report.unavailable,
    ]
    yield from (f"note: {note}" for note in notes)
    counts = [(report.warnings, "warning"), (len(notes), "note")]
    if report.mistakes:
        counts.insert(0, (len(report.mistakes), "mistake"))
    yield ", ".join(_count(*each) for each in counts)


def _filter_effects(settings: "Config") -> "list[FilterEffect] | None":
    """Return what each filter would take of the sources; None: there are none to filter."""
    from transformer_cli.audit.filter_effects import find_filter_effects
    from transformer_cli.config.data_schema import CorpusData

    data = settings.data
    return find_filter_effects(data, pair_bar) if isinstance(data, CorpusData) else None


def _filter_lines(effects: "Sequence[FilterEffect]") -> Iterable[str]:
    if not effects:
        return
    yield ""
    yield from align_columns(
        [
            ("filter", "on", "would take", "share", "first pair"),
            *((each.name, "yes" if each.is_on else "no", *_effect_cells(each)) for each in effects),
        ]
    )
    yield from (f"note: not tried: {each.missing}" for each in effects if each.missing is not None)


def _effect_cells(effect: "FilterEffect") -> tuple[str, str, str]:
    if effect.count is None:
        return "not tried", "-", "-"
    first = "-" if effect.first is None else f"{effect.first:,}"
    return f"{effect.count:,}", f"{effect.share:.2%}", first


def _count(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
