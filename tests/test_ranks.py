"""Without an extension that connects processes, a training is one process."""

import pytest

from transformer_cli.base import ranks, registry
from transformer_cli.base.errors import UsageError


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "all_entries", lambda interface: {})


def test_several_processes_are_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match=r"^WORLD_SIZE=2: no extension connects processes; "):
        ranks.find_ranks()


@pytest.mark.parametrize("size", [None, "1", "many"])
def test_one_process_needs_no_extension(monkeypatch: pytest.MonkeyPatch, size: str | None) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    assert ranks.find_ranks() is ranks.SINGLE_PROCESS
