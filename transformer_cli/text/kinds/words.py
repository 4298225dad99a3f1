"""Words by spaCy's rules, with a vocabulary file a side."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from transformer_cli.config.schema import WordsConfig
from transformer_cli.errors import TokenizerError
from transformer_cli.text import description
from transformer_cli.text.description import Part, TrainingText, sums
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.vocabulary import SPECIALS, Vocabulary
from transformer_cli.text.words import Words, WordsTokenizer

_SRC, _TGT = "src.vocab.txt", "tgt.vocab.txt"


class _Side(Part):
    """One side of word tokenizers."""

    rules: str
    language: str
    types: int


class Description(description.Description):
    """What tokenizer.json says of words."""

    kind: Literal["words"] = "words"
    src: _Side
    tgt: _Side

    def load(self, directory: Path) -> Tokenizers:
        """The tokenizers of a directory; its files must be as described."""
        return Tokenizers(
            src=self._load_side(self.src, directory / _SRC),
            tgt=self._load_side(self.tgt, directory / _TGT),
            types=(self.src.types, self.tgt.types),
        )

    def _load_side(self, side: _Side, path: Path) -> WordsTokenizer:
        self.verified(path)
        words = Words(side.rules, side.language, self.lowercase)
        return WordsTokenizer(words, Vocabulary.load(path))


def learn(config: WordsConfig, text: TrainingText, directory: Path) -> Description:
    """Count the words of both sides, and write their vocabularies into ``directory``.

    Raises:
        ConfigError: spaCy has no rules for a language.
        TokenizerError: ``tokenizer.min_freq`` leaves no word.
    """
    src_rules, tgt_rules = config.src_rules or text.src_lang, config.tgt_rules or text.tgt_lang
    src_seen = text.progress(text.src, "source words")
    tgt_seen = text.progress(text.tgt, "target words")
    return Description(
        lowercase=config.lowercase,
        learned_from=text.text_sha256,
        src=_learn_side(config, src_rules, text.src_lang, src_seen, directory / _SRC),
        tgt=_learn_side(config, tgt_rules, text.tgt_lang, tgt_seen, directory / _TGT),
        sha256=sums(directory, (_SRC, _TGT)),
    )


def _learn_side(
    config: WordsConfig, rules: str, language: str, lines: Iterable[str], path: Path
) -> _Side:
    counts = Words(rules, language, config.lowercase).count(lines)
    vocabulary = Vocabulary.from_counts(counts, config.min_freq, config.max_size, config.order)
    if len(vocabulary) == len(SPECIALS):
        raise TokenizerError(
            f"tokenizer.min_freq: no word is seen {config.min_freq} times for {path.name}; "
            "set a lower one"
        )
    vocabulary.save(path)
    return _Side(rules=rules, language=language, types=len(counts))
