"""A first experiment on a user's own parallel text: its configuration."""

import os.path
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.compression import is_compressed
from transformer_cli.config.sections import LANGUAGE_PATTERN
from transformer_cli.config.shipped import SCHEMA, fill_template, shipped_directory
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.errors import CorpusError, UsageError

CONFIG = Path("configs/own.yaml")
_MAX_HELD_OUT = 1000
_SHARE_HELD_OUT = 20
"""One pair in so many, of each split, as long as these are fewer than the maximum."""


@dataclass(frozen=True)
class OwnText:
    """A user's text; without ``val``, some of ``train`` is held out for what is missing."""

    src_lang: str
    tgt_lang: str
    train: ParallelFiles
    val: ParallelFiles | None = None
    test: ParallelFiles | None = None

    def __post_init__(self) -> None:
        """Raise UsageError if these are no two languages."""
        for option, language in (("--src-lang", self.src_lang), ("--tgt-lang", self.tgt_lang)):
            if not re.fullmatch(LANGUAGE_PATTERN, language) or len(language) > 8:
                raise UsageError(f"{option} {language}: is no language code such as de or pt-BR")
        if self.src_lang == self.tgt_lang:
            raise UsageError(f"--tgt-lang {self.tgt_lang}: is --src-lang too; they must differ")

    @property
    def held_out(self) -> list[str]:
        """The splits to hold out."""
        if self.val is not None:
            return []
        return ["val"] if self.test is not None else ["val", "test"]


def guess_languages(src: Path, tgt: Path) -> tuple[str, str]:
    """Return two languages by the endings of files, as in train.de and train.en; '' for unknown."""
    plain = [Path(path.stem) if is_compressed(path) else path for path in (src, tgt)]
    of_src, of_tgt = (path.suffix for path in plain)
    are_codes = re.fullmatch("(\\.[a-z]{2}){2}", of_src + of_tgt) and of_src != of_tgt
    return (of_src[1:], of_tgt[1:]) if are_codes else ("", "")


def count_pairs(text: OwnText) -> int:
    """Return the number of training pairs; raise CorpusError if any file cannot be read."""
    counts = [_count(split) for split in (text.val, text.test, text.train) if split is not None]
    pairs = counts[-1]
    if text.held_out and pairs < _SHARE_HELD_OUT:
        raise CorpusError(
            f"{text.train.src}: has {pairs} lines, too few to hold some out for validation; name "
            "validation text with --val-src and --val-tgt"
        )
    return pairs


def write_own(text: OwnText, pairs: int, made: Path, directory: Path) -> None:
    """Write the configuration, which has splits drawn where the user has none."""
    files = {
        split: (_seen_from(directory, pair.src), _seen_from(directory, pair.tgt))
        for split, pair in (("train", text.train), ("val", text.val), ("test", text.test))
        if pair is not None
    }
    size = min(_MAX_HELD_OUT, pairs // _SHARE_HELD_OUT)
    filled = fill_template(
        text.src_lang, text.tgt_lang, pairs, files, dict.fromkeys(text.held_out, size)
    )
    (made / CONFIG).parent.mkdir(parents=True, exist_ok=True)
    (made / CONFIG).write_text(filled, encoding="utf-8", newline="\n")
    shutil.copyfile(shipped_directory() / SCHEMA, made / SCHEMA)


def _count(files: ParallelFiles) -> int:
    for path in (files.src, files.tgt):
        if path.exists() and not path.is_file():
            raise CorpusError(f"{path}: is no file; a pipe can be read only once, so save it first")
    return sum(1 for _ in files.pairs())


def _seen_from(directory: Path, path: Path) -> Path:
    """Return a relative path as one that starts from ``directory``."""
    try:
        if path.is_absolute():
            return path
        # Where links lead, since that is where a command sees `..` from.
        parent = Path(os.path.relpath(path.parent.resolve(), directory.resolve()))
        return parent / path.name
    except ValueError:  # they are on two drives of Windows
        return path.absolute()
