"""A new setting in a later version changes no checksum recorded by an earlier one."""

import json
import subprocess
import sys
from pathlib import Path

import children

RUN = Path(__file__).parents[2] / "fixtures" / "v1" / "words"
CORPUS = """\
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources: [{tsv: a.tsv, src_column: 1, tgt_column: 2, weight: 0.5}]
  split: {val: 1}
  replay: {share: 0.1, sources: [{src: a.de, tgt: a.en}]}
tokenizer: {kind: sentencepiece}
training: {schedule: {kind: constant, peak: 1e-3}}
"""
SWEEP = "base: corpus.yaml\nseeds: 1\ngrid: {training.epochs: [1, 2]}\n"
SUMS = """
import json, sys
from pathlib import Path
from transformer_cli.config import sections

if "later" in sys.argv:

    class Later(sections.Section):
        later: int = 7

    sections.Section = Later

from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.experiments.job import describe_model, describe_training, sum_texts
from transformer_cli.extensions.experiments.sweep import SweepDirectory, SweepPlan
from transformer_cli.extensions.experiments.sweep_file import load_sweep
from transformer_cli.runs.directory import RunDirectory

run, corpus = RunDirectory(Path(sys.argv[1])), load_config(Path("corpus.yaml"))
jobs = SweepPlan(load_sweep(Path("sweep.yaml")), SweepDirectory(Path("sweep"))).jobs()
print(json.dumps({
    "settings": [name for name in ("later",) if hasattr(corpus.data, name)],
    "sums": [
        describe_model(run),
        describe_training(run.load_config()),
        describe_training(corpus),
        sum_texts(corpus, ["train", "val"]),
        [dict(job.inputs()) for job in jobs],
    ],
}))
"""


def _sums(directory: Path, *arguments: str) -> dict[str, object]:
    command = [sys.executable, "-c", SUMS, str(RUN), *arguments]
    process = children.start(command, cwd=directory, stdout=subprocess.PIPE)
    out, _ = process.communicate()
    assert process.returncode == 0
    found: dict[str, object] = json.loads(out)
    return found


def test_a_setting_added_later_changes_no_sum(tmp_path: Path) -> None:
    (tmp_path / "corpus.yaml").write_text(CORPUS)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (tmp_path / "a.tsv").write_text("x\ty\nz\tw\n")
    (tmp_path / "a.de").write_text("x\n")
    (tmp_path / "a.en").write_text("y\n")
    now, later = _sums(tmp_path), _sums(tmp_path, "later")
    assert (now["settings"], later["settings"]) == ([], ["later"])
    assert now["sums"] == later["sums"]
