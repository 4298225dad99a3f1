"""The record of what was fetched of a run's text, which later runs take over from ``init``."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from transformer_cli.base.artifact import read_record, write_record
from transformer_cli.config.data_schema import DataSection
from transformer_cli.config.schema import Config
from transformer_cli.extensions.corpora.settings import list_sources, list_urls

FETCHED = "fetched.json"


class Fetched(BaseModel):
    """Fetched text: its origin and licence."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str
    """With its version, as in Tatoeba/v2023-04-12."""
    url: str
    """Of a file, or of a data set at its commit."""
    sha256: tuple[str, ...]
    """Of the file, or of each of a data set's."""
    licence: str | None
    """As its publisher states it; None: nothing is stated with it."""


class FetchedRecord(BaseModel):
    """Content of fetched.json in a run."""

    model_config = ConfigDict(extra="forbid", strict=True)

    fetched: tuple[Fetched, ...]


def record_fetched(run: Path, config: Config) -> None:
    """Record what was fetched of the text that a run is to be trained on, and on what terms.

    The records of the run that the weights start from are taken over, as it may be gone one day.
    """
    earlier = () if config.init is None else read_fetched(config.init)
    found = tuple(dict.fromkeys((*earlier, *_list_fetched(config.data))))
    if found or (run / FETCHED).exists():
        write_record(run / FETCHED, FetchedRecord(fetched=found))


def _list_fetched(data: DataSection) -> tuple[Fetched, ...]:
    if not list_urls(data) and not any(source.opus or source.hf for source in list_sources(data)):
        return ()
    from transformer_cli.extensions.corpora.by_name import list_fetched  # which needs the stores

    return list_fetched(data)


def read_fetched(run: Path) -> tuple[Fetched, ...]:
    """Return what was fetched of the text that a run, and those before it, were trained on."""
    record = read_record(run / FETCHED, FetchedRecord)
    return () if record is None else record.fetched
