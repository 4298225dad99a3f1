"""This version opens, translates with, scores and trains files in the formats of 1.0.

tests/fixtures/make_runs.py wrote the files, once for each release with another format.
"""

from pathlib import Path

import pytest
from released import check_score_and_train_on, check_translations, copy_run

V1 = Path(__file__).parents[1] / "fixtures" / "v1"
KINDS = ("words", "sentencepiece")


@pytest.mark.parametrize("kind", KINDS)
def test_it_translates_as_it_did(kind: str, tmp_path: Path) -> None:
    check_translations(copy_run(V1, kind, tmp_path), V1, kind)


@pytest.mark.long_cases
@pytest.mark.parametrize("kind", KINDS)
def test_it_scores_as_it_did_and_trains_on(kind: str, tmp_path: Path) -> None:
    check_score_and_train_on(copy_run(V1, kind, tmp_path), V1, kind)
