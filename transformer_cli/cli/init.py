"""``transformer-cli init``."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from transformer_cli.base.errors import UsageError, did_you_mean, size
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, argument, declared_by, option
from transformer_cli.cli.display import align_columns, log, say

with lazy_imports():
    from transformer_cli.base import writing
    from transformer_cli.config import shipped
    from transformer_cli.data import corpus
    from transformer_cli.extensions.corpora import opus, own_text

_OF_TEXT = {
    "own": "Your own text: two files, line n of one translates line n of the other.",
    "opus": "Corpora by name: lists those of OPUS in two languages; opus:NAME starts from one.",
    "tatoeba": "Everyday sentences in English and another language, a zip of manythings.org/anki.",
}
_LANGUAGES = ("src_lang", "tgt_lang")
_OPTIONS = {"opus": (*_LANGUAGES, "name"), "tatoeba": ("src", *_LANGUAGES, "name")}
"""Those that go with them; all go with own."""

TargetSide = Annotated[Path | None, option("FILE", "own: its target side.")]


@dataclass(frozen=True)
class InitOptions(CommandOptions):
    """What ``init`` is given."""

    directory: Annotated[
        Path,
        argument("DIR", "Where to; made if it is not there.", show_default=True, file_okay=False),
    ] = Path()
    from_: Annotated[str | None, option("NAME", "Configuration to start from.", "--from")] = None
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

    def check_options(self, name: str) -> None:
        """Make sure that all options go with the configuration to start from."""
        for field, value in asdict(self).items():
            fitting = ["own", *(each for each, fields in _OPTIONS.items() if field in fields)]
            if value is not None and field not in ("directory", "from_") and name not in fitting:
                names = " and ".join(fitting)
                raise UsageError(f"--{field.replace('_', '-')}: goes with --from {names} only")

    @property
    def asks(self) -> bool:
        """Whether to ask for what is missing."""
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


@declared_by(InitOptions)
def init(given: InitOptions) -> None:
    """Write a configuration to start from, and what it needs.

    Without --from, lists the configurations and, on a terminal, asks for one. Writes
    configs/NAME.yaml with its bases, configs/schema.json for editors and, for toy, the text. own is
    for your own text: it writes a configuration that fits its size, and that holds out some pairs
    for validation and test if there is no validation text. tatoeba does so for a zip of everyday
    sentences, and opus:NAME for a corpus that train will fetch; opus lists those. No file is
    overwritten.

    \b
    Example:
      transformer-cli init --from toy
      transformer-cli init --from opus:Tatoeba --src-lang de --tgt-lang en
      transformer-cli init translator --from own --src train.de --tgt train.en
    """
    configs = {**shipped.shipped_configs(), **_OF_TEXT}
    if not given.from_:
        given.check_options("")
    chosen = given.from_ or _choose(configs)
    if chosen is None:
        return
    name, _, corpus_name = chosen.partition(":")
    if name not in configs or (corpus_name and name != "opus"):
        hint = did_you_mean(chosen, configs) or f"choose from {', '.join(configs)}"
        raise UsageError(f"--from {chosen}: there is no configuration of that name; {hint}")
    given.check_options(name)
    if name == "opus" and not corpus_name:
        _list_opus(*given.languages())
    elif name in _OF_TEXT:
        config = _configure(given, name, corpus_name)
        try:
            _add(given.directory, config.write)
        except UsageError as error:
            hint = ", or choose another --name" if config.path.name in str(error) else ""
            raise UsageError(f"{error}{hint}") from error
        path = config.path.as_posix()
        _show_next(
            given.directory, f"transformer-cli check {path}", f"transformer-cli train {path}"
        )
    else:
        _add(given.directory, lambda made: shipped.copy_shipped(name, made))
        _show_next(given.directory, f"transformer-cli train configs/{name}.yaml")


def _choose(configs: Mapping[str, str]) -> str | None:
    """List the configurations; return the chosen one if stdin is a terminal."""
    say("\n".join(align_columns(configs.items(), left=2)))
    if _is_terminal():
        return _ask("start from", "toy")
    log("choose one with transformer-cli init --from NAME")
    return None


def _add(directory: Path, fill: Callable[[Path], None]) -> None:
    """Add the files that ``fill`` writes into a directory, and print their names."""
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".init-", dir=directory) as made:
        fill(Path(made))
        new = writing.add_files(Path(made), directory)
    for path in new:
        say((directory / path).as_posix())
    if not new:
        log("nothing to write: all files are there already")


def _show_next(directory: Path, *commands: str) -> None:
    is_windows = sys.platform == "win32"
    quoted = f'"{directory}"' if is_windows else shlex.quote(str(directory))
    enter = [] if directory == Path() else [f"cd {quoted}"]
    # PowerShell has no `&&`.
    joint = "\n      " if is_windows else " && "
    log(f"next: {joint.join([*enter, *commands])}")


def _configure(given: InitOptions, name: str, corpus_name: str) -> "own_text.NewConfig":
    """Return a configuration that fits text of the user's, or of OPUS."""
    config_name = given.name
    if given.name is not None:
        options.check_name(Path(given.name), "--name")
        config_name = re.sub(r"(?<=.)\.ya?ml$", "", given.name)
        if Path(given.name).name != given.name:
            raise UsageError(f"--name {given.name}: is a path; give a name, as in mine")
    if name == "opus":
        languages = given.languages()
        release = opus.find_release(corpus_name, *languages)
        return own_text.configure_release(release, languages, config_name)
    if name == "tatoeba":
        if given.src is None:
            problem = "is missing; name a zip of https://www.manythings.org/anki, as in deu-eng.zip"
            raise UsageError(f"--src: {problem}")
        about = (given.languages(), given.directory, config_name)
        return own_text.configure_tatoeba(given.src, *about)
    train = given.pair("training")
    assert train is not None
    languages = given.languages(own_text.guess_languages(train.src, train.tgt))
    given_texts = {
        "train": train,
        "val": given.pair("validation", "val_"),
        "test": given.pair("test", "test_"),
    }
    texts = {split: pair for split, pair in given_texts.items() if pair is not None}
    return own_text.configure_own(languages, texts, given.directory, config_name)


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
    return sys.stdin is not None and sys.stdin.isatty()
