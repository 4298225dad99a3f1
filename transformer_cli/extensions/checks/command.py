"""``transformer-cli check``."""

import json as json_format
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.base.errors import MissingRunError, UsageError, did_you_mean
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import flag, option
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.config import schema, yaml
    from transformer_cli.data import kinds, store
    from transformer_cli.extensions.checks import checked_kind, findings
    from transformer_cli.runs import directory
    from transformer_cli.text import tokenizer


def check(
    config: options.Config,
    run_dir: Annotated[
        Path | None,
        option(
            "DIR",
            "Run whose tokenizer counts tokens.  [default: runs/<config name>]",
        ),
    ] = None,
    set_: options.Set = None,
    ignore: Annotated[
        list[str] | None,
        option(
            "NAME", "Finding, by its name in brackets, to accept without a warning; repeatable."
        ),
    ] = None,
    strict: Annotated[bool, flag("Exit with 1 if there is a warning.", "--strict")] = False,
    json: options.Json = False,
) -> None:
    """Check an experiment's text before training on it.

    Finds blank, repeated and copied pairs, sides that are shifted by some lines, test pairs that
    are trained on, unusual length ratios, lines of another script, odd characters and those that
    the vocabulary lacks. A few of them make a note; more make a warning, unless --ignore accepts
    them. What can only be a mistake, such as training text to test on, makes the exit code 1; with
    --strict, a warning does too. Lengths are in tokens if `vocab` has run before, otherwise in
    words, or in characters where there are no spaces between words. Of data.kind corpus, it also
    says what each filter, on or off, would reject.

    \b
    Example:
      transformer-cli check configs/toy.yaml
    """
    run = options.run_directory(config, run_dir)
    if unknown := next((name for name in ignore or [] if name not in findings.FINDINGS), None):
        listed = f"choose from {', '.join(findings.FINDINGS)}"
        hint = did_you_mean(unknown, findings.FINDINGS) or listed
        raise UsageError(f"--ignore {unknown}: there is no finding of that name; {hint}")
    settings = yaml.load_config(config, set_ or [])
    kinds.check_has_text(settings.data, config)
    path = _find_tokenizer(settings, directory.RunDirectory(run), run_dir is not None)
    tokenizers = None if path is None else tokenizer.load_tokenizers(path)
    report = findings.check_corpus(settings, tokenizers, ignore or [])
    tried = checked_kind.find_checked(settings.data).try_filters()
    warning = tried and tried.warning
    warnings = report.warnings + (warning is not None)
    if json:
        filters = {"filters": tried.facts} if tried else {}
        about = {"config": str(config), "tokenizer": path and str(path)}
        content = {**about, "warnings": warnings, **asdict(report), **filters}
        say(json_format.dumps(content))
    else:
        of = f" of {path}" if path else ": no tokenizer yet (see vocab)"
        heading = f"{config}: lengths in {report.unit}{of}"
        last = ["", *tried.lines] if tried else []
        say("\n".join([heading, "", *_lines(report, warning), *last]))
    if report.mistakes or (strict and warnings):
        raise typer.Exit(1)


def _find_tokenizer(
    settings: "schema.Config", run: "directory.RunDirectory", is_named: bool
) -> Path | None:
    """Return the directory of the tokenizers of the experiment, or of the run that is named."""
    if is_named:
        if not run.tokenizer.is_dir():
            raise MissingRunError(
                f"{run.tokenizer}: is not there; make it with transformer-cli vocab, or leave out "
                "--run-dir"
            )
        return run.tokenizer
    if run.config.is_file() and run.tokenizer.is_dir():
        own = run.load_config()
        same = ("data", "tokenizer", "init")
        if all(getattr(own, key) == getattr(settings, key) for key in same):
            return run.tokenizer
    initial = None if settings.init is None else directory.RunDirectory(settings.init).tokenizer
    return initial if initial is not None and initial.is_dir() else None


def _lines(report: "findings.CorpusReport", warning: str | None) -> Iterable[str]:
    """Yield the lines of a report; ``warning`` is one more, about filters."""
    percentiles = "/".join(map(str, store.PERCENTILES))
    rows: list[Sequence[str]] = [("split", "pairs", f"source, percentiles {percentiles}", "target")]
    for split in report.splits:
        sides = ("/".join(map(str, side)) for side in (split.src_lengths, split.tgt_lengths))
        rows.append((split.name, f"{split.pairs:,}", *sides))
    yield from align_columns(rows)
    if report.near:
        yield ""
        yield from (f"{each.name}: {each.describe()}" for each in report.near)
    yield ""
    yield from (f"mistake: {mistake}" for mistake in report.mistakes)
    yield from (f"warning: {finding}" for finding in report.findings if finding.warning)
    if warning is not None:
        yield f"warning: {warning}"
    notes = [
        *(str(finding) for finding in report.findings if not finding.warning),
        *(
            f"no script is known of '{language}', so lines of another one are not found"
            for language in report.unknown_scripts
        ),
        *report.unavailable,
    ]
    yield from (f"note: {note}" for note in notes)
    counts = [(report.warnings + (warning is not None), "warning"), (len(notes), "note")]
    if report.mistakes:
        counts.insert(0, (len(report.mistakes), "mistake"))
    yield ", ".join(f"{count or 'no'} {what}{'' if count == 1 else 's'}" for count, what in counts)
