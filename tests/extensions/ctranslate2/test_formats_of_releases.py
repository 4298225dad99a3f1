"""What 1.0 exported for CTranslate2 translates as its run did.

The files were written from the run ``words`` of tests/fixtures/v1 by ``transformer-cli export
words exported --format ctranslate2 --quantization float16``.
"""

from pathlib import Path

from released import check_translations, copy_run

FIXTURES = Path(__file__).parent / "fixtures" / "v1"
RUNS = Path(__file__).parents[2] / "fixtures" / "v1"


def test_it_translates_as_it_did(tmp_path: Path) -> None:
    check_translations(copy_run(FIXTURES, "exported", tmp_path), RUNS, "words")
