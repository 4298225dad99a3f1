"""Writes a job's model for Marian's own command.

Run by its own Python: ``python -m benchmarks.peers.marian_model TYPE JOB DIRECTORY``.
"""

import sys
from pathlib import Path

from benchmarks.decoding_job import Job
from benchmarks.peers.marian_decode import write_model

if __name__ == "__main__":
    write_model(Job.load(Path(sys.argv[2])), sys.argv[1], Path(sys.argv[3]))
