"""Groups of runs that differ in their seeds only."""

from dataclasses import dataclass

from transformer_cli.runs.directory import RunDirectory


@dataclass(frozen=True)
class RunGroup:
    """One setting, trained with several seeds."""

    name: str
    runs: tuple[RunDirectory, ...]
    """At least one."""
