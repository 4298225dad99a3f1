"""What is exported is the tiny experiment of the command line's tests, and others as small."""

from cli.conftest import _server, config, own_run, training

__all__ = ["_server", "config", "own_run", "training"]
