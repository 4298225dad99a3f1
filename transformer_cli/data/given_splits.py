"""Splits of a prepared corpus that have a source of their own: ``data.val`` and ``data.test``."""

import json
from pathlib import Path

from transformer_cli.artifact import write_record
from transformer_cli.config.data_schema import CorpusData, SourceConfig
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.pair_files import open_writer, readable_pairs
from transformer_cli.data.prepared import (
    RECORD,
    CorpusRecord,
    ExplicitSplit,
    find_damage,
    lost_text_error,
    read_corpus_record,
    record_files,
    split_path,
)
from transformer_cli.data.readers.opening import open_source
from transformer_cli.errors import CorpusError


def update_given_splits(data: CorpusData, directory: Path, is_begun: bool) -> list[ExplicitSplit]:
    """Write the splits that ``data`` names by a source, where the directory has others.

    Args:
        data: the configuration's.
        directory: of the prepared corpus.
        is_begun: whether there are checkpoints. Then the sources of splits that are there are not
            looked at, and ``val`` may not change.

    Returns:
        The records of those that were written.

    Raises:
        CorpusError: a source cannot be read, or ``val`` is lost.
        OSError: a file cannot be written.
    """
    record = read_corpus_record(directory)
    assert record is not None, "the corpus is prepared"
    updated, written = write_given(data, directory, record, is_begun)
    if written or updated != record:
        write_record(directory / RECORD, updated)
    return written


def given_sources(data: CorpusData) -> dict[str, SourceConfig]:
    """Return the source of each such split, by its name."""
    return {**({} if data.val is None else {"val": data.val}), **data.test}


def write_given(
    data: CorpusData, directory: Path, record: CorpusRecord, is_begun: bool
) -> tuple[CorpusRecord, list[ExplicitSplit]]:
    """Write the splits that have a source of their own.

    Returns:
        The record with them, and the part of it about those that were not there.
    """
    given, written = {}, []
    files = {name: file for name, file in record.files.items() if Path(name).stem in record.drawn}
    for name, source in given_sources(data).items():
        paths = split_path(directory, name)
        known = _find_given(name, source, data, directory, record, is_begun)
        if known is None:
            known = _write_given_split(name, source, data, paths)
            written.append(known)
            files |= record_files(paths)
        else:
            files |= {path.name: record.files[path.name] for path in (paths.src, paths.tgt)}
        given[name] = known
    return record.model_copy(update={"given": given, "files": files}), written


def _find_given(
    name: str,
    source: SourceConfig,
    data: CorpusData,
    directory: Path,
    record: CorpusRecord,
    is_begun: bool,
) -> ExplicitSplit | None:
    """Return the record of a split that is there, of its source as it is."""
    known = record.given.get(name)
    if known is None:
        return None
    damage = find_damage(directory, record, {name})
    # Checkpoints are chosen by val, so it stays, as the text that is trained on does.
    stays = is_begun and name == "val"
    if not stays and known.settings != _settings(source):
        return None
    if is_begun and damage is None:
        return known
    try:
        reader = open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units)
        is_same = reader.source_sha256() == known.source_sha256
    except CorpusError:
        if not stays:
            raise
        is_same = False
    if stays and not is_same:
        raise lost_text_error(str(damage))
    return known if is_same and damage is None else None


def _write_given_split(
    name: str, source: SourceConfig, data: CorpusData, files: ParallelFiles
) -> ExplicitSplit:
    reader = open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units)
    count = 0
    sha256 = reader.source_sha256()
    with open_writer(files) as write:
        for src, tgt in readable_pairs(reader):
            count += 1
            write(src, tgt)
    return ExplicitSplit(
        name=f"{name} {source.path.name}",
        settings=_settings(source),
        source_sha256=sha256,
        pairs=count,
        bad=reader.bad.count,
        first_bad=reader.bad.why,
    )


def _settings(source: SourceConfig) -> str:
    return json.dumps(source.model_dump(mode="json"), sort_keys=True)
