"""Options that several commands share."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.cli.completion import (
    complete_checkpoint,
    complete_config,
    complete_run,
    complete_setting,
    complete_split,
)
from transformer_cli.cli.display import log
from transformer_cli.config.choices import (
    MOST_THREADS,
    DeviceName,
    PrecisionName,
    SearchPrecisionName,
)
from transformer_cli.errors import CometError, InputError, MissingExtraError, UsageError
from transformer_cli.packages import __version__, lazy_imports
from transformer_cli.ranks import SINGLE_PROCESS, Ranks

with lazy_imports():
    from transformer_cli import compression, files
    from transformer_cli.inference import loading, torch_engine
    from transformer_cli.model import device as devices
    from transformer_cli.runs import directory

if TYPE_CHECKING:
    import torch

    from transformer_cli.inference.ctranslate2_engine import CTranslate2Engine
    from transformer_cli.inference.torch_engine import TorchTranslator
    from transformer_cli.inference.translator import TextTranslator


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"transformer-cli {__version__}")
        raise typer.Exit()


Version = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
]
Config = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="YAML file of the experiment.",
        show_default=False,
        autocompletion=complete_config,
    ),
]


Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="Run directory of a training.",
        show_default=False,
        autocompletion=complete_run,
    ),
]
RunDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Run directory.  [default: runs/<config name>]",
        autocompletion=complete_run,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting, as in training.epochs=3; repeatable.",
        autocompletion=complete_setting,
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Start anew; the earlier run is discarded at the new one's first checkpoint.",
    ),
]
Checkpoint = Annotated[
    str,
    typer.Option(
        metavar="best|last|average|PATH",
        help="Checkpoint to load.",
        show_default=True,
        autocompletion=complete_checkpoint,
    ),
]
Tag = Annotated[
    str | None, typer.Option(metavar="NAME", help="Put this tag of the training data before lines.")
]
BeamSize = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Beam size; 1 is greedy search.  [default: the run's]"),
]
Split = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Split of the run's corpus.  [default: its first test]",
        autocompletion=complete_split,
    ),
]
SourceColumn = Annotated[
    str | None,
    typer.Option(metavar="N|NAME", help="TSV: column of the text, from 1, or its header."),
]
SourceField = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="JSONL, Parquet: field of the text, as in translation.de."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        "--ensemble",
        metavar="RUN",
        help="Decode with this run too; repeatable.",
        autocompletion=complete_run,
    ),
]
Device = Annotated[DeviceName, typer.Option(help="Device; auto is the CUDA GPU if there is one.")]
Precision = Annotated[
    PrecisionName, typer.Option(help="Precision of matmuls; auto is bfloat16 on a GPU.")
]
TrainingPrecision = Annotated[
    PrecisionName, typer.Option(help="Precision of matmuls; auto is bfloat16 where it is faster.")
]
SearchPrecision = Annotated[
    SearchPrecisionName,
    typer.Option(help="Precision of matmuls; auto is bfloat16 on a GPU; int8 for CPUs."),
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=MOST_THREADS, help="CPU threads.  [default: one per core]"
    ),
]


@contextmanager
def prefix_errors(prefix: str, suffix: str = "") -> Iterator[None]:
    """Add the option that an error is about before its message, and what to do behind it."""
    try:
        yield
    except (UsageError, InputError, MissingExtraError, CometError) as error:
        raise type(error)(f"{prefix}{error}{suffix}") from error


def open_device(name: DeviceName, ranks: Ranks = SINGLE_PROCESS) -> "torch.device":
    """Return the device that ``--device`` asks for, and say so where it is unproven."""
    device = devices.choose_device(name, ranks)
    if device.type == "mps":
        log(
            "--device mps: untested, as this program has not run on an Apple GPU yet; compare its "
            "loss with that of --device cpu before you rely on it"
        )
    return device


def load_translator(
    run: "directory.RunDirectory",
    checkpoint: str,
    compute: "loading.ComputeOptions",
    others: "Sequence[directory.RunDirectory]" = (),
) -> "TorchTranslator":
    """Load the model with torch, whatever the engine asked for; with int8, in float32."""
    devices.use_threads(compute.threads)
    device = open_device(compute.device)
    precision = "float32" if compute.precision == "int8" else compute.precision
    dtype = devices.choose_precision(precision, device)
    translator = torch_engine.load_torch_translator(run, checkpoint, device, dtype, others)
    return translator.with_search(compute.beam_size)


def load_searcher(
    run: "directory.RunDirectory", checkpoint: str, compute: "loading.ComputeOptions"
) -> "TextTranslator[CTranslate2Engine] | None":
    """Load what translates instead of torch, if the engine is CTranslate2."""
    if compute.engine == "torch":
        return None
    translator = loading.load_ctranslate2_translator(run, checkpoint, compute)
    return translator.with_search(compute.beam_size)


def check_output(
    path: Path, option: str = "-o", inputs: Mapping[str, Path | None] | None = None
) -> None:
    """Make sure, before long work, that a file can be made at ``path``, which ``option`` names.

    Args:
        path: where to.
        option: what names it.
        inputs: files that the command reads, by their options: none is to be written over.

    Raises:
        UsageError: it cannot be made, as for the functions below.
        MissingExtraError: a package that compresses it is not installed.
    """
    for name, other in (inputs or {}).items():
        if other is not None and path.is_file() and other.is_file() and path.samefile(other):
            raise UsageError(f"{option} {path}: is the file that {name} reads; name another one")
    if path.is_dir():
        raise UsageError(f"{option} {path}: is a directory; give the name of a file")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no directory {path.parent}; make it first")
    compression.compressor(path)  # or its package is missing
    if files.is_stream(path):
        return
    check_name(path, option)
    import tempfile  # 6 ms, which --help does not need

    try:
        # Permissions alone do not tell: root has them on a disk that is mounted read-only.
        tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise UsageError(
            f"{option} {path}: cannot be written ({error.strerror}); name a file elsewhere"
        ) from error


def check_new_directory(path: Path, option: str) -> None:
    """Make sure, before long work, that a directory can be made at ``path``."""
    if not (path.is_dir() and not any(path.iterdir())):
        _check_new(path, option, "a new or an empty directory")


def check_new_file(path: Path, option: str, suffix: str) -> None:
    """Make sure, before long work, that a file that ends with ``suffix`` can be made anew."""
    if path.suffix != suffix:
        raise UsageError(f"{path}: is written as one file; give a name that ends with {suffix}")
    _check_new(path, option, "a new name")


def _check_new(path: Path, option: str, wanted: str) -> None:
    check_name(path, option)
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}; make it first")
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path}: is there already; give {wanted}")


def check_name(path: Path, option: str) -> None:
    """Make sure that a file or directory can have this name: on Windows some cannot."""
    if sys.platform == "win32" and (part := files.find_unusable_on_windows(path)):
        raise UsageError(f"{option} {path}: Windows has no files named {part}; name it otherwise")


def check_sentence(text: str, name: str) -> None:
    """Make sure that ``text``, which ``name`` names on the command line, is a line of text."""
    # Python makes half a surrogate pair of each byte that is not UTF-8.
    is_utf8 = not any("\ud800" <= sign <= "\udfff" for sign in text)
    if not text.strip():
        raise UsageError(f"{name}: is empty; give a sentence")
    if "\n" in text.strip() or not is_utf8:
        raise UsageError(f"{name} {text!r}: is no line of UTF-8 text; give a sentence")


def run_directory(config: Path, run_dir: Path | None) -> Path:
    """Return the run directory asked for, or the one named after the configuration file."""
    path = run_dir or Path("runs") / config.stem
    check_name(path, "--run-dir")
    return path
