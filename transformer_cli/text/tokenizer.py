"""The tokenizers of an experiment: learned from training text, saved to and loaded from files."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ValidationError

from transformer_cli.compression import write_text
from transformer_cli.config.tokenizer_schema import Protected, TokenizerConfig
from transformer_cli.errors import TokenizerError
from transformer_cli.files import sha256, whole_file
from transformer_cli.text.kinds import check_kind, import_kind
from transformer_cli.text.lines import Lines, ProgressBar
from transformer_cli.text.manifest import (
    MANIFEST_NAME,
    TokenizerManifest,
    TrainingText,
    read_tokenizer_file,
)
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.reserved import ReservedTokenizers, UnprotectedLines

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


class _ManifestKind(BaseModel):
    kind: Annotated[str, AfterValidator(check_kind)]


def learn_tokenizers(
    config: TokenizerConfig,
    src_lang: str,
    tgt_lang: str,
    src_lines: Lines,
    tgt_lines: Lines,
    text_sha256: str,
    directory: Path,
    progress: ProgressBar,
    tags: Sequence[str] = (),
) -> Tokenizers:
    """Learn both sides' tokenizers from training text and write their files.

    Args:
        config: the kind of tokenizers and its settings.
        src_lang: language of the source text, as in 'de'.
        tgt_lang: language of the target text.
        src_lines: the training text's source side.
        tgt_lines: its target side.
        text_sha256: SHA-256 of the text, which ``load_text_sha256`` returns later.
        directory: the files' directory; it must exist. tokenizer.json is written last.
        progress: wraps each pass over the lines, given a label, as tqdm would.
        tags: names of reserved tokens, sorted, which sources begin with.

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
    protect = [each for each in get_args(Protected) if each in config.protect]
    if protect:
        src_lines, tgt_lines = (
            UnprotectedLines(src_lines, tgt_lines, protect, side) for side in (0, 1)
        )
    text = TrainingText(src_lang, tgt_lang, src_lines, tgt_lines, text_sha256, progress)
    manifest: TokenizerManifest = import_kind(config.kind).learn(config, text, directory)
    reserved = {"protect": protect, "tags": list(tags)}
    return _write_manifest(manifest.model_copy(update=reserved), directory)


def copy_tokenizers(
    source: Path, text_sha256: str, directory: Path, tags: Sequence[str] = ()
) -> Tokenizers:
    """Copy the tokenizers in ``source`` to use them with another training text.

    Args:
        source: a directory that ``learn_tokenizers`` wrote.
        text_sha256: SHA-256 of the text that they are used with.
        directory: the copy's directory; it must exist. tokenizer.json is written last.
        tags: names of reserved tokens that are needed.

    Raises:
        TokenizerError: a file is missing, or has changed since it was written; or there is no such
            tag.
    """
    manifest = _load_manifest(source)
    if missing := [tag for tag in tags if tag not in manifest.tags]:
        known = f"only {', '.join(manifest.tags)}" if manifest.tags else "none"
        raise TokenizerError(
            f"{source}: has no tag '{missing[0]}', but {known}; a vocabulary cannot grow, so leave "
            "the tag out of the sources, or train without init"
        )
    for name in manifest.sha256:
        data = manifest.read_checked(source / name)
        with whole_file(directory / name) as temporary:
            temporary.write_bytes(data)
    return _write_manifest(manifest.model_copy(update={"learned_from": text_sha256}), directory)


def _write_manifest(manifest: TokenizerManifest, directory: Path) -> Tokenizers:
    # Last, so that a directory with it is complete.
    write_text(directory / MANIFEST_NAME, manifest.model_dump_json(indent=2) + "\n")
    return load_tokenizers(directory)


def have_same_tokenizers(first: Path, second: Path) -> bool:
    """Return whether two directories have the same tokenizers, whatever their training texts.

    Raises:
        TokenizerError: a directory's tokenizer.json is missing or damaged.
    """
    one, other = _load_manifest(first), _load_manifest(second)
    return one == other.model_copy(update={"learned_from": one.learned_from})


def load_tokenizers(directory: Path) -> Tokenizers:
    """Load what ``learn_tokenizers`` wrote; the directory alone is enough.

    Raises:
        ConfigError: spaCy on this machine has no rules for a language.
        TokenizerError: a file is missing, or has changed since it was written.
    """
    manifest = _load_manifest(directory)
    tokenizers = manifest.load(directory)
    if not manifest.protect and not manifest.tags:
        return tokenizers
    return ReservedTokenizers.of(tokenizers, manifest.protect, manifest.tags)


def matches_configured_files(config: TokenizerConfig, directory: Path) -> bool:
    """Return whether the tokenizers in ``directory`` are copies of the files in ``config``.

    A file that is gone counts as unchanged, as the copy is enough; so does a kind without files.

    Raises:
        TokenizerError: the directory's tokenizer.json is missing or damaged.
    """
    if not config.files:
        return True
    copied = set(_load_manifest(directory).sha256.values())
    return all(sha256(path) in copied for path in config.files.values() if path.is_file())


def load_text_sha256(directory: Path) -> str:
    """Return the SHA-256 of the text that the tokenizers in ``directory`` were learned from.

    Raises:
        TokenizerError: the directory's tokenizer.json is missing or damaged.
    """
    return _load_manifest(directory).learned_from


def fingerprint(directory: Path) -> str:
    """Return the SHA-256 of tokenizer.json, by which checkpoints identify their tokenizers.

    That file has the SHA-256 of the others, so it stands for them too.

    Raises:
        TokenizerError: the file is missing.
    """
    return hashlib.sha256(read_tokenizer_file(directory / MANIFEST_NAME)).hexdigest()


def _load_manifest(directory: Path) -> TokenizerManifest:
    path = directory / MANIFEST_NAME
    data = read_tokenizer_file(path)
    try:
        kind = import_kind(_ManifestKind.model_validate_json(data).kind)
        manifest: TokenizerManifest = kind.MANIFEST.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise TokenizerError(
            f"{path}: {key + ': ' if key else ''}{first['msg'].removeprefix('Value error, ')}; the "
            "file is damaged, or from another version of transformer-cli"
        ) from error
    return manifest
