"""``transformer-cli clean``."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import ConfigError, UsageError
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, declared_by, option
from transformer_cli.cli.display import align_columns, pair_bar, say

with lazy_imports():
    from transformer_cli.base import compression, writing
    from transformer_cli.config import yaml
    from transformer_cli.extensions.corpora import preparing, settings
    from transformer_cli.extensions.report import rendering


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
    options.check_new(directory, "-o")
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
        import_extra("jinja2", "report", "--report")
    has_own_place = report is not None and report.resolve().parent != directory.resolve()
    with writing.claim(directory, report if has_own_place else None):
        with options.choose_executor(given, directory)() as executor:
            result = preparing.clean_corpus(data, directory.resolve(), pair_bar, executor)
        say("\n".join(_lines(result)))
        if report is not None:
            page = rendering.render_page(
                "cleaning", None, {}, cleaning=result, data=data, title=given.config.stem
            )
            compression.write_text(report, page, is_named=has_own_place)


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
