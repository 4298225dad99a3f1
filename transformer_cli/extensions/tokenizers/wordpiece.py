"""WordPiece: BERT's subwords, learned by Hugging Face's tokenizers library.

BERT's WordPiece loses spaces. Here a space is part of the word that follows it, as in
SentencePiece, so that decoding restores the text.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from transformer_cli.base.errors import ConfigError, TokenizerError
from transformer_cli.base.messages import show_progress
from transformer_cli.extensions.tokenizers.huggingface import (
    HuggingFaceTokenizer,
    import_tokenizers,
)
from transformer_cli.extensions.tokenizers.settings import WordPieceConfig
from transformer_cli.text.model_check import mark_checked
from transformer_cli.text.protocol import Lines, TrainerInput
from transformer_cli.text.tokenizer import Side, SideFilesManifest, TrainingText
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID, SpecialIds

_SPACE = "▁"
_CONTINUATION = "##"
# Characters of a word; a longer one is unknown. The library's 100 is a long address.
_MAX_WORD_LENGTH = 256
_SPECIAL_IDS = SpecialIds(unk=UNK_ID, bos=BOS_ID, eos=EOS_ID, pad=PAD_ID)


class Manifest(SideFilesManifest):
    """The manifest of WordPiece vocabularies learned here, whose ids are the run's."""

    kind: Literal["wordpiece"] = "wordpiece"
    suffix = "tokenizer.json"
    learns_from_sample = True

    def open(self, data: bytes, path: Path, side: Side) -> HuggingFaceTokenizer:
        # The file's own normalizer lowercases.
        return HuggingFaceTokenizer(data, False, path, _SPECIAL_IDS)

    @classmethod
    def learn(cls, config: WordPieceConfig, text: TrainingText, directory: Path) -> Self:
        return cls.learn_sides(config, text, directory, learn_wordpiece)


def learn_wordpiece(config: WordPieceConfig, lines: Lines, label: str) -> bytes:
    """Return a tokenizer.json whose ids are the run's, the same for the same lines and settings.

    ``label`` is the text's name in messages, as in 'source text'. There are two passes over it.
    """
    library = import_tokenizers()
    normalizer = _normalizer(library, config)
    characters = _characters(config, normalizer, lines, label)
    tokenizer = _tokenizer(library, normalizer, {SPECIALS[UNK_ID]: UNK_ID}, characters)
    # The library numbers symbols in the order in which it meets them, which differs from run to
    # run, and breaks ties between pairs by number. So the initial symbols are passed as special
    # tokens, in order. Only the vocabulary is kept, in which they are ordinary tokens.
    initial = [*SPECIALS, *(_CONTINUATION + character for character in characters)]
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        special_tokens=initial,
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        continuing_subword_prefix=_CONTINUATION,
        show_progress=False,
    )
    text = TrainerInput(show_progress(lines, label), len(lines), lowercase=False)
    try:
        tokenizer.train_from_iterator(iter(text), trainer)
    except Exception as error:
        if text.failure is not None:
            raise text.failure from None
        reason = " ".join(str(error).split())
        raise TokenizerError(f"tokenizer: cannot learn from the {label} ({reason})") from error
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    made = _tokenizer(library, normalizer, vocabulary, characters)
    data = str(made.to_str(pretty=True)).encode()
    mark_checked(data)
    return data


def _characters(config: WordPieceConfig, normalizer: Any, lines: Lines, label: str) -> list[str]:
    """Return the initial alphabet: each character, at the start of a word and within one."""
    seen: Counter[str] = Counter()
    text = TrainerInput(show_progress(lines, f"{label}, characters"), len(lines), lowercase=False)
    for line in text:
        seen.update(normalizer.normalize_str(line).replace(" ", _SPACE))
    kept = {character for character, count in seen.items() if count >= config.min_frequency}
    characters = sorted({*kept, _SPACE})
    needed = len(SPECIALS) + 2 * len(characters)
    if needed > config.vocab_size:
        raise ConfigError(
            f"tokenizer.vocab_size: {config.vocab_size} entries are too few for the specials and "
            f"characters of the {label}; set at least {needed}, or a higher tokenizer.min_frequency"
        )
    return characters


def _normalizer(library: Any, config: WordPieceConfig) -> Any:
    """Return the normalizer of the settings, which also makes one space of several."""
    normalizers = library.normalizers
    forms: dict[str, list[Any]] = {"nfc": [normalizers.NFC()], "nfkc": [normalizers.NFKC()]}
    # BERT's own cleaning would remove joiners, which scripts such as Persian's need.
    cleaning = [
        normalizers.Replace(library.Regex(r"\s"), " "),
        normalizers.Replace(library.Regex(r"[\p{Cc}\x{feff}]"), ""),
    ]
    return normalizers.Sequence(
        [
            *(forms[config.normalization] + cleaning if config.normalization in forms else []),
            normalizers.BertNormalizer(
                clean_text=False,
                handle_chinese_chars=False,
                strip_accents=config.strip_accents,
                lowercase=config.lowercase,
            ),
            normalizers.Replace(library.Regex(f"[ {_SPACE}]+"), " "),
            normalizers.Strip(),
        ]
    )


def _tokenizer(
    library: Any, normalizer: Any, vocabulary: dict[str, int], characters: Sequence[str]
) -> Any:
    pre_tokenizers, decoders = library.pre_tokenizers, library.decoders
    tokenizer = library.Tokenizer(
        library.models.WordPiece(
            vocabulary,
            unk_token=SPECIALS[UNK_ID],
            continuing_subword_prefix=_CONTINUATION,
            max_input_chars_per_word=_MAX_WORD_LENGTH,
        )
    )
    tokenizer.normalizer = normalizer
    known = "".join(f"\\x{{{ord(character):x}}}" for character in characters)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(_SPACE),
            # Punctuation marks are words of their own, so none starts with '##'.
            pre_tokenizers.Punctuation("isolated"),
            # An unseen character would make its whole word unknown, with the space before it.
            pre_tokenizers.Split(library.Regex(f"[^{known}]+"), "isolated"),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(library.Regex(f"^{_CONTINUATION}"), ""),
            decoders.Replace(_SPACE, " "),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer
