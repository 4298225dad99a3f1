"""Faults of all kinds happen to the tiny experiment of the command line's tests."""

from cli.conftest import _server, config, own_run, training

__all__ = ["_server", "config", "own_run", "training"]
