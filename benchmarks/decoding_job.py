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


Translate = Callable[[Sequence[int], int, int], list[Ids]]
"""From sentence numbers, a beam size and a batch size to the outputs' ids, in that order."""


@dataclass(frozen=True)
class BatchSizes:
    """Batch sizes that a contestant tries, and what they count."""

    greedy: Sequence[int]
    beam: Sequence[int]
    unit: str


def compete(
    translate: Translate, job: Job, sentences: Sequence[int], sizes: BatchSizes, outputs_file: Path
) -> None:
    """Time greedy and beam search; print the figures as one line of JSON.

    Args:
        translate: the contestant; a program that knows one limit for a whole batch may write more
            than a sentence's own, which is cut off here.
        job: what it translates.
        sentences: numbers of the sentences to translate.
        sizes: batch sizes to try; the fastest one counts.
        outputs_file: where to write what was translated, as JSON.
    """
    greedy = _fastest(translate, sentences, 1, sizes.greedy)
    beam = _fastest(translate, sentences, BEAM_SIZE, sizes.beam)
    limits = [job.limits[number] for number in sentences]
    outputs = {
        "sentences": list(sentences),
        "greedy": [ids[:limit] for ids, limit in zip(greedy.outputs, limits, strict=True)],
        "beam5": [ids[:limit] for ids, limit in zip(beam.outputs, limits, strict=True)],
    }
    outputs_file.write_text(json.dumps(outputs), encoding="utf-8")
    figures = {
        "greedy_sentences_per_second": greedy.sentences_per_second,
        "greedy_batch": f"{greedy.batch_size} {sizes.unit}",
        "beam5_sentences_per_second": beam.sentences_per_second,
        "beam5_batch": f"{beam.batch_size} {sizes.unit}",
        "outputs_file": str(outputs_file),
    }
    print(json.dumps(figures))


@dataclass(frozen=True)
class _Speed:
    sentences_per_second: float
    batch_size: int
    outputs: list[Ids]


def _fastest(
    translate: Translate, sentences: Sequence[int], beam_size: int, batch_sizes: Sequence[int]
) -> _Speed:
    """Translate all sentences once with each batch size, after a tenth of them to warm up."""
    speeds = []
    for batch_size in batch_sizes:
        translate(sentences[::10], beam_size, batch_size)
        start = time.perf_counter()
        outputs = translate(sentences, beam_size, batch_size)
        seconds = time.perf_counter() - start
        speeds.append(_Speed(len(sentences) / seconds, batch_size, outputs))
    return max(speeds, key=lambda speed: speed.sentences_per_second)
