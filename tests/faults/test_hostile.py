"""Files made to do harm: nothing is executed, nothing is written elsewhere, and no traceback."""

import io
import json
import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import TINY, Training
from cli.process import Finished, assert_refused, run
from installed import has_command

from transformer_cli.base import artifact
from transformer_cli.base.artifact import read_record, write_record
from transformer_cli.base.errors import TokenizerError
from transformer_cli.base.files import sha256
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.runs import checkpoint
from transformer_cli.text import model_check
from transformer_cli.text.protocol import SPECIALS
from transformer_cli.text.sentencepiece import SentencePieceTokenizer, learn_model

SUBWORDS = TINY.replace(
    "{kind: words, min_freq: 1}", "{kind: sentencepiece, model_type: bpe, vocab_size: 270}"
)
FILES = [
    "config.yaml",
    "metrics.jsonl",
    "tokenizer/tokenizer.json",
    "tokenizer/src.vocab.txt",
    "checkpoints/step-00000060/model.safetensors",
    "checkpoints/step-00000060/optimizer.safetensors",
    "checkpoints/step-00000060/state.json",
    "checkpoints/step-00000060/manifest.json",
]


@pytest.fixture(scope="module")
def subword_training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("subwords")
    (directory / "tiny.yaml").write_text(SUBWORDS)
    finished = run("train", "tiny.yaml", cwd=directory)
    assert finished.code == 0, finished.err
    return directory / "runs" / "tiny"


@pytest.fixture
def subword_run(subword_training: Path, tmp_path: Path) -> Path:
    return shutil.copytree(subword_training, tmp_path / "run")


@pytest.fixture
def marker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What executed code would make."""
    return tmp_path_factory.mktemp("marker") / "executed"


@pytest.fixture(autouse=True)
def _nothing_is_executed(marker: Path) -> Iterator[None]:
    yield
    assert not marker.exists()


class Payload:
    """Makes the marker when somebody unpickles it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.marker}",))


def make_sums_match(run_directory: Path) -> None:
    """As who changes a file would."""
    tokenizer = run_directory / "tokenizer" / "tokenizer.json"
    with_description(tokenizer, lambda it: {name: sha256(tokenizer.parent / name) for name in it})
    for path in (run_directory / "checkpoints").iterdir():
        file = path / checkpoint.MANIFEST
        if (manifest := read_record(file, checkpoint.CheckpointManifest)) is not None:
            manifest.tokenizer = sha256(tokenizer)
            manifest.files = {name: sha256(path / name) for name in manifest.files}
            write_record(file, manifest)


def write_content(path: Path, content: Any) -> None:
    """Write a record of any content with the sum that it should have."""
    path.write_text(json.dumps({"content": content, "sha256": artifact.sum_json(content)}))


def with_description(path: Path, change: Callable[[Any], Any]) -> None:
    try:
        description = json.loads(path.read_bytes())
        description["sha256"] = change(description["sha256"])
    except (ValueError, TypeError, KeyError):
        return
    path.write_text(json.dumps(description))


def assert_in_good_order(finished: Finished) -> None:
    """Whatever it made of it, it said so as it says everything."""
    assert "Traceback" not in finished.err
    assert finished.code in (0, 1, 2), finished.err
    if finished.code:
        assert finished.err.splitlines()[-1].startswith("transformer-cli: error: ")


def commands(own: Path, config: Path) -> list[list[str | Path]]:
    """All that read a run."""
    known: list[list[str | Path]] = [
        ["translate", own],
        ["evaluate", own],
        ["train", config, "--run-dir", own, "--set", "training.epochs=13"],
        ["average", own, "--last", "2"],
        ["compare", own, own.parent / "other"],
        ["train", config, "--run-dir", own.parent / "heir", "--set", f"init={own}"],
    ]
    return [each for each in known if has_command(str(each[0]))]


def run_all(own: Path, config: Path, first: int | None = None) -> list[Finished]:
    """Run each command, or the first few, on a copy of its own, since training writes."""
    found = []
    for command in commands(own, config)[:first]:
        kept = shutil.copytree(own, own.parent / "kept", symlinks=True)
        finished = run(*command, stdin=b"1 2 3\n", cwd=own.parent)
        assert_in_good_order(finished)
        found.append(finished)
        shutil.rmtree(own)
        kept.rename(own)
    return found


# --- what could be executed -----------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize("name", FILES)
def test_a_pickle_in_place_of_any_file_is_not_read_as_one(
    own_run: Path, config: Path, marker: Path, name: str
) -> None:
    (own_run / name).write_bytes(pickle.dumps(Payload(marker)))
    make_sums_match(own_run)
    finished = run_all(own_run, config, 3)
    if name not in ("metrics.jsonl", "checkpoints/step-00000060/optimizer.safetensors"):
        assert [each.code for each in finished[:2]] != [0, 0]


def test_a_pickle_in_torchs_own_format_is_refused_with_matching_sums(
    own_run: Path, marker: Path
) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Payload(marker)))
        archive.writestr("archive/version", "3\n")
    path = own_run / "checkpoints/step-00000060/model.safetensors"
    path.write_bytes(data.getvalue())
    make_sums_match(own_run)
    assert_refused(run("translate", own_run), 1, f"{path}: not a safetensors file")


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system ['touch {marker}']",
        "!!python/name:os.system",
        "!!binary aGVsbG8=",
        "!own 1",
    ],
)
def test_yaml_tags_are_refused(own_run: Path, config: Path, marker: Path, tag: str) -> None:
    value = tag.format(marker=marker)
    text = config.read_text()
    line = text.count("\n") + 1
    config.write_text(f"{text}seed: {value}\n")
    refused = run("train", config, "--run-dir", own_run.parent / "new")
    assert_refused(refused, 2, f"{config}:{line}")
    settings = (own_run / "config.yaml").read_text()
    (own_run / "config.yaml").write_text(settings.replace("seed: 1\n", f"seed: {value}\n"))
    assert_refused(run("translate", own_run, stdin=b"1\n"), 2, "config.yaml:")
    config.write_text(text)
    refused = run("train", config, "--run-dir", own_run.parent / "new", "--set", f"seed={value}")
    assert_refused(refused, 2, "seed")


# --- what could be written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../stolen", "../../stolen", "/etc/hostname", "sub/x", ".", "", "joint.model\n"]
)
def test_a_tokenizers_files_have_the_names_they_have(
    training: Training, own_run: Path, config: Path, name: str
) -> None:
    """Or an heir would copy them to anywhere."""
    for path in (own_run / "stolen", own_run.parent / "stolen"):
        path.write_text("stolen\n")
    before = sha256(own_run / "stolen")
    with_description(own_run / "tokenizer/tokenizer.json", lambda sums: {**sums, name: before})
    for each in (own_run / "checkpoints").iterdir():
        manifest = checkpoint.read_manifest(each)
        manifest.tokenizer = sha256(own_run / "tokenizer/tokenizer.json")
        write_record(each / checkpoint.MANIFEST, manifest)
    heir = own_run.parent / "heirs" / "heir"
    refused = run("train", config, "--run-dir", heir, "--set", f"init={own_run}")
    assert_refused(refused, 1, "tokenizer.json: ")
    assert not list((own_run.parent / "heirs").rglob("stolen"))


@pytest.mark.posix
def test_reading_through_links_writes_nothing(training: Training, own_run: Path) -> None:
    outside = own_run.parent / "outside"
    outside.mkdir()
    for number, name in enumerate(FILES):
        (own_run / name).rename(outside / str(number))
        (own_run / name).symlink_to(outside / str(number))
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    expected = run("translate", training.run, stdin=b"1 2 3\n")
    found = run("translate", own_run, stdin=b"1 2 3\n")
    assert (found.code, found.out) == (0, expected.out)
    assert run("evaluate", own_run).code == 0
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before


@pytest.mark.long_cases
@pytest.mark.posix
@pytest.mark.parametrize(
    "name",
    [
        "config.yaml",
        "metrics.jsonl",
        ".lock",
        "checkpoints",
        "tokenizer",
        "encoded",
    ],
)
@pytest.mark.parametrize("options", [[], ["--overwrite"]], ids=" ".join)
def test_nothing_is_written_through_links(
    own_run: Path, config: Path, name: str, options: list[str]
) -> None:
    outside = own_run.parent / "outside" / name
    outside.parent.mkdir()
    (own_run / name).rename(outside)
    (own_run / name).symlink_to(outside)
    before = contents(outside.parent)
    asked = ["--set", "training.epochs=13", *options]
    refused = run("train", config, "--run-dir", own_run, *asked)
    assert_refused(refused, 1, f"{own_run / name}: is a link")
    if has_command("average"):
        assert_refused(run("average", own_run, "--last", "2"), 1, f"{own_run / name}: is a link")
    assert contents(outside.parent) == before


@pytest.mark.posix
@pytest.mark.parametrize("name", ["tokenizer", "encoded", "checkpoints/step-00000060"])
def test_nothing_is_written_through_links_further_down(
    own_run: Path, config: Path, name: str
) -> None:
    outside = own_run.parent / "outside"
    outside.mkdir()
    for file in list((own_run / name).iterdir()):
        file.rename(outside / file.name)
        file.symlink_to(outside / file.name)
    before = contents(outside)
    for asked in (["--set", "training.epochs=13"], ["--overwrite", "--set", "seed=2"]):
        assert_in_good_order(run("train", config, "--run-dir", own_run, *asked))
    assert contents(outside) == before


@pytest.mark.posix
def test_a_run_directory_may_be_a_link_as_a_whole(own_run: Path, config: Path) -> None:
    link = own_run.parent / "link"
    link.symlink_to(own_run)
    asked = ["--set", "training.epochs=13"]
    assert run("train", config, "--run-dir", link, *asked).code == 0
    assert (own_run / "checkpoints" / "step-00000065").is_dir()


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.posix
@pytest.mark.parametrize("name", ["tokenizer", "checkpoints", "tokenizer/tokenizer.json", "."])
def test_links_that_lead_nowhere_or_in_circles_are_said(own_run: Path, name: str) -> None:
    path = own_run / name if name != "." else own_run
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(path)
    refused = run("translate", own_run)
    assert refused.code in (1, 2)
    assert_refused(refused, refused.code, str(own_run))


# --- bytes of no meaning --------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(1, 5))
def test_random_bytes_in_place_of_any_file(
    training: Training, own_run: Path, config: Path, name: str, seed: int
) -> None:
    shutil.copytree(training.run, own_run.parent / "other")
    draws = random.Random(f"{name} {seed}")
    (own_run / name).write_bytes(draws.randbytes(draws.choice([0, 1, 7, 100, 5000])))
    make_sums_match(own_run)
    finished = run_all(own_run, config)
    if name not in ("metrics.jsonl", "checkpoints/step-00000060/optimizer.safetensors"):
        assert all(each.code for each in finished[:2])


@pytest.mark.long_cases
@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_as_a_subword_model(subword_run: Path, seed: int) -> None:
    path = subword_run / "tokenizer" / "joint.model"
    path.write_bytes(random.Random(seed).randbytes(1000))
    make_sums_match(subword_run)
    assert_refused(
        run("translate", subword_run), 1, f"{path}: not a model of the sentencepiece library"
    )


STRANGE: list[Any] = [[], -1]
MORE_STRANGE: list[Any] = ["x", None, {}, 1.5, True, 10**30, {"step": "x"}]


@pytest.mark.long_cases
@pytest.mark.parametrize("file", ["state.json", "manifest.json"])
@pytest.mark.parametrize(
    "strange", [*STRANGE, *(pytest.param(each, marks=pytest.mark.long) for each in MORE_STRANGE)]
)
def test_json_of_other_types_with_matching_sums(
    training: Training, own_run: Path, config: Path, file: str, strange: Any
) -> None:
    shutil.copytree(training.run, own_run.parent / "other")
    path = own_run / "checkpoints" / "step-00000060" / file
    content = json.loads(path.read_bytes())["content"]
    draws = random.Random(repr((file, strange)))
    key = draws.choice(sorted(content))
    content[key] = strange
    write_content(path, content)
    run_all(own_run, config)


# --- another tokenizer ----------------------------------------------------------------------------


def swap_words(run_directory: Path) -> None:
    path = run_directory / "tokenizer" / "src.vocab.txt"
    lines = path.read_text().splitlines(keepends=True)
    lines[4], lines[5] = lines[5], lines[4]
    path.write_text("".join(lines))


def swap_subwords(run_directory: Path) -> None:
    path = run_directory / "tokenizer" / "joint.model"
    data = path.read_bytes()
    one, other = b"<0x41>", b"<0x42>"
    assert data.count(one) == data.count(other) == 1
    path.write_bytes(data.replace(one, b"<0x4_>").replace(other, one).replace(b"<0x4_>", other))


@pytest.mark.long_cases
@pytest.mark.parametrize("kind", ["words", "subwords"])
@pytest.mark.parametrize("description", ["as it was", "made to match"])
def test_two_swapped_ids_are_refused(
    training: Training, subword_training: Path, tmp_path: Path, kind: str, description: str
) -> None:
    words = kind == "words"
    own = shutil.copytree(training.run if words else subword_training, tmp_path / "run")
    (tmp_path / "tiny.yaml").write_text(TINY if words else SUBWORDS)
    (swap_words if words else swap_subwords)(own)
    if description == "made to match":
        path = own / "tokenizer" / "tokenizer.json"
        with_description(path, lambda it: {name: sha256(path.parent / name) for name in it})
        fragment = "trained with a different tokenizer than the run's"
    else:
        fragment = "changed since it was written"
    for command in ("translate", "evaluate"):
        assert_refused(run(command, own, stdin=b"1 2\n"), 1, fragment)
    refused = run("train", tmp_path / "tiny.yaml", "--run-dir", own)
    assert refused.code == 1
    assert fragment in refused.err
    assert_in_good_order(refused)


@pytest.mark.parametrize(
    "command",
    [
        ("translate",),
        ("evaluate",),
        *([("average", "--last", "2")] if has_command("average") else []),
    ],
    ids=" ".join,
)
def test_another_tokenizer_is_refused(
    subword_training: Path, own_run: Path, command: tuple[str, ...]
) -> None:
    shutil.rmtree(own_run / "tokenizer")
    shutil.copytree(subword_training / "tokenizer", own_run / "tokenizer")
    refused = run(*command, own_run, stdin=b"1 2\n")
    assert_refused(refused, 1, "trained with a different tokenizer than the run's")


# --- SentencePiece models -------------------------------------------------------------------------

LINES = ["ein kleines Haus (alt)", "a 1 2 3 4 aa aaaa", "über den Fluss, ½ Ａ"] * 20


def learned(model_type: str) -> bytes:
    settings = SentencePieceConfig.model_validate(
        {"kind": "sentencepiece", "model_type": model_type, "vocab_size": 288}
    )
    return learn_model(settings, LINES, "text")


def mutated(data: bytes, draws: random.Random) -> bytes:
    """Some way of damaging a model; most of its bytes are the table of characters."""
    model = bytearray(data)
    kind = draws.randrange(6)
    if kind == 0:
        return draws.randbytes(draws.randrange(5000))
    if kind == 1:
        return bytes(model[: draws.randrange(len(model))])
    if kind == 2:
        place = draws.randrange(len(model))
        model[place : place + draws.randrange(2000)] = draws.randbytes(draws.randrange(2000))
        return bytes(model)
    # Pieces are at the start, settings at the end, and tables between them.
    within = (0, len(model)) if kind == 3 else (0, 8000) if kind == 4 else (8000, len(model) - 200)
    for _ in range(draws.choice([1, 4, 30, 1000])):
        model[draws.randrange(*within)] = draws.randrange(256)
    return bytes(model)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("count", [5, pytest.param(400, marks=pytest.mark.long)])
def test_a_damaged_model_is_refused_or_good_for_something(model_type: str, count: int) -> None:
    model = learned(model_type)
    refusals: list[str] = []
    for seed in range(count):
        draws = random.Random(f"{model_type} {seed}")
        data = mutated(model, draws)
        try:
            tokenizer = SentencePieceTokenizer(data, lowercase=False, source=Path("joint.model"))
        except TokenizerError as error:
            refusals.append(str(error))
            continue
        # This process would be gone.
        text = "".join(chr(draws.choice([32, 97, 228, draws.randrange(0xD800)])) for _ in range(99))
        ids = tokenizer.encode(text)
        assert "\n" not in tokenizer.decode(ids)
        assert "\n" not in tokenizer.decode(range(tokenizer.size))
    assert len(refusals) > count // 4
    assert all(each.startswith("joint.model: ") and "\n" not in each for each in refusals)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os; os.abort()", r"the sentencepiece library crashes on this model \(signal 6\)"),
        (
            "import os; os.kill(os.getpid(), 11)",
            r"the sentencepiece library crashes on this model \(signal 11\)",
        ),
        ("while True: pass", "the sentencepiece library hangs with this model"),
        ("raise RuntimeError('no\\nmodel')", r"not a model of the sentencepiece library \(model\)"),
    ],
)
def test_a_model_that_ends_its_process_ends_the_trial_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, message: str
) -> None:
    (tmp_path / "script.py").write_text(script)
    model = learned("bpe")
    monkeypatch.setattr("transformer_cli.text.model_check._SCRIPT", tmp_path / "script.py")
    monkeypatch.setattr(model_check, "_TIMEOUT", 2.0 if "while" in script else 60.0)
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    # What was just learned is known to be good.
    SentencePieceTokenizer(model, lowercase=False, source=Path("joint.model"))
    monkeypatch.setattr(model_check, "_checked", set())
    with pytest.raises(TokenizerError, match=f"^joint.model: {message}"):
        SentencePieceTokenizer(model, lowercase=False, source=Path("joint.model"))


def test_a_model_is_tried_once_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = learned("bpe")
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        monkeypatch.setattr(model_check, "_checked", set())  # as in another process
        SentencePieceTokenizer(model, lowercase=False, source=Path("joint.model"))
        monkeypatch.setattr("subprocess.run", None)
    with pytest.raises(TypeError):  # neither another model nor another library's
        SentencePieceTokenizer(model + b"\n", lowercase=False, source=Path("joint.model"))


def test_the_specials_are_looked_at_after_the_trial() -> None:
    model = learned("bpe")
    for special in SPECIALS:
        data = model.replace(special.encode(), special.upper().swapcase().encode(), 1)
        if data != model:
            with pytest.raises(TokenizerError, match=r"^joint\.model: "):
                SentencePieceTokenizer(data, lowercase=False, source=Path("joint.model"))
