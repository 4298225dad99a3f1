"""The command ``transformer-cli check``."""

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
    strict: Annotated[bool, flag("Exit with 1 if there are warnings.", "--strict")] = False,
    json: options.Json = False,
) -> None:
    """Find problems in the text before training.

    It finds blank, repeated and copied pairs, misaligned sides, test pairs in the training
    text, unusual length ratios, lines in the wrong script and wrongly decoded characters. Rare
    findings are reported as notes, frequent ones as warnings. The exit code is 1 for serious
    mistakes, such as testing on training text, and with --strict also for warnings.

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
