import pytest

from benchmarks.peers.marian_train import read_log
from benchmarks.stopwatch import WARM_UP


def test_marians_log_counts_after_the_warm_up() -> None:
    line = "Ep. 1 : Up. {} : Sen. 1,200 : Cost 9.2 : Time {}s : {} words/s : gNorm 3.1\n"
    log = [
        line.format(WARM_UP, 99.0, 1.0),
        line.format(WARM_UP + 1, 2.0, 1000.0),
        line.format(WARM_UP + 2, 1.0, 2500.0),
        "[valid] Ep. 1 : Up. 7 : ce-mean-words : 6.37 : new best\n",
    ]
    assert read_log(log) == {
        "tgt_tokens_per_second": pytest.approx(1500),
        "tgt_tokens_per_update": pytest.approx(2250),
        "validation_loss": 6.37,
        "updates": WARM_UP + 2,
        "seconds": 3.0,
    }
