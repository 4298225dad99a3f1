"""Speed of translating by one trained model, here and in other programs: ``make bench-decoding``.

Every program gets the same weights and sentences, as token ids, and gives ids back: tokenising,
loading and starting are not timed, sorting by length and padding are.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.decoding_job import BEAM_SIZE, EOS_ID, LENGTH_PENALTY, Ids, Job
from benchmarks.environments import WORKSHOP, environment
from benchmarks.rounds import THREADS, Result, markdown_table, median_of, run_rounds
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.sources import load_split
from transformer_cli.inference.evaluation import score
from transformer_cli.runs.checkpoint import find_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import Tokenizer, load_tokenizers

SPLIT = "test_2016_flickr"
DEFAULT_RUN = Path("runs/multi30k_de_en_bpe")
OURS, CTRANSLATE2, JOEYNMT = "transformer-cli", "CTranslate2", "JoeyNMT"
"""The programs as they stand in the table, at float32."""
NUM_ROUNDS = 3


def main(arguments: Sequence[str]) -> str:
    """Let all contestants translate by turns; give a section of Markdown.

    Args:
        arguments: of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding")
    parser.add_argument("run", type=Path, nargs="?", default=DEFAULT_RUN, help="a trained run")
    parser.add_argument("--rounds", type=int, default=NUM_ROUNDS, help="runs of each contestant")
    options = parser.parse_args(arguments)

    run = RunDirectory(options.run)
    config = run.load_config()
    _refuse_other_forms(config)
    tokenizers = load_tokenizers(run.tokenizer)
    text = load_split(config.data, SPLIT)
    directory = WORKSHOP / "decoding"
    directory.mkdir(parents=True, exist_ok=True)
    job_file = directory / "job.json"
    _make_job(run, config, tokenizers.src, text).save(job_file)
    results = run_rounds(_contestants(job_file, directory), options.rounds)
    return _report(_Judge(tokenizers.tgt, text.tgt), results)


def _refuse_other_forms(config: Config) -> None:
    """Stop unless the model has the form that all the programs know."""
    expected = {"norm": "pre", "positions": "sinusoidal", "activation": "relu", "tying": "all"}
    for key, value in expected.items():
        found = getattr(config.model, key)
        if found != value:
            raise SystemExit(f"model.{key}: {found}; this benchmark needs a run with {value}")


def _make_job(run: RunDirectory, config: Config, tokenizer: Tokenizer, text: ParallelText) -> Job:
    sources = [tokenizer.encode(line) for line in text.src]
    return Job(
        run=str(run.path.resolve()),
        weights=str(find_checkpoint(run.checkpoints, "best").resolve() / "model.safetensors"),
        model=config.model.model_dump(),
        vocab_size=tokenizer.size,
        sources=[[*ids, EOS_ID] for ids in sources],
        limits=[int(len(ids) * config.decoding.max_length_ratio) + 10 for ids in sources],
    )


def _contestants(job_file: Path, directory: Path) -> dict[str, list[str]]:
    ctranslate2, joeynmt = str(environment("ctranslate2")), str(environment("joeynmt"))
    programs = {
        OURS: [sys.executable, "-m", "benchmarks.ours_decode", "float32"],
        f"{OURS}, bfloat16": [sys.executable, "-m", "benchmarks.ours_decode", "bfloat16"],
        CTRANSLATE2: [ctranslate2, "-m", "benchmarks.peers.ctranslate2_decode", "float32"],
        f"{CTRANSLATE2}, int8": [ctranslate2, "-m", "benchmarks.peers.ctranslate2_decode", "int8"],
        JOEYNMT: [joeynmt, "-m", "benchmarks.peers.joeynmt_decode"],
    }
    return {
        name: [*command, str(job_file), str(directory / f"outputs-{number}.json")]
        for number, (name, command) in enumerate(programs.items())
    }


@dataclass(frozen=True)
class _Judge:
    """What outputs are held against."""

    tokenizer: Tokenizer
    references: list[str]

    def bleu(self, outputs: Mapping[int, Ids]) -> float:
        hypotheses = [self.tokenizer.decode(ids) for ids in outputs.values()]
        return score(hypotheses, [self.references[number] for number in outputs]).bleu


def _report(judge: _Judge, results: Mapping[str, Sequence[Result]]) -> str:
    outputs = {name: _outputs(rounds[-1]) for name, rounds in results.items()}
    header = [
        "program", "greedy, sentences/s", "batch", f"beam {BEAM_SIZE}, sentences/s", "batch",
        "sentences", "greedy as ours", f"beam {BEAM_SIZE} as ours",
        "BLEU greedy", f"BLEU beam {BEAM_SIZE}",
    ]  # fmt: skip
    rows = []
    for name, rounds in results.items():
        greedy, beam = outputs[name]["greedy"], outputs[name]["beam5"]
        rows.append([
            name,
            f"{median_of(rounds, 'greedy_sentences_per_second'):.1f}",
            rounds[-1]["greedy_batch"],
            f"{median_of(rounds, 'beam5_sentences_per_second'):.1f}",
            rounds[-1]["beam5_batch"],
            str(len(greedy)),
            str(_equal(greedy, outputs[OURS]["greedy"])),
            str(_equal(beam, outputs[OURS]["beam5"])),
            f"{judge.bleu(greedy):.2f}",
            f"{judge.bleu(beam):.2f}",
        ])  # fmt: skip
    lines = [
        "## Decoding",
        "",
        f"The German sentences of {SPLIT} by one model, ids in and ids out, {THREADS} threads; the "
        f"median of {len(results[OURS])} rounds, each at its best batch size of a few; beam "
        f"{BEAM_SIZE} with length penalty {LENGTH_PENALTY}, each program's own formula. "
        f"{JOEYNMT} translates every fifth sentence in order of length. BLEU is of the sentences "
        "translated.",
        "",
        markdown_table(header, rows),
        "",
    ]
    lines += [_ratios(results, peer) for peer in (CTRANSLATE2, JOEYNMT)]
    return "\n".join(lines)


def _outputs(result: Result) -> dict[str, dict[int, Ids]]:
    """By kind of search, each translated sentence's ids."""
    found: dict[str, Any] = json.loads(Path(result["outputs_file"]).read_text(encoding="utf-8"))
    return {
        kind: dict(zip(found["sentences"], found[kind], strict=True))
        for kind in ("greedy", "beam5")
    }


def _equal(outputs: Mapping[int, Ids], ours: Mapping[int, Ids]) -> int:
    return sum(ours[number] == ids for number, ids in outputs.items())


def _ratios(results: Mapping[str, Sequence[Result]], peer: str) -> str:
    ratios = (
        median_of(results[OURS], key) / median_of(results[peer], key)
        for key in ("greedy_sentences_per_second", "beam5_sentences_per_second")
    )
    greedy, beam = (f"{ratio:.2f}" for ratio in ratios)
    return f"- {OURS} / {peer}, float32: greedy {greedy}, beam {BEAM_SIZE} {beam}"


if __name__ == "__main__":
    print(main(sys.argv[1:]))
