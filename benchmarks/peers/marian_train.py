"""Marian's contestant: its own training command, which measures itself.

Run by its own Python: ``python -m benchmarks.peers.marian_train --updates N``.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.environments import WORKSHOP
from benchmarks.peers.marian_weights import OPTIONS, size_options, write_vocabulary
from benchmarks.rounds import THREADS
from benchmarks.stopwatch import WARM_UP, updates_argument

DATA = WORKSHOP / "data"
VOCAB_SIZE = 8000
MODEL = {
    "d_model": 256,
    "num_encoder_layers": 3,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "d_ff": 1024,
}
TRAINING: dict[str, Any] = {
    "transformer-dropout": 0.3,
    "transformer-dropout-attention": 0.3,
    "transformer-dropout-ffn": 0.3,
    "label-smoothing": 0.1,
    "cost-type": "ce-mean-words",
    "optimizer": "adam",
    "optimizer-params": [0.9, 0.98, 1e-9],
    "clip-norm": 1,
    # Noam's schedule by its highest rate: 2 * (256 * 400)^-0.5.
    "learn-rate": 0.00625,
    "lr-warmup": 400,
    "lr-decay-inv-sqrt": 400,
    # Of source words: so many give updates of as many target tokens as ours.
    "mini-batch-words": 3750,
    "max-length": 256,
    "seed": 1,
    "workspace": 4000,
    "cpu-threads": THREADS,
    "sync-sgd": True,
    "shuffle-in-ram": True,
}
"""What benchmarks/task.py says, by Marian's names."""

_UPDATE = re.compile(r"Up\. (\d+) : .* Time ([\d.]+)s : ([\d.]+) words/s")
_VALIDATION = re.compile(r"ce-mean-words : ([\d.]+)")


def main() -> None:
    """Train, and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=updates_argument, required=True)
    arguments = parser.parse_args()

    with TemporaryDirectory() as directory:
        command = _command(Path(directory), arguments.updates)
        with subprocess.Popen(
            command, stdout=sys.stderr, stderr=subprocess.PIPE, encoding="utf-8"
        ) as process:
            assert process.stderr is not None
            lines = process.stderr.readlines()
    if process.returncode:
        raise SystemExit("".join(lines))
    print(json.dumps(read_log(lines)))


def _command(directory: Path, updates: int) -> list[str]:
    """Return Marian's command for so many updates, of which each is logged, and a validation."""
    vocabulary = directory / "vocabulary.yml"
    write_vocabulary(VOCAB_SIZE, vocabulary)
    options = {
        **OPTIONS,
        **size_options(MODEL),
        **TRAINING,
        "train-sets": [DATA / "train.de", DATA / "train.en"],
        "valid-sets": [DATA / "val.de", DATA / "val.en"],
        "vocabs": [vocabulary, vocabulary],
        "model": directory / "model.npz",
        "after": f"{updates}u",
        "valid-freq": f"{updates}u",
        "valid-metrics": "ce-mean-words",
        "disp-freq": "1u",
    }
    return [sys.executable, "-m", "pymarian", "train", *_arguments(options)]


def _arguments(options: dict[str, Any]) -> Iterable[str]:
    for name, value in options.items():
        yield f"--{name}"
        if value is not True:
            yield from map(str, value if isinstance(value, list) else [value])


def read_log(lines: Iterable[str]) -> dict[str, Any]:
    """Return what a contestant prints, from Marian's log; it counts target tokens only."""
    text = "".join(lines)
    updates = [
        (float(seconds), float(seconds) * float(speed))
        for number, seconds, speed in _UPDATE.findall(text)
        if int(number) > WARM_UP
    ]
    seconds, tokens = map(sum, zip(*updates, strict=True))
    (loss,) = _VALIDATION.findall(text)
    return {
        "tgt_tokens_per_second": tokens / seconds,
        "tgt_tokens_per_update": tokens / len(updates),
        "validation_loss": float(loss),
        "updates": WARM_UP + len(updates),
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
