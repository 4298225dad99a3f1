"""``transformer-cli init``."""

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from transformer_cli.cli import options
from transformer_cli.cli.display import align_columns, log, say
from transformer_cli.cli.options import argument, option
from transformer_cli.errors import UsageError, did_you_mean
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli import files
    from transformer_cli.config import shipped
    from transformer_cli.data import corpus, own_text

_OWN = "own"
_ABOUT_OWN = "Your own text: two files, line n of one translates line n of the other."

TargetSide = Annotated[Path | None, option("FILE", "own: its target side.")]


@dataclass(frozen=True)
class InitOptions:
    """What ``init`` is given."""

    directory: Annotated[
        Path,
        argument("DIR", "Where to; made if it is not there.", show_default=True, file_okay=False),
    ] = Path()
    from_: Annotated[str | None, option("NAME", "Configuration to start from.", "--from")] = None
    src: Annotated[Path | None, option("FILE", "own: source side of the training text.")] = None
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
        str | None, option("CODE", "own: source language.  [default: the files' ending]")
    ] = None
    tgt_lang: Annotated[
        str | None, option("CODE", "own: target language.  [default: the files' ending]")
    ] = None

    def check_only_own(self, name: str) -> None:
        """Make sure that no option of ``--from own`` is given with another name."""
        for field, value in asdict(self).items():
            if name != _OWN and value is not None and field not in ("directory", "from_"):
                raise UsageError(f"--{field.replace('_', '-')}: goes with --from own only")

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
        return corpus.ParallelFiles(src, tgt)

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


@options.declared_by(InitOptions)
def init(given: InitOptions) -> None:
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
    configs = {**shipped.shipped_configs(), _OWN: _ABOUT_OWN}
    if not given.from_:
        given.check_only_own("")
    name = given.from_ or _choose(configs)
    if name is None:
        return
    if name not in configs:
        hint = did_you_mean(name, configs) or f"choose from {', '.join(configs)}"
        raise UsageError(f"--from {name}: there is no configuration of that name; {hint}")
    given.check_only_own(name)
    if name == _OWN:
        _write_own(given)
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


def _write_own(given: InitOptions) -> None:
    train = given.pair("training")
    assert train is not None
    guesses = own_text.guess_languages(train.src, train.tgt)
    text = own_text.OwnText(
        given.language("source", guesses[0]),
        given.language("target", guesses[1]),
        train,
        given.pair("validation", "val_"),
        given.pair("test", "test_"),
    )
    pairs, directory = own_text.count_pairs(text), given.directory
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
