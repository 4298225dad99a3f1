"""``transformer-cli check``."""

import json as json_format
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import flag
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.config import yaml
    from transformer_cli.data import kinds
    from transformer_cli.extensions.checks import findings


def check(
    config: options.Config,
    set_: options.Set = None,
    strict: Annotated[bool, flag("Exit with 1 if there is a warning.", "--strict")] = False,
    json: options.Json = False,
) -> None:
    """Check an experiment's text before training on it.

    Finds blank, repeated and copied pairs, sides that are shifted by some lines, test pairs that
    are trained on, unusual length ratios, lines of another script and characters that were read in
    a wrong encoding. A few of them make a note; more make a warning. What can only be a mistake,
    such as training text to test on, makes the exit code 1; with --strict, a warning does too.

    \b
    Example:
      transformer-cli check configs/toy.yaml
    """
    settings = yaml.load_config(config, set_ or [])
    kinds.check_has_text(settings.data, config)
    report = findings.check_corpus(settings)
    if json:
        content = {"config": str(config), "warnings": report.warnings, **asdict(report)}
        say(json_format.dumps(content))
    else:
        say("\n".join(_lines(report)))
    if report.mistakes or (strict and report.warnings):
        raise typer.Exit(1)


def _lines(report: "findings.CorpusReport") -> Iterator[str]:
    rows = [(name, f"{pairs:,}") for name, pairs in report.pairs.items()]
    yield from align_columns([("split", "pairs"), *rows])
    yield ""
    yield from (f"mistake: {mistake}" for mistake in report.mistakes)
    yield from (f"warning: {finding}" for finding in report.findings if finding.warning)
    notes = [str(finding) for finding in report.findings if not finding.warning]
    notes += report.unavailable
    yield from (f"note: {note}" for note in notes)
    counts = [(report.warnings, "warning"), (len(notes), "note")]
    if report.mistakes:
        counts.insert(0, (len(report.mistakes), "mistake"))
    yield ", ".join(f"{count or 'no'} {what}{'' if count == 1 else 's'}" for count, what in counts)
