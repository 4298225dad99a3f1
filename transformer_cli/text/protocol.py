"""The interface of tokenizers: for one side, and for both sides together as a line codec."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transformer_cli.base.errors import UsageError
from transformer_cli.config.schema import Config
from transformer_cli.text.lines import has_words

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3
SPECIALS = ("<unk>", "<BOS>", "<EOS>", "<PAD>")
"""The tokens of these ids: unknown words, begin and end of a sentence, padding."""


class Tokenizer(Protocol):
    """The tokenizer of one side, with the special tokens ``SPECIALS``.

    Tokenizers inherit from it. The methods with a body suit most subword tokenizers.
    """

    size: int  # number of vocabulary entries, with the four special tokens
    is_word_level: bool = False
    """Whether every token is a word, so that words may be unknown and replaced."""
    source_ids: Sequence[int] = ()
    """Reserved ids that only sources have, for example the ids of tags; translations have none."""

    @property
    def text_size(self) -> int:
        """The number of vocabulary entries for text; reserved ids, if any, follow after them."""
        return self.size

    @property
    def reserved_ids(self) -> dict[str, Any]:
        """The reserved ids, which follow the ids of text, by what they stand for."""
        return {}

    @property
    def sentencepiece_model(self) -> bytes | None:
        """The bytes of a SentencePiece model, if it splits text into the tokens of ``token``."""
        return None

    def encode(self, line: str) -> list[int]:
        """Return a line's ids, without BOS and EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, on one line; BOS, EOS and PAD are skipped."""

    def token(self, number: int) -> str:
        """Return an id's token for display, with '▁' for a space before it; two may look alike.

        All kinds of subwords are shown in this spelling, whatever their files use: WordPiece's
        '##en' becomes 'en', and its 'Hund' becomes '▁Hund'. Whole words get no '▁'.
        """

    def line_tokens(self, line: str, ids: Sequence[int]) -> list[str]:
        """Return a line's tokens, given its ids; words are as in the line, even unknown ones."""
        return [self.token(number) for number in ids]

    def filled_tokens(self, ids: Sequence[int], values: Sequence[str]) -> list[str]:
        """Return the tokens of ids, with ``values`` in the place of slots; see ``EncodedSource``.

        Other reserved tokens are empty, because they stand for no text.
        """
        return [self.token(number) for number in ids]

    def detokenize(self, ids: Sequence[int], tokens: Sequence[str]) -> str:
        """Return the text of ids without BOS, EOS and PAD, given a token for each id.

        Only two kinds of tokenizers use the tokens: word-level ones, because words may be replaced,
        and tokenizers with slots; see ``filled_tokens``.
        """
        return self.decode(ids)


@dataclass(frozen=True)
class StreamedLines:
    """Lines of text; each iteration reads them again from the start."""

    read: Callable[[], Iterator[str]]
    count: int

    def __iter__(self) -> Iterator[str]:
        return self.read()

    def __len__(self) -> int:
        return self.count


Lines = Sequence[str] | StreamedLines
"""Lines of text that allow several iterations."""


@dataclass(frozen=True)
class EncodedSource:
    """A source as ids."""

    line: str
    ids: list[int]
    values: tuple[str, ...] = ()
    """The texts that its reserved ids stand for, in an order that its codec knows."""
    start: tuple[int, ...] = ()
    """The ids that precede it, or precede each piece if it is so long that it is split."""


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides, which encode and write lines; joint ones are the same object.

    This class uses only the ids of the tokenizers. Extensions may inherit from it to give a meaning
    to further ids, after the ids of text; see ``CodecKind``.

    For ``letterless`` and ``copied``, see ``TextStats``.
    """

    src: Tokenizer
    tgt: Tokenizer
    letterless: bool = False
    copied: bool = False

    @property
    def fingerprint(self) -> dict[str, str]:
        """Other things that affect translations, besides the tokenizers' files, by name."""
        return {}

    def encode_pairs(
        self, src: Sequence[str], tgt: Sequence[str]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the ids of both sides of some pairs, for training."""
        return list(map(self.src.encode, src)), list(map(self.tgt.encode, tgt))

    @property
    def reserved(self) -> dict[str, tuple[str, str]]:
        """The meanings of further ids, each with the setting that adds them and an alternative."""
        return {}

    def tagged(self, tag: str) -> "Tokenizers":
        """Return tokenizers that put a tag before sources; raise UsageError if it is unknown."""
        problem = "the run has no tags, because no source of its training data has a 'tag'"
        raise UsageError(f"no tag '{tag}'; {problem}")

    def encode_source(self, line: str) -> EncodedSource:
        """Return the ids of a line to translate."""
        return EncodedSource(line, self.src.encode(line))

    def encode_prefix(self, prefix: str, source: EncodedSource) -> list[int]:
        """Return the ids of a source's translation, or of the start of a translation."""
        return self.tgt.encode(prefix)

    def source_tokens(self, source: EncodedSource, ids: Sequence[int]) -> list[str]:
        """Return the tokens of a source, given its ids, which include the ids of its start.

        Whole words are as in the line. Tokens that stand for no text are empty.
        """
        return self.src.line_tokens(source.line, ids)

    def has_words(self, line: str) -> bool:
        """Return whether a line has words to translate; other lines are their own translations."""
        return has_words(line)

    @property
    def revisers(self) -> tuple[Any, ...]:
        """The revisers of translations; see ``Reviser`` in inference/translation.py."""
        return ()

    def count_losses(self, src: str, tgt: str) -> tuple[int, ...]:
        """Return the number of parts that a translation has lost, for each kind of part."""
        return ()


class CodecKind(Protocol):
    """A kind of codec, which an extension provides as ``codec``: it gives a meaning to further ids.

    Its record, plain data in tokenizer.json, has everything that it needs to know.
    """

    def describe(self, config: Config) -> dict[str, Any]:
        """Return the record that a config needs; empty if it does not need this codec."""

    def searches_again(self, config: Config) -> bool:
        """Return whether translations may lose parts and therefore need a second search."""

    def check(self, record: Any) -> None:
        """Raise ValueError if this is not a valid record."""

    def check_reuse(self, record: dict[str, Any], wanted: dict[str, Any]) -> None:
        """Raise ValueError if ``record`` lacks anything in ``wanted``, as tokenizers can't grow."""

    def text_to_learn(self, record: dict[str, Any], src: Lines, tgt: Lines) -> tuple[Lines, Lines]:
        """Return both sides of a text, without the parts that further ids will stand for."""

    def open(self, tokenizers: Tokenizers, record: dict[str, Any]) -> Tokenizers:
        """Return tokenizers with further ids."""
