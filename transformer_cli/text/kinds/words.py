"""Words, split by spaCy's rules, with a vocabulary file a side."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.errors import ConfigError, TokenizerError
from transformer_cli.files import sha256
from transformer_cli.text.detokenizer import Detokenizer
from transformer_cli.text.manifest import ManifestSection, TokenizerManifest, TrainingText
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, Vocabulary

if TYPE_CHECKING:
    from spacy.language import Language

_SRC, _TGT = "src.vocab.txt", "tgt.vocab.txt"
# About 300 bytes each; Multi30k's training text has 20,000 different ones a side.
_MAX_STRINGS = 200_000
# Characters of a word. spaCy looks at the rest of a word each time it splits off punctuation: a
# million brackets in a row would take it weeks.
_MAX_WORD_LENGTH = 256
_TOO_LONG = re.compile(rf"\S{{{_MAX_WORD_LENGTH}}}(?=\S)")


class WordsTokenizer(Tokenizer):
    """Lines as ids of words.

    Args:
        words: splits and joins lines.
        vocabulary: the ids; other words are unknown.
    """

    def __init__(self, words: "SpacyWords", vocabulary: Vocabulary) -> None:
        self._words = words
        self._vocabulary = vocabulary

    @property
    def size(self) -> int:
        """Entries of the vocabulary, the four special tokens included."""
        return len(self._vocabulary)

    @property
    def is_word_level(self) -> bool:
        """Return True."""
        return True

    def encode(self, line: str) -> list[int]:
        """Return a line's ids, without BOS and EOS."""
        return [self._vocabulary.id(word) for word in self._words.split(line)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without BOS, EOS and PAD; unknown words are written '<unk>'."""
        shown = [number for number in ids if number not in (BOS_ID, EOS_ID, PAD_ID)]
        return self._words.join([self._vocabulary.token(number) for number in shown])

    def token(self, number: int) -> str:
        """Return an id's word."""
        return self._vocabulary.token(number)

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Return True for each id."""
        return [True] * len(ids)

    def line_tokens(self, line: str, ids: Sequence[int]) -> list[str]:
        """Return a line's words, known or not."""
        return self._words.split(line)

    def detokenize(self, ids: Sequence[int], tokens: Sequence[str]) -> str:
        """Return the text of ``tokens``, known or not."""
        return self._words.join(tokens)


class SpacyWords:
    """Splits lines of one language into words by spaCy's rules, and joins words to text.

    Words are lowercased after splitting, as the rules look at case: "U.S." and "end.The" are split
    correctly only as they were written.

    Args:
        rules: language whose spaCy rules split lines, as in 'de'; 'xx' for the general rules.
        language: language of the text, which decides how words are joined.
        lowercase: whether words are lowercased.

    Raises:
        ConfigError: spaCy does not support the language, or needs another package for it.
    """

    def __init__(self, rules: str, language: str, lowercase: bool) -> None:
        self._split = _SpacyRules(rules)
        self._detokenizer = Detokenizer(self._split, language)
        self._lowercase = lowercase

    def split(self, line: str) -> list[str]:
        """Split a line into words, punctuation marks included; white space is dropped.

        More than 256 characters without white space are first cut every 256.
        """
        words = [word for word in self._split(_TOO_LONG.sub(r"\g<0> ", line)) if not word.isspace()]
        return [word.lower() for word in words] if self._lowercase else words

    def count(self, lines: Iterable[str]) -> Counter[str]:
        """Count each word in lines, in order of first appearance."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(self.split(line))
        return counts

    def join(self, words: Sequence[str]) -> str:
        """Return words as text: the reverse of ``split``, as far as words tell."""
        return self._detokenizer.join(words)


class _SpacyRules:
    """A language's rules for splitting text, by spaCy.

    spaCy never frees a string that it has seen. A pipeline that has seen many is replaced, so that
    a file of any length is split in constant memory.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._pipeline = _create_pipeline(language)

    def __call__(self, text: str) -> list[str]:
        if len(self._pipeline.vocab.strings) > _MAX_STRINGS:
            self._pipeline = _create_pipeline(self._language)
        return [token.text for token in self._pipeline.tokenizer(text)]


def _create_pipeline(language: str) -> "Language":
    import spacy

    try:
        return spacy.blank(language)
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"tokenizer: spaCy cannot cut words by the rules of '{language}' here; set "
            "tokenizer.src_rules or tokenizer.tgt_rules to another language ('xx': general rules), "
            f"or tokenizer.kind to sentencepiece (spaCy: {reason})"
        ) from error


class WordsSideManifest(ManifestSection):
    """One side's part of the manifest."""

    rules: str
    language: str
    types: int


class WordsManifest(TokenizerManifest):
    """The manifest of word tokenizers."""

    kind: Literal["words"] = "words"
    src: WordsSideManifest
    tgt: WordsSideManifest

    def load(self, directory: Path) -> Tokenizers:
        """Load the tokenizers of a directory, checking its files' SHA-256."""
        return Tokenizers(
            src=self._load_side(self.src, directory / _SRC),
            tgt=self._load_side(self.tgt, directory / _TGT),
            types=(self.src.types, self.tgt.types),
        )

    def _load_side(self, side: WordsSideManifest, path: Path) -> WordsTokenizer:
        self.read_checked(path)
        words = SpacyWords(side.rules, side.language, self.lowercase)
        return WordsTokenizer(words, Vocabulary.load(path))


MANIFEST = WordsManifest


def learn(config: WordsConfig, text: TrainingText, directory: Path) -> WordsManifest:
    """Count the words of both sides and write their vocabularies into ``directory``.

    Raises:
        ConfigError: spaCy has no rules for a language.
        TokenizerError: ``tokenizer.min_freq`` leaves no word.
    """
    src_lines = text.progress(text.src, "source words")
    tgt_lines = text.progress(text.tgt, "target words")
    src_rules, tgt_rules = config.src_rules or text.src_lang, config.tgt_rules or text.tgt_lang
    return WordsManifest(
        lowercase=config.lowercase,
        learned_from=text.sha256,
        src=_learn_side(config, src_rules, text.src_lang, src_lines, directory / _SRC),
        tgt=_learn_side(config, tgt_rules, text.tgt_lang, tgt_lines, directory / _TGT),
        sha256={name: sha256(directory / name) for name in (_SRC, _TGT)},
    )


def _learn_side(
    config: WordsConfig, rules: str, language: str, lines: Iterable[str], path: Path
) -> WordsSideManifest:
    counts = SpacyWords(rules, language, config.lowercase).count(lines)
    vocabulary = Vocabulary.from_counts(counts, config.min_freq, config.max_size, config.order)
    if len(vocabulary) == len(SPECIALS):
        raise TokenizerError(
            f"tokenizer.min_freq: no word is seen {config.min_freq} times for {path.name}; "
            "set a lower one"
        )
    vocabulary.save(path)
    return WordsSideManifest(rules=rules, language=language, types=len(counts))
