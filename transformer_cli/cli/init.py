"""``transformer-cli init``."""

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from transformer_cli.cli import options
from transformer_cli.cli.display import log, say
from transformer_cli.errors import UsageError, did_you_mean
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli import files
    from transformer_cli.config import shipped
    from transformer_cli.data import corpus, own_text

_OWN = "own"
_ABOUT_OWN = "Your own text: two files, line n of one translates line n of the other."


Directory = Annotated[
    Path,
    options.argument(
        "DIR", "Where to; made if it is not there.", show_default=True, file_okay=False
    ),
]
From = Annotated[str | None, options.option("NAME", "Configuration to start from.", "--from")]


def init(
    directory: Directory = Path(),
    from_: From = None,
    src: Annotated[
        Path | None, options.option("FILE", "own: source side of the training text.")
    ] = None,
    tgt: Annotated[
        Path | None, options.option("FILE", "own: target side of the training text.")
    ] = None,
    val_src: Annotated[
        Path | None,
        options.option("FILE", "own: source side of the validation text.  [default: held out]"),
    ] = None,
    val_tgt: Annotated[Path | None, options.option("FILE", "own: its target side.")] = None,
    test_src: Annotated[
        Path | None,
        options.option("FILE", "own: source side of the test text.  [default: held out, too]"),
    ] = None,
    test_tgt: Annotated[Path | None, options.option("FILE", "own: its target side.")] = None,
    src_lang: Annotated[
        str | None, options.option("CODE", "own: source language.  [default: the files' ending]")
    ] = None,
    tgt_lang: Annotated[
        str | None, options.option("CODE", "own: target language.  [default: the files' ending]")
    ] = None,
) -> None:
    """Write a configuration to start from, and what it needs.

    Without --from, lists the configurations and, on a terminal, asks for one. Writes
    configs/NAME.yaml with its bases, configs/schema.json for editors and, for toy, the text. own is
    for your own text: it writes a configuration that fits its size, and that holds out some pairs
    for validation and test if there is no validation text. No file is written over.

    \b
    Example:
      transformer-cli init --from toy
      transformer-cli init translator --from own --src train.de --tgt train.en
    """
    given = {
        "--src": src,
        "--tgt": tgt,
        "--val-src": val_src,
        "--val-tgt": val_tgt,
        "--test-src": test_src,
        "--test-tgt": test_tgt,
        "--src-lang": src_lang,
        "--tgt-lang": tgt_lang,
    }
    configs = {**shipped.shipped_configs(), _OWN: _ABOUT_OWN}
    if not from_:
        _check_only_own("", given)
    name = from_ or _choose(configs)
    if name is None:
        return
    if name not in configs:
        hint = did_you_mean(name, configs) or f"choose from {', '.join(configs)}"
        raise UsageError(f"--from {name}: there is no configuration of that name; {hint}")
    _check_only_own(name, given)
    if name == _OWN:
        _write_own(directory, _Answers(given))
    else:
        _add(directory, lambda made: shipped.copy_shipped(name, made))
        _show_next(directory, f"transformer-cli train configs/{name}.yaml")


def _choose(configs: Mapping[str, str]) -> str | None:
    """List the configurations; return the chosen one if stdin is a terminal."""
    width = max(map(len, configs))
    for name, about in configs.items():
        say(f"{name:<{width}}  {about}")
    if _is_terminal():
        return _ask("start from", "toy")
    log("choose one with transformer-cli init --from NAME")
    return None


def _check_only_own(name: str, given: Mapping[str, object]) -> None:
    if name != _OWN and (wrong := [option for option, value in given.items() if value is not None]):
        raise UsageError(f"{wrong[0]}: goes with --from own only")


def _add(directory: Path, fill: Callable[[Path], None]) -> None:
    """Add the files that ``fill`` writes into a directory, and print their names."""
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".init-", dir=directory) as made:
        fill(Path(made))
        new = files.add_files(Path(made), directory)
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


class _Answers:
    """What a user has given as options, or is asked for on a terminal."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.asks = given["--src"] is None and _is_terminal()

    def pair(self, split: str, src: str, tgt: str) -> "corpus.ParallelFiles | None":
        """Return the files of a split, None if the user has none."""
        sides = self.given[src], self.given[tgt]
        required = split == "training"
        if self.asks and sides == (None, None):
            hint = "" if required else " (Enter if you have none)"
            asked_src = _ask_for_file(f"{split} text, source side{hint}", required)
            if asked_src is not None:
                sides = asked_src, _ask_for_file(f"{split} text, target side", required=True)
        if None in sides and (sides != (None, None) or required):
            missing = src if sides[0] is None else tgt
            raise UsageError(
                f"{missing}: is missing; name both sides of the {split} text, as in "
                f"{src} a.de {tgt} a.en"
            )
        return None if sides[0] is None else corpus.ParallelFiles(*sides)

    def language(self, option: str, side: str, guess: str) -> str:
        """Return the language of a side."""
        language: str = self.given[option] or guess
        if self.given[option] is None and self.asks:
            language = _ask(f"language of the {side} side, such as de", guess)
        if not language:
            raise UsageError(
                f"{option}: is missing; give the language of the {side} side, as in de"
            )
        return language


def _write_own(directory: Path, answers: _Answers) -> None:
    train = answers.pair("training", "--src", "--tgt")
    assert train is not None
    guesses = own_text.guess_languages(train.src, train.tgt)
    text = own_text.OwnText(
        answers.language("--src-lang", "source", guesses[0]),
        answers.language("--tgt-lang", "target", guesses[1]),
        train,
        answers.pair("validation", "--val-src", "--val-tgt"),
        answers.pair("test", "--test-src", "--test-tgt"),
    )
    pairs = own_text.count_pairs(text)
    _add(directory, lambda made: own_text.write_own(text, pairs, made, directory))
    config = own_text.CONFIG.as_posix()
    _show_next(directory, f"transformer-cli check {config}", f"transformer-cli train {config}")


def _ask_for_file(question: str, required: bool) -> Path | None:
    while name := _ask(question):
        path = Path(name).expanduser()
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
