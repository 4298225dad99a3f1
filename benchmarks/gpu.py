"""How fast this program is on a GPU: ``python -m benchmarks.gpu``."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import torch

from benchmarks.decoding_job import BEAM_SIZE
from benchmarks.environments import ROOT, WORKSHOP
from benchmarks.flops import training_flops
from benchmarks.machine import report_head
from benchmarks.rounds import markdown_table
from benchmarks.stopwatch import WARM_UP, Stopwatch
from benchmarks.task import ONE_READING, prepare_data, read_ids, vocab_size
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_config
from transformer_cli.data.batches import plan_epoch
from transformer_cli.data.sources import load_split, split_names
from transformer_cli.data.token_arrays import EncodedText
from transformer_cli.errors import TransformerCliError
from transformer_cli.inference.loading import load_torch_translator
from transformer_cli.inference.translator import TorchTranslator
from transformer_cli.model.device import choose_device
from transformer_cli.model.transformer import build_model
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.vocabulary import EOS_ID, PAD_ID
from transformer_cli.training.trainer import Trainer

_SMALL_MODEL, _BASE_MODEL = "multi30k_de_en_bpe.yaml", "multi30k_de_en_base.yaml"


@dataclass(frozen=True)
class Amount:
    """How much is measured; configurations are files of ``configs``."""

    trainings: Sequence[tuple[str, int]]  # configuration, tokens a batch
    changes: Sequence[str]  # of the trainings' settings, as --set takes them
    updates: int  # that are timed
    sides: Sequence[int]  # of the square matrices whose product is the peak
    sentences: int | None  # translated in batches; None: all
    alone: int  # sentences translated one at a time
    batches: Sequence[int]  # source tokens of the batches that are tried
    whole: str  # configuration that is taken from raw text to a score
    whole_changes: Sequence[str]


FULL = Amount(
    trainings=((_SMALL_MODEL, 4096), (_SMALL_MODEL, 25_000), (_BASE_MODEL, 25_000)),
    changes=(),
    updates=200,
    sides=(4096, 8192, 16384),
    sentences=None,
    alone=100,
    batches=(2048, 4096, 8192, 16384, 65536),
    whole="multi30k_de_en_fast.yaml",
    whole_changes=(),
)
SMALL = Amount(
    trainings=((_SMALL_MODEL, 512), (_SMALL_MODEL, 1024), (_BASE_MODEL, 1024)),
    changes=("model.num_encoder_layers=1", "model.num_decoder_layers=1"),
    updates=2,
    sides=(512,),
    sentences=20,
    alone=5,
    batches=(512, 1024),
    whole="toy.yaml",
    # Subwords, as a machine lent for an hour may have no spaCy.
    whole_changes=("training.max_steps=20", "tokenizer={kind: sentencepiece, vocab_size: 600}"),
)

_TRAINING = """\
### Training

Multi30k, German to English, in bfloat16; {updates} updates after {warm_up} that do not count, the
making of batches included. Tokens count end marks, never padding. TFLOP/s are the matrix products
of real tokens, forward and backward (`benchmarks/flops.py`); their share is of the fastest torch.mm
of two square bfloat16 matrices on the same device, {peak:.3g} TFLOP/s."""

_TRAINING_HEADER = (
    "configuration",
    "tokens a batch",
    "target tokens an update",
    "ms an update",
    "target tokens/s",
    "TFLOP/s",
    "share of the peak",
)

_DECODING = """\
### Decoding

{run}, {split}: {sentences} sentences in batches, of which the fastest of {batches} source tokens
counts, and {alone} of them one at a time; the second of two passes. float32 is without TF32."""

_WHOLE = """\
### From raw text to a score

`train` of {config} in bfloat16, then `evaluate`, greedy, on {split}: processes of their own, whose
starts count. The aim is a lowercased BLEU of 36.52."""


def main(arguments: Sequence[str] | None = None) -> str:
    """Measure, and give the report's section on the GPU.

    Args:
        arguments: as on the command line; None takes those.
    """
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--run", type=Path, help="what decodes; else what this benchmark trains")
    parser.add_argument("--small", action="store_true", help="only see that the benchmark works")
    options = parser.parse_args(arguments)
    amount = SMALL if options.small else FULL
    trained = WORKSHOP / "gpu_fast"
    run = RunDirectory(options.run or trained)
    try:
        device = choose_device(options.device)
        if options.run:
            run.load_config()  # what is missing is said before all the work
        whole = _whole_section(amount, trained, device)  # first: the others may need its run
        prepare_data()
        training = _training_section(amount, read_ids("train"), device)
        decoding = _decoding_section(amount, run, device)
    except TransformerCliError as error:
        raise SystemExit(str(error)) from error
    return "\n\n".join(("## On a GPU", _describe(device), training, decoding, whole))


def _describe(device: torch.device) -> str:
    if device.type == "cpu":
        return "No GPU: all figures are the processor's."
    memory = torch.cuda.get_device_properties(device).total_memory / 2**30
    return f"{torch.cuda.get_device_name(device)}, {memory:.0f} GiB, CUDA {torch.version.cuda}."


def _training_section(amount: Amount, text: EncodedText, device: torch.device) -> str:
    peak = max(_matmul_flops(side, device) for side in amount.sides)
    rows = []
    updates = WARM_UP + amount.updates
    for name, batch_tokens in amount.trainings:
        # No epoch is without a batch, so these are enough.
        limits = (f"training.epochs={updates}", f"training.max_steps={updates}")
        of_batch = (*ONE_READING, f"training.batch_tokens={batch_tokens}")
        changes = (*limits, *of_batch, *amount.changes)
        watch, flops = _train(load_config(ROOT / "configs" / name, changes), text, updates, device)
        seconds = watch.ended - watch.started
        rows.append(
            (
                name,
                f"{batch_tokens:,}",
                f"{watch.tgt_tokens / amount.updates:,.0f}",
                f"{1000 * seconds / amount.updates:,.1f}",
                f"{watch.tgt_tokens / seconds:,.0f}",
                f"{flops / seconds / 1e12:.3g}",
                f"{flops / seconds / peak:.1%}",
            )
        )
    conditions = _TRAINING.format(updates=amount.updates, warm_up=WARM_UP, peak=peak / 1e12)
    return f"{conditions}\n\n{markdown_table(_TRAINING_HEADER, rows)}"


def _train(
    config: Config, text: EncodedText, updates: int, device: torch.device
) -> tuple[Stopwatch, float]:
    """Train from scratch: the times, and the operations of the updates that are timed."""
    epochs = (
        plan_epoch(text, config.training.batch_tokens, config.seed, epoch) for epoch in count()
    )
    batches = list(islice((pairs for plan in epochs for pairs in plan), updates))
    src_lengths, tgt_lengths = text.src.lengths + 1, text.tgt.lengths + 1
    vocab = vocab_size(config)
    model = build_model(config.model, vocab, vocab, PAD_ID, config.seed).to(device)
    watch = Stopwatch()
    trainer = Trainer(model, text, config, torch.bfloat16)
    for progress, pairs in zip(trainer.steps(), batches, strict=True):
        if progress.step in (WARM_UP, updates):  # between them, no update waits for the GPU
            _synchronize(device)
        watch.update_done(int(src_lengths[pairs].sum()), progress.tgt_tokens)
    timed = [
        (src_lengths[pairs].tolist(), tgt_lengths[pairs].tolist()) for pairs in batches[WARM_UP:]
    ]
    flops = sum(training_flops(config.model, vocab, src, tgt) for src, tgt in timed)
    return watch, flops


def _matmul_flops(side: int, device: torch.device, products: int = 20) -> float:
    """Operations a second of square bfloat16 matrices' products, in the best of ten rounds."""
    left, right = torch.randn(2, side, side, device=device).to(torch.bfloat16)
    product = torch.mm(left, right)  # the first one allocates, and may pick a kernel
    best = float("inf")
    for _ in range(10):
        _synchronize(device)
        start = time.perf_counter()
        for _ in range(products):
            torch.mm(left, right, out=product)
        _synchronize(device)
        best = min(best, time.perf_counter() - start)
    return 2.0 * side**3 * products / best


def _synchronize(device: torch.device) -> None:
    """Let a GPU finish, so that the clock can be read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _decoding_section(amount: Amount, run: RunDirectory, device: torch.device) -> str:
    data = run.load_config().data
    split = split_names(data)[2]  # the first to test on, as `evaluate` takes it
    lines = load_split(data, split).src[: amount.sentences]
    header = ("search", "sentences/s, one at a time", "sentences/s, in batches", "tokens a batch")
    rows = []
    for precision in (torch.bfloat16, torch.float32):
        translator = load_torch_translator(run, "best", device, precision)
        encode = translator.tokenizers.src.encode
        sources = [[*encode(line), EOS_ID] for line in lines]
        for beam_size, search in ((1, "greedy"), (BEAM_SIZE, f"beam {BEAM_SIZE}")):
            searching = translator.with_search(beam_size, batch_tokens=1)
            alone = _sentences_per_second(searching, sources[: amount.alone])
            speeds = {}
            for tokens in amount.batches:
                # A hypothesis of a beam takes as much of a batch as a sentence.
                searching = translator.with_search(beam_size, tokens * beam_size)
                speeds[tokens] = _sentences_per_second(searching, sources)
            best = max(speeds, key=lambda tokens: speeds[tokens])
            name = f"{search}, {str(precision).removeprefix('torch.')}"
            rows.append((name, f"{alone:,.1f}", f"{speeds[best]:,.1f}", f"{best:,}"))
    conditions = _DECODING.format(
        run=run.path,
        split=split,
        sentences=f"{len(lines):,}",
        batches=", ".join(f"{tokens:,}" for tokens in amount.batches),
        alone=amount.alone,
    )
    return f"{conditions}\n\n{markdown_table(header, rows)}"


def _sentences_per_second(translator: TorchTranslator, sources: Sequence[list[int]]) -> float:
    for _ in range(2):  # the first pass allocates, and may pick kernels
        start = time.perf_counter()
        translator.translate_ids(sources)  # numbers on the host, so a GPU has finished
        seconds = time.perf_counter() - start
    return len(sources) / seconds


def _whole_section(amount: Amount, run: Path, device: torch.device) -> str:
    config = str(Path("configs") / amount.whole)
    changes = [argument for change in amount.whole_changes for argument in ("--set", change)]
    on = ("--device", device.type, "--precision", "bfloat16")
    training, _ = _cli("train", config, "--run-dir", str(run), "--overwrite", *changes, *on)
    evaluation, printed = _cli("evaluate", str(run), "--beam-size", "1", "--json", *on)
    scores = json.loads(printed)
    header = ("configuration", "training, s", "evaluation, s", "together, s", "BLEU, lowercased")
    seconds = (f"{each:,.1f}" for each in (training, evaluation, training + evaluation))
    row = (amount.whole, *seconds, f"{scores['bleu_lc']:.2f}")
    conditions = _WHOLE.format(config=config, split=scores["split"])
    return f"{conditions}\n\n{markdown_table(header, [row])}"


def _cli(*arguments: str) -> tuple[float, str]:
    """Wall time of a command of this program, start and all, and what it printed."""
    command = (sys.executable, "-m", "transformer_cli", *arguments)
    start = time.perf_counter()
    process = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=False
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: ended with {process.returncode}; see above")
    return time.perf_counter() - start, process.stdout


if __name__ == "__main__":
    section = main()
    print(report_head(f"python -m benchmarks.gpu {' '.join(sys.argv[1:])}".strip()))
    print(f"\n{section}")
