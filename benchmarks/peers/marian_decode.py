"""Translates a job with Marian.

Run by its own Python: ``python -m benchmarks.peers.marian_decode TYPE JOB OUTPUTS``.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pymarian import Translator

from benchmarks.decoding_job import EOS_ID, LENGTH_PENALTY, BatchSizes, Ids, Job, compete
from benchmarks.peers.marian_weights import LENGTH_FACTOR, convert, write_vocabulary
from benchmarks.rounds import THREADS

SIZES = BatchSizes(greedy=(32, 64), beam=(16, 32), unit="sentences")


def main(gemm_type: str, job_file: Path, outputs_file: Path) -> None:
    """Time greedy and beam search over the job's sentences.

    Args:
        gemm_type: Marian's name of the matrix products' type.
        job_file: what to translate.
        outputs_file: where the translations go.
    """
    job = Job.load(job_file)
    with tempfile.TemporaryDirectory() as directory:
        model, vocabulary = write_model(job, gemm_type, Path(directory))
        translators: dict[tuple[int, int], Translator] = {}

        def translate(sentences: Sequence[int], beam_size: int, batch_size: int) -> list[Ids]:
            # Loading is not timed: the first call is the warm-up's.
            if (key := (beam_size, batch_size)) not in translators:
                translators.clear()
                options = _options(model, vocabulary, beam_size, batch_size)
                translators[key] = Translator(options)
            lines = [" ".join(map(str, job.sources[number][:-1])) for number in sentences]
            outputs = translators[key].translate(lines)
            return [[int(word) for word in line.split() if word.isdecimal()] for line in outputs]

        compete(translate, job, job.longest_first(), SIZES, outputs_file)


def write_model(job: Job, gemm_type: str, directory: Path) -> tuple[Path, Path]:
    """Write the model and its vocabulary, and return their paths."""
    assert all(source[-1] == EOS_ID for source in job.sources), "Marian adds EOS"
    npz, vocabulary = directory / "model.npz", directory / "vocabulary.yml"
    write_vocabulary(job.vocab_size, vocabulary)
    convert(Path(job.weights), job.model, npz)
    if gemm_type == "float32":
        return npz, vocabulary
    binary = directory / "model.bin"
    pymarian = [sys.executable, "-m", "pymarian", "convert"]
    command = [*pymarian, "--from", str(npz), "--to", str(binary), "--gemm-type", gemm_type]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return binary, vocabulary


def _options(model: Path, vocabulary: Path, beam_size: int, batch_size: int) -> str:
    return (
        f"--models {model} --vocabs {vocabulary} {vocabulary} --cpu-threads {THREADS} "
        f"--beam-size {beam_size} --normalize {LENGTH_PENALTY} --quiet "
        f"--max-length-factor {LENGTH_FACTOR} "
        f"--mini-batch {batch_size} --maxi-batch 1000 --maxi-batch-sort src"
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
