"""A run with the WordPiece tokenizer of 1.0 translates, scores and trains on.

``python tests/fixtures/make_runs.py DIRECTORY wordpiece='vocab_size: 200'`` wrote the files.
"""

from pathlib import Path

import pytest
from released import check_score_and_train_on, check_translations, copy_run

V1 = Path(__file__).parent / "fixtures" / "v1"


def test_it_translates_as_it_did(tmp_path: Path) -> None:
    check_translations(copy_run(V1, "wordpiece", tmp_path), V1, "wordpiece")


@pytest.mark.long
def test_it_scores_as_it_did_and_trains_on(tmp_path: Path) -> None:
    check_score_and_train_on(copy_run(V1, "wordpiece", tmp_path), V1, "wordpiece")
