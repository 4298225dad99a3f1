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
from transformer_cli.data.prepared import open_writer
from transformer_cli.data.preparing import UnpreparedSplit
from transformer_cli.data.sources import is_on_disk, open_split, open_training_text, split_names
from transformer_cli.errors import InputError
from transformer_cli.files import whole_file
from transformer_cli.metrics import sentence_chrf

SIDES = ("src", "tgt")


def text_splits(config: Config) -> list[str]:
    """Return the splits whose text is written to the directory.

    What the copy task makes is in no file, and a prepared corpus in a run only, so they are written
    as a whole.
    """
    names = split_names(config.data)
    return names if isinstance(config.data, CopyData | CorpusData) else names[:2]


def open_text(config: Config, split: str) -> PairSource:
    """Return the text of a split; that of ``train`` is all that is trained on."""
    if isinstance(config.data, CorpusData):
        return UnpreparedSplit(config.data, split)
    if split == "train":
        return open_training_text(config.data)
    return open_split(config.data, split)


def sum_texts(config: Config, splits: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the text of each split."""
    return {split: open_text(config, split).source_sha256() for split in splits}


def write_texts(config: Config, paths: Mapping[tuple[str, str], Path]) -> None:
    """Write splits as plain text to files by split and side."""
    for split in dict.fromkeys(split for split, _ in paths):
        src, tgt = (paths[split, side] for side in SIDES)
        src.parent.mkdir(exist_ok=True)
        with open_writer(ParallelFiles(src, tgt)) as write:
            for pair in open_text(config, split).pairs():
                write(*pair)


def compose_student(
    config: Config,
    base: Path,
    output: Path,
    text_path: Callable[[str, str], Path],
    synthetic: Sequence[FilePair],
    keep_reference: bool,
) -> None:
    """Write the student's configuration: the settings of its file, ``base``, and more text.

    ``text_path`` gives the path of a split's side; ``synthetic`` are pairs that models have made.
    """

    def text_pair(split: str) -> FilePair:
        return FilePair(src=text_path(split, "src"), tgt=text_path(split, "tgt"))

    def test_pair(split: str) -> FilePair:
        source = open_text(config, split)
        if isinstance(source, ParallelFiles):
            return FilePair(src=source.src, tgt=source.tgt)
        return text_pair(split)

    data: dict[str, object] = {}
    pairs: list[Section] = list(synthetic)
    if keep_reference and isinstance(config.data, Diversified):
        pairs = [*config.data.more, *pairs]
    else:
        if keep_reference:
            pairs.insert(0, text_pair("train"))
        tests = (name for name in split_names(config.data)[2:] if is_on_disk(config.data, name))
        data = {
            "kind": "files",
            "src_lang": config.data.src_lang,
            "tgt_lang": config.data.tgt_lang,
            "train": pairs.pop(0),
            "val": text_pair("val"),
            "test": {name: test_pair(name) for name in tests},
        }
    data["more"] = pairs
    base_path = Path(os.path.relpath(base.resolve(), output.parent.resolve())).as_posix()
    lines = [
        "# Written by transformer-cli distill. To train it again elsewhere:",
        f"#   transformer-cli train {output.as_posix()} --run-dir DIR",
        f"base: {_quote(base_path)}",
        "data:",
        *(f"  {key}: {_quote(value)}" for key, value in data.items()),
    ]
    write_text(output, "\n".join(lines) + "\n")


def _quote(value: object) -> str:
    """Return a value as JSON, which is YAML; paths start from here, where they lie below."""

    def default(value: Section | Path) -> object:
        if isinstance(value, Section):
            return value.model_dump()
        here = Path.cwd()
        return (value.relative_to(here) if value.is_relative_to(here) else value).as_posix()

    return json.dumps(value, ensure_ascii=False, default=default)


def select_nearest(
    candidates: Path, references: Path, output: Path, lowercase: bool = False
) -> None:
    """Write the nearest candidate of each n-best list of ``translate``, by ``nearest``."""
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

    Candidates are in this order. Case is ignored where they have none.
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
