"""Translates a job with CTranslate2.

Run by its own Python:
``python -m benchmarks.peers.ctranslate2_decode TYPE WORKERS [--shortlist VMAP] JOB OUTPUTS``.
"""

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from benchmarks.decoding_job import LENGTH_PENALTY, BatchSizes, Ids, Job, compete
from benchmarks.peers.ctranslate2_names import BOS, PAD, token
from benchmarks.peers.ctranslate2_weights import convert
from benchmarks.rounds import THREADS

SIZES = BatchSizes(greedy=(32, 64, 128, 256, 512), beam=(16, 32, 64, 128), unit="sentences")


def main(
    compute_type: str, workers: int, job_file: Path, outputs_file: Path, shortlist: Path | None
) -> None:
    """Time greedy and beam search over the job's sentences.

    Args:
        compute_type: CTranslate2's name of the weights' type.
        workers: batches translated side by side; they share the threads.
        job_file: what to translate.
        outputs_file: where the translations go.
        shortlist: CTranslate2's vocabulary map, if only its tokens are to be candidates.
    """
    job = Job.load(job_file)
    with tempfile.TemporaryDirectory() as directory:
        convert(job, Path(directory))
        if shortlist:
            shutil.copy(shortlist, Path(directory) / "vmap.txt")
        translator = ctranslate2.Translator(
            directory,
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=THREADS // workers,
        )
    sources = [[token(number) for number in source] for source in job.sources]
    ids = {token(number): number for number in range(job.vocab_size)}

    def translate(sentences: Sequence[int], beam_size: int, batch_size: int) -> list[Ids]:
        running = []
        for start in range(0, len(sentences), batch_size):
            numbers = sentences[start : start + batch_size]
            running += translator.translate_batch(
                [sources[number] for number in numbers],
                beam_size=beam_size,
                length_penalty=LENGTH_PENALTY,
                min_decoding_length=0,
                max_decoding_length=max(job.limits[number] for number in numbers),
                use_vmap=shortlist is not None,
                disable_unk=True,
                suppress_sequences=[[BOS], [PAD]],
                asynchronous=True,
            )
        return [[ids[each] for each in one.result().hypotheses[0]] for one in running]

    compete(translate, job, job.longest_first(), SIZES, outputs_file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compute_type")
    parser.add_argument("workers", type=int)
    parser.add_argument("job_file", type=Path)
    parser.add_argument("outputs_file", type=Path)
    parser.add_argument("--shortlist", type=Path)
    main(**vars(parser.parse_args()))
