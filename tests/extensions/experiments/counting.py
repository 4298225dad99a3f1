"""A miniature training that counts to ten in a file, and resumes the count after a kill.

It stands in for transformer-cli in tests of the runner: ``counting.py train BASE … --run-dir DIR``.
While a file $STUBBORN exists, it does not end, even when its starter ends.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

STEPS = 10
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0.02"))


def main() -> None:
    """Count in the directory that the command line names; end when the starter ends."""
    threading.Thread(target=_end_with_starter, daemon=True).start()
    run = Path(sys.argv[sys.argv.index("--run-dir") + 1])
    if sys.argv[1] == "vocab" and "NO_DATA" in os.environ:
        sys.exit("transformer-cli: error: no data here")
    if sys.argv[1] == "vocab":
        run.mkdir(parents=True, exist_ok=True)
        (run / "run.json").write_text("{}")
        for name in ("tokenizer", "encoded"):
            (run / name).mkdir(exist_ok=True)
            (run / name / "file").write_text(name)
        return
    if "model.dropout=0.5" in sys.argv:
        sys.exit("transformer-cli: error: model.dropout: 0.5 is too much here")
    print("begun", file=sys.stderr, flush=True)
    counted = run / "counted"
    for number in range(len(counted.read_text()) if counted.exists() else 0, STEPS):
        time.sleep(STEP_SECONDS)
        with counted.open("a") as file:
            file.write(str(number))
        record = {"kind": "validation", "step": number, "bleu": float(number)}
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({**record, "seconds": float(number + 1)}) + "\n")
        _be_stubborn()


def _be_stubborn() -> None:
    while Path(os.environ.get("STUBBORN", "no file")).exists():
        time.sleep(0.02)


def _end_with_starter() -> None:
    while os.read(0, 1):
        pass
    _be_stubborn()
    os._exit(143)


if __name__ == "__main__":
    main()
