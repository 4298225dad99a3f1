"""Words by spaCy's rules, and their ids."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from transformer_cli.errors import ConfigError
from transformer_cli.text.joining import Joiner
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary

if TYPE_CHECKING:
    from spacy.language import Language

# About 300 bytes each; Multi30k's training text has 20,000 different ones a side.
_MOST_STRINGS = 200_000
# Characters of a word. spaCy looks at the rest of a word each time it takes a mark off: a million
# brackets in a row would take it weeks.
_LONGEST_WORD = 256
_TOO_LONG = re.compile(rf"\S{{{_LONGEST_WORD}}}(?=\S)")


class Words:
    """One language's way from a line to words and back.

    Words are lowercased after they are cut, as the rules look at case: "U.S." and "end.The" are cut
    rightly only as they were written.

    Args:
        rules: language whose spaCy rules cut lines, as in 'de'; 'xx' for the general rules.
        language: language of the text, which decides how words are put together.
        lowercase: whether words are lowercased.

    Raises:
        ConfigError: spaCy has no such language, or needs a package more for it.
    """

    def __init__(self, rules: str, language: str, lowercase: bool) -> None:
        self._cut = _Rules(rules)
        self._joiner = Joiner(self._cut, language)
        self._lowercase = lowercase

    def split(self, line: str) -> list[str]:
        """Cut a line into words, punctuation marks being words; white space is dropped.

        What has no white space for more than 256 characters is first cut every 256.
        """
        words = [word for word in self._cut(_TOO_LONG.sub(r"\g<0> ", line)) if not word.isspace()]
        return [word.lower() for word in words] if self._lowercase else words

    def count(self, lines: Iterable[str]) -> Counter[str]:
        """How often each word is seen in lines, in order of first appearance."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(self.split(line))
        return counts

    def join(self, words: Sequence[str]) -> str:
        """Write words as text: the reverse of ``split``, as far as words tell."""
        return self._joiner.join(words)


class WordsTokenizer:
    """Lines as ids of words.

    Args:
        words: how lines are cut and put together.
        vocabulary: the ids; other words are unknown.
    """

    def __init__(self, words: Words, vocabulary: Vocabulary) -> None:
        self._words = words
        self._vocabulary = vocabulary

    @property
    def size(self) -> int:
        """Entries of the vocabulary, the four specials included."""
        return len(self._vocabulary)

    def encode(self, line: str) -> list[int]:
        """A line's ids, without BOS and EOS."""
        return [self._vocabulary.id(word) for word in self._words.split(line)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without BOS, EOS and PAD; unknown words are written '<unk>'."""
        shown = [number for number in ids if number not in (BOS_ID, EOS_ID, PAD_ID)]
        return self.join([self._vocabulary.token(number) for number in shown])

    def split(self, line: str) -> list[str]:
        """The words whose ids ``encode`` gives, known or not."""
        return self._words.split(line)

    def join(self, words: Sequence[str]) -> str:
        """Write words as text, whether known or not."""
        return self._words.join(words)

    def token(self, number: int) -> str:
        """The word of an id."""
        return self._vocabulary.token(number)

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Each is a word."""
        return [True] * len(ids)


class _Rules:
    """A language's rules for cutting text, by spaCy.

    spaCy keeps every string that it has seen for ever; a pipeline that has seen many is replaced,
    so that a file of any length is cut in constant memory.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._pipeline = _blank_pipeline(language)

    def __call__(self, text: str) -> list[str]:
        if len(self._pipeline.vocab.strings) > _MOST_STRINGS:
            self._pipeline = _blank_pipeline(self._language)
        return [token.text for token in self._pipeline.tokenizer(text)]


def _blank_pipeline(language: str) -> "Language":
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
