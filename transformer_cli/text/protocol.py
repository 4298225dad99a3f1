"""Interfaces: a language's tokenizer, those of both languages, and codecs for reserved ids."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transformer_cli.base.errors import UsageError
from transformer_cli.config.schema import Config
from transformer_cli.text.lines import has_words

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3
SPECIALS = ("<unk>", "<BOS>", "<EOS>", "<PAD>")
"""The tokens with ids 0 to 3: an unknown word, the start and end of a sentence, and padding."""


class Tokenizer(Protocol):
    """The tokenizer of one side (source or target), with the special tokens ``SPECIALS``.

    All tokenizers inherit from this class; its default methods suit most subword tokenizers.
    """

    size: int  # number of vocabulary entries, with the four special tokens
    is_word_level: bool = False
    """Whether every token is a whole word, so that a word may be unknown and need replacing."""
    source_ids: Sequence[int] = ()
    """The ``reserved_ids`` that occur in sources but never in translations, for example tags."""

    @property
    def text_size(self) -> int:
        """The number of vocabulary entries, not counting ``reserved_ids``, which come last."""
        return self.size

    @property
    def reserved_ids(self) -> dict[str, Any]:
        """The ids that codecs add after those of text, keyed by their purpose, e.g. 'tags'."""
        return {}

    @property
    def sentencepiece_model(self) -> bytes | None:
        """The bytes of a SentencePiece model that splits text the same way; None if none does."""
        return None

    def encode(self, line: str) -> list[int]:
        """Return the ids of a line's tokens, without BOS or EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text that ids stand for, on one line; skip BOS, EOS and PAD."""

    def token(self, number: int) -> str:
        """Return an id's token for display, with '▁' for a space before it; two ids may share one.

        The spelling is the same for all subword tokenizers, whatever their files use: WordPiece's
        '##en' becomes 'en', and its 'Hund' becomes '▁Hund'. Word-level tokenizers use no '▁'.
        """

    def line_tokens(self, line: str, ids: Sequence[int]) -> list[str]:
        """Return a line's tokens, given its ids; even unknown words are spelled as in the line."""
        return [self.token(number) for number in ids]

    def filled_tokens(self, ids: Sequence[int], values: Sequence[str]) -> list[str]:
        """Return the tokens of ids, with ``EncodedSource.values`` as the tokens of slots.

        A slot, a reserved id, stands for a text like '%s'. Tokens of other reserved ids are empty.
        """
        return [self.token(number) for number in ids]

    def detokenize(self, ids: Sequence[int], tokens: Sequence[str]) -> str:
        """Return the text of ids, none of which is BOS, EOS or PAD, given a token for each id.

        Only two kinds of tokenizer use the tokens: word-level ones, because words may be replaced,
        and those with slots; see ``filled_tokens``.
        """
        return self.decode(ids)


@dataclass(frozen=True)
class StreamedLines:
    """Lines of text that are not kept in memory: each iteration reads them again."""

    read: Callable[[], Iterator[str]]
    count: int

    def __iter__(self) -> Iterator[str]:
        return self.read()

    def __len__(self) -> int:
        return self.count


Lines = Sequence[str] | StreamedLines
"""Lines of text that can be read more than once."""


@dataclass(frozen=True)
class EncodedSource:
    """A source line as token ids, with the texts that some of the ids stand for."""

    line: str
    ids: list[int]
    values: tuple[str, ...] = ()
    """The texts that the line's slots (reserved ids) stand for, in the order of the slots."""
    start: tuple[int, ...] = ()
    """Ids to put before the line, e.g. a tag's; if the line is split, before each piece of it."""


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of the source and target languages; both may be the same object.

    This class uses only ids of text. Subclasses in extensions may reserve more ids, after those of
    text, and give them a meaning; see ``CodecKind``.

    For ``letterless`` and ``copied``, see ``TextStats``.
    """

    src: Tokenizer
    tgt: Tokenizer
    letterless: bool = False
    copied: bool = False

    @property
    def fingerprint(self) -> dict[str, str]:
        """Settings, e.g. a source tag, that affect translations but are not in tokenizer.json."""
        return {}

    def encode_pairs(
        self, src: Sequence[str], tgt: Sequence[str]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the ids of each source line and of each target line, for training."""
        return list(map(self.src.encode, src)), list(map(self.tgt.encode, tgt))

    @property
    def reserved(self) -> dict[str, tuple[str, str]]:
        """For each purpose of reserved ids, (setting that adds them, how to train without them)."""
        return {}

    def tagged(self, tag: str) -> "Tokenizers":
        """Return tokenizers that put ``tag`` before sources; raise UsageError for unknown tags."""
        problem = "the run has no tags, because no source of its training data has a 'tag'"
        raise UsageError(f"no tag '{tag}'; {problem}")

    def encode_source(self, line: str) -> EncodedSource:
        """Return a line to translate as ids, with what ``EncodedSource`` adds to them."""
        return EncodedSource(line, self.src.encode(line))

    def encode_prefix(self, prefix: str, source: EncodedSource) -> list[int]:
        """Return the ids of ``prefix``, a translation of ``source`` or the start of one."""
        return self.tgt.encode(prefix)

    def source_tokens(self, source: EncodedSource, ids: Sequence[int]) -> list[str]:
        """Return the tokens of a source, given its ids, which include ``EncodedSource.start``.

        Whole words are spelled as in the line. Tokens that stand for no text are empty.
        """
        return self.src.line_tokens(source.line, ids)

    def has_words(self, line: str) -> bool:
        """Return whether a line has words to translate; other lines are their own translations."""
        return has_words(line)

    @property
    def revisers(self) -> tuple[Any, ...]:
        """Objects that correct translations; see ``Reviser`` in inference/translation.py."""
        return ()

    def count_losses(self, src: str, tgt: str) -> tuple[int, ...]:
        """Return numbers for what ``tgt`` has lost, e.g. one for placeholders and one for terms."""
        return ()


class CodecKind(Protocol):
    """A codec changes how lines are encoded, e.g. with ids that it reserves for tags.

    Extensions add codecs. Those with the fact ``acts_unasked`` need no setting. All that a codec
    needs to know is in its record, a dict that tokenizer.json contains.
    """

    def describe(self, config: Config) -> dict[str, Any]:
        """Return this codec's record for a config; empty if the config does not need the codec."""

    def searches_again(self, config: Config) -> bool:
        """Return whether translations that lost e.g. a placeholder are searched for again."""

    def check(self, record: Any) -> None:
        """Raise ValueError if ``record`` is not valid."""

    def check_reuse(self, record: dict[str, Any], wanted: dict[str, Any]) -> None:
        """Raise ValueError if ``record`` lacks anything in ``wanted``: vocabularies cannot grow."""

    def text_to_learn(self, record: dict[str, Any], src: Lines, tgt: Lines) -> tuple[Lines, Lines]:
        """Return source and target lines, without the texts that reserved ids will stand for."""

    def learn(self, record: dict[str, Any], src: Lines, tgt: Lines) -> dict[str, Any]:
        """Return the record to save: ``record``, with what the codec learns from these lines."""

    def open(self, tokenizers: Tokenizers, record: dict[str, Any]) -> Tokenizers:
        """Return a copy of ``tokenizers`` with the reserved ids that ``record`` describes."""
