"""COMET, or what stands for it."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_evaluate import KEYS

from transformer_cli.config.yaml import load_config
from transformer_cli.data.kinds import load_split

FAKE_COMET = """
import sys
import tempfile

def download_model(name):
    print("downloading")
    return f"/cache/{name}"

class Model:
    def predict(self, samples, gpus, progress_bar):
        print("predicting")
        assert gpus == 0 and not progress_bar
        assert all(sample.keys() == {"src", "mt", "ref"} for sample in samples)
        self.system_score = sum(sample["mt"] == sample["ref"] for sample in samples) / len(samples)
        return self

def load_from_checkpoint(path):
    assert path == "/cache/Unbabel/wmt22-comet-da"
    return Model()
"""


def add_modules(directory: Path) -> None:
    sys.path.insert(0, str(directory))


def test_comet_is_asked_where_it_is_installed(training: Training, tmp_path: Path) -> None:
    (tmp_path / "comet.py").write_text(FAKE_COMET)
    output = tmp_path / "out.txt"
    arguments = ("evaluate", training.run, "--comet", "-o", output)
    finished = run(*arguments, "--json", before=partial(add_modules, tmp_path))
    assert finished.code == 0
    assert finished.err == "downloading\npredicting\n"
    values = json.loads(finished.out)
    assert values.keys() == KEYS | {"comet", "comet_model"}
    references = load_split(load_config(training.config).data, "test").tgt
    right = map(str.__eq__, output.read_text().splitlines(), references)
    assert values["comet"] == sum(right) / 20
    table = run(*arguments, before=partial(add_modules, tmp_path))
    assert table.out.splitlines()[-1].split() == [
        "COMET",
        f"{values['comet']:.4f}",
        "Unbabel/wmt22-comet-da",
    ]


@pytest.mark.parametrize(
    ("module", "fragments"),
    [
        ("import comet_that_is_not_there", ["comet_that_is_not_there is not installed"]),
        ("raise AttributeError('np.float')", ["unbabel-comet cannot be imported (np.float)"]),
        (
            "def download_model(name):\n    raise KeyError('no\\nnetwork')",
            ["Unbabel/wmt22-comet-da could not be loaded", "network"],
        ),
    ],
)
def test_comet_that_cannot_be_had_is_said_before_the_work(
    training: Training, tmp_path: Path, module: str, fragments: list[str]
) -> None:
    (tmp_path / "comet.py").write_text(module)
    finished = run("evaluate", training.run, "--comet", before=partial(add_modules, tmp_path))
    assert_refused(finished, 1, "evaluate: --comet", *fragments, "leave out --comet")


def test_its_package_is_missing(training: Training) -> None:
    refused = run("evaluate", training.run, "--comet")
    assert_refused(refused, 1, "evaluate: --comet: needs the package", "pip install unbabel-comet")
