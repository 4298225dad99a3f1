"""What transformers makes of an exported model: the same text as the run, and how fast.

``python -m benchmarks.transformers_outputs RUN --src FILE`` exports RUN, loads the export in
transformers, translates FILE by both, greedily and with beams, and counts equal lines. Logits are
compared over our greedy translations. Both stop at the export's limit, which is one for all
sources; the run's own limits, twice the source's tokens, cut some lines that never end.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import describe_machine
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.extensions.exchange.to_transformers import (
    check_transformers,
    write_transformers,
)
from transformer_cli.inference.loading import ComputeOptions, load_torch_translator
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel, load_trained_model
from transformer_cli.text.lines import stream_lines
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID

_BATCH = 32


class Exported:
    """An exported model, in transformers."""

    def __init__(self, directory: Path) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(directory)
        self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(directory).eval()

    def translate(self, lines: Sequence[str], **options: Any) -> list[str]:
        """Return each line's translation, lines of like length in a batch."""
        found = [""] * len(lines)
        for places in _batches(lines):
            batch = self.tokenizer(
                [lines[place] for place in places], padding=True, return_tensors="pt"
            )
            ids = self.model.generate(**batch, **options)
            texts = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
            for place, text in zip(places, texts, strict=True):
                found[place] = text
        return found


def _batches(lines: Sequence[str]) -> Iterator[list[int]]:
    order = sorted(range(len(lines)), key=lambda place: len(lines[place]))
    return (order[start : start + _BATCH] for start in range(0, len(order), _BATCH))


@torch.inference_mode()
def compare_logits(
    trained: TrainedModel, exported: Exported, lines: Sequence[str], texts: Sequence[str]
) -> float:
    """Return the greatest difference between logits of a token, over these translations."""
    greatest = 0.0
    src_tokenizer, tgt_tokenizer = trained.tokenizers.src, trained.tokenizers.tgt
    for places in _batches(lines):
        src = _pad([[*src_tokenizer.encode(lines[place]), EOS_ID] for place in places])
        tgt = _pad([[BOS_ID, *tgt_tokenizer.encode(texts[place])] for place in places])
        theirs = exported.model(
            input_ids=src, attention_mask=(src != PAD_ID).long(), decoder_input_ids=tgt
        ).logits
        difference = (trained.model(src, tgt) - theirs).abs()[tgt != PAD_ID]
        greatest = max(greatest, float(difference.max()))
    return greatest


def _pad(rows: list[list[int]]) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD_ID] * (width - len(row)) for row in rows])


def compare_searches(
    ours: TorchTranslator,
    exported: Exported,
    lines: Sequence[str],
    alpha: float,
    options: dict[str, Any],
    kept: dict[Any, tuple[list[str], float]],
) -> None:
    """Print how many lines are equal, and how many lines a second both translate.

    Args:
        ours: the run.
        exported: the same model.
        lines: sources.
        alpha: our length penalty.
        options: of ``generate``.
        kept: translations by ours, with the seconds, by their settings; added to.
    """
    beam_size = options.get("num_beams", 1)
    if (beam_size, alpha) not in kept:
        decoding = ours.decoding.model_copy(
            update={"beam_size": beam_size, "length_penalty": alpha}
        )
        kept[beam_size, alpha] = _timed(lambda: replace(ours, decoding=decoding).translate(lines))
    expected, our_seconds = kept[beam_size, alpha]
    found, their_seconds = _timed(lambda: exported.translate(lines, **options))
    different = [
        n for n, texts in enumerate(zip(expected, found, strict=True)) if len({*texts}) > 1
    ]
    print(
        f"{beam_size:>4} {alpha:>14} {options.get('length_penalty', '-'):>16} "
        f"{len(lines) - len(different):>6,} of {len(lines):,} "
        f"{len(lines) / our_seconds:>12.1f} {len(lines) / their_seconds:>8.1f}",
        flush=True,
    )
    for place in different[:3]:
        print(f"  line {place + 1}: {expected[place]}\n     theirs: {found[place]}")


def _timed(translate: Callable[[], list[str]]) -> tuple[list[str], float]:
    start = time.perf_counter()
    return translate(), time.perf_counter() - start


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--src", type=Path, required=True, help="text, a sentence a line")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--alpha", type=float, nargs="*", default=[0.0, 0.6, 1.6])
    parser.add_argument("--slope", type=float, nargs="*", default=[0.75])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    run, lines = RunDirectory(asked.run), list(stream_lines(asked.src))
    trained = load_trained_model(run, "best")
    check_transformers(trained.config, trained.tokenizers)
    with tempfile.TemporaryDirectory() as directory:
        write_transformers(run, trained, Path(directory))
        exported = Exported(Path(directory))
    limited = load_torch_translator(run, "best", ComputeOptions(device="cpu"))
    unlimited = limited.decoding.model_copy(update={"max_length_ratio": 1000.0})
    limit = exported.model.generation_config.max_length - 1
    ours = replace(limited, decoding=unlimited).with_search(max_length=limit)
    encoded = exported.tokenizer(lines)["input_ids"]
    equal = sum(
        [*trained.tokenizers.src.encode(line), EOS_ID] == ids
        for line, ids in zip(lines, encoded, strict=True)
    )
    print(f"{describe_machine()}\nsources with the same ids: {equal:,} of {len(lines):,}")
    kept: dict[Any, tuple[list[str], float]] = {}
    print("beam length_penalty their length_penalty  equal lines  our lines/s  theirs")
    compare_searches(ours, exported, lines, 0.0, {}, kept)
    greedy, _ = kept[1, 0.0]
    cut = limited.with_search(beam_size=1).translate(lines)
    print(f"greedy lines that the run's own limits cut: {sum(map(str.__ne__, cut, greedy))}")
    print(f"greatest difference of logits: {compare_logits(trained, exported, lines, greedy):.1e}")
    for alpha in asked.alpha:
        for slope in asked.slope if alpha else [0.0]:
            options = {
                "num_beams": asked.beam_size,
                "early_stopping": True,
                "length_penalty": round(alpha * slope, 3),
            }
            compare_searches(ours, exported, lines, alpha, options, kept)


if __name__ == "__main__":
    main()
