"""The tests of extensions share the tiny experiment of the command line's tests."""

from cli.conftest import config, own_run, training

__all__ = ["config", "own_run", "training"]
