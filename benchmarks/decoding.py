"""How fast decoding is beside other programs: ``python -m benchmarks.decoding RUN``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.decoding_job import EOS_ID, Job
from benchmarks.decoding_report import CTRANSLATE2, JOEYNMT, MARIAN, OURS, FilterPass, report
from benchmarks.environments import WORKSHOP, environment
from benchmarks.machine import report_head
from benchmarks.peers.ctranslate2_names import token
from benchmarks.rounds import run_rounds
from benchmarks.shortlist import learn_shortlist, vocabulary_map
from transformer_cli.base.errors import TransformerCliError
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.kinds import load_split
from transformer_cli.data.store import encode_pairs
from transformer_cli.runs.checkpoint import find_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import Tokenizer
from transformer_cli.text.tokenizer import load_tokenizers

SPLIT = "test_2016_flickr"
INT8 = "CTranslate2 4.8.5, int8, 2 workers"
DEFAULT_RUN = Path("runs/multi30k_de_en_fast")


def main(arguments: Sequence[str] | None = None) -> str:
    """Measure, and give the report's section on decoding.

    Args:
        arguments: as on the command line; None takes those.
    """
    parser = argparse.ArgumentParser(prog="benchmarks.decoding", description=__doc__)
    parser.add_argument("run", type=Path, nargs="?", default=DEFAULT_RUN)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)

    directory = WORKSHOP / "decoding"
    directory.mkdir(parents=True, exist_ok=True)
    job_file = directory / "job.json"
    try:
        job, judge = prepare(RunDirectory(options.run))
    except TransformerCliError as error:
        raise SystemExit(str(error)) from error
    job.save(job_file)
    shortlist = directory / "vmap.txt"
    shortlist.write_text(_learn_shortlist(RunDirectory(options.run)), encoding="utf-8")
    return report(run_rounds(_contestants(job_file, shortlist, directory), options.rounds), judge)


def prepare(run: RunDirectory) -> tuple[Job, FilterPass]:
    """Return the split to translate with a run's model, and what its outputs are held against."""
    config = run.load_config()
    refuse_other_forms(config.model)
    tokenizers = load_tokenizers(run.tokenizer)
    text = load_split(config.data, SPLIT)
    return _make_job(run, config, tokenizers.src, text), FilterPass(tokenizers.tgt, text.tgt)


def refuse_other_forms(model: ModelConfig) -> None:
    """Make sure that all the programs can have this model.

    Raises:
        SystemExit: it has a form that the conversions do not know.
    """
    expected = {"norm": "pre", "positions": "sinusoidal", "activation": "relu", "tying": "all"}
    for key, value in expected.items():
        found = getattr(model, key)
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


def _learn_shortlist(run: RunDirectory) -> str:
    """Return CTranslate2's vocabulary map, learned from the run's training text."""
    tokenizers = load_tokenizers(run.tokenizer)
    train = load_split(run.load_config().data, "train")
    text = encode_pairs(train.pairs(), tokenizers)
    size = tokenizers.src.size
    return vocabulary_map(learn_shortlist(text, size), [token(number) for number in range(size)])


def _contestants(job_file: Path, shortlist: Path, directory: Path) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "benchmarks.ours_decode"]
    ctranslate2 = [str(environment("ctranslate2")), "-m", "benchmarks.peers.ctranslate2_decode"]
    marian = [str(environment("marian")), "-m", "benchmarks.peers.marian_decode"]
    joeynmt = [str(environment("joeynmt")), "-m", "benchmarks.peers.joeynmt_decode"]
    programs = {
        OURS: [*ours, "float32"],
        "ours, bfloat16": [*ours, "bfloat16"],
        CTRANSLATE2[0]: [*ctranslate2, "float32", "1"],
        CTRANSLATE2[1]: [*ctranslate2, "float32", "2"],
        INT8: [*ctranslate2, "int8", "2"],
        f"{INT8}, shortlist": [*ctranslate2, "int8", "2", "--shortlist", str(shortlist)],
        MARIAN[0]: [*marian, "float32"],
        MARIAN[1]: [*marian, "intgemm8"],
        JOEYNMT: joeynmt,
    }
    return {
        name: [*command, str(job_file), str(directory / f"outputs-{number}.json")]
        for number, (name, command) in enumerate(programs.items())
    }


if __name__ == "__main__":
    section = main()
    print(report_head(f"python -m benchmarks.decoding {' '.join(sys.argv[1:])}".strip()))
    print(f"\n{section}")
