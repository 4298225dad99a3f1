"""``transformer-cli clean``."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, UsageError
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, declared_by, option
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.base import text_files, writing
    from transformer_cli.config import yaml
    from transformer_cli.extensions.corpora import preparing, settings
    from transformer_cli.runs import directory as directories


@dataclass(frozen=True)
class CleanOptions(CommandOptions):
    """What ``clean`` is given."""

    config: options.Config
    directory: Annotated[Path, option("DIR", "Where to write; new or empty.", "--output", "-o")]
    set_: options.Set = None
    report: Annotated[
        Path | None, option("FILE", "Also write a page with examples of what was rejected.")
    ] = None


@declared_by(CleanOptions, "clean")
def clean(given: CleanOptions) -> None:
    """Write what the filters of a corpus keep, and what they reject.

    For data.kind corpus. DIR gets the pairs that are kept, by split (train.src, train.tgt, …), and
    dropped.tsv: each pair that is left out, with its number, source and filter. Which filters are
    applied is set by data.filters and those of the sources.

    \b
    Example:
      transformer-cli clean my.yaml -o cleaned --report cleaned.html
    """
    given.check_extras()
    directory, report = given.directory, given.report
    data = yaml.load_config(given.config, given.set_ or []).data
    if not isinstance(data, settings.CorpusData):
        raise ConfigError(
            f"{given.config}: data.kind is {data.kind}; clean needs kind corpus, with the text as "
            "sources"
        )
    check_new(directory, "-o")
    if report is not None:
        place, new = report.resolve(), directory.resolve()
        if place == new:
            raise UsageError(f"--report {report}: is the directory of -o; give the name of a file")
        if place.parent != new:
            sources, keys = settings.list_sources(data), settings.PATH_KEYS
            texts = [("data.sources", getattr(each, key)) for each in sources for key in keys]
            options.check_output(report, "--report", [("CONFIG", given.config), *texts])
        elif preparing.is_written(place.name):
            raise UsageError(f"--report {report}: clean writes text there; name it otherwise")
        if not registry.is_installed("report"):
            missing = registry.describe_missing("extension", "report")
            raise UsageError(f"--report {report}: {missing}")
        import_extra("jinja2", "report", "--report")
    has_own_place = report is not None and report.resolve().parent != directory.resolve()
    with writing.claim(directory, report if has_own_place else None):
        with options.choose_executor(given, directory)() as executor:
            result = preparing.clean_corpus(data, directory.resolve(), executor)
        say("\n".join(_lines(result)))
        if report is not None:
            from transformer_cli.extensions.report import rendering  # which may be left out

            page = rendering.render_page(
                "cleaning", None, {}, cleaning=result, data=data, title=given.config.stem
            )
            text_files.write_text(report, page, is_named=has_own_place)


def _lines(result: "preparing.Cleaning") -> Iterator[str]:
    def row(name: str, count: int) -> tuple[str, str, str]:
        return name, f"{count:,}", f"{count / result.pairs:.2%}"

    yield from align_columns(
        [
            ("filter", "pairs", "share"),
            *(row(reason.name, reason.count) for reason in result.reasons),
            *(row(f"kept in {split}", count) for split, count in result.kept.items()),
            ("all", f"{result.pairs:,}", ""),
        ]
    )
    if result.bad:
        yield f"{result.bad:,} units could not be read"


def check_new(
    path: Path, option: str, suffix: str | None = None, runs: Iterable[Path] = ()
) -> None:
    """Make sure, before long work, that a directory can be made at ``path``, or be filled there.

    With a ``suffix`` it is a file that ends with it. ``runs`` are the runs that the command reads.
    """
    directories.check_outside_runs(path, option, runs)
    if suffix is None and path.is_dir() and not any(path.iterdir()):
        # It is replaced by one that is filled elsewhere, and neither of these can be replaced.
        if os.path.ismount(path.resolve()) or path.samefile("."):  # Path.is_mount: not on Windows
            raise UsageError(f"{path}: cannot be replaced; give the name of a new directory in it")
        return
    if suffix is not None and path.suffix != suffix:
        raise UsageError(f"{path}: is written as one file; give a name that ends with {suffix}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}; make it first")
    if path.exists() or path.is_symlink():
        wanted = "a new name" if suffix else "a new or an empty directory"
        raise UsageError(f"{path}: is there already; give {wanted}")
