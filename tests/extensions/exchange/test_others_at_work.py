"""Directories of exported models that another process writes, or that are inside a run."""

from cli.test_others_at_work import (
    here,
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
)

__all__ = ["here", "pytest_generate_tests", "test_nothing_is_written_into_a_run_or_a_model"]

INTO_RUNS = [("export", "RUN", "RUN/exported", "--format", "hub")]
