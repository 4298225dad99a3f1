"""What a student is trained on: its texts as files, and its configuration."""

import json
import os.path
from collections.abc import Sequence
from pathlib import Path

from transformer_cli.config.data_schema import CopyData, CorpusData, Diversified, FilePair
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section
from transformer_cli.data.corpus import PairSource, ParallelFiles
from transformer_cli.data.preparing import UnpreparedSplit
from transformer_cli.data.sources import is_on_disk, open_split, open_training_text, split_names
from transformer_cli.distill.directory import DistillDirectory
from transformer_cli.files import whole_file

SIDES = ("src", "tgt")


def text_splits(config: Config) -> list[str]:
    """Return the splits whose text is written to the directory.

    What the copy task makes is in no file, and a prepared corpus in a run only, so they are written
    as a whole.
    """
    names = split_names(config.data)
    return names if isinstance(config.data, CopyData | CorpusData) else names[:2]


def open_text(config: Config, split: str) -> PairSource:
    """Return the text of a split; that of ``train`` is all that is trained on.

    Raises:
        CorpusError: it is missing, misaligned or damaged.
    """
    if isinstance(config.data, CorpusData):
        return UnpreparedSplit(config.data, split)
    if split == "train":
        return open_training_text(config.data)
    return open_split(config.data, split)


def write_texts(config: Config, directory: DistillDirectory) -> None:
    """Write the splits as plain text, a file a side.

    Raises:
        CorpusError: a split is missing, misaligned or damaged.
    """
    for split in text_splits(config):
        src, tgt = (directory.text(split, side) for side in SIDES)
        src.parent.mkdir(exist_ok=True)
        with (
            whole_file(src) as new_src,
            whole_file(tgt) as new_tgt,
            new_src.open("w", encoding="utf-8", newline="") as src_file,
            new_tgt.open("w", encoding="utf-8", newline="") as tgt_file,
        ):
            for src_line, tgt_line in open_text(config, split).pairs():
                src_file.write(f"{src_line}\n")
                tgt_file.write(f"{tgt_line}\n")


def compose_student(
    config: Config,
    file: Path,
    directory: DistillDirectory,
    synthetic: Sequence[FilePair],
    keep_reference: bool,
) -> str:
    """Return the text of the student's configuration: its file's settings, and more text.

    Args:
        config: what its file says.
        file: that file, which becomes the base.
        directory: of the distillation.
        synthetic: the pairs that models have made.
        keep_reference: whether it is trained on the original pairs too.
    """
    base = Path(os.path.relpath(file.resolve(), directory.path.resolve())).as_posix()
    data: list[str] = []
    pairs: list[Section] = list(synthetic)
    if keep_reference and isinstance(config.data, Diversified):
        pairs = [*config.data.more, *pairs]
    else:
        train = _text_pair(directory, "train") if keep_reference else synthetic[0]
        pairs = pairs if keep_reference else pairs[1:]
        data = _corpus(config, directory, train)
    return "\n".join(
        [
            "# Written by transformer-cli distill. To train it again elsewhere:",
            f"#   transformer-cli train {directory.student_config.as_posix()} --run-dir DIR",
            f"base: {_quote(base)}",
            "data:",
            *data,
            "  more:" if pairs else "  more: []",
            *(f"    - {_flow(pair)}" for pair in pairs),
            "",
        ]
    )


def _corpus(config: Config, directory: DistillDirectory, train: FilePair) -> list[str]:
    """Return the lines of a data section of kind files, with all splits but for ``train``."""
    tests = {
        name: _test_pair(config, directory, name)
        for name in split_names(config.data)[2:]
        if is_on_disk(config.data, name)
    }
    return [
        "  kind: files",
        f"  src_lang: {_quote(config.data.src_lang)}",
        f"  tgt_lang: {_quote(config.data.tgt_lang)}",
        f"  train: {_flow(train)}",
        f"  val: {_flow(_text_pair(directory, 'val'))}",
        "  test:" if tests else "  test: {}",
        *(f"    {name}: {_flow(pair)}" for name, pair in tests.items()),
    ]


def _test_pair(config: Config, directory: DistillDirectory, split: str) -> FilePair:
    source = open_text(config, split)
    if isinstance(source, ParallelFiles):
        return FilePair(src=source.src, tgt=source.tgt)
    return _text_pair(directory, split)


def _text_pair(directory: DistillDirectory, split: str) -> FilePair:
    return FilePair(src=directory.text(split, "src"), tgt=directory.text(split, "tgt"))


def _flow(pair: Section) -> str:
    settings = {
        key: _from_here(value) if isinstance(value, Path) else value
        for key, value in pair.model_dump().items()
    }
    return f"{{{', '.join(f'{key}: {_quote(value)}' for key, value in settings.items())}}}"


def _from_here(path: Path) -> str:
    """Return a path as configurations have it: from the current directory, where it is below."""
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
