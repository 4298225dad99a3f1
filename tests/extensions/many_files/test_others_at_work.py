"""Translations of many files are not written into a run."""

from cli.test_others_at_work import (
    here,
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
)

__all__ = ["here", "pytest_generate_tests", "test_nothing_is_written_into_a_run_or_a_model"]

INTO_RUNS = [("translate", "RUN", "-i", "*.txt", "-o", "RUN/tokenizer")]
