"""Text as token ids on disk: written once as a stream, read piece by piece.

A store is a directory that holds, for each side, a flat file of ids (int32) and one of offsets
(int64: where each sentence starts, and at the end the number of tokens), both little-endian, and
``store.json``, which says what they were made of. It appears by one rename, complete.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from transformer_cli.data.encoded import EncodedText, TokenStore
from transformer_cli.data.streamed import StreamedText, Survey
from transformer_cli.errors import RunError
from transformer_cli.files import sha256, whole_directory, write_text
from transformer_cli.text.lines import Progress
from transformer_cli.text.tokenizer import Tokenizers

_DESCRIPTION = "store.json"
_FILES = ("src.ids", "src.offsets", "tgt.ids", "tgt.offsets")
_ID, _OFFSET = np.dtype("<i4"), np.dtype("<i8")
# Sentences that are held while writing, or while looking at all lengths.
_CHUNK = 1 << 12


class _Description(BaseModel):
    """What store.json says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal[1] = 1
    source_sum: str
    text_sum: str
    pairs: int
    blank: int
    """Pairs of the text that are not in the store, as a side is blank."""
    tokenizer: str
    """The fingerprint of the tokenizer that made the ids."""
    src_tokens: int
    tgt_tokens: int
    sha256: dict[str, str]


@dataclass(frozen=True)
class StoredSide:
    """One side's sentences on disk.

    Attributes:
        ids: path of all tokens, sentence after sentence, without begin and end marks.
        offsets: path of where each sentence starts, and at the end the number of tokens.
        sentences: how many there are.
        tokens: how many they have together.
    """

    ids: Path
    offsets: Path
    sentences: int
    tokens: int

    def read(self, runs: Iterable[range]) -> TokenStore:
        """The sentences whose numbers are in ``runs``, each run without gaps."""
        ids, lengths = [np.zeros(0, _ID)], [np.zeros(1, _OFFSET)]
        with _opened(self.ids) as ids_file, _opened(self.offsets) as offsets_file:
            for run in runs:
                offsets = _read(offsets_file, run.start, len(run) + 1, _OFFSET)
                ids.append(_read(ids_file, int(offsets[0]), int(offsets[-1] - offsets[0]), _ID))
                lengths.append(np.diff(offsets))
        return TokenStore(np.concatenate(ids), np.cumsum(np.concatenate(lengths)))

    def lengths(self, runs: Iterable[range]) -> np.ndarray:
        """Tokens of each of the sentences in ``runs``; no ids are read."""
        with _opened(self.offsets) as file:
            parts = [np.diff(_read(file, run.start, len(run) + 1, _OFFSET)) for run in runs]
        return np.concatenate([np.zeros(0, _OFFSET), *parts])

    def length_counts(self) -> np.ndarray:
        """How many sentences have 0, 1, 2, … tokens."""
        counts = np.zeros(1, np.int64)
        for start in range(0, self.sentences, _CHUNK):
            lengths = self.lengths([range(start, min(start + _CHUNK, self.sentences))])
            more = np.bincount(lengths, minlength=len(counts))
            more[: len(counts)] += counts
            counts = more
        return counts


@dataclass(frozen=True)
class EncodedStore:
    """The training text as token ids on disk. Nothing of it is held here.

    Raises of its methods:
        RunError: the files are not there any more, or not what they were.
    """

    src: StoredSide
    tgt: StoredSide

    def __len__(self) -> int:
        return self.src.sentences

    def read(self, runs: Sequence[range]) -> EncodedText:
        """The pairs whose numbers are in ``runs``, each run without gaps."""
        return EncodedText(self.src.read(runs), self.tgt.read(runs))

    def lengths(self, runs: Sequence[range]) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of source and target of the pairs in ``runs``; no ids are read."""
        return self.src.lengths(runs), self.tgt.lengths(runs)


def write_store(
    directory: Path, text: StreamedText, tokenizers: Tokenizers, tokenizer: str, progress: Progress
) -> EncodedStore:
    """Encode ``text`` into the new directory ``directory``.

    Args:
        directory: it must not exist yet.
        text: what to encode, gone through once a side.
        tokenizers: one a side.
        tokenizer: their fingerprint.
        progress: wraps the lines of a side, given what is done with them, to draw a bar.

    Raises:
        CorpusError: the text is not any more what it was when it was surveyed.
        OSError: the files cannot be written; nothing is left of them.
    """
    survey = text.survey
    with whole_directory(directory) as temporary:
        src_lines = progress(text.src, "encoding source")
        src_tokens = _write_side(temporary, "src", map(tokenizers.src.encode, src_lines))
        tgt_lines = progress(text.tgt, "encoding target")
        tgt_tokens = _write_side(temporary, "tgt", map(tokenizers.tgt.encode, tgt_lines))
        text.refuse_if_changed()
        description = _Description(
            source_sum=survey.source_sum,
            text_sum=survey.text_sum,
            pairs=survey.pairs,
            blank=survey.blank,
            tokenizer=tokenizer,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
            sha256={name: sha256(temporary / name) for name in _FILES},
        )
        write_text(temporary / _DESCRIPTION, description.model_dump_json(indent=2) + "\n")
    return _described(directory, description)


def open_store(directory: Path, text_sum: str, tokenizer: str) -> EncodedStore | None:
    """The store in ``directory``, if it is whole and holds this text in these tokens.

    Args:
        directory: where it is, if it is there.
        text_sum: the one of the text's survey.
        tokenizer: the fingerprint of the tokenizers.
    """
    description = _read_description(directory)
    if description is None:
        return None
    if (description.text_sum, description.tokenizer) != (text_sum, tokenizer):
        return None
    try:
        sums = {name: sha256(directory / name) for name in _FILES}
    except OSError:
        return None
    if sums != description.sha256:
        return None
    return _described(directory, description)


def _described(directory: Path, description: _Description) -> EncodedStore:
    src_ids, src_offsets, tgt_ids, tgt_offsets = (directory / name for name in _FILES)
    return EncodedStore(
        StoredSide(src_ids, src_offsets, description.pairs, description.src_tokens),
        StoredSide(tgt_ids, tgt_offsets, description.pairs, description.tgt_tokens),
    )


def stored_survey(directory: Path) -> Survey | None:
    """What is known of the text that the store in ``directory`` was made of, if it is there."""
    description = _read_description(directory)
    if description is None:
        return None
    return Survey(
        source_sum=description.source_sum,
        text_sum=description.text_sum,
        pairs=description.pairs,
        blank=description.blank,
    )


def _read_description(directory: Path) -> _Description | None:
    try:
        return _Description.model_validate_json((directory / _DESCRIPTION).read_bytes())
    except (OSError, ValidationError):
        return None


def _write_side(directory: Path, side: str, sentences: Iterator[list[int]]) -> int:
    """Write ``sentences``, a chunk at a time; give the number of their tokens."""
    tokens = 0
    ids, offsets = directory / f"{side}.ids", directory / f"{side}.offsets"
    with ids.open("wb") as ids_file, offsets.open("wb") as offsets_file:
        offsets_file.write(np.zeros(1, _OFFSET).tobytes())
        arrays = (np.array(sentence, _ID) for sentence in sentences)
        while chunk := list(islice(arrays, _CHUNK)):
            ids_file.write(np.concatenate(chunk).tobytes())
            ends = tokens + np.cumsum([len(sentence) for sentence in chunk], dtype=_OFFSET)
            offsets_file.write(ends.tobytes())
            tokens = int(ends[-1])
    return tokens


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); the same command makes it anew"
        ) from error


def _read(file: BufferedReader, first: int, count: int, kind: np.dtype) -> np.ndarray:
    """``count`` values of a file of nothing but such values, from the one numbered ``first`` on."""
    file.seek(first * kind.itemsize)
    data = file.read(count * kind.itemsize)
    if len(data) != count * kind.itemsize:
        raise RunError(f"{file.name}: cut off since it was opened; the same command makes it anew")
    return np.frombuffer(data, kind)
