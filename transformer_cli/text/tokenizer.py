"""Learn, copy and load a run's tokenizers. Their directory has a manifest, tokenizer.json.

Each ``tokenizer.kind`` has a subclass of ``TokenizerManifest``. The kinds words and sentencepiece
are built in; extensions add more kinds with entries for the interface ``tokenizer``.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from transformer_cli.base import registry
from transformer_cli.base.errors import TokenizerError
from transformer_cli.base.files import read_small
from transformer_cli.base.messages import warn
from transformer_cli.base.text_files import write_text
from transformer_cli.base.writing import whole_file
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import find_owners
from transformer_cli.config.tokenizer_schema import TokenizerConfig
from transformer_cli.text.protocol import CodecKind, Lines, StreamedLines, Tokenizer, Tokenizers

MANIFEST_NAME = "tokenizer.json"
_MANIFESTS = {"words": "WordsManifest", "sentencepiece": "SentencePieceManifest"}
_TRAITS = ("letterless", "copied")
# Tokenizer trainers keep all lines in memory, and more lines than this do not improve the result.
MOST_LINES = 1_000_000
MAX_TOKENIZER_BYTES = 1 << 28  # of a vocabulary or model: many times the size of the largest ones

Side = Literal["src", "tgt", "joint"]  # the source, the target, or both together
# Manifests may come from strangers, so no files with other names are read or copied.
FileName = Annotated[str, Field(pattern=r"^(src|tgt|joint)(\.[a-z]+)+$")]


def find_codec(name: str) -> CodecKind:
    """Return the ``CodecKind`` with this name; raise ValueError if no extension adds it."""
    entry = registry.find("codec", name)
    if entry is None:
        raise ValueError(registry.describe_missing("codec", name))
    return cast(CodecKind, entry.load())


def describe_codecs(config: Config) -> dict[str, Any]:
    """Return the ``CodecKind.describe`` records that a config needs, keyed by codec name."""
    # Most codecs are only needed for settings of extensions.
    is_extended = bool(find_owners(config))
    records = {}
    for name, entry in sorted(registry.entries("codec").items()):
        if is_extended or entry.facts.get("acts_unasked"):
            records[name] = entry.load().describe(config)
    return {name: record for name, record in records.items() if record}


def _check_codecs(records: dict[str, Any]) -> dict[str, Any]:
    for name, record in records.items():
        find_codec(name).check(record)
    return records


class TokenizerManifest(BaseModel):
    """The content of tokenizer.json: the keys of all kinds. Subclasses add ``kind`` and more."""

    model_config = ConfigDict(extra="forbid", strict=True)

    suffix: ClassVar[str]
    """The file extension of the source file and the target file, or of the one joint file."""

    format: Literal[1] = 1
    lowercase: bool
    learned_from: str
    """SHA-256 of the training text that the tokenizers were learned from or are used with."""
    sha256: dict[FileName, str]
    codecs: Annotated[dict[str, Any], AfterValidator(_check_codecs)] = {}
    """What ``CodecKind.describe`` returned for each codec, keyed by codec name."""
    letterless: bool = False  # describes the training text, like ``copied``; see ``TextStats``
    copied: bool = False

    @classmethod
    @abstractmethod
    def learn(cls, config: Any, text: "TrainingText", directory: Path) -> Self:
        """Learn tokenizers with the settings ``config``; return their manifest, without saving it.

        The files are written into ``directory``, which must exist.
        """

    @abstractmethod
    def open(self, data: bytes, path: Path, side: Side) -> Tokenizer:
        """Return the tokenizer of ``side``, made from ``data``, the bytes of its file ``path``."""

    def is_made_by(self, config: Any) -> bool:
        """Return whether making these tokenizers again with ``config`` would change nothing."""
        return True

    def save(self, directory: Path) -> None:
        """Write tokenizer.json; call this last, so that a directory with this file is complete."""
        empty = {key for key in ("codecs", *_TRAITS) if not getattr(self, key)}
        text = self.model_dump_json(indent=2, exclude=empty)
        write_text(directory / MANIFEST_NAME, f"{text}\n")

    def read_checked(self, path: Path) -> bytes:
        """Return a file's bytes; raise TokenizerError if its SHA-256 isn't the manifest's."""
        data = read_file(path)
        if hashlib.sha256(data).hexdigest() != self.sha256.get(path.name):
            raise TokenizerError(
                f"{path}: changed since it was written (its SHA-256 differs from the one in "
                f"{MANIFEST_NAME}); restore the file, or learn the tokenizer again"
            )
        return data

    def load(self, directory: Path) -> Tokenizers:
        """Check the SHA-256 of a directory's files and load its tokenizers, without any codecs."""
        is_joint = self.file_name("joint") in self.sha256
        sides: list[Side] = ["joint"] if is_joint else ["src", "tgt"]
        tokenizers = []
        for side in sides:
            path = directory / self.file_name(side)
            tokenizers.append(self.open(self.read_checked(path), path, side))
        return Tokenizers(tokenizers[0], tokenizers[-1], self.letterless, self.copied)

    @classmethod
    def file_name(cls, side: Side) -> str:
        """Return the name of the file that has the vocabulary or model of ``side``."""
        return f"{side}.{cls.suffix}"

    @classmethod
    def write(
        cls,
        models: Iterable[tuple[Side, bytes]],
        directory: Path,
        lowercase: bool,
        text_sha256: str,
        **more: Any,
    ) -> Self:
        """Write vocabularies or models into ``directory``; return the manifest, without saving it.

        ``models`` has the bytes of each file. ``more`` has the manifest's other keys.
        """
        sums = {}
        for side, data in models:
            name = cls.file_name(side)
            with whole_file(directory / name) as temporary:
                temporary.write_bytes(data)
            sums[name] = hashlib.sha256(data).hexdigest()
        return cls(lowercase=lowercase, learned_from=text_sha256, sha256=sums, **more)


_RESTORE = "restore it, as a model translates only with the tokenizer it was trained with"


def read_file(path: Path, advice: str = _RESTORE) -> bytes:
    """Return a file's bytes; if that fails, raise a TokenizerError that ends with ``advice``."""
    try:
        return read_small(path, MAX_TOKENIZER_BYTES)
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror}); {advice}") from error


@dataclass(frozen=True)
class TrainingText:
    """The text to learn tokenizers from, with its SHA-256 and its language codes such as 'de'.

    ``traits`` has ``letterless`` and ``copied`` for tokenizer.json, described in ``TextStats``.
    """

    src_lang: str
    tgt_lang: str
    src: Lines
    tgt: Lines
    sha256: str
    traits: Mapping[str, bool] = field(default_factory=dict)

    def sample(self, size: int) -> "TrainingText":
        """Return this text with at most ``size`` of its pairs of lines, evenly spaced."""
        count = len(self.src)
        if count <= size:
            return self
        src, tgt = (
            [line for n, line in enumerate(side) if (n + 1) * size // count > n * size // count]
            for side in (self.src, self.tgt)
        )
        return replace(self, src=src, tgt=tgt)

    def sides(self, joint: bool) -> list[tuple[Side, Lines, str]]:
        """Return (side, lines, label for messages) of source and target, or of both joined."""
        if joint:
            both = StreamedLines(lambda: chain(self.src, self.tgt), len(self.src) + len(self.tgt))
            return [("joint", both, "training text")]
        return [("src", self.src, "source text"), ("tgt", self.tgt, "target text")]


def learn_tokenizers(
    config: TokenizerConfig,
    text: TrainingText,
    directory: Path,
    codecs: Mapping[str, Any] | None = None,
) -> Tokenizers:
    """Learn source and target tokenizers and write their files into an existing directory.

    ``codecs`` has the records of the codecs to use; see ``describe_codecs``.
    """
    is_counted = config.kind == "words"  # it counts the words of the whole text
    if not is_counted:
        text = text.sample(MOST_LINES // (2 if config.one_vocabulary else 1))
    learned = {}
    for name, record in (codecs or {}).items():
        codec = find_codec(name)
        src, tgt = codec.text_to_learn(record, text.src, text.tgt)
        text = replace(text, src=src, tgt=tgt)
        learned[name] = codec.learn(record, src, tgt)
    manifest = find_kind(config.kind).learn(config, text, directory)
    manifest.model_copy(update={"codecs": learned, **text.traits}).save(directory)
    if not is_counted:
        made = manifest.load(directory)
        sides = [(made.src, text.src), (made.tgt, text.tgt)]
        for check in registry.entries("tokenizer check").values():
            if found := check.load()(config, sides):
                warn("tokenizer", found)
    return load_tokenizers(directory)


def copy_tokenizers(
    source: Path,
    text_sha256: str,
    directory: Path,
    codecs: Mapping[str, Any] | None = None,
    traits: Mapping[str, bool] | None = None,
) -> Tokenizers:
    """Copy the tokenizers in ``source`` into ``directory``, to use them with another training text.

    ``codecs`` has the records that the copy must support; see ``describe_codecs``. ``traits``
    describes the new text (see ``TrainingText``); None keeps the values in ``source``.
    """
    manifest = load_manifest(source)
    for name, wanted in (codecs or {}).items():
        try:
            find_codec(name).check_reuse(manifest.codecs.get(name, {}), wanted)
        except ValueError as error:
            raise TokenizerError(f"{source}: {error}, or train without init") from error
    for name in manifest.sha256:
        data = manifest.read_checked(source / name)
        with whole_file(directory / name) as temporary:
            temporary.write_bytes(data)
    manifest.model_copy(update={"learned_from": text_sha256, **(traits or {})}).save(directory)
    return load_tokenizers(directory)


def find_kind(kind: str) -> type[TokenizerManifest]:
    """Return the manifest class for a ``tokenizer.kind``; raise ValueError if it is unknown."""
    if not isinstance(kind, str):  # a file may have any value
        raise ValueError("expected the name of a kind of tokenizer")
    if kind in _MANIFESTS:
        module = import_module(f"transformer_cli.text.{kind}")
        return cast(type[TokenizerManifest], getattr(module, _MANIFESTS[kind]))
    if entry := registry.find("tokenizer", kind):
        return cast(type[TokenizerManifest], entry.load())
    raise ValueError(registry.describe_missing("kind of tokenizer", kind))


class _AnyManifest(BaseModel):
    kind: Annotated[Any, AfterValidator(find_kind)]


def load_manifest(directory: Path) -> TokenizerManifest:
    """Read tokenizer.json; raise TokenizerError if it is missing, damaged or incompatible."""
    path = directory / MANIFEST_NAME
    data = read_file(path)
    try:
        kind: type[TokenizerManifest] = _AnyManifest.model_validate_json(data).kind
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise TokenizerError(
            f"{path}: {key + ': ' if key else ''}{first['msg'].removeprefix('Value error, ')}; the "
            "file is damaged, or from another version of transformer-cli"
        ) from error


def load_tokenizers(directory: Path) -> Tokenizers:
    """Load the tokenizers that ``learn_tokenizers`` wrote into ``directory``, with their codecs."""
    manifest = load_manifest(directory)
    tokenizers = manifest.load(directory)
    for name, record in sorted(manifest.codecs.items()):
        tokenizers = find_codec(name).open(tokenizers, record)
    return tokenizers


def have_same_tokenizers(first: Path, second: Path) -> bool:
    """Return whether two directories have the same tokenizers; their training texts may differ."""
    of_text = {"learned_from", *_TRAITS}
    one, other = (load_manifest(path).model_dump(exclude=of_text) for path in (first, second))
    return one == other


def fingerprint(directory: Path) -> str:
    """Return the SHA-256 of tokenizer.json; checkpoints record it to identify their tokenizers.

    It also covers the other files, because tokenizer.json contains their SHA-256.
    """
    return hashlib.sha256(read_file(directory / MANIFEST_NAME)).hexdigest()
