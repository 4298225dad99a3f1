"""The parallel text that a configuration names."""

from pathlib import Path

from transformer_cli.config.data_schema import (
    CopyData,
    CorpusData,
    DataConfig,
    FilesData,
    ImportedData,
    Multi30kData,
    ToyData,
    added_sources,
)
from transformer_cli.config.shipped import TOY, shipped_directory
from transformer_cli.data import multi30k
from transformer_cli.data.copy_task import copy_lines
from transformer_cli.data.corpus import ParallelFiles, ParallelText, read_parallel
from transformer_cli.data.prepared import find_damage, read_corpus_record, read_split, split_path
from transformer_cli.data.readers.opening import MAX_BAD_UNITS, open_source
from transformer_cli.data.streamed import ConcatenatedSources, PairSource
from transformer_cli.errors import ConfigError, CorpusError, did_you_mean


def split_names(data: DataConfig) -> list[str]:
    """Return the splits that can be loaded: ``train``, ``val``, then the test splits."""
    match data:
        case ImportedData():
            return []
        case Multi30kData():
            return list(multi30k.SPLITS)
        case ToyData() | CopyData():
            return ["train", "val", "test"]
        case FilesData():
            return ["train", "val", *data.test]
        case CorpusData():
            drawn = ["test"] if data.split is not None and data.split.test else []
            return ["train", "val", *drawn, *data.test]


def default_split(data: DataConfig) -> str:
    """Return the split to evaluate on by default: the first test split."""
    # Where there is none, what was validated on has to do.
    names = split_names(data)
    return names[2] if len(names) > 2 else "val"


def load_split(data: DataConfig, split: str, earlier: Path | None = None) -> ParallelText:
    """Read, fetch or make the text of a split, blank lines included.

    Args:
        data: the configuration's ``data`` section.
        split: one of ``split_names(data)``.
        earlier: where a run found Multi30k when it was trained; see runs/corpus_location.py.

    Raises:
        CorpusError: there is no such split, or its text is missing, misaligned or damaged.
    """
    source = open_split(data, split, earlier)
    if isinstance(source, ParallelText):
        return source
    if isinstance(data, CorpusData):
        return read_split(source.src.parent, split, data)
    return read_parallel(source.src, source.tgt)


def open_split(
    data: DataConfig, split: str, earlier: Path | None = None
) -> ParallelFiles | ParallelText:
    """Find, fetch or make the text of a split, to be read as a stream.

    Args:
        data: the configuration's ``data`` section.
        split: one of ``split_names(data)``.
        earlier: as ``load_split`` takes it.

    Raises:
        CorpusError: there is no such split, or its files cannot be had. Files that a user names are
            not looked at before they are read.
    """
    check_split(data, split)
    match data:
        case Multi30kData():
            return ParallelFiles(*multi30k.fetch(split, data.src_lang, data.tgt_lang, earlier))
        case ToyData():
            return ParallelFiles(
                *_toy_files(f"{split}.{data.src_lang}", f"{split}.{data.tgt_lang}")
            )
        case CopyData():
            return copy_lines(data, split)
        case FilesData():
            pair = {"train": data.train, "val": data.val, **data.test}[split]
            return ParallelFiles(pair.src, pair.tgt)
        case CorpusData():
            return _open_prepared(split, earlier)
        case ImportedData():
            raise AssertionError("it has no splits")


def open_training_text(data: DataConfig, earlier: Path | None = None) -> PairSource:
    """Return the split ``train`` and all that is added to it, to be read as a stream.

    Raises:
        CorpusError: as ``open_split``.
    """
    train, *more = open_training_parts(data, earlier).values()
    return ConcatenatedSources((train, *more)) if more else train


def open_training_parts(data: DataConfig, earlier: Path | None = None) -> dict[str, PairSource]:
    """Return the split ``train`` and each source that is added to it, by name.

    Raises:
        CorpusError: as ``open_split``.
    """
    return {"train": open_split(data, "train", earlier), **open_added(data)}


def open_added(data: DataConfig) -> dict[str, PairSource]:
    """Return the sources in ``data.more`` and ``data.replay``, by name.

    Raises:
        CorpusError: no file matches a path with wildcards.
    """
    max_bad_units = data.max_bad_units if isinstance(data, CorpusData) else MAX_BAD_UNITS
    return {
        name: open_source(source, data.src_lang, data.tgt_lang, max_bad_units)
        for name, source in added_sources(data).items()
    }


def is_on_disk(data: DataConfig, split: str, earlier: Path | None = None) -> bool:
    """Return whether ``open_split`` would download nothing.

    Raises:
        CorpusError: a file that is there is not the published one.
    """
    if not isinstance(data, Multi30kData):
        return True
    return multi30k.find(split, data.src_lang, data.tgt_lang, earlier) is not None


def check_has_text(data: DataConfig, config: Path) -> None:
    """Check that there is text to train on.

    Args:
        data: the configuration's ``data`` section.
        config: the file that it is from, for messages.

    Raises:
        ConfigError: these are the settings of an imported model.
    """
    if isinstance(data, ImportedData):
        run = config.parent.as_posix() if config.name == "config.yaml" else "RUN"
        raise ConfigError(
            f"{config}: data.kind imported has no text to train on; write a file with base: "
            f"{run}/config.yaml, init: {run} and data of another kind"
        )


def check_has_splits(data: DataConfig, run: Path, advice: str) -> None:
    """Check that a run has splits.

    Args:
        data: the run's ``data`` section.
        run: its directory, for messages.
        advice: what to do if it has none; messages end with it.

    Raises:
        CorpusError: it is of an imported model.
    """
    if isinstance(data, ImportedData):
        raise CorpusError(f"{run}: an imported model has no text of its own; {advice}")


def check_split(data: DataConfig, split: str) -> None:
    """Check that a corpus has a split of this name.

    Raises:
        CorpusError: it has none.
    """
    names = split_names(data)
    if isinstance(data, ImportedData):
        raise CorpusError(
            f"data.kind imported has no split '{split}', as the model came without text"
        )
    if split not in names:
        hint = did_you_mean(split, names)
        raise CorpusError(
            f"data.kind {data.kind} has no split '{split}'{f'; {hint}' if hint else ''}; "
            f"choose from {', '.join(names)}"
        )


def _toy_files(src: str, tgt: str) -> tuple[Path, Path]:
    # A checkout's or ``init``'s copy in the current directory goes before the program's own.
    for directory in (TOY, shipped_directory() / TOY):
        if (directory / src).is_file() and (directory / tgt).is_file():
            return directory / src, directory / tgt
    raise CorpusError(
        f"{TOY}: {src} and {tgt} are not there; transformer-cli init --from toy writes them"
    )


def _open_prepared(split: str, directory: Path | None) -> ParallelFiles:
    record = None if directory is None else read_corpus_record(directory)
    if directory is None or record is None:
        raise CorpusError(
            f"split '{split}': the sources are not read yet, or the run's copy of them is gone; "
            "transformer-cli vocab CONFIG and train CONFIG read them"
        )
    files = split_path(directory, split)
    if damage := find_damage(directory, record, {split}):
        raise CorpusError(
            f"{damage}; restore it, or have transformer-cli train CONFIG write it again, which it "
            "does while the sources are as they were"
        )
    return files
