"""The tokenizers of an experiment: learned from training text, kept in a directory, read back."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from transformer_cli.config.schema import (
    HuggingFaceConfig,
    SentencePieceConfig,
    TokenizerConfig,
    WordPieceConfig,
    WordsConfig,
)
from transformer_cli.errors import TokenizerError
from transformer_cli.files import sha256, whole_file, write_text
from transformer_cli.text.description import DESCRIPTION, Description, TrainingText, unreadable
from transformer_cli.text.kinds import huggingface, sentencepiece, wordpiece, words
from transformer_cli.text.lines import Lines, Progress
from transformer_cli.text.protocol import Tokenizer, Tokenizers

__all__ = [
    "Tokenizer",
    "Tokenizers",
    "copy_tokenizers",
    "fingerprint",
    "have_same_tokenizers",
    "learn_tokenizers",
    "load_text_sha256",
    "load_tokenizers",
    "matches_configured_files",
]

# The kinds. One that is new comes here and in ``_learn``.
_Kinds = (
    words.Description
    | sentencepiece.Description
    | sentencepiece.FileDescription
    | huggingface.Description
    | wordpiece.Description
)
_ANY_DESCRIPTION: TypeAdapter[_Kinds] = TypeAdapter(Annotated[_Kinds, Field(discriminator="kind")])


def _learn(config: TokenizerConfig, text: TrainingText, directory: Path) -> Description:
    match config:
        case WordsConfig():
            return words.learn(config, text, directory)
        case SentencePieceConfig():
            return sentencepiece.learn(config, text, directory)
        case HuggingFaceConfig():
            return huggingface.learn(config, text, directory)
        case WordPieceConfig():
            return wordpiece.learn(config, text, directory)


def learn_tokenizers(
    config: TokenizerConfig,
    src_lang: str,
    tgt_lang: str,
    src_lines: Lines,
    tgt_lines: Lines,
    text_sha256: str,
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
        text_sha256: their SHA-256, which ``load_text_sha256`` tells later.
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
    text = TrainingText(src_lang, tgt_lang, src_lines, tgt_lines, text_sha256, progress)
    description = _learn(config, text, directory)
    # Last, so that a directory with it is complete.
    write_text(directory / DESCRIPTION, description.model_dump_json(indent=2) + "\n")
    return load_tokenizers(directory)


def copy_tokenizers(source: Path, text_sha256: str, directory: Path) -> Tokenizers:
    """Take over the tokenizers in ``source`` for another training text.

    Args:
        source: a directory that ``learn_tokenizers`` wrote.
        text_sha256: SHA-256 of the text that they are to be used with.
        directory: where their files go; it must exist. tokenizer.json is written last.

    Raises:
        TokenizerError: a file is missing, or is not as it was written.
    """
    description = _read_description(source / DESCRIPTION)
    for name in description.sha256:
        data = description.verified(source / name)
        with whole_file(directory / name) as temporary:
            temporary.write_bytes(data)
    adopted = description.model_copy(update={"learned_from": text_sha256})
    write_text(directory / DESCRIPTION, adopted.model_dump_json(indent=2) + "\n")
    return load_tokenizers(directory)


def have_same_tokenizers(first: Path, second: Path) -> bool:
    """Whether the tokenizers in two directories are the same, for whatever text.

    Raises:
        TokenizerError: a directory's tokenizer.json is missing or damaged.
    """
    one, other = (_read_description(each / DESCRIPTION) for each in (first, second))
    return one == other.model_copy(update={"learned_from": one.learned_from})


def load_tokenizers(directory: Path) -> Tokenizers:
    """Read what ``learn_tokenizers`` wrote; the directory alone is enough.

    Raises:
        ConfigError: spaCy on this machine has no rules for a language.
        TokenizerError: a file is missing, or is not as it was written.
    """
    return _read_description(directory / DESCRIPTION).load(directory)


def matches_configured_files(config: TokenizerConfig, directory: Path) -> bool:
    """Whether the tokenizers in ``directory`` are copies of the files that ``config`` names.

    A file that is gone is taken to be as it was: the copy is there. So are no files.

    Raises:
        TokenizerError: the directory's tokenizer.json is missing or damaged.
    """
    if isinstance(config, WordsConfig | WordPieceConfig) or not config.files:
        return True
    copied = set(_read_description(directory / DESCRIPTION).sha256.values())
    return all(sha256(path) in copied for path in config.files.values() if path.is_file())


def load_text_sha256(directory: Path) -> str:
    """The ``text_sha256`` of the text that the tokenizers in ``directory`` were learned from.

    Raises:
        TokenizerError: the file that says so is missing or damaged.
    """
    return _read_description(directory / DESCRIPTION).learned_from


def fingerprint(directory: Path) -> str:
    """What a checkpoint knows its tokenizers by: the SHA-256 of tokenizer.json, in hexadecimal.

    That file holds the sums of the others, so it stands for them too.

    Raises:
        TokenizerError: the file is missing.
    """
    path = directory / DESCRIPTION
    try:
        return sha256(path)
    except OSError as error:
        raise TokenizerError(unreadable(path, error)) from error


def _read_description(path: Path) -> _Kinds:
    try:
        return _ANY_DESCRIPTION.validate_json(path.read_bytes())
    except OSError as error:
        raise TokenizerError(unreadable(path, error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise TokenizerError(
            f"{path}: {key + ': ' if key else ''}{first['msg']}; the file is damaged, or from "
            "another version of transformer-cli"
        ) from error
