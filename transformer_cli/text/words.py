"""Word tokenizers: spaCy's rules split lines into words; each language has a vocabulary file."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from transformer_cli.base.errors import ConfigError, TokenizerError
from transformer_cli.base.messages import show_progress
from transformer_cli.config.languages import base_language
from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID, Tokenizer
from transformer_cli.text.tokenizer import Side, TokenizerManifest, TrainingText

if TYPE_CHECKING:
    from spacy.language import Language

_MAX_BYTES = 1 << 26  # of a vocabulary: several million words, each with 200 bytes of memory
# Each string takes about 300 bytes; Multi30k's training text has 20,000 different ones a side.
_MAX_STRINGS = 200_000
# Characters of a word. spaCy reads the rest of a word each time it splits off punctuation, so a
# million brackets in a row would take weeks.
_MAX_WORD_LENGTH = 256
_TOO_LONG = re.compile(rf"\S{{{_MAX_WORD_LENGTH}}}(?=\S)")


class Vocabulary:
    """Distinct tokens with ids from 0: first the four special tokens, then the given tokens."""

    def __init__(self, tokens: Iterable[str]) -> None:
        ordinary = tuple(tokens)
        self.tokens = SPECIALS + ordinary
        # Without the special tokens, because the text '<PAD>' must not become padding.
        self.ids = {token: number for number, token in enumerate(ordinary, len(SPECIALS))}

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        min_freq: int = 1,
        max_size: int | None = None,
        order: Literal["frequency", "appearance"] = "frequency",
    ) -> Self:
        """Build a vocabulary from ``counts``, which has tokens in order of first appearance.

        ``max_size`` includes the four special tokens; of the others, the most frequent are kept.
        ``order`` 'frequency' puts frequent tokens first; ties are in alphabetical order.
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
        """Return the id of a token from text: 0 if it is unknown or looks like a special token."""
        return self.ids.get(token, UNK_ID)

    def dump(self) -> str:
        r"""Return a text with one token per line, in the order of ids; each line ends with '\n'."""
        return "".join(f"{token}\n" for token in self.tokens)

    @classmethod
    def parse(cls, data: bytes, path: Path) -> Self:
        """Parse the output of ``dump``; for other data, raise a TokenizerError naming ``path``."""
        text = data[:_MAX_BYTES].decode(errors="replace")
        # Not splitlines(): it also splits at U+2028, U+0085 and others, which tokens may contain.
        *tokens, rest = text.split("\n")
        is_whole = text.encode() == data and not rest and all(tokens)
        if not is_whole or tokens[: len(SPECIALS)] != [*SPECIALS] or len(set(tokens)) < len(tokens):
            raise TokenizerError(
                f"{path}: not a vocabulary (at most {_MAX_BYTES >> 20} MiB of UTF-8, with one "
                f"token on each line, all different, first {', '.join(SPECIALS)}); restore the "
                "file, or learn the tokenizer again"
            )
        return cls(tokens[len(SPECIALS) :])


class WordsTokenizer(Tokenizer):
    """A tokenizer that encodes lines as ids of words; words it has not learned become '<unk>'."""

    is_word_level = True

    def __init__(self, words: "SpacyWords", vocabulary: Vocabulary) -> None:
        self._words = words
        self._vocabulary, self._ids = vocabulary, vocabulary.ids
        self.size = len(vocabulary)

    def encode(self, line: str) -> list[int]:
        return [self._ids.get(word, UNK_ID) for word in self._words.split(line)]

    def decode(self, ids: Sequence[int]) -> str:
        shown = (number for number in ids if number not in (BOS_ID, EOS_ID, PAD_ID))
        return self._words.join([self._vocabulary.tokens[number] for number in shown])

    def token(self, number: int) -> str:
        return self._vocabulary.tokens[number]

    def line_tokens(self, line: str, ids: Sequence[int]) -> list[str]:
        return self._words.split(line)

    def detokenize(self, ids: Sequence[int], tokens: Sequence[str]) -> str:
        return self._words.join(tokens)


_APOSTROPHES = "'’‘"
_JOINERS = "\u200c\u200d"
# Marks that join two words without spaces, if the rules split there: "T-shirt", "Freund/in". Dashes
# are not among them, because they mostly have spaces.
_INNER_MARKS = frozenset("-/’‘")
# A noncharacter of Unicode, which replaces spaces that sacremoses must not see.
_INNER_SPACE = "\ufdd0"
# The languages for which we use sacremoses' rules. Its English rule mistakes 'free' in single
# quotes for a contraction; we handle apostrophes ourselves. Its Czech rule raises TypeError.
_MOSES_LANGUAGES = frozenset({"fr", "it", "ga", "fi", "ko"})


class SpacyWords:
    """A splitter of lines into words, which can also join words into a line again.

    ``rules`` is the language of the spaCy rules for splitting ('xx': general rules). ``language``
    is the language of the text; the rules for joining depend on it. ConfigError is raised if spaCy
    has no such ``rules``, or needs a package for them that is not installed.
    """

    def __init__(self, rules: str, language: str, lowercase: bool) -> None:
        self._rules = rules
        self._pipeline = _create_pipeline(rules)
        self._language = base_language(language)
        self._lowercase = lowercase
        self._moses: Any = None

    def split(self, line: str) -> list[str]:
        """Split a line into words and punctuation marks; white space is dropped.

        Runs of more than 256 characters without white space are first cut into pieces of 256.
        """
        words = [word for word in self._cut(_TOO_LONG.sub(r"\g<0> ", line)) if not word.isspace()]
        # Only now, because the rules look at case: they split "U.S." and "end.The" correctly only
        # in their original spelling.
        return [word.lower() for word in words] if self._lowercase else words

    def _cut(self, text: str) -> list[str]:
        # spaCy never frees a string that it has seen. To split files of any length in constant
        # memory, replace a pipeline that has seen many strings.
        if len(self._pipeline.vocab.strings) > _MAX_STRINGS:
            self._pipeline = _create_pipeline(self._rules)
        return [token.text for token in self._pipeline.tokenizer(text)]

    def count(self, lines: Iterable[str]) -> Counter[str]:
        """Count how often each word occurs, with the words in order of first appearance."""
        return Counter(chain.from_iterable(map(self.split, lines)))

    def join(self, words: Sequence[str]) -> str:
        """Return words as text on one line: the inverse of ``split``, as far as possible."""
        if not words:
            return ""
        closed = self._find_inner_gaps(words) | _find_quote_gaps(words, self._language)
        closed |= {gap + 1 for gap, word in enumerate(words) if word == "#"}
        pieces = [words[0]]
        for gap, word in enumerate(words[1:], start=1):
            if gap in closed:
                pieces[-1] += word
            elif _is_unit_of_money(words, gap):
                pieces[-1] += _INNER_SPACE + word
            else:
                pieces.append(word)
        if self._moses is None:
            from sacremoses import MosesDetokenizer

            known = self._language in _MOSES_LANGUAGES
            self._moses = MosesDetokenizer(self._language if known else "xx")
        # Do not unescape: '&lt;' in a text must stay as it is.
        text = str(self._moses.detokenize(pieces, unescape=False))
        return text.replace(_INNER_SPACE, " ")

    def _find_inner_gaps(self, words: Sequence[str]) -> set[int]:
        """Return each n for which words n - 1 and n are probably parts of one written word.

        They count only if the rules would split the joined words there again. "can not" and " - "
        count, too, which is wrong, but "cannot" and "T-shirt" are more frequent.
        """
        # An unknown word can have hyphens and endings like any other word.
        words = ["x" if word == SPECIALS[UNK_ID] else word for word in words]
        gaps = set()
        for gap in range(1, len(words)):
            before, word = words[gap - 1], words[gap]
            if word in _INNER_MARKS:
                after = words[gap + 1] if gap + 1 < len(words) else " "
                is_inner = _is_of_word(before[-1]) and _is_of_word(after[0])
                if is_inner and self._cut(before + word + after) == [before, word, after]:
                    gaps |= {gap, gap + 1}
            elif _may_be_one_word(before, word) and self._cut(before + word) == [before, word]:
                gaps.add(gap)
        return gaps


def _create_pipeline(language: str) -> "Language":
    import spacy

    try:
        return spacy.blank(base_language(language))
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"tokenizer: spaCy cannot use its rules for '{language}' here; set "
            "tokenizer.src_rules or tokenizer.tgt_rules to another language ('xx': general rules), "
            f"or tokenizer.kind to sentencepiece (spaCy: {reason})"
        ) from error


class WordsSide(BaseModel):
    """The languages whose rules split and join source or target words; see ``SpacyWords``."""

    model_config = ConfigDict(strict=True)

    rules: str
    language: str


class WordsManifest(TokenizerManifest):
    """The content of tokenizer.json for word tokenizers."""

    kind: Literal["words"] = "words"
    suffix = "vocab.txt"
    src: WordsSide
    tgt: WordsSide

    def open(self, data: bytes, path: Path, side: Side) -> WordsTokenizer:
        cut = self.src if side == "src" else self.tgt
        words = SpacyWords(cut.rules, cut.language, self.lowercase)
        return WordsTokenizer(words, Vocabulary.parse(data, path))

    @classmethod
    def learn(cls, config: WordsConfig, text: TrainingText, directory: Path) -> Self:
        sides: dict[Side, WordsSide] = {
            "src": WordsSide(rules=config.src_rules or text.src_lang, language=text.src_lang),
            "tgt": WordsSide(rules=config.tgt_rules or text.tgt_lang, language=text.tgt_lang),
        }
        models: list[tuple[Side, bytes]] = []
        for side, lines, label in text.sides(joint=False):
            words = SpacyWords(sides[side].rules, sides[side].language, config.lowercase)
            counts = words.count(show_progress(lines, label))
            vocabulary = Vocabulary.from_counts(
                counts, config.min_freq, config.max_size, config.order
            )
            if len(vocabulary) == len(SPECIALS):
                raise ConfigError(
                    f"tokenizer.min_freq: no word for {cls.file_name(side)} occurs "
                    f"{config.min_freq} times; set a lower number"
                )
            models.append((side, vocabulary.dump().encode()))
        return cls.write(models, directory, config.lowercase, text.sha256, **sides)


# The closing quotation marks for each opening one.
_CLOSING_QUOTES = {'"': '"', "'": "'", "„": "“”", "“": "”“", "”": "”“", "‚": "‘’", "‘": "’"}
_CLOSING_QUOTES |= {"«": "»", "»": "«", "‹": "›", "›": "‹"}
_CLOSING_PUNCTUATION = frozenset(",.?!:;%)]}…")
_OPENING_PUNCTUATION = frozenset("([{¿¡")


def _may_be_one_word(before: str, word: str) -> bool:
    """Return whether two tokens look like one word: "do" "n't", "man" "'s", or "l'" "homme"."""
    if word[0].isalpha():
        return before[-1].isalpha() or (before[-1] in _APOSTROPHES and len(before) > 1)
    return word[0] in _APOSTROPHES and word[1:].isalpha() and _is_of_word(before[-1])


def _is_of_word(character: str) -> bool:
    """Return whether a character is a letter, a digit, an accent, a vowel sign or a joiner."""
    return character.isalnum() or unicodedata.category(character)[0] == "M" or character in _JOINERS


def _is_unit_of_money(words: Sequence[str], place: int) -> bool:
    """Return whether a word is a currency sign after a number ("3,50 €"), not before ("$3")."""
    sign = words[place]
    if len(sign) != 1 or unicodedata.category(sign) != "Sc" or not words[place - 1][-1].isdigit():
        return False
    return place + 1 == len(words) or not words[place + 1][0].isdigit()


def _find_quote_gaps(words: Sequence[str], language: str) -> set[int]:
    """Return each n for which a quotation mark or apostrophe forbids a space before word n."""
    opened: list[int] = []
    paired: set[int] = set()
    gaps: set[int] = set()
    for place, word in enumerate(words):
        if language == "fr" and word in "«»":
            continue  # French has spaces inside these
        partner = next((p for p in reversed(opened) if word in _CLOSING_QUOTES[words[p]]), None)
        if partner is None:
            if word in _CLOSING_QUOTES:
                opened.append(place)
        else:
            # Other punctuation marks inside, next to these, have no spaces either.
            after, before = partner + 1, place
            gaps |= {after, before}
            while words[after] in _OPENING_PUNCTUATION and after + 1 < len(words):
                after += 1
                gaps.add(after)
            while before > 1 and words[before - 1] in _CLOSING_PUNCTUATION:
                before -= 1
                gaps.add(before)
            paired |= {partner, place}
            del opened[opened.index(partner) :]
    for place in range(1, len(words)):
        # In "the boys' room" and "Maus' Nase", the apostrophe is not a quotation mark.
        is_genitive = words[place] in ("'", "’") and words[place - 1][-1] in "sxz"
        if is_genitive and place not in paired:
            gaps.add(place)
    return gaps
