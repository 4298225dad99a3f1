"""The tokenizers of an experiment: learned from training text, kept in a directory, read back."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from transformer_cli.config.schema import TokenizerConfig, WordsTokenizer
from transformer_cli.errors import TokenizerError
from transformer_cli.files import sha256, whole_file, write_text
from transformer_cli.text.lines import Lines, Progress
from transformer_cli.text.subwords import SubwordTokenizer, learn_model
from transformer_cli.text.vocabulary import SPECIALS, Vocabulary
from transformer_cli.text.words import Words, WordTokenizer

_DESCRIPTION = "tokenizer.json"
_SRC_VOCAB, _TGT_VOCAB = "src.vocab.txt", "tgt.vocab.txt"
_SRC_MODEL, _TGT_MODEL, _JOINT_MODEL = "src.model", "tgt.model", "joint.model"
# Nothing else is read or copied, whatever a description from elsewhere says.
_Name = Annotated[str, Field(pattern=r"^((src|tgt)\.vocab\.txt|(src|tgt|joint)\.model)$")]


class Tokenizer(Protocol):
    """One side's way from text to ids and back. The specials' ids are text.vocabulary's."""

    @property
    def size(self) -> int:
        """Entries of the vocabulary, the four specials included."""

    def encode(self, line: str) -> list[int]:
        """A line's ids, without BOS and EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, on one line; BOS, EOS and PAD are passed over."""

    def token(self, number: int) -> str:
        """One id's token, as a person is shown it: '▁' stands for a space before it."""


@dataclass(frozen=True)
class Tokenizers:
    """Both sides' tokenizers; a joint one is the same object twice.

    Attributes:
        src: the source side's.
        tgt: the target side's.
        types: different words of the training text, source and target, before any were cut off;
            None for subwords.
    """

    src: Tokenizer
    tgt: Tokenizer
    types: tuple[int, int] | None = None


class _Description(BaseModel):
    """What tokenizer.json says: all that it takes to use the other files, and their sums."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal[1] = 1
    lowercase: bool
    learned_from: str
    """The ``text_sum`` of the training text, or of the one that they were adopted for."""
    sha256: dict[_Name, str]


class _Side(BaseModel):
    """One side of word tokenizers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rules: str
    language: str
    types: int


class _WordsDescription(_Description):
    kind: Literal["words"] = "words"
    src: _Side
    tgt: _Side


class _SentencePieceDescription(_Description):
    kind: Literal["sentencepiece"] = "sentencepiece"
    joint: bool


_ANY_DESCRIPTION: TypeAdapter[_WordsDescription | _SentencePieceDescription] = TypeAdapter(
    Annotated[_WordsDescription | _SentencePieceDescription, Field(discriminator="kind")]
)


def learn_tokenizers(
    config: TokenizerConfig,
    src_lang: str,
    tgt_lang: str,
    src_lines: Lines,
    tgt_lines: Lines,
    text_sum: str,
    directory: Path,
    progress: Progress,
) -> Tokenizers:
    """Learn both sides' tokenizers from training text and write their files.

    Args:
        config: what kind of tokenizers.
        src_lang: language of the source text, as in 'de'.
        tgt_lang: language of the target text.
        src_lines: the training text's source side.
        tgt_lines: its target side.
        text_sum: their SHA-256, which ``learned_from`` tells later.
        directory: where the files go; it must exist. tokenizer.json is written last.
        progress: wraps each pass over the lines, given a label, as tqdm would.

    Raises:
        ConfigError: spaCy has no rules for a language.
        TokenizerError: a side has no text, or ``tokenizer.vocab_size`` or ``tokenizer.min_freq`` is
            not possible with this text.
    """
    for side, lines in (("source", src_lines), ("target", tgt_lines)):
        if not any(line.strip() for line in lines):
            raise TokenizerError(
                f"the {side} side of the training text is empty: a tokenizer cannot be learned"
            )
    description: _Description
    if isinstance(config, WordsTokenizer):
        src_rules, tgt_rules = config.src_rules or src_lang, config.tgt_rules or tgt_lang
        src_seen, tgt_seen = (
            progress(src_lines, "source words"),
            progress(tgt_lines, "target words"),
        )
        description = _WordsDescription(
            lowercase=config.lowercase,
            learned_from=text_sum,
            src=_learn_words(config, src_rules, src_lang, src_seen, directory / _SRC_VOCAB),
            tgt=_learn_words(config, tgt_rules, tgt_lang, tgt_seen, directory / _TGT_VOCAB),
            sha256=_sums(directory, (_SRC_VOCAB, _TGT_VOCAB)),
        )
    else:
        texts: dict[str, tuple[Lines, str]] = {
            _SRC_MODEL: (src_lines, "source text"),
            _TGT_MODEL: (tgt_lines, "target text"),
        }
        if config.joint:
            texts = {_JOINT_MODEL: (_Joined(src_lines, tgt_lines), "training text")}
        for name, (lines, label) in texts.items():
            model = learn_model(config, lines, label, progress)
            with whole_file(directory / name) as temporary:
                temporary.write_bytes(model)
        description = _SentencePieceDescription(
            lowercase=config.lowercase,
            learned_from=text_sum,
            joint=config.joint,
            sha256=_sums(directory, texts),
        )
    # Last, so that a directory with it is complete.
    write_text(directory / _DESCRIPTION, description.model_dump_json(indent=2) + "\n")
    return load_tokenizers(directory)


def adopt_tokenizers(source: Path, text_sum: str, directory: Path) -> Tokenizers:
    """Take over the tokenizers in ``source`` for another training text.

    Args:
        source: a directory that ``learn_tokenizers`` wrote.
        text_sum: SHA-256 of the text that they are to be used with.
        directory: where their files go; it must exist. tokenizer.json is written last.

    Raises:
        TokenizerError: a file is missing, or is not as it was written.
    """
    description = _read_description(source / _DESCRIPTION)
    for name in description.sha256:
        data = _verified(description, source / name)
        with whole_file(directory / name) as temporary:
            temporary.write_bytes(data)
    adopted = description.model_copy(update={"learned_from": text_sum})
    write_text(directory / _DESCRIPTION, adopted.model_dump_json(indent=2) + "\n")
    return load_tokenizers(directory)


def same_tokenizers(first: Path, second: Path) -> bool:
    """Whether the tokenizers in two directories are the same, for whatever text.

    Raises:
        TokenizerError: a directory's tokenizer.json is missing or damaged.
    """
    one, other = (_read_description(each / _DESCRIPTION) for each in (first, second))
    return one == other.model_copy(update={"learned_from": one.learned_from})


def load_tokenizers(directory: Path) -> Tokenizers:
    """Read what ``learn_tokenizers`` wrote; the directory alone is enough.

    Raises:
        ConfigError: spaCy on this machine has no rules for a language.
        TokenizerError: a file is missing, or is not as it was written.
    """
    description = _read_description(directory / _DESCRIPTION)
    if isinstance(description, _WordsDescription):
        return Tokenizers(
            src=_load_words(description, description.src, directory / _SRC_VOCAB),
            tgt=_load_words(description, description.tgt, directory / _TGT_VOCAB),
            types=(description.src.types, description.tgt.types),
        )
    if description.joint:
        joint = _load_subwords(description, directory / _JOINT_MODEL)
        return Tokenizers(src=joint, tgt=joint)
    return Tokenizers(
        src=_load_subwords(description, directory / _SRC_MODEL),
        tgt=_load_subwords(description, directory / _TGT_MODEL),
    )


def learned_from(directory: Path) -> str:
    """The ``text_sum`` of the text that the tokenizers in ``directory`` were learned from.

    Raises:
        TokenizerError: the file that says so is missing or damaged.
    """
    return _read_description(directory / _DESCRIPTION).learned_from


def fingerprint(directory: Path) -> str:
    """What a checkpoint knows its tokenizers by: the SHA-256 of tokenizer.json, in hexadecimal.

    That file holds the sums of the others, so it stands for them too.

    Raises:
        TokenizerError: the file is missing.
    """
    path = directory / _DESCRIPTION
    try:
        return sha256(path)
    except OSError as error:
        raise TokenizerError(_unreadable(path, error)) from error


def _learn_words(
    config: WordsTokenizer, rules: str, language: str, lines: Iterable[str], path: Path
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


@dataclass(frozen=True)
class _Joined:
    """The lines of one side, then those of the other."""

    src: Lines
    tgt: Lines

    def __iter__(self) -> Iterator[str]:
        yield from self.src
        yield from self.tgt

    def __len__(self) -> int:
        return len(self.src) + len(self.tgt)


def _load_words(description: _WordsDescription, side: _Side, path: Path) -> WordTokenizer:
    _verified(description, path)
    words = Words(side.rules, side.language, description.lowercase)
    return WordTokenizer(words, Vocabulary.load(path))


def _load_subwords(description: _SentencePieceDescription, path: Path) -> SubwordTokenizer:
    return SubwordTokenizer(_verified(description, path), description.lowercase, path)


def _sums(directory: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: sha256(directory / name) for name in names}


def _read_description(path: Path) -> _WordsDescription | _SentencePieceDescription:
    try:
        return _ANY_DESCRIPTION.validate_json(path.read_bytes())
    except OSError as error:
        raise TokenizerError(_unreadable(path, error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise TokenizerError(
            f"{path}: {key + ': ' if key else ''}{first['msg']}; the file is damaged, or from "
            "another version of transformer-cli"
        ) from error


def _verified(description: _Description, path: Path) -> bytes:
    """A file's bytes, if their sum is the one in the description."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TokenizerError(_unreadable(path, error)) from error
    if hashlib.sha256(data).hexdigest() != description.sha256.get(path.name):
        raise TokenizerError(
            f"{path}: not as it was written (its SHA-256 differs from the one in {_DESCRIPTION}); "
            "restore the file, or learn the tokenizer again"
        )
    return data


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path}: cannot be read ({error.strerror}); is this a tokenizer's directory?"
