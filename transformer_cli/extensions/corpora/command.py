"""The command ``transformer-cli clean``."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import ConfigError, UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, declared_by, option
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.base import workers, writing
    from transformer_cli.config import yaml
    from transformer_cli.extensions.corpora import prepared, preparing, settings
    from transformer_cli.runs import directory as directories


@dataclass(frozen=True)
class CleanOptions(CommandOptions):
    """The options of ``clean``: a config, settings that override it, and an output directory."""

    config: options.Config
    directory: Annotated[
        Path, option("DIR", "Output directory; must be new or empty.", "--output", "-o")
    ]
    set_: options.Set = None


@declared_by(CleanOptions)
def clean(given: CleanOptions) -> None:
    """Filter a corpus, and write the kept and the rejected pairs.

    It requires data.kind: corpus. Kept pairs go to train.src, train.tgt and so on. Rejected
    pairs go to dropped.tsv, each with the filter that rejected it. The setting data.filters names
    the filters for all pairs, and each of data.sources can have its own filters.

    \b
    Example:
      transformer-cli clean my.yaml -o cleaned
    """
    given.check_extras()
    data = yaml.load_config(given.config, given.set_ or []).data
    if not isinstance(data, settings.CorpusData):
        raise ConfigError(
            f"{given.config}: data.kind is {data.kind}, but clean needs kind corpus, with the text "
            "as sources"
        )
    check_new(given.directory, "-o")
    with writing.claim(given.directory):
        with workers.find_executor(given.extras, given.directory)() as executor:
            record = preparing.clean_corpus(data, given.directory.resolve(), executor)
        say("\n".join(_lines(record, preparing.list_reasons(data))))


def _lines(record: "prepared.CorpusRecord", reasons: Iterable[str]) -> Iterator[str]:
    """Yield lines of a table: how many pairs each filter rejected, and how many were kept."""
    removed, kept = Counter[str](), Counter[str]()
    for source in record.sources:
        removed.update(source.removed)
        kept.update(source.kept)
    pairs = removed.total() + kept.total()
    counts = {name: removed[name] for name in reasons}
    counts |= {f"kept in {split}": count for split, count in kept.items()}
    rows = [(name, f"{count:,}", f"{count / pairs:.2%}") for name, count in counts.items()]
    yield from align_columns([("filter", "pairs", "share"), *rows, ("all", f"{pairs:,}", "")])
    if bad := sum(source.bad for source in record.sources):
        yield f"{bad:,} units could not be read"


def check_new(path: Path, option: str, runs: Iterable[Path] = ()) -> None:
    """Raise UsageError unless ``path``, given with ``option``, is or can become an empty directory.

    ``runs`` are the directories of runs that the command reads; ``path`` may not be in them.
    """
    directories.check_outside_runs(path, option, runs)
    if path.is_dir() and not any(path.iterdir()):
        # A filled directory will replace this one; a mount or the current one cannot be replaced.
        if os.path.ismount(path.resolve()) or path.samefile("."):  # Path.is_mount: not on Windows
            raise UsageError(f"{path}: cannot be replaced; give the name of a new directory in it")
        return
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}; create it first")
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path}: already exists; give a new or an empty directory")
