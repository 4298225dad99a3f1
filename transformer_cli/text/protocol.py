"""What the rest of the program knows of tokenizers: one side's, and both sides' as a line codec."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transformer_cli.base.errors import UsageError
from transformer_cli.config.schema import Config
from transformer_cli.text.lines import has_words

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3
SPECIALS = ("<unk>", "<BOS>", "<EOS>", "<PAD>")
"""Unknown words, begin and end of a sentence, padding: the tokens of these ids."""


class Tokenizer(Protocol):
    """One side's tokenizer, whose special tokens are ``SPECIALS``.

    Tokenizers inherit from it: what has a body here is what subwords mostly do.
    """

    size: int  # entries of the vocabulary, the four special tokens included
    is_word_level: bool = False
    """Whether every token is a word, so that words may be unknown and replaced."""
    source_ids: Sequence[int] = ()
    """Reserved ids that are for sources only, those of tags say: no translation has one."""

    @property
    def text_size(self) -> int:
        """Entries of the vocabulary that text is encoded to; reserved ones follow, if any."""
        return self.size

    @property
    def reserved_ids(self) -> dict[str, Any]:
        """Ids behind those of text, by what they stand for."""
        return {}

    @property
    def sentencepiece_model(self) -> bytes | None:
        """Bytes of a SentencePiece model, if it divides text into what ``token`` returns."""
        return None

    def encode(self, line: str) -> list[int]:
        """Return a line's ids, without BOS and EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, on one line; BOS, EOS and PAD are skipped."""

    def token(self, number: int) -> str:
        """Return an id's token for display, with '▁' for a space before it; two may look alike.

        All kinds of subwords are shown like this, however their files spell them ('##en' of a
        WordPiece is 'en', its 'Hund' '▁Hund'). Whole words have no sign.
        """

    def line_tokens(self, line: str, ids: Sequence[int]) -> list[str]:
        """Return a line's tokens, given its ids; whole words as the line has them, unknown too."""
        return [self.token(number) for number in ids]

    def filled_tokens(self, ids: Sequence[int], values: Sequence[str]) -> list[str]:
        """Return the tokens of ids, with ``values`` for slots; see ``EncodedSource``.

        Other reserved tokens, which stand for no text, are empty.
        """
        return [self.token(number) for number in ids]

    def detokenize(self, ids: Sequence[int], tokens: Sequence[str]) -> str:
        """Return the text of ids, without BOS, EOS and PAD, given a token for each.

        Only a word-level tokenizer needs these, as some may be replaced, and one whose slots stand
        for something; see ``filled_tokens``.
        """
        return self.decode(ids)


@dataclass(frozen=True)
class StreamedLines:
    """Lines that each iteration reads from the start."""

    read: Callable[[], Iterator[str]]
    count: int

    def __iter__(self) -> Iterator[str]:
        return self.read()

    def __len__(self) -> int:
        return self.count


Lines = Sequence[str] | StreamedLines
"""Lines of text that can be iterated over several times."""


@dataclass(frozen=True)
class EncodedSource:
    """A source as ids, and what its reserved ids stand for, in an order that its codec knows."""

    line: str
    ids: list[int]
    values: tuple[str, ...] = ()
    start: tuple[int, ...] = ()
    """Ids that stand before it, and before each piece if it is too long to be translated as one."""


@dataclass(frozen=True)
class Tokenizers:
    """Both sides' tokenizers; a joint one is the same object twice. They encode and write lines.

    Here a line is what its tokenizer makes of it. An extension may inherit from this class, so that
    further ids, behind those that text is encoded to, stand for something; see ``CodecKind``.

    ``letterless`` and ``copied`` are those of ``TextStats``.
    """

    src: Tokenizer
    tgt: Tokenizer
    letterless: bool = False
    copied: bool = False

    @property
    def fingerprint(self) -> dict[str, str]:
        """What decides translations besides the tokenizers, by name."""
        return {}

    def encode_pairs(
        self, src: Sequence[str], tgt: Sequence[str]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the ids of both sides of some pairs, as in training."""
        return list(map(self.src.encode, src)), list(map(self.tgt.encode, tgt))

    @property
    def reserved(self) -> dict[str, tuple[str, str]]:
        """What further ids stand for, with the setting that asks for them, and its alternative."""
        return {}

    def tagged(self, tag: str) -> "Tokenizers":
        """Return tokenizers that put a tag before sources; UsageError: they know no such tag."""
        problem = "the run has no tags: no source of its training data has a 'tag'"
        raise UsageError(f"no tag '{tag}'; {problem}")

    def encode_source(self, line: str) -> EncodedSource:
        """Return the ids of a line to be translated."""
        return EncodedSource(line, self.src.encode(line))

    def encode_prefix(self, prefix: str, source: EncodedSource) -> list[int]:
        """Return the ids of a translation of a source, or of its beginning."""
        return self.tgt.encode(prefix)

    def source_tokens(self, source: EncodedSource, ids: Sequence[int]) -> list[str]:
        """Return the tokens of a source, given its ids, with those of its start.

        Whole words are as the line has them. Tokens that stand for no text are empty.
        """
        return self.src.line_tokens(source.line, ids)

    def has_words(self, line: str) -> bool:
        """Return whether a line has something to translate; others are their own translations."""
        return has_words(line)

    @property
    def revisers(self) -> tuple[Any, ...]:
        """What revises translations, each a ``Reviser`` of inference/translation.py."""
        return ()

    def count_losses(self, src: str, tgt: str) -> tuple[int, ...]:
        """Return how much of its source a translation has lost, by kinds of what may be lost."""
        return ()


class CodecKind(Protocol):
    """What an extension provides as ``codec``: what ids behind those of text stand for.

    What it has to know is plain data in tokenizer.json: its record.
    """

    def describe(self, config: Config) -> dict[str, Any]:
        """Return the record of what a configuration asks for; empty: nothing."""

    def searches_again(self, config: Config) -> bool:
        """Return whether translations may lose something, so that they are searched again."""

    def check(self, record: Any) -> None:
        """Raise ValueError unless this may be a record."""

    def check_reuse(self, record: dict[str, Any], wanted: dict[str, Any]) -> None:
        """Raise ValueError if tokenizers with a record lack what is wanted; they cannot grow."""

    def text_to_learn(self, record: dict[str, Any], src: Lines, tgt: Lines) -> tuple[Lines, Lines]:
        """Return both sides of a text without what its further ids will stand for."""

    def open(self, tokenizers: Tokenizers, record: dict[str, Any]) -> Tokenizers:
        """Return tokenizers with further ids."""
