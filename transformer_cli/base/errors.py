"""Errors that users can cause, with their exit codes; and functions that make text safe to show.

A message is one line that names the file, line or key, what is wrong, and how to fix it. Any other
exception is a bug.
"""

import re
from collections.abc import Iterable, Sequence


def find_similar(name: object, choices: Iterable[str]) -> str | None:
    """Return the choice that is closest to a name, or None if none is close."""
    from difflib import get_close_matches  # only mistakes need it, and --help imports this module

    return next(iter(get_close_matches(str(name), list(choices), n=1)), None)


def did_you_mean(name: object, choices: Iterable[str]) -> str | None:
    """Return the question 'did you mean …?', or None if no choice is close to the name."""
    similar = find_similar(name, choices)
    return f"did you mean '{similar}'?" if similar else None


class TransformerCliError(Exception):
    """An error with a message for the user."""

    exit_code = 1


class UsageError(TransformerCliError):
    """An invalid command line."""

    exit_code = 2


class ConfigError(TransformerCliError):
    """An invalid config, or an invalid setting on the command line."""

    exit_code = 2

    def __init__(self, message: str, others: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.others = others  # more mistakes in the same file, one line each


class MissingExtraError(TransformerCliError):
    """An optional package that is not installed."""


class CorpusError(TransformerCliError):
    """Text that is missing, misaligned, empty or not UTF-8."""


class MissingTextError(CorpusError):
    """Text that a command or a config names but that does not exist."""

    exit_code = 2


class TokenizerError(TransformerCliError):
    """A vocabulary or subword model that is missing, damaged or cannot be built."""


class CheckpointError(TransformerCliError):
    """A checkpoint that is missing or damaged, or does not fit the model or the run."""


class MissingCheckpointError(CheckpointError):
    """A checkpoint that a command names but that does not exist."""

    exit_code = 2


class DamagedCheckpointError(CheckpointError):
    """A checkpoint that has changed since it was written."""


class WorkerError(TransformerCliError):
    """The death of a worker process, or of all cluster workers that tried one task."""


class RunError(TransformerCliError):
    """A run directory that is missing, cannot be written or holds a different run."""


class MissingRunError(RunError):
    """A run that a command or a config names but that does not exist."""

    exit_code = 2


class InputError(TransformerCliError):
    """Input that cannot be read or translated."""


class OutputError(TransformerCliError):
    """Output that cannot be written."""


class TrainingError(TransformerCliError):
    """Training that cannot continue, for example because the loss is not finite."""


# torch has an error type only for its own allocations on a GPU. All others have only a message.
_OUT_OF_MEMORY = re.compile(
    # CUDA, from torch, NCCL and other engines: "CUDA error: out of memory", "CUDA driver error:
    # out of memory", "Cuda failure 2 'out of memory'", "CUDA failed with error out of memory".
    # MPS: "MPS backend out of memory".
    r"\b(cuda|mps)\b.*\bout of memory\b"
    # cuBLAS, cuSOLVER and cuDNN, which allocate memory outside torch. The pattern leaves out
    # CUBLAS_STATUS_NOT_INITIALIZED, which has other causes too.
    r"|_STATUS_ALLOC_FAILED|_STATUS_INTERNAL_ERROR_(HOST|DEVICE)_ALLOCATION_FAILED"
    # torch, oneDNN and the C library on a CPU.
    r"|can't allocate memory|cannot allocate memory|bad_alloc"
    # The loader of shared libraries.
    r"|failed to map segment|cannot apply additional memory protection",
    re.IGNORECASE,
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a GPU or the machine is out of memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return _OUT_OF_MEMORY.search(str(error)) is not None


# Control characters except tab and newline. Surrogates stand for non-UTF-8 bytes in file names.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
# Unicode's line separators, and characters that change the direction of the rest of the line.
OF_LINES = "\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"


def make_visible(text: str) -> str:
    r"""Replace control characters, except tabs and newlines, with escapes like ``\x1b``."""
    return re.sub(f"[{_CONTROLS}{OF_LINES}]", lambda match: ascii(match[0])[1:-1], text)


def shorten_middle(text: str, max_length: int) -> str:
    """Return ``text``; if it is too long, cut its middle, because messages end with advice."""
    head = max_length * 3 // 4
    tail = max_length - head - 1
    return text if len(text) <= max_length else f"{text[:head]}…{text[len(text) - tail :]}"
