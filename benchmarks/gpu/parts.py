"""The parts of the benchmark, the most important first. Nothing here imports torch."""

from dataclasses import dataclass

Row = dict[str, str | int | float]
"""Figures by the header of their column."""


@dataclass(frozen=True)
class Part:
    """One part: ``measure`` of the module of this name yields its rows.

    Attributes:
        name: of the module in this package.
        title: of its section in the report.
        text: what is measured, above the section's tables.
        limit: seconds after which its process is killed.
        needs_gpu: whether it is skipped on a CPU.
        uses_corpus: whether it takes Multi30k, or the toy corpus where Multi30k is missing.
    """

    name: str
    title: str
    text: str
    limit: float = 60.0
    needs_gpu: bool = False
    uses_corpus: bool = False


PARTS = (
    Part(
        "peaks",
        "Versions and peaks",
        "Square matrices, random; the copy counts bytes read and written. Medians of ten rounds.",
    ),
    Part(
        "gpu_tests",
        "Tests",
        "`pytest -m gpu`, in the files of tests/ that have such tests.",
        needs_gpu=True,
    ),
    Part(
        "corpus",
        "Text to token ids",
        "Learning a joint SentencePiece vocabulary and encoding both splits, once for all parts.",
        uses_corpus=True,
    ),
    Part(
        "exactness",
        "A step against the CPU in float32",
        "One batch of 2,560 tokens, five times, without dropout or clipping: relative errors of "
        "the first step's loss and gradients (‖difference‖ / ‖reference‖) and of the fifth step's "
        "loss. Key biases, whose gradient is 0 but for rounding, are not in the worst one.",
        uses_corpus=True,
    ),
    Part(
        "resuming",
        "Resuming",
        "40 steps of the small model, in epochs of about 10 batches with dropout: run twice, and "
        "with a checkpoint after 20, from which a new trainer goes on. Key biases, whose gradients "
        "are rounding errors, do not count in the largest difference.",
        uses_corpus=True,
    ),
    Part(
        "syncs",
        "Synchronisations",
        'torch.cuda.set_sync_debug_mode("warn") during the third epoch of about 20 steps of the '
        "small model.",
        needs_gpu=True,
        uses_corpus=True,
    ),
    Part(
        "speed",
        "Training",
        "In bfloat16, making of batches included. Tokens count end marks, never padding. A graph "
        "is captured when its shape is seen the second time, so the third epoch is the steady "
        "state. "
        "TFLOP/s are the matrix products of real tokens, forward and backward "
        "(`training/forecast.py`); their share is of torch.mm's peak, measured before.",
        uses_corpus=True,
    ),
    Part(
        "whole",
        "From raw text to a score",
        "`train` in bfloat16 from raw text, then `evaluate`, greedy: processes of their own, whose "
        "starts count. The aim is a lowercased BLEU of 36.52 in 20 s.",
        limit=120.0,
        uses_corpus=True,
    ),
    Part(
        "decoding",
        "Decoding",
        "The run of the part before, test split, repeated to fill batches. Sentences/s of a first "
        "pass and of a second one; batches in source tokens, times the beam size.",
        uses_corpus=True,
    ),
    Part(
        "attention",
        "Attention",
        "Milliseconds of forward and backward in bfloat16 with a dropout of 0.1, 25,000 tokens, "
        "heads of 64; in brackets the first call, which may build a plan.",
    ),
    Part(
        "out_of_memory",
        "Out of memory",
        "Training under torch.cuda.set_per_process_memory_fraction, as shares of the peak without "
        "a limit.",
        needs_gpu=True,
        uses_corpus=True,
    ),
    Part(
        "process_group",
        "A process group of one",
        "The calls of `transformer_cli/base/ranks.py`, and the trainer's steps over "
        "DistributedDataParallel.",
        uses_corpus=True,
    ),
    Part(
        "profiled",
        "Profile",
        "torch.profiler over 5 steps of the third epoch, bfloat16. Busy is the union of all "
        "kernels' intervals, as a share of the time between the first and the last.",
        uses_corpus=True,
    ),
    Part(
        "compiled",
        "torch.compile",
        "An experiment: the small model's `hidden_states` compiled with dynamic=True, without "
        "graphs of ours.",
        limit=120.0,
        needs_gpu=True,
        uses_corpus=True,
    ),
)


def find_part(name: str) -> Part:
    """Return the part called ``name``."""
    return next(part for part in PARTS if part.name == name)
