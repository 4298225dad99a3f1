"""What is exported is the tiny experiment of the command line's tests, and others as small."""

from cli.conftest import config, own_run, training

__all__ = ["config", "own_run", "training"]
