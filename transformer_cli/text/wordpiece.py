"""Learning WordPiece: BERT's kind of subwords, here so that spaces are kept."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from transformer_cli.config.schema import WordPieceConfig
from transformer_cli.errors import TokenizerError
from transformer_cli.text.huggingface import tokenizers_library
from transformer_cli.text.lines import LearningText, Lines, Progress
from transformer_cli.text.trying import trust
from transformer_cli.text.vocabulary import SPECIALS, UNK_ID

_SPACE = "▁"
_GOES_ON = "##"
# Characters of a word; a longer one is unknown. The library's 100 is a long address.
_LONGEST_WORD = 256


def learn_wordpiece(config: WordPieceConfig, lines: Lines, label: str, progress: Progress) -> bytes:
    """Learn subwords; the same lines and settings always give the same bytes.

    BERT forgets where there was a space. Here a space is a character of the word that follows it,
    as for SentencePiece, so that text comes back as it was.

    Args:
        config: how many subwords.
        lines: training text. Of very many lines a million are taken, evenly at random.
        label: the text's name in messages, as in 'source text'.
        progress: wraps each of two passes over the lines, given a label, as tqdm would.

    Returns:
        A tokenizer.json whose ids are ours.

    Raises:
        MissingExtraError: the tokenizers library is not installed.
        TokenizerError: ``tokenizer.vocab_size`` is too small for this text.
    """
    library = tokenizers_library()
    normalizer = _normalizer(library, config)
    characters = _characters(config, normalizer, lines, label, progress)
    tokenizer = _tokenizer(library, {SPECIALS[UNK_ID]: UNK_ID}, characters)
    tokenizer.normalizer = normalizer
    # The library numbers what it meets first, first, and meets words in another order each time;
    # among pairs seen as often it prefers low numbers. So all that it starts from is given to it,
    # in order, as specials; which it then takes for text again, as the vocabulary alone is kept.
    given = [*SPECIALS, *(_GOES_ON + each for each in characters)]
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        special_tokens=given,
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        continuing_subword_prefix=_GOES_ON,
        show_progress=False,
    )
    text = LearningText(progress(lines, label), len(lines), lowercase=False)
    try:
        tokenizer.train_from_iterator(iter(text), trainer)
    except Exception as error:
        if text.failure is not None:
            raise text.failure from None
        reason = " ".join(str(error).split())
        raise TokenizerError(f"tokenizer: cannot learn from the {label} ({reason})") from error
    made = _tokenizer(library, tokenizer.get_vocab(with_added_tokens=False), characters)
    made.normalizer = normalizer
    data = str(made.to_str(pretty=True)).encode()
    trust(data)
    return data


def _characters(
    config: WordPieceConfig, normalizer: Any, lines: Lines, label: str, progress: Progress
) -> list[str]:
    """The characters to start from, which can begin a word and go on with one."""
    seen: Counter[str] = Counter()
    text = LearningText(progress(lines, f"{label}, characters"), len(lines), lowercase=False)
    for line in text:
        seen.update(normalizer.normalize_str(line).replace(" ", _SPACE))
    kept = {each for each, count in seen.items() if count >= config.min_frequency}
    characters = sorted({*kept, _SPACE})
    needed = len(SPECIALS) + 2 * len(characters)
    if needed > config.vocab_size:
        raise TokenizerError(
            f"tokenizer.vocab_size: {config.vocab_size} entries are too few for the specials and "
            f"characters of the {label}; set at least {needed}, or a higher tokenizer.min_frequency"
        )
    return characters


def _normalizer(library: Any, config: WordPieceConfig) -> Any:
    """What is done to text first: as in BERT's, and one space where there is white space."""
    normalizers = library.normalizers
    return normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.BertNormalizer(
                clean_text=True,
                handle_chinese_chars=False,
                strip_accents=config.strip_accents,
                lowercase=config.lowercase,
            ),
            normalizers.Replace(library.Regex(f"[ {_SPACE}]+"), " "),
            normalizers.Strip(),
        ]
    )


def _tokenizer(library: Any, vocabulary: dict[str, int], characters: Sequence[str]) -> Any:
    pre_tokenizers, decoders = library.pre_tokenizers, library.decoders
    tokenizer = library.Tokenizer(
        library.models.WordPiece(
            vocabulary,
            unk_token=SPECIALS[UNK_ID],
            continuing_subword_prefix=_GOES_ON,
            max_input_chars_per_word=_LONGEST_WORD,
        )
    )
    known = "".join(f"\\x{{{ord(each):x}}}" for each in characters)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(_SPACE),
            # Marks are words of their own, so '##' cannot be the beginning of one.
            pre_tokenizers.Punctuation("isolated"),
            # A character never seen would make all of its word unknown, and the space before it.
            pre_tokenizers.Split(library.Regex(f"[^{known}]+"), "isolated"),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(library.Regex(f"^{_GOES_ON}"), ""),
            decoders.Replace(_SPACE, " "),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer
