"""Record what seeded trainings and every translate option write, to compare two commits.

``python -m benchmarks.behaviour --out before.json`` trains 23 small models on the toy corpus, each
with one thread and other settings, and records the SHA-256 of weights and translations.
For four of them it also records what each option of `translate` writes with each engine. On the
other commit, ``--compare before.json`` prints what differs and ends with exit code 1.

Both must run on one machine: other processors round differently. It takes about ten minutes.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from transformer_cli.config.decoding_schema import DecodingConfig

_TOY = Path("data/toy")
_PIECES = ("tokenizer={kind: sentencepiece, vocab_size: 340}", "model.tying=all")
_SLOTS = ("tokenizer={kind: words, min_freq: 1, protect: [urls, printf]}",)
TRAININGS: dict[str, tuple[str, ...]] = {
    "words": (),
    "words_lowercase": ("tokenizer.lowercase=true",),
    "slots": _SLOTS,
    "pieces": _PIECES,
    "unigram": ("tokenizer={kind: sentencepiece, vocab_size: 340, model_type: unigram}",),
    "separate": ("tokenizer={kind: sentencepiece, vocab_size: 340, joint: false}",),
    "bpe_dropout": (*_PIECES, "training.src_bpe_dropout=0.1", "training.tgt_bpe_dropout=0.1"),
    "post_norm": ("model.norm=post",),
    "rmsnorm_swiglu": ("model.norm_kind=rmsnorm", "model.activation=swiglu"),
    "learned": (
        "model.positions=learned",
        "model.max_positions=64",
        "training.max_length=60",
    ),
    "untied": ("model.tying=none", "model.activation=gelu"),
    "dropouts": ("model.attention_dropout=0.1", "model.activation_dropout=0.1"),
    "rdrop": ("training.rdrop_alpha=1.0",),
    "rdrop_average": ("training.rdrop_alpha=1.0", "training.ema_decay=0.99"),
    "average": ("training.ema_decay=0.99",),
    "concatenate": ("training.concatenate=0.2",),
    "accumulate": ("training.accumulate=2",),
    "noam": ("training.schedule={kind: noam, warmup: 50}",),
    "cosine": (
        "training.schedule={kind: cosine, peak: 3e-3, warmup: 20}",
        "training.clip_norm=null",
    ),
    "muon": ("training.optimizer=muon",),
    "loss": ("training.select=loss", "training.label_smoothing=0"),
    "bfloat16": (),
}
_PRECISIONS = {"bfloat16": "bfloat16"}
OPTIONS: dict[str, tuple[str, ...]] = {
    "greedy": ("--beam-size", "1"),
    "beam": ("--beam-size", "4"),
    "max_length": ("--max-length", "4"),
    "batch_tokens": ("--batch-tokens", "64"),
    "n_best": ("--n-best", "3"),
    "scores": ("--scores",),
    "alignments": ("--alignments", "{out}.align"),
    "sample": ("--sample", "7"),
    "replace_unk": ("--replace-unk",),
    "prefix": ("--prefix-file", "{prefixes}"),
    "with_terms": ("--terms", "{terms}"),
    "last": ("--checkpoint", "last"),
    "ensemble": ("--ensemble", "{run}"),
    "table": ("--src-column", "1"),
    "fallback": ("--fallback", "source"),
    "int8": ("--precision", "int8"),
    "report": ("--report", "{out}.html"),
    "html": (),
    "html_terms": ("--terms", "{terms}"),
    "po": (),
    "po_fuzzy": ("--no-fuzzy",),
    "with_memory": ("--memory", "{memory}"),
    **{
        name: (
            "--beam-size",
            "4",
            f"--{name.replace('_', '-')}",
            f"{DecodingConfig.bounds(name)[0] + 2:g}",
        )
        for name in DecodingConfig.options()
    },
}
_OPTION_RUNS = ("words", "slots", "pieces", "terms")


def call(*words: object) -> tuple[int, str]:
    """Run a command; return its exit code and, where it failed, its last line on stderr."""
    command = [sys.executable, "-m", "transformer_cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    return done.returncode, lines[-1] if done.returncode and lines else ""


def sum_of(path: Path) -> str:
    """Return the SHA-256 of a file; empty: it is missing."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def train(name: str, settings: Sequence[str], directory: Path) -> dict[str, str]:
    """Train one model; return the sums of its weights and of its translations by both engines."""
    run = directory / name
    sets = [word for setting in settings for word in ("--set", setting)]
    precision = ("--precision", _PRECISIONS.get(name, "float32"))
    where = ("--run-dir", run, "--threads", 1, *precision)
    code, problem = call("train", "configs/toy.yaml", "--set", "training.epochs=3", *sets, *where)
    if code:
        sys.exit(f"{name}: cannot be trained: {problem}")
    found = {}
    for weights in sorted(run.glob("checkpoints/*/*.safetensors")):
        found[f"{name} {weights.relative_to(run)}"] = sum_of(weights)
    for engine in ("torch", "ctranslate2"):
        out = directory / f"{name}.{engine}"
        how = ("--engine", engine, "--threads", 1)
        code, problem = call("translate", run, "-i", _TOY / "test.de", "-o", out, *how)
        found[f"{name} {engine}"] = f"{code} {problem} {sum_of(out)}".replace(str(directory), "DIR")
    return found


def translate(run: Path, directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the sum, or the error, of each option's output with each engine."""
    lines = (_TOY / "test.de").read_text("utf-8").splitlines()[:40]
    odd = ["", "12 345", "https://example.org/a?b=1 %d", "ein " * 200, "Ein Hund. " * 3]
    inputs = {
        "source": "".join(f"{line}\n" for line in [*lines, *odd]),
        "table": "".join(f"{line}\t{number}\n" for number, line in enumerate(lines)),
        "prefixes": "".join("A\n" if number % 2 else "\n" for number in range(len(lines + odd))),
        "terms": "Hund\tcat\nMann\tperson\n",
        "memory": "".join(f"{line}\tKnown {line}\n" for line in lines[::4]),
        "html": "".join(f"<p>{line} <b>ein Hund</b></p>\n" for line in lines),
        "po": "".join(f'msgid "{line} %d"\nmsgstr ""\n\n' for line in lines),
    }
    endings = dict.fromkeys(("table", "terms", "memory"), ".tsv") | {"html": ".html", "po": ".po"}
    files = {key: directory / f"{key}{endings.get(key, '.de')}" for key in inputs}
    for key, text in inputs.items():
        files[key].write_text(text, "utf-8")
    for option, words in OPTIONS.items():
        for engine in ("torch", "ctranslate2"):
            source = files.get(option.partition("_")[0], files["source"])
            out = directory / f"{run.name}.{option}.{engine}{source.suffix}"
            given = [word.format(out=out, run=run, **files) for word in words]
            how = ("--engine", engine, "--threads", 1)
            code, problem = call("translate", run, "-i", source, "-o", out, *given, *how)
            problem = problem.replace(str(directory), "DIR")
            sums = [sum_of(out), sum_of(Path(f"{out}.align"))]
            yield f"{run.name} {option} {engine}", f"{code} {problem} {' '.join(sums)}".strip()


def record() -> dict[str, str]:
    """Train all models and translate with all options; return what came out, by name."""
    found: dict[str, str] = {}
    with TemporaryDirectory() as name:
        directory = Path(name)
        for training, settings in TRAININGS.items():
            found |= train(training, settings, directory)
            print(training, file=sys.stderr, flush=True)
        for training in _OPTION_RUNS:
            found |= translate(directory / training, directory)
    return found


def main() -> None:
    """Record, and compare with an earlier record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the record here")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="an earlier record")
    asked = parser.parse_args()
    found = record()
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if asked.compare:
        before = json.loads(asked.compare.read_text("utf-8"))
        differing = [key for key in {**before, **found} if before.get(key) != found.get(key)]
        for key in differing:
            print(f"{key}\n  before: {before.get(key)}\n  now:    {found.get(key)}")
        print(f"{len(found) - len(differing):,} of {len(found):,} are the same")
        sys.exit(bool(differing))


if __name__ == "__main__":
    main()
