"""What can go wrong on a user's side, each with the exit code that the command line gives it.

A message is one line that names the file, line or key, what was found there, and what to do.
Anything that is not one of these is a bug of ours.
"""

import re
from collections.abc import Sequence


class TransformerCliError(Exception):
    """A failure with a message made for the user."""

    exit_code = 1


class UsageError(TransformerCliError):
    """The command line asks for something impossible."""

    exit_code = 2


class ConfigError(TransformerCliError):
    """A configuration file or a ``--set`` says something that cannot be.

    Attributes:
        others: more mistakes of the same file, a line each.
    """

    exit_code = 2

    def __init__(self, message: str, others: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.others = others


class MissingExtraError(TransformerCliError):
    """An optional package that is not installed."""


class CometError(TransformerCliError):
    """COMET's model cannot be had."""


class CorpusError(TransformerCliError):
    """Text that is missing, misaligned, empty or not UTF-8."""


class TokenizerError(TransformerCliError):
    """A vocabulary or subword model that is missing, damaged or cannot be built."""


class CheckpointError(TransformerCliError):
    """A checkpoint that is missing, damaged or belongs to something else."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint that is not as it was written."""


class RunError(TransformerCliError):
    """A run directory that is missing, cannot be written or holds a different run."""


class RunInUseError(RunError):
    """A run directory that another process writes to."""


class InputError(TransformerCliError):
    """A line to translate that the model cannot take."""


class OutputError(TransformerCliError):
    """A file of translations that cannot be written."""


class TrainingError(TransformerCliError):
    """Training cannot go on: the loss is not a number, say."""


class RanksError(TransformerCliError):
    """Another process of the same job is gone, or was never there."""

    @classmethod
    def of(cls, error: Exception) -> "RanksError":
        """What torch's error about it comes to."""
        # Without the place in gloo's source that stands first, and the advice that follows.
        said = (str(error).splitlines() or [""])[0]
        reason = re.sub(r"^\[[^]]*\] ", "", said).partition(". ")[0]
        return cls(
            f"another process of this job has ended or cannot be reached ({reason}); "
            "what it said tells why"
        )


def is_lost_process(error: Exception) -> bool:
    """Whether an error of torch's says that another process is gone."""
    # They have no type in common: NCCL's and the store's have one, gloo's name their source file.
    return type(error).__name__.startswith("Dist") or "/gloo/" in str(error)


_NO_MEMORY = ("can't allocate memory", "bad_alloc", "_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no more memory, a GPU's or the machine's."""
    # torch has a type of its own for a GPU's memory. For a CPU's it only has words, and oneDNN,
    # which multiplies there, others.
    if type(error).__name__ in ("MemoryError", "OutOfMemoryError"):
        return True
    return any(words in str(error) for words in _NO_MEMORY)
