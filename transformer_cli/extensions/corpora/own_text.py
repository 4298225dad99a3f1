"""The config for a first experiment with the user's own text or an OPUS corpus."""

import os.path
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, UsageError
from transformer_cli.base.files import is_same_file
from transformer_cli.base.messages import show_progress
from transformer_cli.base.text_files import is_compressed, open_text
from transformer_cli.cli.init import NewConfig
from transformer_cli.config.languages import normalize_language
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.extensions.corpora.opening import open_source, source_of_file
from transformer_cli.extensions.corpora.template import fill_template, quote_path
from transformer_cli.extensions.revision.foreign_scripts import scripts_of

if TYPE_CHECKING:  # importing it needs the extension for downloads
    from transformer_cli.extensions.corpora.opus import Release

_LANGUAGE_OPTIONS = ("--src-lang", "--tgt-lang")
_MAX_HELD_OUT = 1000
_SHARE_HELD_OUT = 20  # for each split, one pair in this many, up to ``_MAX_HELD_OUT`` pairs


def read_languages(src_lang: str, tgt_lang: str) -> tuple[str, str]:
    """Return both codes in their usual form; raise UsageError if they are invalid or equal."""
    names = normalize_language(src_lang), normalize_language(tgt_lang)
    for option, given, name in zip(_LANGUAGE_OPTIONS, (src_lang, tgt_lang), names, strict=True):
        if name is None:
            raise UsageError(f"{option} {given}: not a language code such as de, pt-BR or zh_TW")
    src, tgt = map(str, names)
    if src == tgt:
        raise UsageError(f"--tgt-lang {tgt_lang}: is the same as --src-lang; they must differ")
    return src, tgt


def check_files(files: ParallelFiles) -> None:
    """Check that the sides are two files that can be opened.

    Raise MissingTextError if a file is missing, MissingExtraError if the package that decompresses
    it is, and CorpusError if a path is not a regular file or both sides are the same file.
    """
    for path in files.paths:
        if path.is_dir():
            raise CorpusError(f"{path}: is a directory; name a file in it")
        if path.exists() and not path.is_file():
            raise CorpusError(f"{path}: not a file; a pipe can be read only once, so save it first")
        open_text(path).close()
    if is_same_file(*files.paths):
        raise CorpusError(f"{files.src}: is given for both sides; name the other side's file too")


def guess_languages(src: Path, tgt: Path) -> tuple[str, str]:
    """Guess languages from filename endings, e.g. train.de and train.zh_TW; '' where unknown."""
    of_src, of_tgt = (
        _guess_language((Path(path.stem) if is_compressed(path) else path).suffix[1:])
        for path in (src, tgt)
    )
    return (of_src, of_tgt) if of_src != of_tgt else ("", "")


def _guess_language(ending: str) -> str:
    # Three letters may be a language or something else, e.g. 'txt'.
    is_likely = re.match("[a-z]{2}(?![A-Za-z])", ending) or scripts_of(ending) is not None
    return (normalize_language(ending) or "") if is_likely else ""


@dataclass
class Text:
    """The text of a split: its number of pairs, and the YAML of its sources.

    Paths are relative to ``directory``. The methods raise CorpusError if a file cannot be read.
    """

    directory: Path
    pairs: int = 0
    sources: list[str] = field(default_factory=list)
    name: str = ""

    def add_files(self, files: ParallelFiles) -> None:
        """Add two aligned files."""
        src, tgt = (quote_path(_seen_from(self.directory, path)) for path in files.paths)
        self._add(files.pairs(), files.src, f"{{src: {src}, tgt: {tgt}}}")

    def add_file(self, path: Path, languages: tuple[str, str]) -> None:
        """Add a file with both sides; raise UsageError if its format is unknown."""
        source = source_of_file(path)
        columns = ", src_column: 1, tgt_column: 2" if source.format == "tsv" else ""
        read = show_progress(open_source(source, *languages).pairs(), source.name, " pairs")
        own = quote_path(_seen_from(self.directory, path))
        self._add(read, path, f"{{{source.format}: {own}{columns}}}")

    def _add(self, pairs: Iterable[object], path: Path, yaml: str) -> None:
        self.pairs += sum(1 for _ in pairs)
        self.sources.append(yaml)
        self.name = f"{self.name}{', ' * bool(self.name)}{path}"


def configure_own(
    languages: tuple[str, str], texts: Mapping[str, Text], name: str | None, tokenizer: str
) -> NewConfig:
    """Return the config for the user's own text.

    ``texts`` has 'train', and may have 'val' and 'test'. Without 'val', the missing splits are
    held out from 'train'. The default for ``name`` is 'own' and the languages, e.g. 'own_de_en'.

    Raise CorpusError if the text is too short.
    """
    sources = {split: "\n    - ".join(text.sources) for split, text in texts.items()}
    missing = [] if "val" in texts else [name for name in ("val", "test") if name not in texts]
    pairs = texts["train"].pairs
    held_out = _hold_out(texts["train"].name, pairs, missing)
    filled = fill_template("Your own text", languages, pairs, sources, held_out, tokenizer)
    return _name_config(name, "own", languages, filled)


def _name_config(name: str | None, kind: str, languages: tuple[str, str], text: str) -> NewConfig:
    path = Path(f"configs/{name or '_'.join((kind, *languages))}.yaml")
    # New text should be checked before training.
    advised = [name for name in ("check",) if registry.find("command", name)]
    return NewConfig(path, text, (*advised, "train"), ", or choose another --name")


def configure_release(
    release: "Release",
    languages: tuple[str, str],
    name: str | None = None,
    tokenizer: str = "",
) -> NewConfig:
    """Return the config for an OPUS corpus, with a model to suit the size that OPUS states.

    Raise CorpusError if OPUS states no size, or if the corpus is too small.
    """
    pairs, source = release.alignment_pairs, {"train": f"{{opus: {release.name}}}"}
    if pairs is None:
        raise CorpusError(
            f"{release.name}: OPUS does not say how large it is, so no model size can be chosen; "
            f"start from another corpus, and add this one to its config as {source['train']}"
        )
    held_out = _hold_out(release.name, pairs, ["val", "test"])
    filled = fill_template(f"{release.name} of OPUS", languages, pairs, source, held_out, tokenizer)
    return _name_config(name, f"opus_{release.corpus.lower()}", languages, filled)


def _hold_out(where: str, pairs: int, splits: list[str]) -> dict[str, int]:
    """Return how many pairs to hold out for each split."""
    if splits and pairs < _SHARE_HELD_OUT:
        raise CorpusError(
            f"{where}: has {pairs} pairs, too few to hold some out for validation; use --from own "
            "and give your own validation text with --val-src and --val-tgt"
        )
    return dict.fromkeys(splits, min(_MAX_HELD_OUT, pairs // _SHARE_HELD_OUT))


def _seen_from(directory: Path, path: Path) -> Path:
    """Rewrite a relative path so that it is relative to ``directory``."""
    try:
        if path.is_absolute():
            return path
        # Resolve links, as commands resolve `..` from the real directory.
        return Path(os.path.relpath(path.parent.resolve(), directory.resolve())) / path.name
    except ValueError:  # they are on two Windows drives
        return path.absolute()
