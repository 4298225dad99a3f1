"""Translates a job with this program: ``python -m benchmarks.ours_decode TYPE JOB OUTPUTS``."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

from benchmarks.decoding_job import LENGTH_PENALTY, BatchSizes, Ids, Job, compete
from benchmarks.rounds import THREADS
from transformer_cli.config.choices import PrecisionName
from transformer_cli.inference.loading import ComputeOptions, load_torch_translator
from transformer_cli.inference.translation import EncodedLine
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import EncodedSource

# A hypothesis of a beam takes as much of a batch as a sentence.
SIZES = BatchSizes(greedy=(2048, 4096, 8192), beam=(4096, 8192, 16384), unit="tokens")


def main(precision: PrecisionName, job_file: Path, outputs_file: Path) -> None:
    """Time greedy and beam search over the job's sentences."""
    torch.set_num_threads(THREADS)
    job = Job.load(job_file)
    translator = load_torch_translator(
        RunDirectory(Path(job.run)), "best", ComputeOptions(device="cpu", precision=precision)
    )
    penalised = translator.decoding.model_copy(update={"length_penalty": LENGTH_PENALTY})
    translator = replace(translator, decoding=penalised)

    def translate(sentences: Sequence[int], beam_size: int, batch_tokens: int) -> list[Ids]:
        searching = translator.with_search(beam_size=beam_size, batch_tokens=batch_tokens)
        lines = [
            EncodedLine("", EncodedSource("", []), [job.sources[index]]) for index in sentences
        ]
        found = searching.search_pieces([(line, 0) for line in lines])
        return [hypotheses[0].ids for hypotheses in found]

    compete(translate, job, range(len(job.sources)), SIZES, outputs_file)


if __name__ == "__main__":
    main(cast(PrecisionName, sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
