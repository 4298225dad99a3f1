"""Parallel text, read and checked: line n of one side translates line n of the other."""

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.errors import CorpusError


@dataclass(frozen=True)
class ParallelText:
    """Aligned lines, without their line ends: ``tgt[i]`` translates ``src[i]``."""

    src: list[str]
    tgt: list[str]

    def __len__(self) -> int:
        return len(self.src)


def read_parallel(src: Path, tgt: Path) -> ParallelText:
    """Read two aligned files.

    Args:
        src: path of the source side, plain UTF-8 or ``.gz``.
        tgt: path of the target side, likewise.

    Raises:
        CorpusError: a side cannot be read, the line counts differ, or there are no lines at all.
    """
    text = ParallelText(read_lines(src), read_lines(tgt))
    if len(text.src) != len(text.tgt):
        raise CorpusError(
            f"{src} has {len(text.src)} lines but {tgt} has {len(text.tgt)}; "
            "line n of one must translate line n of the other, so make their numbers equal"
        )
    if not text.src:
        raise CorpusError(f"{src} and {tgt} are empty; give files with at least one line")
    return text


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 file, as ``decode_lines`` cuts them; ``.gz`` is unpacked.

    Raises:
        CorpusError: the file is missing, a directory, damaged or not UTF-8.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return list(decode_lines(file, str(path)))
    except FileNotFoundError:
        raise CorpusError(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise CorpusError(f"{path}: this is a directory; give the path of a text file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(
            f"{path}: damaged or cut-off gzip file ({error}); get it anew, or take .gz off its "
            "name if it is plain text"
        ) from error
    except OSError as error:
        raise CorpusError(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error


def decode_lines(raw_lines: Iterable[bytes], name: str) -> Iterator[str]:
    r"""Decode the lines of a binary file one by one.

    Only ``\n`` ends a line, so that both sides of a corpus are cut alike by every program: other
    characters that Python's ``splitlines`` breaks at stay in their line. One ``\r`` before the line
    end is dropped, and so is a byte order mark at the start of the file. The last line may lack
    its line end.

    Args:
        raw_lines: as iterating over a binary file gives them.
        name: the file's name, for messages.

    Raises:
        CorpusError: a line is not UTF-8.
    """
    for number, raw in enumerate(raw_lines, start=1):
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw:
                return
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            # Counted in characters, as editors do: what stands before the bad byte is valid.
            column = len(raw[: error.start].decode("utf-8")) + 1
            raise CorpusError(
                f"{name}:{number}: not UTF-8 (byte 0x{raw[error.start]:02x} at column {column} of "
                "the line); convert the file to UTF-8, for example with iconv"
            ) from error


def without_blank_pairs(text: ParallelText) -> tuple[ParallelText, int]:
    """Leave out the pairs of which at least one side is nothing but whitespace.

    Returns:
        The other pairs in their order, and the number of pairs left out.
    """
    kept = [
        (src, tgt)
        for src, tgt in zip(text.src, text.tgt, strict=True)
        if src.strip() and tgt.strip()
    ]
    return ParallelText([src for src, _ in kept], [tgt for _, tgt in kept]), len(text) - len(kept)
