"""Which files a sentence passes: those whose functions are called more often for more sentences.

    python -m benchmarks.data_flow

trains the toy model on 1,000 and on 3,000 sentences, and translates 100 and 400 with each engine,
all under sys.setprofile. A function belongs to the data flow if its calls grow with the sentences;
what is done once a run, a record or a validation does not. The lists are docs/architecture.md's.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.environments import ROOT

TOY = ROOT / "data" / "toy"
COUNTING = """
import json, sys, threading
from collections import Counter

calls = Counter()

def count(frame, event, _):
    code = frame.f_code
    if event == "call" and "/transformer_cli/" in code.co_filename:
        file = code.co_filename.split("/transformer_cli/", 1)[1]
        calls[f"{file}:{code.co_qualname.split('.<locals>')[0]}"] += 1

result = sys.argv.pop(1)
threading.setprofile(count)
sys.setprofile(count)
from transformer_cli.__main__ import main
try:
    status = main()
except SystemExit as error:
    status = error.code
sys.setprofile(None)
threading.setprofile(None)
with open(result, "w") as file:
    json.dump(calls, file)
sys.exit(status or 0)
"""


def measure(directory: Path) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield each data flow: its name, and its functions by file."""
    few, many = (_train(directory, sentences) for sentences in (1000, 3000))
    yield "Training", _grown(few, many)
    for engine in ("ctranslate2", "torch"):
        few, many = (_translate(directory, sentences, engine) for sentences in (100, 400))
        yield f"Translating by {engine}", _grown(few, many)


def _train(directory: Path, sentences: int) -> dict[str, int]:
    for side in ("de", "en"):
        _cut(TOY / f"train.{side}", directory / f"{sentences}.{side}", sentences)
    settings = {
        "data.kind": "files",
        "data.train": f"{{src: {directory}/{sentences}.de, tgt: {directory}/{sentences}.en}}",
        "data.val": f"{{src: {TOY}/val.de, tgt: {TOY}/val.en}}",
        "training.batch_tokens": 200,
        # Under 100: a longer training begins with trial steps, once.
        "training.max_steps": sentences // 32,
        "training.validate_every": sentences // 32,
    }
    options = [word for item in settings.items() for word in ("--set", "=".join(map(str, item)))]
    config = ROOT / "configs" / "toy.yaml"
    run = directory / f"run-{sentences}"
    return _count(directory, "train", config, "--run-dir", run, "--precision", "float32", *options)


def _translate(directory: Path, sentences: int, engine: str) -> dict[str, int]:
    _cut(TOY / "train.de", directory / "in.de", sentences)
    files = ["-i", directory / "in.de", "-o", directory / "out.en"]
    run = directory / "run-3000"
    return _count(directory, "translate", run, *files, "--engine", engine, "--batch-tokens", "200")


def _cut(source: Path, target: Path, lines: int) -> None:
    text = source.read_text(encoding="utf-8").splitlines(keepends=True)
    target.write_text("".join(text[:lines]), encoding="utf-8")


def _count(directory: Path, *arguments: object) -> dict[str, int]:
    """Run a command on one thread; return how often each function was called."""
    result = directory / "calls.json"
    words = [*map(str, arguments), "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-c", COUNTING, str(result), *words],
        cwd=directory,
        env=environment,
        capture_output=True,
        check=True,
    )
    counts: dict[str, int] = json.loads(result.read_text())
    return counts


def _grown(few: dict[str, int], many: dict[str, int]) -> dict[str, list[str]]:
    files = defaultdict(list)
    for name, calls in sorted(many.items()):
        # Five more calls: not what differs by chance, as between an epoch more or less.
        if calls > 1.5 * few.get(name, 0) and calls - few.get(name, 0) > 5:
            file, _, function = name.partition(":")
            files[file].append(function)
    return files


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for title, files in measure(Path(scratch)):
            functions = sum(map(len, files.values()))
            print(f"{title}: {len(files)} files, {functions} functions")
            for file, names in files.items():
                print(f"- `{file}`: {', '.join(names)}")
