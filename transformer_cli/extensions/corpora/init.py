"""What ``init`` can start from: text of the user's own, corpora of OPUS, and Tatoeba's zips."""

import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import UsageError, size
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import ExtraOptions, option
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.cli import init
    from transformer_cli.data import corpus
    from transformer_cli.extensions.corpora import opening, opus, own_text

_LANGUAGES = ("src_lang", "tgt_lang")
_OPTIONS = {"opus": (*_LANGUAGES, "name"), "tatoeba": ("src", *_LANGUAGES, "name")}
"""The options that go with these; all of them go with own."""

TargetSide = Annotated[Path | None, option("FILE", "own: its target side.")]


@dataclass(frozen=True)
class TextOptions(ExtraOptions):
    """The text that a configuration is made for."""

    heading = "Your text"
    about = (
        "own is for your own text: its configuration fits the size of the text, and holds out "
        "pairs for validation and test if you have none. tatoeba does the same for a zip of "
        "everyday sentences, opus:NAME for a corpus that train will fetch; opus lists those."
    )

    src: Annotated[
        Path | None, option("FILE", "own: source side of the training text; tatoeba: the zip.")
    ] = None
    tgt: Annotated[Path | None, option("FILE", "own: target side of the training text.")] = None
    val_src: Annotated[
        Path | None, option("FILE", "own: source side of the validation text.  [default: held out]")
    ] = None
    val_tgt: TargetSide = None
    test_src: Annotated[
        Path | None, option("FILE", "own: source side of the test text.  [default: held out, too]")
    ] = None
    test_tgt: TargetSide = None
    src_lang: Annotated[
        str | None, option("CODE", "Source language.  [default: the files' ending]")
    ] = None
    tgt_lang: Annotated[
        str | None, option("CODE", "Target language.  [default: the files' ending]")
    ] = None
    encoding: options.Encoding = None
    name: Annotated[
        str | None,
        option("NAME", "Name of the configuration.  [default: of the text and its languages]"),
    ] = None

    def check(self, given: "init.InitOptions") -> None:
        name = (given.from_ or "").partition(":")[0]
        for field, value in asdict(self).items():
            fitting = ["own", *(each for each, fields in _OPTIONS.items() if field in fields)]
            if value is not None and name not in fitting:
                names = " and ".join(fitting)
                raise UsageError(f"--{field.replace('_', '-')}: goes with --from {names} only")

    @property
    def config_name(self) -> str | None:
        """The name of the configuration without its ending, if one is given."""
        if self.name is None:
            return None
        if Path(self.name).name != self.name:
            raise UsageError(f"--name {self.name}: is a path; give a name, as in mine")
        return re.sub(r"(?<=.)\.ya?ml$", "", self.name)

    @property
    def asks(self) -> bool:
        return self.src is None and _is_terminal()

    def pair(self, split: str, prefix: str = "") -> "corpus.ParallelFiles | None":
        """Return the files of a split, whose options begin so; None if the user has none."""
        src, tgt = getattr(self, f"{prefix}src"), getattr(self, f"{prefix}tgt")
        required = not prefix
        if self.asks and src is None and tgt is None:
            hint = "" if required else " (Enter if you have none)"
            src = _ask_for_file(f"{split} text, source side{hint}", required)
            if src is not None:
                tgt = _ask_for_file(f"{split} text, target side", required=True)
        if src is None and tgt is None and not required:
            return None
        if src is None or tgt is None:
            names = [f"--{prefix}{side}".replace("_", "-") for side in ("src", "tgt")]
            raise UsageError(
                f"{names[0 if src is None else 1]}: is missing; name both sides of the {split} "
                f"text, as in {names[0]} a.de {names[1]} a.en"
            )
        pair = corpus.ParallelFiles(src, tgt, encoding=self.encoding)
        own_text.check_files(pair)
        return pair

    def languages(self, guesses: tuple[str, str] = ("", "")) -> tuple[str, str]:
        """Return both languages; raise UsageError if one is missing, none, or the other side's."""
        languages = own_text.read_languages(
            self.language("source", guesses[0]), self.language("target", guesses[1])
        )
        if languages == guesses[::-1]:
            raise UsageError(
                f"--src-lang {languages[0]}: --src ends in .{guesses[0]}, and --tgt in "
                f".{guesses[1]}; swap the files, or the languages"
            )
        return languages

    def language(self, side: str, guess: str) -> str:
        """Return the language of a side, 'source' or 'target'."""
        given = self.src_lang if side == "source" else self.tgt_lang
        language = given or guess
        if given is None and self.asks:
            language = _ask(f"language of the {side} side, such as de", guess)
        if not language:
            option_name = "--src-lang" if side == "source" else "--tgt-lang"
            raise UsageError(
                f"{option_name}: is missing; give the language of the {side} side, as in de"
            )
        return language


def configure_own(given: "init.InitOptions", rest: str) -> "init.NewConfig":
    """Return a configuration that fits two files of the user's own."""
    _check_no_rest("own", rest)
    text = given.extra(TextOptions)
    name = text.config_name
    train = text.pair("training")
    assert train is not None
    languages = text.languages(own_text.guess_languages(train.src, train.tgt))
    given_texts = {
        "train": train,
        "val": text.pair("validation", "val_"),
        "test": text.pair("test", "test_"),
    }
    texts = {split: pair for split, pair in given_texts.items() if pair is not None}
    return own_text.configure_own(languages, texts, given.directory, name)


def configure_opus(given: "init.InitOptions", rest: str) -> "init.NewConfig | None":
    """Return a configuration for a corpus of OPUS; list what there is if none is named."""
    opening.check_stores("--from opus")
    text = given.extra(TextOptions)
    name = text.config_name
    languages = text.languages()
    if not rest:
        _list_opus(*languages)
        return None
    return own_text.configure_release(opus.find_release(rest, *languages), languages, name)


def configure_tatoeba(given: "init.InitOptions", rest: str) -> "init.NewConfig":
    """Return a configuration for a zip of everyday sentences."""
    _check_no_rest("tatoeba", rest)
    text = given.extra(TextOptions)
    name = text.config_name
    if text.src is None:
        problem = "is missing; name a zip of https://www.manythings.org/anki, as in deu-eng.zip"
        raise UsageError(f"--src: {problem}")
    return own_text.configure_tatoeba(text.src, text.languages(), given.directory, name)


def _check_no_rest(name: str, rest: str) -> None:
    if rest:
        raise UsageError(f"--from {name}:{rest}: {name} takes no name; use --from {name}")


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
    log(f"choose one by its name, as in transformer-cli init {chosen}")


def _ask_for_file(question: str, required: bool) -> Path | None:
    while name := _ask(question):
        path = Path(os.path.expanduser(name))  # noqa: PTH111, as there may be no such user
        if path.is_file():
            return path
        log(f"{path}: there is no such file")
    return _ask_for_file(question, required) if required else None


def _ask(question: str, default: str = "") -> str:
    """Ask on stderr; return the answer, or the default if that is empty."""
    shown = f" [{default}]" if default else ""
    print(f"{question}{shown}: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("the questions were not answered; see transformer-cli init --help")
    return line.strip() or default


def _is_terminal() -> bool:
    """Return whether questions can be answered on stdin."""
    return sys.stdin is not None and sys.stdin.isatty()
