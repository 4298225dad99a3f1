"""Compare two runs: they must be equal to the last bit, except for times."""

import json
from pathlib import Path
from typing import Any

# Say what metrics.jsonl says, with times and the name of the run; see test_seeing.py.
_SEEN = ("tensorboard",)


def assert_same_run(found: Path, expected: Path, other_checkpoints: bool = False) -> None:
    """Check that the run in ``found`` equals the one in ``expected``, without temporary files.

    Args:
        found: a run directory.
        expected: another one.
        other_checkpoints: whether ``found`` may have kept other checkpoints besides the last one.
    """
    for name in _SEEN:
        assert (found / name).exists() == (expected / name).exists()
    names, expected_names = (
        {
            name
            for path in run.rglob("*")
            if not (name := str(path.relative_to(run))).startswith(_SEEN)
        }
        for run in (found, expected)
    )
    assert not [path for path in found.rglob("*") if ".partial-" in path.name]
    last = max((expected / "checkpoints").glob("step-*")).relative_to(expected)
    assert max((found / "checkpoints").glob("step-*")).relative_to(found) == last
    if other_checkpoints:
        needed = {name for name in expected_names if not name.startswith("checkpoints/step-")}
        needed |= {name for name in expected_names if name.startswith(str(last))}
        assert needed <= names
    else:
        assert names == expected_names
    for name in sorted(names & expected_names - {".lock"}):
        if (found / name).is_file():
            assert content(found / name) == content(expected / name), name


def content(path: Path) -> object:
    """Return the content of a run's file, without times."""
    match path.name:
        case "metrics.jsonl":
            records = map(timeless, path.read_text().splitlines())
            # There is one of kind session for each time that it was started.
            return [record for record in records if record["kind"] != "session"]
        case "state.json":
            return timeless(json.dumps(json.loads(path.read_text())["content"]))
        case "store.json":
            record = json.loads(path.read_text())["content"]
            if (path.parent.parent / "corpus").is_dir():
                del record["stats"]["mtime_key"]  # the times of the run's own text
            return record
        case "sources.json":
            record = json.loads(path.read_text())["content"]
            del record["mtime_key"]  # null where the sources were new when they were read
            return record
        case _:
            return path.read_bytes()


def timeless(text: str) -> dict[str, Any]:
    """Return a JSON object without times."""
    values = json.loads(text)
    assert isinstance(values, dict)
    for key in ("seconds", "tokens_per_second", "eta_seconds"):
        values.pop(key, None)
    return values
