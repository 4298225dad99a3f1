"""Terms, from a configuration to translations."""

import json
import re
import shutil
from pathlib import Path

import pytest
from cli.process import assert_refused, run

SETTINGS = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {{src: text.de, tgt: text.en}}
  val: {{src: text.de, tgt: text.en}}
tokenizer: {{kind: sentencepiece, vocab_size: 300, protect: {protect}}}
model: {{d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}}
training: {{epochs: 2, batch_tokens: 200, schedule: {{kind: constant, peak: 1e-2, warmup: 10}}}}
"""
PAIRS = [(f"das {a} {b}", f"the {a} {b}") for a in ("rot", "blau") for b in "xyz"] * 4
LIST = "source\ttarget\nPaket*\tpackage|packages\nrot\tred\n"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("terms")
    for side, language in enumerate(("de", "en")):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (made / f"text.{language}").write_text(lines)
    (made / "list.tsv").write_text(LIST)
    for name, protect in (("slots", ["printf"]), ("none", [])):
        (made / f"{name}.yaml").write_text(SETTINGS.format(protect=protect))
    return made


@pytest.fixture(scope="module", params=["none", "slots"])
def trained(request: pytest.FixtureRequest, directory: Path) -> Path:
    name = request.param
    finished = run("train", f"{name}.yaml", "--allow-suspect-data", cwd=directory)
    assert finished.code == 0, finished.err
    return directory / "runs" / str(name)


@pytest.mark.long_cases
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_terms_are_counted_by_each_engine(trained: Path, directory: Path, engine: str) -> None:
    listed = ("--terms", directory / "list.tsv", "--engine", engine)
    found = run("translate", trained, *listed, stdin=b"das Paket rot\nx\n\nPakete\n")
    assert found.code == 0, found.err
    assert found.out.count("\n") == 4
    (told,) = (line for line in found.err.splitlines() if "terms are kept" in line)
    lost = 3 - sum(found.out.lower().count(word) for word in ("package", "red"))
    share = f"{3 - lost:,} of 3 terms are kept"
    assert told.startswith(share), found
    assert ("; others are lost in line" in told) == bool(lost)
    assert run("translate", trained, *listed, stdin=b"x\n").err.count("terms") == 0


def test_evaluate_reports_the_share_that_is_kept(trained: Path, directory: Path) -> None:
    files = ("--src", directory / "text.de", "--ref", directory / "text.en")
    listed = ("--terms", directory / "list.tsv")
    report = json.loads(run("evaluate", trained, *files, *listed, "--json").out)
    assert report["terms"]["found"] == 12
    assert 0 <= report["terms"]["kept"] <= 12
    assert "kept, of 12 in the sources" in run("evaluate", trained, *files, *listed).out
    assert "terms" not in json.loads(run("evaluate", trained, *files, "--json").out)


def test_the_terms_of_a_document_are_counted(
    trained: Path, directory: Path, tmp_path: Path
) -> None:
    header = "Language: en\\nContent-Type: text/plain; charset=UTF-8\\n"
    entries = 'msgid "das Paket rot"\nmsgstr ""\n\nmsgid "das x"\nmsgstr ""\n'
    (tmp_path / "x.po").write_text(f'msgid ""\nmsgstr "{header}"\n\n{entries}')
    files = ("-i", tmp_path / "x.po", "-o", tmp_path / "y.po")
    found = run("translate", trained, *files, "--terms", directory / "list.tsv")
    assert found.code == 0, found.err
    assert re.search(r"^[012] of 2 terms are kept, ", found.err, re.MULTILINE)


def test_files_of_terms_that_cannot_be_used_are_refused(
    trained: Path, directory: Path, tmp_path: Path
) -> None:
    files = ("-i", directory / "text.de", "-o", tmp_path / "out")
    assert_refused(
        run("translate", trained, *files, "--terms", directory / "text.de"),
        1,
        f"{directory / 'text.de'}:1: expected a term, a tab and its translation, found 'das rot x'",
    )
    again = ("--terms", tmp_path / "list.txt")
    shutil.copy(directory / "list.tsv", again[1])
    assert_refused(
        run("translate", trained, *again, "-i", directory / "text.de", "-o", again[1]),
        2,
        "is the file that --terms reads; give another one",
    )
