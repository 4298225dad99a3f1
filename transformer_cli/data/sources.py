"""The parallel text that a configuration names."""

import hashlib
import random
from pathlib import Path

from transformer_cli.base.errors import ConfigError, CorpusError, MissingTextError, did_you_mean
from transformer_cli.base.locations import is_here
from transformer_cli.config.data_schema import (
    CopyData,
    CorpusData,
    DataConfig,
    FilePair,
    FilesData,
    ImportedData,
    Multi30kData,
    ToyData,
    added_sources,
)
from transformer_cli.config.shipped import TOY, shipped_directory
from transformer_cli.data import multi30k
from transformer_cli.data.corpus import (
    ConcatenatedSources,
    PairSource,
    ParallelFiles,
    ParallelText,
)
from transformer_cli.extensions.corpora.opening import MAX_BAD_UNITS, open_pair, open_source
from transformer_cli.extensions.corpora.prepared import (
    find_damage,
    read_corpus_record,
    read_split,
    split_path,
)

# Three lines in four are for training, so this many draws of the wrong kind (0.75^200) mean that
# there is no line of the right one.
_MAX_DRAWS = 200


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

    ``earlier`` is where a run found its text when it was trained; see runs/initialize.py.

    Raises:
        CorpusError: there is no such split, or its text is missing, misaligned or damaged.
    """
    source = open_split(data, split, earlier)
    if isinstance(source, ParallelText):
        return source
    if isinstance(data, CorpusData):
        return read_split(source.src.parent, split, data)
    return source.read()


def open_split(
    data: DataConfig, split: str, earlier: Path | None = None
) -> ParallelFiles | ParallelText:
    """Find, fetch or make the text of a split, to be read as a stream; see ``load_split``.

    Files that a user names are not looked at before they are read.
    """
    check_split(data, split)
    match data:
        case Multi30kData():
            return ParallelFiles(*multi30k.fetch(split, data.src_lang, data.tgt_lang, earlier))
        case ToyData():
            return _find_toy(f"{split}.{data.src_lang}", f"{split}.{data.tgt_lang}")
        case CopyData():
            return copy_lines(data, split)
        case FilesData():
            return open_pair(_file_pairs(data)[split])
        case CorpusData():
            return _find_prepared(split, earlier)
        case ImportedData():
            raise AssertionError("it has no splits")


def open_training_text(data: DataConfig, earlier: Path | None = None) -> PairSource:
    """Return the split ``train`` and all that is added to it; raise what ``open_split`` does."""
    train, *more = open_training_parts(data, earlier).values()
    return ConcatenatedSources((train, *more)) if more else train


def open_training_parts(data: DataConfig, earlier: Path | None = None) -> dict[str, PairSource]:
    """Return the split ``train`` and each source that is added to it, by name."""
    return {"train": open_split(data, "train", earlier), **open_added(data)}


def open_added(data: DataConfig) -> dict[str, PairSource]:
    """Return the sources in ``data.more`` and ``data.replay``, by name."""
    max_bad_units = data.max_bad_units if isinstance(data, CorpusData) else MAX_BAD_UNITS
    return {
        name: open_source(source, data.src_lang, data.tgt_lang, max_bad_units)
        for name, source in added_sources(data).items()
    }


def is_on_disk(data: DataConfig, split: str, earlier: Path | None = None) -> bool:
    """Return whether ``open_split`` would download nothing; CorpusError: a file is damaged."""
    match data:
        case Multi30kData():
            return multi30k.find(split, data.src_lang, data.tgt_lang, earlier) is not None
        case FilesData():
            pair = _file_pairs(data)[split]
            return all(map(is_here, (pair.src, pair.tgt), pair.sums))
    return True


def check_has_text(data: DataConfig, config: Path) -> None:
    """Raise ConfigError if the settings in the file ``config`` are an imported model's."""
    if isinstance(data, ImportedData):
        run = config.parent.as_posix() if config.name == "config.yaml" else "RUN"
        raise ConfigError(
            f"{config}: data.kind imported has no text to train on; write a file with base: "
            f"{run}/config.yaml, init: {run} and data of another kind"
        )


def check_has_splits(data: DataConfig, run: Path, advice: str) -> None:
    """Raise CorpusError, which ends with ``advice``, if a run is of an imported model."""
    if isinstance(data, ImportedData):
        raise CorpusError(f"{run}: an imported model has no text of its own; {advice}")


def check_split(data: DataConfig, split: str) -> None:
    """Raise MissingTextError unless a corpus has a split of this name."""
    names = split_names(data)
    if isinstance(data, ImportedData):
        raise MissingTextError(
            f"data.kind imported has no split '{split}', as the model came without text"
        )
    if split not in names:
        hint = did_you_mean(split, names) or f"choose from {', '.join(names)}"
        raise MissingTextError(f"data.kind {data.kind} has no split '{split}'; {hint}")


def copy_lines(data: CopyData, split: str) -> ParallelText:
    """Draw lines of the copy task, such as ``3 1 10 7``, the same ones every time.

    No line of ``val`` or ``test`` is in ``train``, except where there are so few possible lines
    (a handful of symbols, a line of one or two) that a side would have none left.
    """
    generator = random.Random(f"copy task, {split}")
    symbols = [str(number) for number in range(1, data.symbols + 1)]
    training = split == "train"

    def draw() -> str:
        for _ in range(_MAX_DRAWS):
            line = " ".join(generator.choices(symbols, k=data.length))
            # A line is for training or not by itself alone, so that splits are disjoint.
            if (hashlib.sha256(line.encode()).digest()[0] >= 64) == training:
                break
        return line

    lines = [draw() for _ in range(data.train_lines if training else data.test_lines)]
    return ParallelText(lines, list(lines))


def _file_pairs(data: FilesData) -> dict[str, FilePair]:
    return {"train": data.train, "val": data.val, **data.test}


def _find_toy(src: str, tgt: str) -> ParallelFiles:
    # A checkout's or ``init``'s copy in the current directory goes before the program's own.
    for directory in (TOY, shipped_directory() / TOY):
        if (directory / src).is_file() and (directory / tgt).is_file():
            return ParallelFiles(directory / src, directory / tgt)
    raise CorpusError(
        f"{TOY}: {src} and {tgt} are not there; transformer-cli init --from toy writes them"
    )


def _find_prepared(split: str, directory: Path | None) -> ParallelFiles:
    record = None if directory is None else read_corpus_record(directory)
    if directory is None or record is None:
        raise CorpusError(
            f"split '{split}': the sources are not read yet, or the run's copy of them is gone, as "
            "in a shared model; transformer-cli vocab CONFIG and train CONFIG read them, and "
            "evaluate --src FILE --ref FILE needs none"
        )
    if damage := find_damage(directory, record, {split}):
        raise CorpusError(
            f"{damage}; restore it, or have transformer-cli train CONFIG write it again, which it "
            "does while the sources are as they were"
        )
    return split_path(directory, split)
