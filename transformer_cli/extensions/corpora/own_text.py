"""The config for a first experiment with the user's own text or an OPUS corpus."""

import json
import os.path
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, UsageError
from transformer_cli.base.files import is_same_file, read_small
from transformer_cli.base.messages import log, show_progress, size
from transformer_cli.base.text_files import is_compressed, open_text
from transformer_cli.cli.display import align_columns, say
from transformer_cli.cli.init import InitOptions, NewConfig
from transformer_cli.config.languages import normalize_language
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.extensions.corpora.init import TextOptions, TokenizerOptions
from transformer_cli.extensions.corpora.opening import check_stores, open_source, source_of_file
from transformer_cli.extensions.revision.foreign_scripts import scripts_of

_MAX_HELD_OUT = 1000
_SHARE_HELD_OUT = 20  # for each split, one pair in this many, up to ``_MAX_HELD_OUT`` pairs
_TEMPLATES = Path(__file__).with_name("template")
_SPLIT = """\
  # Held out: no source or target of these pairs stays in the training text.
  split: {{val: {val}, test: {test}}}
"""
_NO_TEST = """\
  # Text to score the finished model on; neither training nor validation uses it:
  # test:
  #   test: {src: FILE, tgt: FILE}
"""


def configure_own(given: InitOptions, rest: str) -> NewConfig:
    """Return a config for the user's own text; raise CorpusError if the text is too short."""
    if rest:
        raise UsageError(f"--from own:{rest}: own takes no name; use --from own")
    options = given.extra(TextOptions)
    train = _Text(given.directory)
    if not options.bitext:
        files = _find_files(options, "training")
        assert files is not None
        languages = _choose_languages(options, _guess_languages(*files.paths))
        train.add_files(files)
    elif options.src or options.tgt:
        raise UsageError("--bitext: has both sides; leave out --src and --tgt")
    else:
        languages = _choose_languages(options)
        for path in dict.fromkeys(options.bitext):
            train.add_file(path, languages)
    texts = {"train": train}
    for split, about in (("val", "validation"), ("test", "test")):
        if files := _find_files(options, about, f"{split}_"):
            texts[split] = _Text(given.directory)
            texts[split].add_files(files)
    return _configure(given, texts, languages, "own", "Your own text")


def configure_opus(given: InitOptions, rest: str) -> NewConfig | None:
    """Return a config for the OPUS corpus ``rest``; if it is '', list corpora and return None.

    Raise CorpusError if the corpus is too small, or if OPUS does not state its size.
    """
    check_stores("--from opus")
    from transformer_cli.extensions.corpora import by_name

    languages = src_lang, tgt_lang = _choose_languages(given.extra(TextOptions))
    if not rest:
        releases = by_name.list_releases(*languages)
        rows = [
            (
                each.name,
                "?" if each.alignment_pairs is None else f"{each.alignment_pairs:,}",
                "?" if each.size is None else size(each.size * 1024),
            )
            for each in releases
        ]
        say("\n".join(align_columns([("corpus", "pairs", "zip"), *rows])))
        chosen = f"--from opus:{releases[0].corpus} --src-lang {src_lang} --tgt-lang {tgt_lang}"
        log(f"choose one by name, e.g. transformer-cli init {chosen}")
        return None
    release = by_name.find_release(rest, *languages)
    source = f"{{opus: {release.name}}}"
    if release.alignment_pairs is None:
        raise CorpusError(
            f"{release.name}: OPUS does not say how large it is, so no model size can be chosen; "
            f"start from another corpus, and add this one to its config as {source}"
        )
    train = _Text(given.directory, release.alignment_pairs, [source], [release.name])
    kind = f"opus_{release.corpus.lower()}"
    return _configure(given, {"train": train}, languages, kind, f"{release.name} of OPUS")


# --- the options ----------------------------------------------------------------------------------


def _find_files(options: TextOptions, split: str, prefix: str = "") -> ParallelFiles | None:
    """Return a split's files, e.g. from --val-src and --val-tgt; None if neither is given.

    Raise UsageError if only one is given, MissingTextError if a file is missing, MissingExtraError
    if the package that decompresses it is, and CorpusError if a path is not a regular file or both
    sides are the same file.
    """
    src, tgt = getattr(options, f"{prefix}src"), getattr(options, f"{prefix}tgt")
    if src is None and tgt is None and prefix:
        return None
    if src is None or tgt is None:
        names = [f"--{prefix}{side}".replace("_", "-") for side in ("src", "tgt")]
        raise UsageError(
            f"{names[0 if src is None else 1]}: is missing; name both sides of the {split} "
            f"text, e.g. {names[0]} a.de {names[1]} a.en"
            + ("" if prefix else ", or a file that has both, e.g. --bitext a.tmx")
        )
    for path in (src, tgt):
        if path.is_dir():
            raise CorpusError(f"{path}: is a directory; name a file in it")
        if path.exists() and not path.is_file():
            raise CorpusError(f"{path}: not a file; a pipe can be read only once, so save it first")
        open_text(path).close()
    if is_same_file(src, tgt):
        raise CorpusError(f"{src}: is given for both sides; name the other side's file too")
    return ParallelFiles(src, tgt)


def _choose_languages(options: TextOptions, guesses: tuple[str, str] = ("", "")) -> tuple[str, str]:
    """Return both languages; raise UsageError if they are missing, unknown, equal or swapped."""
    given = (options.src_lang or guesses[0], options.tgt_lang or guesses[1])
    names = []
    for option, code in zip(("--src-lang", "--tgt-lang"), given, strict=True):
        if not code:
            raise UsageError(f"{option}: is missing; give the language of that side, e.g. de")
        if (name := normalize_language(code)) is None:
            raise UsageError(f"{option} {code}: not a language code such as de, pt-BR or zh_TW")
        names.append(name)
    src, tgt = names
    if src == tgt:
        raise UsageError(f"--tgt-lang {given[1]}: is the same as --src-lang; they must differ")
    if (src, tgt) == guesses[::-1]:
        raise UsageError(
            f"--src-lang {src}: --src ends in .{tgt}, and --tgt in .{src}; swap the files or the "
            "languages"
        )
    return src, tgt


def _guess_languages(src: Path, tgt: Path) -> tuple[str, str]:
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


# --- the config -----------------------------------------------------------------------------------


@dataclass
class _Text:
    """The text of a split: its number of pairs, the YAML of its sources, and their names.

    Paths are relative to ``directory``. The methods raise CorpusError if a file cannot be read.
    """

    directory: Path
    pairs: int = 0
    sources: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add_files(self, files: ParallelFiles) -> None:
        src, tgt = (_quote_path(path, self.directory) for path in files.paths)
        self._add(files.pairs(), files.src, f"{{src: {src}, tgt: {tgt}}}")

    def add_file(self, path: Path, languages: tuple[str, str]) -> None:
        """Add a file with both sides; raise UsageError if its format is unknown."""
        source = source_of_file(path)
        columns = ", src_column: 1, tgt_column: 2" if source.format == "tsv" else ""
        read = show_progress(open_source(source, *languages).pairs(), source.name, " pairs")
        own = _quote_path(path, self.directory)
        self._add(read, path, f"{{{source.format}: {own}{columns}}}")

    def _add(self, pairs: Iterable[object], path: Path, yaml: str) -> None:
        self.pairs += sum(1 for _ in pairs)
        self.sources.append(yaml)
        self.names.append(str(path))


def _quote_path(path: Path, directory: Path) -> str:
    """Return a path as a YAML string; a relative one is rewritten to start from ``directory``."""
    if not path.is_absolute():
        try:
            # Resolve links, as commands resolve `..` from the real directory.
            parent = os.path.relpath(path.parent.resolve(), directory.resolve())
            path = Path(parent, path.name)
        except ValueError:  # they are on two Windows drives
            path = path.absolute()
    name = path.as_posix()
    # JSON strings are also YAML strings, except for Unicode's line ends, which YAML folds.
    return json.dumps(name, ensure_ascii=not name.isprintable())


def _configure(
    given: InitOptions, texts: Mapping[str, _Text], languages: tuple[str, str], kind: str, what: str
) -> NewConfig:
    """Return the config for ``texts``, which has 'train', and may have 'val' and 'test'.

    Without 'val', the missing splits are held out from 'train'. The config's default name is
    ``kind`` and the languages, e.g. 'own_de_en'; its first line says ``what`` the text is.
    """
    train, options = texts["train"], given.extra(TextOptions)
    missing = [] if "val" in texts else [split for split in ("val", "test") if split not in texts]
    if missing and train.pairs < _SHARE_HELD_OUT:
        raise CorpusError(
            f"{', '.join(train.names)}: has {train.pairs} pairs, too few to hold some out for "
            "validation; use --from own and give your own validation text with --val-src and "
            "--val-tgt"
        )
    held_out = dict.fromkeys(missing, min(_MAX_HELD_OUT, train.pairs // _SHARE_HELD_OUT))
    sources = {split: "\n    - ".join(text.sources) for split, text in texts.items()}
    added = (each.tokenizer_yaml for each in given.extras if isinstance(each, TokenizerOptions))
    trained = train.pairs - sum(held_out.values())
    model = "small" if trained < 20_000 else "medium" if trained < 500_000 else "large"
    parts = [read_small(_TEMPLATES / f"{name}.yaml").decode() for name in ("data", model)]
    test = f"  test:\n    test: {sources['test']}\n" if "test" in sources else ""
    text = "".join(parts).format(
        what=what,
        src_lang=languages[0],
        tgt_lang=languages[1],
        pairs=train.pairs,
        train=sources["train"],
        val=f"  val: {sources['val']}\n" if "val" in sources else "",
        split=_SPLIT.format(**{"test": 0, **held_out}) if held_out else "",
        test=test or ("" if "test" in held_out else _NO_TEST),
        vocab_size=max(500, trained // 500 * 100),
        tokenizer="".join(added),
    )
    name = re.sub(r"(?<=.)\.ya?ml$", "", options.name or "_".join((kind, *languages)))
    # New text should be checked before training.
    advised = [command for command in ("check",) if registry.find("command", command)]
    path = Path(f"configs/{name}.yaml")
    return NewConfig(path, text, (*advised, "train"), ", or choose another --name")
