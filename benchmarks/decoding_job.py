"""What every contestant of the decoding benchmark is given, and how its speed is taken.

The standard library is enough here: the peers' environments import this too.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3
BEAM_SIZE = 5
LENGTH_PENALTY = 0.6

Ids = list[int]


@dataclass(frozen=True)
class Job:
    """Sentences to translate and the model to do it with.

    Attributes:
        run: the run's directory.
        weights: the checkpoint's safetensors file.
        model: the run's ``model`` section.
        vocab_size: token ids of either side.
        sources: one sentence's ids each, EOS included.
        limits: most tokens of each sentence's output.
    """

    run: str
    weights: str
    model: dict[str, Any]
    vocab_size: int
    sources: list[Ids]
    limits: list[int]

    @classmethod
    def load(cls, path: Path) -> "Job":
        """Read what ``save`` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def save(self, path: Path) -> None:
        """Write the job as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    def longest_first(self) -> list[int]:
        """The numbers of all sentences, by falling length of their sources."""
        return sorted(range(len(self.sources)), key=lambda index: -len(self.sources[index]))


@dataclass(frozen=True)
class Speed:
    """The fastest of several batch sizes, and what was translated with it."""

    sentences_per_second: float
    batch: str
    outputs: list[Ids]


def fastest(
    translate: Callable[[Sequence[int], int], list[Ids]],
    sentences: Sequence[int],
    batch_sizes: Sequence[int],
    unit: str,
) -> Speed:
    """Translate ``sentences`` once with each batch size, after a tenth of them to warm up.

    Args:
        translate: from sentence numbers and a batch size to their outputs' ids, in that order.
        sentences: numbers of the sentences to translate.
        batch_sizes: the sizes to try.
        unit: what a batch size counts.
    """
    speeds = []
    for batch_size in batch_sizes:
        translate(sentences[::10], batch_size)
        start = time.perf_counter()
        outputs = translate(sentences, batch_size)
        seconds = time.perf_counter() - start
        speeds.append(Speed(len(sentences) / seconds, f"{batch_size} {unit}", outputs))
    return max(speeds, key=lambda speed: speed.sentences_per_second)


def report(greedy: Speed, beam: Speed, sentences: Sequence[int], outputs_file: Path) -> None:
    """Write the outputs into a file and print the figures as one line of JSON."""
    outputs = {"sentences": list(sentences), "greedy": greedy.outputs, "beam5": beam.outputs}
    outputs_file.write_text(json.dumps(outputs), encoding="utf-8")
    figures = {
        "greedy_sentences_per_second": greedy.sentences_per_second,
        "greedy_batch": greedy.batch,
        "beam5_sentences_per_second": beam.sentences_per_second,
        "beam5_batch": beam.batch,
        "outputs_file": str(outputs_file),
    }
    print(json.dumps(figures))
