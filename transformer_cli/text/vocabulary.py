"""A vocabulary of tokens and their ids, kept as a plain text file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, Self

from transformer_cli.compression import write_text
from transformer_cli.errors import TokenizerError
from transformer_cli.files import read_small

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3
SPECIALS = ("<unk>", "<BOS>", "<EOS>", "<PAD>")
_MAX_BYTES = 1 << 26
"""Several million words; a token takes 200 bytes of memory."""


class Vocabulary:
    """Tokens numbered from 0: the four special tokens first, then the ones given.

    Args:
        tokens: the ordinary tokens, in the order of their ids from 4 on; without duplicates.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        ordinary = tuple(tokens)
        self.tokens = SPECIALS + ordinary
        # Without the special tokens: text that spells '<PAD>' must not become padding.
        self._ids = {token: number for number, token in enumerate(ordinary, len(SPECIALS))}

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        min_freq: int = 1,
        max_size: int | None = None,
        order: Literal["frequency", "appearance"] = "frequency",
    ) -> Self:
        """Build a vocabulary from the frequencies of tokens.

        Args:
            counts: frequency of each token, in order of first appearance.
            min_freq: tokens seen fewer times are left out.
            max_size: most entries, the four special tokens included; the most frequent are kept.
            order: ids by falling frequency, ties by the token; or by first appearance.
        """
        seen = [t for t, count in counts.items() if count >= min_freq and t not in SPECIALS]
        by_frequency = sorted(seen, key=lambda token: (-counts[token], token))
        kept = by_frequency[: None if max_size is None else max(0, max_size - len(SPECIALS))]
        if order == "appearance":
            staying = set(kept)
            kept = [token for token in seen if token in staying]
        return cls(kept)

    def __len__(self) -> int:
        return len(self.tokens)

    def id(self, token: str) -> int:
        """Return the id of a token of text; 0 if it is unknown or spelled like a special token."""
        return self._ids.get(token, UNK_ID)

    def token(self, number: int) -> str:
        """Return the token of an id, 0 to len - 1."""
        return self.tokens[number]

    def save(self, path: Path) -> None:
        r"""Write one token per line, line n (from 0) being id n; UTF-8, ended by '\n' alone."""
        write_text(path, "".join(f"{token}\n" for token in self.tokens))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a vocabulary that ``save`` wrote.

        Raises:
            TokenizerError: the file cannot be read, is not UTF-8, does not start with the special
                tokens, has an empty or a repeated token, or does not end with a line end.
        """
        tokens = _read_lines(path)
        for index, special in enumerate(SPECIALS):
            if tokens[index : index + 1] != [special]:
                found = repr(tokens[index]) if index < len(tokens) else "the end of the file"
                raise TokenizerError(f"{path}:{index + 1}: expected {special!r}, found {found}")
        first_line: dict[str, int] = {}
        for line, token in enumerate(tokens, start=1):
            if not token:
                raise TokenizerError(f"{path}:{line}: an empty token; the file is damaged")
            if token in first_line:
                raise TokenizerError(
                    f"{path}:{line}: {token!r} is already on line {first_line[token]}"
                )
            first_line[token] = line
        return cls(tokens[len(SPECIALS) :])


def _read_lines(path: Path) -> list[str]:
    try:
        data = read_small(path, _MAX_BYTES)
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TokenizerError(f"{path}:{line}: not UTF-8; the file is damaged") from error
    # Not splitlines(), which also splits at U+2028, U+0085 and others that tokens may contain.
    *lines, rest = text.split("\n")
    if rest:
        raise TokenizerError(f"{path}:{len(lines) + 1}: no line end; the file was cut off")
    return lines
