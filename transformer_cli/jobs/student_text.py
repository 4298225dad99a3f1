"""What a student is trained on: its texts as files, and its configuration."""

import json
import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from transformer_cli.compression import write_text
from transformer_cli.config.data_schema import CopyData, CorpusData, Diversified, FilePair
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section
from transformer_cli.data.corpus import PairSource, ParallelFiles, stream_lines
from transformer_cli.data.preparing import UnpreparedSplit
from transformer_cli.data.sources import is_on_disk, open_split, open_training_text, split_names
from transformer_cli.errors import InputError
from transformer_cli.files import whole_file
from transformer_cli.metrics import sentence_chrf

SIDES = ("src", "tgt")
TextPath = Callable[[str, str], Path]
"""Where the text of a split and a side is."""


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


def write_texts(config: Config, paths: Mapping[tuple[str, str], Path]) -> None:
    """Write splits as plain text.

    Args:
        config: what they are of.
        paths: of the files, by split and side.

    Raises:
        CorpusError: a split is missing, misaligned or damaged.
    """
    for split in dict.fromkeys(split for split, _ in paths):
        src, tgt = (paths[split, side] for side in SIDES)
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
    base: Path,
    output: Path,
    text_path: TextPath,
    synthetic: Sequence[FilePair],
    keep_reference: bool,
) -> None:
    """Write the student's configuration: the settings of its file, and more text.

    Args:
        config: what its file says.
        base: that file.
        output: where to.
        text_path: where the text of each split and side is.
        synthetic: the pairs that models have made.
        keep_reference: whether it is trained on the original pairs too.
    """
    data: list[str] = []
    pairs: list[Section] = list(synthetic)
    if keep_reference and isinstance(config.data, Diversified):
        pairs = [*config.data.more, *pairs]
    else:
        train = _text_pair(text_path, "train") if keep_reference else synthetic[0]
        pairs = pairs if keep_reference else pairs[1:]
        data = _corpus(config, text_path, train)
    base_path = Path(os.path.relpath(base.resolve(), output.parent.resolve())).as_posix()
    lines = [
        "# Written by transformer-cli distill. To train it again elsewhere:",
        f"#   transformer-cli train {output.as_posix()} --run-dir DIR",
        f"base: {_quote(base_path)}",
        "data:",
        *data,
        "  more:" if pairs else "  more: []",
        *(f"    - {_flow(pair)}" for pair in pairs),
    ]
    write_text(output, "\n".join(lines) + "\n")


def _corpus(config: Config, text_path: TextPath, train: FilePair) -> list[str]:
    """Return the lines of a data section of kind files, with all splits but for ``train``."""
    tests = {
        name: _test_pair(config, text_path, name)
        for name in split_names(config.data)[2:]
        if is_on_disk(config.data, name)
    }
    return [
        "  kind: files",
        f"  src_lang: {_quote(config.data.src_lang)}",
        f"  tgt_lang: {_quote(config.data.tgt_lang)}",
        f"  train: {_flow(train)}",
        f"  val: {_flow(_text_pair(text_path, 'val'))}",
        "  test:" if tests else "  test: {}",
        *(f"    {name}: {_flow(pair)}" for name, pair in tests.items()),
    ]


def _test_pair(config: Config, text_path: TextPath, split: str) -> FilePair:
    source = open_text(config, split)
    if isinstance(source, ParallelFiles):
        return FilePair(src=source.src, tgt=source.tgt)
    return _text_pair(text_path, split)


def _text_pair(text_path: TextPath, split: str) -> FilePair:
    return FilePair(src=text_path(split, "src"), tgt=text_path(split, "tgt"))


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


def select_nearest(
    candidates: Path, references: Path, output: Path, lowercase: bool = False
) -> None:
    """Write the candidate nearest to its reference, line by line.

    Args:
        candidates: n-best lists, as ``translate --n-best`` writes them.
        references: a line each.
        output: where to; it appears when it is whole.
        lowercase: whether case is ignored: candidates may have none.

    Raises:
        InputError: the numbers of lines differ.
    """
    lists, lines = (sum(1 for _ in stream_lines(path)) for path in (candidates, references))
    if lists != lines:
        raise InputError(
            f"{candidates} has {lists:,} lists, but {references} has {lines:,} lines; delete the "
            "former, and it is made again"
        )
    with whole_file(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        candidate_lists = map(_texts, stream_lines(candidates))
        for line in nearest(candidate_lists, stream_lines(references), lowercase):
            file.write(f"{line}\n")


def nearest(
    candidates: Iterable[list[str]], references: Iterable[str], lowercase: bool = False
) -> Iterator[str]:
    """Yield the candidate of each line with the highest chrF; of equal ones, the likeliest.

    Args:
        candidates: of each line, the likeliest first.
        references: a line each.
        lowercase: whether case is ignored.
    """
    for texts, reference in zip(candidates, references, strict=True):
        # Two segmentations of one text are two hypotheses.
        different = [*dict.fromkeys(texts)]
        if len(different) == 1:
            yield different[0]
            continue
        scores = sentence_chrf(different, [reference] * len(different), lowercase)
        yield different[scores.index(max(scores))]


def _texts(line: str) -> list[str]:
    try:
        return [str(each["text"]) for each in json.loads(line)["translations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not an n-best list of translate's: {line[:60]}") from error
