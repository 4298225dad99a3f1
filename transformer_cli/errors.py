"""What can go wrong on a user's side, each with the exit code that the command line gives it.

A message is one line that names the file, line or key, what was found there, and what to do.
Anything that is not one of these is a bug of ours.
"""


class TransformerCliError(Exception):
    """A failure with a message made for the user."""

    exit_code = 1


class UsageError(TransformerCliError):
    """The command line asks for something impossible."""

    exit_code = 2


class ConfigError(TransformerCliError):
    """A configuration file or a ``--set`` says something that cannot be."""

    exit_code = 2


class CorpusError(TransformerCliError):
    """Text that is missing, misaligned, empty or not UTF-8."""


class TokenizerError(TransformerCliError):
    """A vocabulary or subword model that is missing, damaged or cannot be built."""


class CheckpointError(TransformerCliError):
    """A checkpoint that is missing, damaged or belongs to something else."""


class RunError(TransformerCliError):
    """A run directory that is missing, cannot be written or holds a different run."""


class InputError(TransformerCliError):
    """A line to translate that the model cannot take."""


class TrainingError(TransformerCliError):
    """Training cannot go on: the loss is not a number, say."""


class RanksError(TransformerCliError):
    """Another process of the same job is gone, or was never there."""
