"""The configs that ``init`` can write for the user's own text and for OPUS corpora."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transformer_cli.base.errors import UsageError
from transformer_cli.base.messages import log, size
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import ExtraOptions, option
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.data import corpus
    from transformer_cli.extensions.corpora import opening, opus, own_text

if TYPE_CHECKING:
    from transformer_cli.cli.init import InitOptions, NewConfig

_OF_OPUS = ("src_lang", "tgt_lang", "name")  # for ``--from opus``; ``--from own`` accepts all


@dataclass(frozen=True)
class TextOptions(ExtraOptions):
    """The options of ``init`` that describe the text for a new config."""

    heading = "Your text"
    about = (
        "--from own is for your own text: the config fits the size of the text, and holds out "
        "pairs for validation and test if you give none. --from opus:NAME does the same for a "
        "corpus from OPUS; the train command downloads it. --from opus lists the corpora."
    )

    src: Annotated[
        Path | None, option("FILE", "With --from own: source side of the training text.")
    ] = None
    tgt: Annotated[
        Path | None, option("FILE", "With --from own: target side of the training text.")
    ] = None
    bitext: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "With --from own, instead of --src and --tgt: training text with both sides (TMX, PO "
            "or TSV); repeatable.",
            "--bitext",
        ),
    ] = None
    val_src: Annotated[
        Path | None,
        option(
            "FILE", "With --from own: source side of the validation text.  [default: part of --src]"
        ),
    ] = None
    val_tgt: Annotated[
        Path | None, option("FILE", "With --from own: target side of the validation text.")
    ] = None
    test_src: Annotated[
        Path | None,
        option("FILE", "With --from own: source side of the test text.  [default: part of --src]"),
    ] = None
    test_tgt: Annotated[
        Path | None, option("FILE", "With --from own: target side of the test text.")
    ] = None
    src_lang: Annotated[
        str | None, option("CODE", "Source language.  [default: from the files' names]")
    ] = None
    tgt_lang: Annotated[
        str | None, option("CODE", "Target language.  [default: from the files' names]")
    ] = None
    name: Annotated[
        str | None, option("NAME", "Name of the config.  [default: from the text and languages]")
    ] = None

    def check(self, given: "InitOptions") -> None:
        name = (given.from_ or "").partition(":")[0]
        for field, value in asdict(self).items():
            fitting = ["own", "opus"] if field in _OF_OPUS else ["own"]
            if value is not None and name not in fitting:
                names = " and ".join(fitting)
                raise UsageError(f"--{field.replace('_', '-')}: works with --from {names} only")

    @property
    def config_name(self) -> str | None:
        """The config's name from ``--name``, without .yaml or .yml; None if it is not given."""
        if self.name is None:
            return None
        if Path(self.name).name != self.name:
            raise UsageError(f"--name {self.name}: is a path; give only a name, e.g. mine")
        return re.sub(r"(?<=.)\.ya?ml$", "", self.name)

    def pair(self, split: str, prefix: str = "") -> "corpus.ParallelFiles | None":
        """Return a split's files, e.g. from --val-src and --val-tgt; None if neither is given."""
        src, tgt = getattr(self, f"{prefix}src"), getattr(self, f"{prefix}tgt")
        if src is None and tgt is None and prefix:
            return None
        if src is None or tgt is None:
            names = [f"--{prefix}{side}".replace("_", "-") for side in ("src", "tgt")]
            raise UsageError(
                f"{names[0 if src is None else 1]}: is missing; name both sides of the {split} "
                f"text, e.g. {names[0]} a.de {names[1]} a.en"
                + ("" if prefix else ", or a file that has both, e.g. --bitext a.tmx")
            )
        pair = corpus.ParallelFiles(src, tgt)
        own_text.check_files(pair)
        return pair

    def languages(self, guesses: tuple[str, str] = ("", "")) -> tuple[str, str]:
        """Return both languages; raise UsageError if they are missing, unknown or swapped."""
        src, tgt = self.src_lang or guesses[0], self.tgt_lang or guesses[1]
        for name, language in (("src", src), ("tgt", tgt)):
            if not language:
                problem = "is missing; give the language of that side, e.g. de"
                raise UsageError(f"--{name}-lang: {problem}")
        languages = own_text.read_languages(src, tgt)
        if languages == guesses[::-1]:
            raise UsageError(
                f"--src-lang {languages[0]}: --src ends in .{guesses[0]}, and --tgt in "
                f".{guesses[1]}; swap the files or the languages"
            )
        return languages


@dataclass(frozen=True)
class TokenizerOptions(ExtraOptions):
    """Options of ``init``, from another extension, that set keys of ``tokenizer``."""

    @property
    def tokenizer_yaml(self) -> str:
        """Lines to add to that section of a new config."""
        raise NotImplementedError

    def check(self, given: "InitOptions") -> None:
        for name, _, value in self.given():
            if (given.from_ or "").partition(":")[0] not in ("own", "opus"):
                names = "works with --from own and opus only"
                raise UsageError(f"--{name.rstrip('_')} {value}: {names}")


def _tokenizer_yaml(given: "InitOptions") -> str:
    options = (each for each in given.extras if isinstance(each, TokenizerOptions))
    return "".join(each.tokenizer_yaml for each in options)


def configure_own(given: "InitOptions", rest: str) -> "NewConfig":
    """Return a config for the user's own text files."""
    if rest:
        raise UsageError(f"--from own:{rest}: own takes no name; use --from own")
    text = given.extra(TextOptions)
    train = own_text.Text(given.directory)
    if not text.bitext:
        files = text.pair("training")
        assert files is not None
        languages = text.languages(own_text.guess_languages(*files.paths))
        train.add_files(files)
    elif text.src or text.tgt:
        raise UsageError("--bitext: has both sides; leave out --src and --tgt")
    else:
        languages = text.languages()
        for path in dict.fromkeys(text.bitext):
            train.add_file(path, languages)
    texts = {"train": train}
    for split, about in (("val", "validation"), ("test", "test")):
        if files := text.pair(about, f"{split}_"):
            texts[split] = own_text.Text(given.directory)
            texts[split].add_files(files)
    return own_text.configure_own(languages, texts, text.config_name, _tokenizer_yaml(given))


def configure_opus(given: "InitOptions", rest: str) -> "NewConfig | None":
    """Return a config for the OPUS corpus ``rest``; if it is '', list corpora and return None."""
    opening.check_stores("--from opus")
    text = given.extra(TextOptions)
    name = text.config_name
    languages = text.languages()
    if not rest:
        _list_opus(*languages)
        return None
    release = opus.find_release(rest, *languages)
    return own_text.configure_release(release, languages, name, _tokenizer_yaml(given))


def _list_opus(src_lang: str, tgt_lang: str) -> None:
    releases = opus.list_releases(src_lang, tgt_lang)
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
