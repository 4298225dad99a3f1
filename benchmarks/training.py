"""How fast training is beside other programs: ``python -m benchmarks.training``."""

import argparse
import sys
from collections.abc import Mapping, Sequence

from benchmarks.environments import environment
from benchmarks.machine import report_head
from benchmarks.peak import WAYS
from benchmarks.rounds import Result, markdown_table, median_of, run_rounds
from benchmarks.stopwatch import WARM_UP, updates_argument
from benchmarks.task import prepare_data

JOEYNMT, TEXTBOOK = "JoeyNMT 2.3.0, float32", "textbook, float32"
MARIAN = "Marian 1.12.42, float32"
OURS = {precision: f"ours, {precision}" for precision in ("float32", "bfloat16")}

_CONDITIONS = """\
German to English on Multi30k, one joint vocabulary of 8,000 subwords, all embeddings tied; 3 + 3
layers, d_model 256, d_ff 1024, 4 heads, pre-norm, dropout 0.3 (of attention weights and inner
feed-forward units, too, as JoeyNMT has one rate for all); at most 4,096 tokens a side in a batch,
padding included; label smoothing 0.1, Adam (0.9, 0.98), Noam's schedule (factor 2, warm-up 400),
gradients clipped to 1.0, 2 threads. All train on the same token ids from weights of the same
distributions (embeddings normal with d_model^-0.5, other matrices Xavier-uniform, biases zero).

{updates} updates from scratch; time and tokens are those of updates {first} to {updates}, making of
batches included; tokens count end marks, never padding. The validation loss, taken after the last
update, is the mean negative log-likelihood of a target token without smoothing, in float32; so
early, the draw of the first weights alone moves it by a tenth or two. Medians over {rounds} rounds,
in which the contestants take turns.

What is not alike, as each is run as its users find it:
- Batches: ours are of sentences of like length, so that an update holds more tokens. JoeyNMT and
  the textbook take sentences at random; JoeyNMT closes a batch once its sentences times their
  longest side reach 4,096, so it may pass that by one sentence.
- JoeyNMT has no bias in the output layer, Adam's epsilon is 1e-8 rather than 1e-9, and each update
  uses the learning rate due one update earlier; none of them can be set.
- Marian is pymarian's build for CPUs: two threads with half of a batch each, synchronous. It sorts
  100 batches by length, counts a batch in source words (3,750, for about as many target tokens as
  ours), and draws all weights, embeddings included, by Glorot; its decoder starts from a zero
  vector rather than BOS. Its times and target tokens are those of its own log.

The share of the peak is what the matrix products of real tokens, forward and backward
(`benchmarks/flops.py`), take of the fastest product of two square matrices of their type, by
torch.mm, which PyTorch programs use, and by oneDNN (`benchmarks/peak.py`): {peaks}."""


def main(arguments: Sequence[str] | None = None) -> str:
    """Measure, and give the report's section on training.

    Args:
        arguments: as on the command line; None takes those.
    """
    parser = argparse.ArgumentParser(prog="benchmarks.training", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=updates_argument, default=30)
    options = parser.parse_args(arguments)

    prepare_data()
    peaks = run_rounds({"peak": [sys.executable, "-m", "benchmarks.peak"]}, 1)["peak"][0]
    results = run_rounds(_contestants(options.updates), options.rounds)
    conditions = _CONDITIONS.format(
        updates=options.updates,
        first=WARM_UP + 1,
        rounds=options.rounds,
        peaks="; ".join(
            f"in {dtype} " + " and ".join(f"{gflops:.0f}" for gflops in ways.values()) + " GFLOP/s"
            for dtype, ways in peaks.items()
        ),
    )
    return "\n\n".join(("## Training", conditions, _table(results, peaks)))


def _contestants(updates: int) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "benchmarks.ours_train"]
    programs = {
        JOEYNMT: [str(environment("joeynmt")), "-m", "benchmarks.peers.joeynmt_train"],
        TEXTBOOK: [sys.executable, "-m", "benchmarks.textbook_train"],
        MARIAN: [str(environment("marian")), "-m", "benchmarks.peers.marian_train"],
    }
    programs |= {name: [*ours, precision] for precision, name in OURS.items()}
    return {name: [*command, "--updates", str(updates)] for name, command in programs.items()}


def _table(
    results: Mapping[str, Sequence[Result]], peaks: Mapping[str, Mapping[str, float]]
) -> str:
    header = (
        "contestant",
        "target tokens/s",
        "source tokens/s",
        "times JoeyNMT",
        "times the textbook",
        "times Marian",
        "target tokens an update",
        "validation loss",
        *(f"share of {way}'s peak" for way in WAYS),
    )
    precisions = {name: precision for precision, name in OURS.items()}
    peers = (JOEYNMT, TEXTBOOK, MARIAN)
    rows = []
    for name, rounds in results.items():
        speed = median_of(rounds, "tgt_tokens_per_second")
        shares = ["–"] * len(WAYS)
        if precision := precisions.get(name):
            useful = median_of(rounds, "useful_gflops_per_second")
            shares = [f"{useful / peaks[precision][way]:.0%}" for way in WAYS]
        rows.append(
            (
                name,
                f"{speed:,.0f}",
                _source_speed(rounds),
                *(
                    f"{speed / median_of(results[peer], 'tgt_tokens_per_second'):.2f}"
                    for peer in peers
                ),
                f"{median_of(rounds, 'tgt_tokens_per_update'):,.0f}",
                f"{median_of(rounds, 'validation_loss'):.3f}",
                *shares,
            )
        )
    return markdown_table(header, rows)


def _source_speed(rounds: Sequence[Result]) -> str:
    key = "src_tokens_per_second"
    return f"{median_of(rounds, key):,.0f}" if key in rounds[0] else "–"


if __name__ == "__main__":
    section = main()
    print(report_head(f"python -m benchmarks.training {' '.join(sys.argv[1:])}".strip()))
    print(f"\n{section}")
