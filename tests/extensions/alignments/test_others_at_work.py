"""Alignments that are written while others save or write the same file."""

from cli.test_others_at_work import (
    Case,
    here,
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
    test_what_is_replaced_keeps_its_owner_group_and_mode,
    test_what_someone_saves_meanwhile_is_kept,
)

__all__ = [
    "here",
    "pytest_generate_tests",
    "test_nothing_is_written_into_a_run_or_a_model",
    "test_what_is_replaced_keeps_its_owner_group_and_mode",
    "test_what_someone_saves_meanwhile_is_kept",
]

COMMANDS: dict[str, Case] = {
    "alignments": ("links", ["translate", "RUN", "-i", "in.txt", "--alignments", "links"]),
}
INTO_RUNS = [("translate", "RUN", "-i", "in.txt", "--alignments", "RUN/checkpoints/links")]
