"""Translates a part of a job with JoeyNMT.

Run by its own Python: ``python -m benchmarks.peers.joeynmt_decode JOB OUTPUTS``.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from joeynmt.batch import Batch
from joeynmt.search import search
from torch.nn.utils.rnn import pad_sequence

from benchmarks.decoding_job import (
    EOS_ID,
    LENGTH_PENALTY,
    PAD_ID,
    BatchSizes,
    Ids,
    Job,
    compete,
)
from benchmarks.peers.joeynmt_weights import load_model
from benchmarks.rounds import THREADS

EVERY = 10
"""One sentence of so many is translated, in order of length: it takes its time."""
SIZES = BatchSizes(greedy=(50, 100), beam=(20, 40), unit="sentences")


def main(job_file: Path, outputs_file: Path) -> None:
    """Time greedy and beam search over a part of the job's sentences."""
    torch.set_num_threads(THREADS)
    job = Job.load(job_file)
    model = load_model(job)

    def translate(sentences: Sequence[int], beam_size: int, batch_size: int) -> list[Ids]:
        outputs: list[Ids] = []
        for start in range(0, len(sentences), batch_size):
            numbers = sentences[start : start + batch_size]
            rows, _, _ = search(
                model=model,
                batch=_batch([job.sources[number] for number in numbers]),
                max_output_length=max(job.limits[number] for number in numbers),
                beam_size=beam_size,
                beam_alpha=LENGTH_PENALTY,
                min_output_length=0,
                generate_unk=False,
            )
            outputs.extend(_up_to_end(row) for row in rows.tolist())
        return outputs

    compete(translate, job, job.longest_first()[::EVERY], SIZES, outputs_file)


def _batch(sources: list[Ids]) -> Batch:
    return Batch(
        src=pad_sequence(
            [torch.tensor(ids) for ids in sources], batch_first=True, padding_value=PAD_ID
        ),
        src_length=torch.tensor([len(ids) for ids in sources]),
        src_prompt_mask=None,
        trg=None,
        trg_prompt_mask=None,
        indices=torch.arange(len(sources)),
        device=torch.device("cpu"),
        pad_index=PAD_ID,
        eos_index=EOS_ID,
        is_train=False,
    )


def _up_to_end(ids: Ids) -> Ids:
    return ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
