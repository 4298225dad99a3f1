"""An export or import that is killed leaves no model behind."""

import signal
from functools import partial
from pathlib import Path

import pytest
from cli.process import run, signal_at

from extensions.exchange.marian_files import write_model

pytestmark = pytest.mark.posix


@pytest.mark.long_cases
@pytest.mark.parametrize("command", ["hub", "import", "average"])
def test_a_killed_command_leaves_nothing_that_passes_for_whole(
    own_run: Path, tmp_path: Path, command: str
) -> None:
    target = tmp_path / "made"
    arguments: list[str | Path] = ["export", own_run, target, "--format", "hub"]
    if command == "average":
        target, arguments = own_run / "checkpoints" / "average", ["average", own_run]
    elif command == "import":
        model = tmp_path / "opus-mt-de-en"
        model.mkdir()
        write_model(model)
        arguments = ["import", model, target]
    kill = partial(signal_at, "transformer_cli.base.writing", "sync", 2)
    assert run(*arguments, before=kill).code == -signal.SIGKILL
    left = {path.name for path in target.parent.glob(f"{target.name}*")}
    assert all(name.startswith(f"{target.name}.partial-") for name in left)
    assert len(left) == 1
    assert run(*arguments).code == 0
    assert list(target.parent.glob(f"{target.name}*")) == [target]
