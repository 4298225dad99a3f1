"""A shared model is read like a run, verified by checksums; damage gives a one-line error."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.conftest import TINY, Training
from cli.process import assert_refused, run
from copied_text import FILES
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from transformer_cli import __version__
from transformer_cli.base.errors import TransformerCliError
from transformer_cli.base.files import sha256
from transformer_cli.config.data_schema import DataSection, FilePair, FilesData
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.exchange.card import ValidationScore, model_card
from transformer_cli.extensions.exchange.to_hub import _without_paths
from transformer_cli.extensions.stores.settings import Multi30kData
from transformer_cli.extensions.tokenizers.settings import HuggingFaceConfig
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import load_trained_model

SOURCE = b"x1 x2 x3 x4\nx3 x3\n\nx5 x1 x2\n"


@pytest.fixture(scope="module")
def exported(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared model; tests must not change it."""
    directory = tmp_path_factory.mktemp("hub") / "model"
    finished = run("export", training.run, directory, "--format", "hub")
    assert (finished.code, finished.err) == (0, "")
    return directory


@pytest.fixture
def own(exported: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(exported, tmp_path / "model")


def front_matter(card: str) -> Any:
    start, front, _ = card.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(front)


def change(path: Path, key: str, value: object) -> None:
    config = json.loads(path.read_text())
    *above, last = key.split(".")
    section = config
    for each in above:
        section = section[each]
    section[last] = value
    path.write_text(json.dumps(config))


def make_sums_match(directory: Path) -> None:
    """Update the checksums, as a person who changes a file would."""
    config = directory / "config.json"
    change(config, "sha256.weights", sha256(directory / "model.safetensors"))
    change(config, "sha256.tokenizer", sha256(directory / "tokenizer" / "tokenizer.json"))


def test_the_layout_is_the_hubs(training: Training, exported: Path) -> None:
    files = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()}
    vocabularies = {"tokenizer/src.vocab.txt", "tokenizer/tgt.vocab.txt"}
    expected = {"README.md", "config.json", "model.safetensors", "tokenizer/tokenizer.json"}
    assert files == expected | vocabularies
    config = json.loads((exported / "config.json").read_text())
    assert config["model_type"] == "transformer-cli"
    assert config["architectures"] == ["Transformer"]
    assert config["transformer_cli_version"] == __version__
    assert config["src_vocab_size"] == config["tgt_vocab_size"] == 10
    kept = load_config(training.run / "config.yaml").model_dump(mode="json")
    # Compare filenames without directories.
    for pair in (kept["data"]["train"], kept["data"]["val"], *kept["data"]["test"].values()):
        pair.update({side: Path(pair[side]).name for side in ("src", "tgt")})
    assert config["settings"] == kept
    with safe_open(exported / "model.safetensors", "pt") as weights:
        assert weights.metadata() == {"format": "pt"}
    modes = {path.stat().st_mode for path in exported.rglob("*") if path.is_file()}
    assert len(modes) == 1, "whoever may read the card may read the weights"
    trained = load_file(training.run / "checkpoints/step-00000060/model.safetensors")
    shared = load_file(exported / "model.safetensors")
    assert trained.keys() == shared.keys()
    assert all(trained[name].equal(shared[name]) for name in trained)


def test_it_translates_and_is_scored_as_its_run(training: Training, exported: Path) -> None:
    ours = run("translate", training.run, stdin=SOURCE)
    assert ours.out.count("\n") == 4
    assert run("translate", exported, stdin=SOURCE) == ours
    texts = ("--src", FILES / "test.src", "--ref", FILES / "test.tgt")
    scores, ours_scores = (
        json.loads(run("evaluate", path, *texts, "--json").out) for path in (exported, training.run)
    )
    assert (scores.pop("checkpoint"), scores.pop("step")) == (str(exported), None)
    assert scores == {key: ours_scores[key] for key in scores}


def test_no_translation_is_written_into_it(own: Path) -> None:
    weights = own / "model.safetensors"
    before = weights.read_bytes()
    refused = run("translate", own, "-o", weights, stdin=SOURCE)
    assert_refused(refused, 2, f"{weights}: is in the run or model {own}; write elsewhere")
    assert weights.read_bytes() == before


def test_it_is_scored_on_files_and_exported_on(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(SOURCE)
    files = ("--src", tmp_path / "text", "--ref", tmp_path / "text")
    finished = run("evaluate", exported, *files, "--json")
    assert json.loads(finished.out)["sentences"] == 4
    assert run("export", exported, tmp_path / "onnx", "--format", "onnx").code == 0
    refused = run("export", exported, tmp_path / "hub", "--format", "hub")
    assert_refused(refused, 2, str(exported), "copy the directory")


def test_a_clone_of_a_repository_is_read(own: Path, tmp_path: Path) -> None:
    (own / ".gitattributes").write_text("*.safetensors -text\n")
    card = own / "README.md"
    card.write_text(card.read_text().replace("# license: left", "license: mit # left"))
    change(own / "config.json", "added_by_another_program", {"x": [1, None]})
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.com"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Share"]):
        subprocess.run([*git, *command], cwd=own, check=True)
    subprocess.run(["git", "clone", "-q", own, tmp_path / "clone"], check=True)
    expected = run("translate", own, stdin=SOURCE)
    assert expected.code == 0
    assert run("translate", tmp_path / "clone", stdin=SOURCE) == expected


@pytest.mark.posix
def test_a_snapshot_of_links_is_read(own: Path, tmp_path: Path) -> None:
    """Arrange a fetched model as huggingface_hub does."""
    snapshot = tmp_path / "snapshot"
    (snapshot / "tokenizer").mkdir(parents=True)
    for path in own.rglob("*"):
        if path.is_file():
            (snapshot / path.relative_to(own)).symlink_to(path)
    assert run("translate", snapshot, stdin=SOURCE) == run("translate", own, stdin=SOURCE)


def test_a_training_begins_with_it(own: Path, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(TINY)
    arguments = ("--set", "training.max_steps=1", "--set", f"init={own}")
    finished = run("train", "new.yaml", *arguments, cwd=tmp_path)
    assert finished.code == 0, finished.err


def test_who_writes_to_a_run_refuses_it(own: Path, training: Training, tmp_path: Path) -> None:
    before = sorted(own.rglob("*"))
    (tmp_path / "new.yaml").write_text(TINY)
    commands: list[list[str | Path]] = [
        ["train", "new.yaml", "--run-dir", own],
        ["train", "new.yaml", "--run-dir", own, "--overwrite"],
        ["average", own, "--last", "1"],
        ["compare", training.run, own],
        ["report", own],
    ]
    for arguments in commands:
        finished = run(*arguments, cwd=tmp_path)
        assert_refused(finished, 1, f"{own}: is an exported model")
    for which in ("last", "average", str(training.run / "checkpoints" / "step-00000060")):
        finished = run("translate", own, "--checkpoint", which, stdin=SOURCE)
        assert_refused(finished, 1, f"--checkpoint {which}", "leave the option out")
    assert sorted(own.rglob("*")) == before


def test_a_full_disk_gives_one_line(training: Training, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    finished = run("export", training.run, directory, "--format", "hub", before=_with_little_room)
    assert_refused(finished, 1, str(directory), "File too large")
    assert list(tmp_path.iterdir()) == []


def _with_little_room() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def point(path: Path) -> None:
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{64 * '0'}\nsize 9\n")


def make_a_directory_of(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_a_pipe_of(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def forge(directory: Path, what: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = directory / "model.safetensors"
    save_file(what(load_file(path)), path)
    make_sums_match(directory)


def write_weights(directory: Path, content: bytes) -> None:
    (directory / "model.safetensors").write_bytes(content)
    make_sums_match(directory)


HARM: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "weights cut": (lambda it: cut(it / "model.safetensors"), 1, "get the model again"),
    "weights gone": (lambda it: (it / "model.safetensors").unlink(), 1, "get the model again"),
    "weights that never come": (
        lambda it: make_a_pipe_of(it / "model.safetensors"),
        1,
        "get the model again",
    ),
    "weights left to LFS": (lambda it: point(it / "model.safetensors"), 1, "git lfs pull"),
    "weights of zeros": (lambda it: write_weights(it, bytes(99)), 1, "not a safetensors file"),
    "a header of 2^63 bytes": (
        lambda it: write_weights(it, b"\xff" * 8 + b"{}"),
        1,
        "not a safetensors file",
    ),
    "a weight of another shape": (
        lambda it: forge(it, lambda all_: {name: all_[name][:1].clone() for name in all_}),
        1,
        "does not fit",
    ),
    "no weights": (lambda it: forge(it, lambda _: {}), 1, "does not fit"),
    "tokenizer left to LFS": (lambda it: point(it / "tokenizer/src.vocab.txt"), 1, "git lfs pull"),
    "tokenizer of another": (
        lambda it: change(it / "tokenizer/tokenizer.json", "learned_from", "x"),
        1,
        "not the tokenizer that config.json records",
    ),
    "vocabulary cut": (lambda it: cut(it / "tokenizer/tgt.vocab.txt"), 1, "tgt.vocab.txt"),
    "tokenizer gone": (lambda it: shutil.rmtree(it / "tokenizer"), 1, "tokenizer.json"),
    "config empty": (lambda it: (it / "config.json").write_text(""), 1, "has no settings"),
    "config no text": (lambda it: (it / "config.json").write_bytes(b"\xff\xfe{"), 1, "config.json"),
    "config a directory": (
        lambda it: make_a_directory_of(it / "config.json"),
        2,
        "not a run directory",
    ),
    "config no JSON": (lambda it: (it / "config.json").write_text('{"a": ['), 2, "config.json:1"),
    "config deep": (lambda it: (it / "config.json").write_text("[" * 9999), 2, "nested too deeply"),
    "config of another kind": (
        lambda it: (it / "config.json").write_text('{"model_type": "marian", "d_model": 512}'),
        1,
        "transformer-cli import",
    ),
    "config for transformers": (
        lambda it: (it / "config.json").write_text('{"transformer_cli_version": "1.0.0"}'),
        1,
        "was exported for transformers; name the run",
    ),
    "config without settings": (
        lambda it: (it / "config.json").write_text(
            '{"model_type": "transformer-cli", "transformer_cli_version": "1.0.0"}'
        ),
        1,
        "has no settings, so transformer-cli did not export this model",
    ),
    "config of another type": (
        lambda it: change(it / "config.json", "model_type", "marian"),
        1,
        "model_type: ",
    ),
    "config of a later format": (lambda it: change(it / "config.json", "format", 2), 1, "format: "),
    "config without sums": (lambda it: change(it / "config.json", "sha256", None), 1, "sha256: "),
    "settings a list": (lambda it: change(it / "config.json", "settings", []), 1, "no settings"),
    "an unknown setting": (
        lambda it: change(it / "config.json", "settings.model.num_head", 2),
        2,
        "did you mean 'num_heads'",
    ),
    "settings out of bounds": (
        lambda it: change(it / "config.json", "settings.model.d_model", 10**12),
        2,
        "model.d_model",
    ),
    "settings of another model": (
        lambda it: change(it / "config.json", "settings.model.d_ff", 64),
        1,
        "does not fit",
    ),
    "settings of a model that no memory holds": (
        lambda it: change(it / "config.json", "settings.model", {"d_model": 2**20}),
        1,
        "does not fit",
    ),
    "a null character": (
        lambda it: change(it / "config.json", "settings.init", "a\0b"),
        2,
        "expected a line of text",
    ),
}


@pytest.mark.long_cases
@pytest.mark.parametrize("harm", HARM)
def test_damage_gives_one_line(own: Path, harm: str) -> None:
    do, code, fragment = HARM[harm]
    do(own)
    with pytest.raises(TransformerCliError) as told:
        load_trained_model(RunDirectory(own), "best")
    assert told.value.exit_code == code
    assert str(own) in str(told.value)
    assert fragment in str(told.value)


def test_damage_is_reported_on_the_command_line(own: Path) -> None:
    cut(own / "model.safetensors")
    finished = run("translate", own, stdin=SOURCE)
    assert_refused(finished, 1, f"{own}/model.safetensors: damaged", "get the model again")


def test_the_card_describes_the_model_and_its_scores(training: Training, exported: Path) -> None:
    card = (exported / "README.md").read_text()
    front = front_matter(card)
    records = map(json.loads, (training.run / "metrics.jsonl").read_text().splitlines())
    (last,) = (it for it in records if it["kind"] == "validation" and it["step"] == 60)
    assert front["library_name"] == "transformer-cli"
    assert front["pipeline_tag"] == "translation"
    assert "license" not in front  # it is not ours to choose
    assert "language" not in front  # the copy task has none
    assert f"BLEU {last['bleu']:.2f} (`nrefs:1|case:mixed|eff:no|tok:13a|" in card
    assert f"chrF {last['chrf']:.2f} (`nrefs:1|case:mixed|" in card
    assert "| `training.epochs` | `12` |" in card
    assert "`training.eps`" not in card  # left as it is by default


def test_weights_that_were_not_validated_have_no_score(own_run: Path, tmp_path: Path) -> None:
    run("average", own_run, "--last", "2")
    arguments = ("--checkpoint", "average", "--format", "hub")
    finished = run("export", own_run, tmp_path / "new", *arguments)
    assert finished.out == f"{tmp_path / 'new'}: average of {own_run}, for hub\n"
    card = (tmp_path / "new" / "README.md").read_text()
    assert "Not measured yet" in card


def test_a_damaged_line_of_the_measurements_is_passed_over(own_run: Path, tmp_path: Path) -> None:
    with (own_run / "metrics.jsonl").open("a") as file:
        file.write('[1]\n{"kind": "validation", "step": 60, "bleu": NaN, "bleu_lc": 1}\n{"kin')
    finished = run("export", own_run, tmp_path / "new", "--format", "hub")
    assert (finished.code, finished.err) == (0, "")
    assert "BLEU" in (tmp_path / "new" / "README.md").read_text()


def test_multi30ks_licence_is_mentioned() -> None:
    config = Config(data=Multi30kData(kind="multi30k"), tokenizer=WordsConfig(kind="words"))
    card = model_card(
        "mine",
        config,
        7,
        (8, 9),
        ValidationScore(10, {"bleu": 37.123, "bleu_lc": 38.0}),
        "transformer-cli",
        "",
    )
    front = front_matter(card)
    assert front["language"] == ["de", "en"]
    assert front["datasets"] == ["multi30k"]
    assert "non-commercial research and education" in card
    assert "BLEU 37.12 (`" in card


def test_a_kind_of_data_of_another_package_has_a_card() -> None:
    data = DataSection.model_construct(kind="riddles", src_lang="de", tgt_lang="en")
    config = Config.model_construct(data=data, tokenizer=WordsConfig(kind="words"))
    card = model_card("mine", config, 7, (8, 9), None, "transformer-cli", "")
    assert "Text of the kind `riddles`: describe it here." in card


def test_settings_that_differ_from_the_defaults_are_listed() -> None:
    values = {
        "data": {"kind": "toy"},
        "tokenizer": {"kind": "words", "min_freq": 1},
        "training": {
            "clip_norm": None,
            "schedule": {"kind": "constant", "peak": 0.5, "warmup": 7},
        },
    }
    config = Config.model_validate(values)
    card = model_card("mine", config, 7, (8, 9), None, "transformer-cli", "")
    table = card.partition("|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [
        "| `tokenizer.min_freq` | `1` |",
        '| `training.schedule.kind` | `"constant"` |',
        "| `training.schedule.peak` | `0.5` |",
        "| `training.schedule.warmup` | `7` |",
        "| `training.clip_norm` | `null` |",
    ]


def test_paths_of_files_stay_private(tmp_path: Path, training: Training) -> None:
    pairs = {}
    for number, split in enumerate("abc", start=1):
        for lang in ("de", "en"):
            (tmp_path / f"{split}.{lang}").write_text(f"{lang} x{number} x2\n" * 50)
        pairs[split] = f"{{src: {tmp_path}/{split}.de, tgt: {tmp_path}/{split}.en}}"
    data = (
        "{kind: files, src_lang: de, tgt_lang: en, "
        f"train: {pairs['a']}, val: {pairs['b']}, more: [{pairs['c']}]}}"
    )
    text = TINY.partition("\n")[2]
    (tmp_path / "new.yaml").write_text(f"data: {data}\n{text}")
    run("train", "new.yaml", "--set", "training.max_steps=1", cwd=tmp_path)
    exported = tmp_path / "exported"
    finished = run("export", tmp_path / "runs" / "new", exported, "--format", "hub")
    assert finished.code == 0, finished.err
    for name in ("config.json", "README.md"):
        content = (exported / name).read_text()
        assert "a.de" in content
        assert str(tmp_path) not in content
    assert run("translate", exported, stdin=b"x1 x2\n").code == 0
    assert_refused(run("evaluate", exported, cwd=tmp_path / "runs"), 2, "b.de")


def test_names_of_others_choosing_are_text_on_a_card() -> None:
    name = "x|`<b>\n---\nlicense: mit\n# [a](b)\x1b\u202e"
    pair = FilePair(src=Path(name), tgt=Path("www.a.b/c.en"))
    data = FilesData(kind="files", src_lang="de", tgt_lang="en", train=pair, val=pair)
    tokenizer = HuggingFaceConfig(kind="huggingface", file=Path("/x/a`|b.json"))
    config = Config(data=data, tokenizer=tokenizer, init=Path(name))
    card = model_card(name, config, 7, (8, 9), None, "transformer-cli", "", f"{name} at commit 1")
    shown = r"`x|'<b>\n---\nlicense: mit\n# [a](b)\x1b\u202e`"
    assert f"\n# {shown}: translation from de to en\n" in card
    assert f"The lines of {shown} and c.en: describe" in card
    assert f"another run, {shown}, imported from {shown[:-1]} at commit 1`." in card
    assert '\n| `tokenizer.file` | `"a\'\\|b.json"` |\n' in card
    assert "license" not in front_matter(card)


def test_a_card_of_own_files_asks_for_a_description() -> None:
    pair = FilePair(src=Path("/home/me/a.de"), tgt=Path("/home/me/a.en"))
    data = FilesData(kind="files", src_lang="de", tgt_lang="en", train=pair, val=pair)
    config = Config(data=data, tokenizer=WordsConfig(kind="words", lowercase=True))
    card = model_card(
        "mine",
        config,
        7,
        (8, 9),
        ValidationScore(10, {"bleu": 1.0, "bleu_lc": 2.0}),
        "transformer-cli",
        "",
    )
    assert "a.de and a.en: describe them here" in card
    assert "/home/me" not in card
    assert "writes lower case" in card


def test_settings_lose_paths_and_checksums_of_fetched_files() -> None:
    data = FilesData.model_validate(
        {
            "kind": "files",
            "src_lang": "de",
            "tgt_lang": "en",
            "train": {
                "src": "https://host/a.de",
                "tgt": "https://host/a.en",
                "sha256": ["a" * 64, "b" * 64],
            },
            "val": {"src": "secret/a", "tgt": "secret/b"},
            "test": {"sha256": {"src": "secret/a", "tgt": "secret/b"}},
        }
    )
    kept = _without_paths(data.model_dump())
    assert "secret" not in json.dumps(kept)
    read = FilesData.model_validate(kept)
    assert read.train.src.name == "a.de"
    assert [*read.test] == ["sha256"]
