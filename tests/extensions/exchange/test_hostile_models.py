"""Damaged or hostile model directories give a one-line error, and nothing is written."""

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest
import torch
from cli.process import assert_refused, run
from safetensors.torch import save_file

from extensions.exchange.marian_files import (
    CONFIG,
    JOINT,
    import_directory,
    make_tensors,
    write_json,
    write_model,
)
from transformer_cli.base.child import PYTHON
from transformer_cli.base.errors import (
    ConfigError,
    CorpusError,
    TokenizerError,
    UsageError,
)
from transformer_cli.cli import app
from transformer_cli.config.yaml import load_config
from transformer_cli.data.kinds import check_has_text
from transformer_cli.extensions.exchange import torch_child, weights
from transformer_cli.extensions.exchange.form import ImportedModelError
from transformer_cli.runs.trained_model import load_trained_model

Change = Callable[[Path], object]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "opus-mt-de-en"
    directory.mkdir()
    write_model(directory)
    return directory


def refuse(directory: Path) -> str:
    """Import a model that is refused in one line; return the line."""
    with pytest.raises((ImportedModelError, TokenizerError)) as caught:
        import_directory(directory, directory.parent / "run")
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


def config(**changes: Any) -> Change:
    return lambda path: write_json(path / "config.json", {**CONFIG, **changes})


def vocabulary(**changes: Any) -> Change:
    return lambda path: write_json(path / "vocab.json", {**JOINT, **changes})


def vocabulary_piece(piece: str) -> Change:
    """Spell the language code as an ordinary piece."""
    ids = {piece if token == ">>fra<<" else token: number for token, number in JOINT.items()}
    return lambda path: write_json(path / "vocab.json", ids)


def write(name: str, text: str) -> Change:
    return lambda path: (path / name).write_text(text)


def tensor(name: str, value: torch.Tensor | None) -> Change:
    def change(path: Path) -> None:
        tensors = {**make_tensors(), name: value}
        kept = {key: each for key, each in tensors.items() if each is not None}
        save_file(kept, path / "model.safetensors")

    return change


def header(content: object) -> Change:
    def change(path: Path) -> None:
        data = json.dumps(content).encode()
        (path / "model.safetensors").write_bytes(struct.pack("<Q", len(data)) + data)

    return change


def empty(*shape: int) -> dict[str, object]:
    return {"dtype": "F32", "shape": list(shape), "data_offsets": [0, 0]}


def resize_sparsely(name: str, size: int) -> Change:
    return lambda path: os.truncate(path / name, size)


LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
SHORT = {"dtype": "F32", "shape": [1, len(JOINT)], "data_offsets": [0, 9]}
HUGE = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
FORM = [
    (
        config(model_type="t5"),
        "model_type: found the text 't5'; it should be 'marian' or 'pegasus'",
    ),
    (config(model_type=["marian"]), "model_type: found a list"),
    (config(scale_embedding=False), "scale_embedding: found false; it should be True"),
    (
        config(normalize_before=True),
        "normalize_before: found true; our models need false for the type marian",
    ),
    (config(normalize_embedding=True), "normalize_embedding"),
    (config(static_position_embeddings=False), "static_position_embeddings"),
    (
        config(decoder_attention_heads=4),
        "decoder_attention_heads: found 4; our models need 2 for the type marian",
    ),
    (config(decoder_ffn_dim=16), "decoder_ffn_dim: found 16"),
    (config(activation_function="gelu_new"), "activation_function: found the text 'gelu_new'"),
    (config(encoder_attention_heads=3, decoder_attention_heads=3), "3 heads do not divide"),
    (config(num_beams=0), "num_beams: found 0"),
    (config(num_beams=10**9), "num_beams: found 1000000000; it should be less"),
    (config(d_model=2**30), "d_model: found 1073741824"),
    (config(encoder_layers=10**9), "encoder_layers: found 1000000000"),
    (
        config(encoder_layers="6"),
        "encoder_layers: found the text '6'; it should be a valid integer",
    ),
    (config(encoder_layers=2), "lacks the tensor model.encoder.layers.1."),
    (
        config(encoder_ffn_dim=2**20, decoder_ffn_dim=2**20),
        "has the shape (12,), but config.json says (1048576,)",
    ),
    (config(vocab_size=2**31), "but the model has 2,147,483,648 rows"),
    (config(dropout="much"), "dropout: found the text 'much'"),
    (config(decoder_start_token_id=-1), "lacks the decoder_start_token_id -1"),
    (config(eos_token_id=5), "'</s>' is 0, but the model's eos_token_id is 5"),
    (write("config.json", "[" * 100_000), "is not JSON"),
    (write("config.json", "[]"), "is not a JSON object"),
    (write("config.json", "9" * 5000), "is not JSON"),
    (write("generation_config.json", '{"num_beams": "many"}'), "generation_config.json: num_beams"),
]
TOKENIZER = [
    (vocabulary(**{"</s>": 1}), "has the id 1; ids must be 0 to"),
    (vocabulary(**{"</s>": 10**9}), "has the id 1000000000; ids must be 0 to"),
    (vocabulary(**{"</s>": -1}), "has the id -1"),
    (vocabulary(**{"</s>": True}), "has the id True"),
    (vocabulary(more=len(JOINT)), "pieces, but the model has"),
    (write("vocab.json", json.dumps({f"{n}": n for n in JOINT.values()})), "lacks '<unk>'"),
    (write("vocab.json", '{"a": ' * 50_000), "is not JSON"),
    (
        write("tokenizer_config.json", '{"unk_token": 3}'),
        "unk_token: found 3; it should be a valid string",
    ),
    (
        write("source.spm", "no model"),
        "opus-mt-de-en/source.spm: not a model of the sentencepiece library",
    ),
    (write("target.spm", ""), "; fetch it again"),
    (vocabulary_piece("a\nb"), "the piece 'a\\nb' cannot be imported: "),
    (vocabulary_piece("\ud800"), "the piece '\\ud800' cannot be imported: "),
    (vocabulary_piece(""), "the piece '' cannot be imported: "),
    (
        write("tokenizer_config.json", '{"separate_vocabs": "false"}'),
        "separate_vocabs: found the text 'false'; it should be a valid boolean",
    ),
    (lambda path: (path / "target.spm").unlink(), "target.spm: missing"),
    (resize_sparsely("vocab.json", 10**12), "has 1,000,000,000,000 bytes, more than"),
    (resize_sparsely("source.spm", 10**12), "has 1,000,000,000,000 bytes, more than"),
]
WEIGHTS = [
    (tensor("model.decoder.layers.0.fc1.bias", None), "lacks the tensor model.decoder"),
    (tensor("model.shared.weight", None), "lacks the tensor model.shared.weight"),
    (tensor("model.decoder.layers.0.fc1.bias", torch.zeros(13)), "has the shape (13,)"),
    (tensor("model.encoder.layers.0.gate.weight", torch.zeros(2)), "which our models do not have"),
    (tensor("final_logits_bias", torch.zeros(1, len(JOINT)).long()), "has the type torch.int64"),
    (tensor("model.encoder.embed_positions.weight", torch.ones(16, 8)), "not a table of sinusoids"),
    (tensor("model.encoder.embed_positions.weight", torch.ones(16, 4)), "has the shape (16, 4)"),
    (header({"model.shared.weight": HUGE}), "is not a safetensors file"),
    (header({"final_logits_bias": SHORT}), "is not a safetensors file"),
    (header({"model.shared.weight": {"shape": ["x"]}}), "is not a safetensors file"),
    (header({"model.shared.weight": empty(0, 2**63)}), "is not a safetensors file"),
    (header({"model.shared.weight": empty(0, 2**62, 2**62)}), "is not a safetensors file"),
    (header({"model.shared.weight": empty(*[0] * 10_000)}), "has the shape (0, 0, "),
    (header({f"{n}": empty(0) for n in range(150_000)}), "a header of more than 8 MiB"),
    (tensor("model.encoder.embed_positions.weight", torch.tensor(1.0)), "has the shape ()"),
    (resize_sparsely("model.safetensors", 10**12), "has 1,000,000,000,000 bytes"),
    (resize_sparsely("model.safetensors", 500), "is not a safetensors file"),
    (write("model.safetensors", LFS_POINTER), "a Git LFS pointer; get the file with: git lfs"),
    (write("model.safetensors", ""), "is not a safetensors file"),
    (write("model.safetensors", "\x02"), "is not a safetensors file"),
    (tensor("final_logits_bias", torch.full((1, len(JOINT)), torch.nan)), "infinite or NaN values"),
    (tensor("model.encoder.embed_positions.weight", torch.zeros(0, 8)), "has the shape (0, 8)"),
    (lambda path: (path / "model.safetensors").unlink(), "model.safetensors: missing"),
]  # fmt: skip


@pytest.mark.long_cases
@pytest.mark.parametrize(("change", "message"), [*FORM, *TOKENIZER, *WEIGHTS])
def test_it_is_refused_in_one_line(model: Path, change: Change, message: str) -> None:
    change(model)
    assert message in refuse(model)


@pytest.mark.posix
def test_links_do_not_lead_out(model: Path) -> None:
    (model / "config.json").rename(model / "elsewhere.json")
    (model / "config.json").symlink_to(model / "elsewhere.json")
    import_directory(model, model / "run")
    (model / "config.json").unlink()
    (model / "config.json").symlink_to("/etc/hostname")
    assert "is a link to a file elsewhere" in refuse(model)


@pytest.mark.posix
def test_links_in_a_loop_are_refused(model: Path) -> None:
    (model / "vocab.json").unlink()
    (model / "vocab.json").symlink_to("vocab.json")
    assert "vocab.json: cannot be read" in refuse(model)


@pytest.mark.posix
def test_links_of_the_hub_cache_are_followed(model: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "m" / "blobs", tmp_path / "m" / "snapshots" / "c0ffee"
    for directory in (blobs, snapshot):
        directory.mkdir(parents=True)
    for number, path in enumerate(sorted(model.iterdir())):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    import_directory(snapshot, tmp_path / "run")


@pytest.mark.posix
@pytest.mark.parametrize("name", ["config.json", "vocab.json", "model.safetensors"])
def test_pipes_do_not_block(model: Path, name: str) -> None:
    (model / name).unlink()
    os.mkfifo(model / name)
    assert "is a pipe or a device, not a file" in refuse(model)


def test_a_file_that_grows_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fstat = os.fstat

    def grow(file: int) -> os.stat_result:
        found = fstat(file)
        with (model / "config.json").open("ab") as other:
            other.write(b" ")
        return found

    monkeypatch.setattr(os, "fstat", grow)
    assert "changed while it was read" in refuse(model)


class Evil:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def save_torch(model: Path, content: object, **options: Any) -> None:
    (model / "model.safetensors").unlink(missing_ok=True)
    torch.save(content, model / "pytorch_model.bin", **options)


@pytest.fixture
def _in_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files of torch.save in forks, because new processes would import torch again."""
    if sys.platform != "win32":
        monkeypatch.setattr(weights, "subprocess", SimpleNamespace(run=read_in_fork))


def read_in_fork(
    command: list[str], stdin: BinaryIO, **_: object
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if not child:
            code = 1
            try:
                os.dup2(stdin.fileno(), 0)
                sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(os.dup(printed.fileno()), "w")
                sys.argv = command[-3:]
                torch_child.main()
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        return subprocess.CompletedProcess(command, code, printed.read().decode())


@pytest.mark.long_cases
@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_pytorch_file_is_not_run(model: Path, zipped: bool) -> None:
    content = {"model.shared.weight": Evil(model.parent / "owned")}
    save_torch(model, content, _use_new_zipfile_serialization=zipped)
    assert "pytorch_model.bin: contains code, not only weights" in refuse(model)


@pytest.mark.usefixtures("_in_forks")
@pytest.mark.parametrize("zipped", [True, False])
def test_a_pytorch_file_gives_the_same_run(model: Path, zipped: bool) -> None:
    expected = load_trained_model(import_directory(model, model.parent / "one"), "best")
    save_torch(model, make_tensors(), _use_new_zipfile_serialization=zipped)
    found = load_trained_model(import_directory(model, model.parent / "two"), "best")
    for one, other in zip(expected.model.parameters(), found.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.usefixtures("_in_forks")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], "is not a table of tensors"),
        ({"model.shared.weight": torch.zeros(1).expand(10**12)}, "would take more memory"),
        ({"model.shared.weight": torch.zeros(3, 3)}, "has the shape (3, 3)"),
        (
            {"model.shared.weight": torch.zeros(len(JOINT), 8).int()},
            "has the type torch.int32, not float",
        ),
    ],
)
def test_other_pytorch_files_are_refused(model: Path, content: object, message: str) -> None:
    save_torch(model, content)
    assert message in refuse(model)


@pytest.mark.usefixtures("_in_forks")
def test_a_pytorch_file_that_expands_is_refused(model: Path) -> None:
    (model / "model.safetensors").unlink()
    path = model / "pytorch_model.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**6))
    assert "is damaged, or not a file of weights" in refuse(model)
    path.write_bytes(b"PK\x03\x04 no zip")
    assert "is damaged, or not a file of weights" in refuse(model)


class Takes:
    """An object that takes 1.5 GB when unpickled, by a function that torch.load allows."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (bytearray, (1_500_000_000,))


# Measures from a small process, because a child's peak is at least that of its parent.
MEASURE = """\
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as file:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=file)
sys.exit(code)
"""


@pytest.mark.long
@pytest.mark.posix  # limits of memory
def test_a_pickle_cannot_take_memory(
    model: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    peak = tmp_path_factory.mktemp("measured") / "peak"
    measure = [sys.executable, "-c", MEASURE, str(peak), *PYTHON]
    monkeypatch.setattr(weights, "PYTHON", measure)
    save_torch(model, {"model.shared.weight": Takes()})
    assert "would take more memory or time than its weights need" in refuse(model)
    assert int(peak.read_text()) <= 1 << 20


def storage_of(numel: int) -> bytes:
    """Return a pickle of one tensor, and its storage of 4 bytes, as an older torch wrote them."""
    content = io.BytesIO()
    tensors = {"final_logits_bias": torch.zeros(1, numel)}
    torch.save(tensors, content, _use_new_zipfile_serialization=False)
    return content.getvalue()[: -4 * numel + 4]


@pytest.mark.usefixtures("_in_forks")
def test_elements_that_a_pytorch_file_does_not_have(model: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(storage_of(len(JOINT)))
    assert "is damaged, or not a file of weights" in refuse(model)


def call(*arguments: object) -> None:
    app(["import", *map(str, arguments)], standalone_mode=False)


def test_the_command(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = model.parent / "runs"
    call(model, runs / "opus")
    assert capsys.readouterr() == (f"{runs / 'opus'}: {model}, de to en\n", "")
    record = json.loads((runs / "opus" / "import.json").read_text())
    assert record["source"] == model.as_posix()
    assert record["sha256"].keys() >= {"config.json", "vocab.json", "model.safetensors"}
    with pytest.raises(UsageError, match="already exists"):
        call(model, runs / "opus")
    data = load_config(runs / "opus" / "config.yaml").data
    config = runs / "opus" / "config.yaml"
    said = f"^{config}: data.kind imported has no .* base: {config}, init: {config.parent} and data"
    with pytest.raises(ConfigError, match=said):
        check_has_text(data, config)
    with pytest.raises(ConfigError, match=r"base: RUN/config.yaml, init: RUN and data"):
        check_has_text(data, model.parent / "a.yaml")
    own = f"^{runs / 'opus'}: an imported model comes without text; "
    with pytest.raises(CorpusError, match=f"{own}give text with --src and --ref"):
        app(["evaluate", str(runs / "opus")], standalone_mode=False)
    with pytest.raises(CorpusError, match=f"{own}score it .* evaluate {runs / 'opus'} --src FILE"):
        app(["report", str(runs / "opus")], standalone_mode=False)


def test_training_goes_on_from_it(model: Path) -> None:
    import_directory(model, model.parent / "opus")
    (model.parent / "a.yaml").write_text(
        "base: opus/config.yaml\ninit: opus\ndata: {kind: toy}\n"
        "training: {max_steps: 1, batch_tokens: 256}\ndecoding: {beam_size: 1}\n"
    )
    trained = run("train", "a.yaml", "--run-dir", "a", cwd=model.parent)
    assert trained.code == 0, trained.err
    one, other = (model.parent / name / "tokenizer" for name in ("opus", "a"))
    assert (one / "src.model").read_bytes() == (other / "src.model").read_bytes()
    refused = run("train", "opus/config.yaml", "--run-dir", "b", cwd=model.parent)
    assert_refused(
        refused, 2, "data.kind imported has no text", "base: opus/config.yaml, init: opus and"
    )
    assert not (model.parent / "b").exists()


def test_languages_are_asked_for(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "tokenizer_config.json").unlink()
    other = model.rename(model.parent / "model")
    with pytest.raises(
        UsageError, match="its languages are unknown; give them: --src-lang CODE --tgt-lang CODE"
    ):
        call(other, other.parent / "run")
    with pytest.raises(UsageError, match="--src-lang German: is not a language code"):
        call(other, other.parent / "run", "--src-lang", "German")
    with pytest.raises(UsageError, match="--src-lang de-abcdefghi: is not a language code"):
        call(other, other.parent / "run", "--src-lang", "de-abcdefghi")
    call(other, other.parent / "run", "--src-lang", "de", "--tgt-lang", "fr")
    assert capsys.readouterr().out.endswith(", de to fr\n")


def test_a_name_of_the_hub(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import huggingface_hub

    snapshot = model.parent / "c0ffee"
    snapshot.mkdir()

    def snapshot_download(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        if revision == "lost":
            raise ConnectionError("no network\nhere")
        if revision == "unknown":
            raise ValueError("404")
        assert name == "some/opus-mt-de-en"
        assert revision in (None, "c0ffee")
        for path in model.iterdir():
            if any(path.match(pattern) for pattern in allow_patterns):
                shutil.copy(path, snapshot)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    path = model.parent / "run"
    config(model_type="t5")(model)
    with pytest.raises(ImportedModelError, match="model_type: found the text 't5'"):
        call("some/opus-mt-de-en", path)
    # No other files were fetched.
    assert {each.name for each in snapshot.iterdir()} == {"config.json", "tokenizer_config.json"}
    config()(model)
    call("some/opus-mt-de-en", path)
    out, err = capsys.readouterr()
    assert out == f"{path}: some/opus-mt-de-en, de to en\n"
    assert "to get it again, use --revision c0ffee" in err
    record = json.loads((path / "import.json").read_text())
    assert (record["source"], record["revision"]) == ("some/opus-mt-de-en", "c0ffee")
    other = model.parent / "other"
    with pytest.raises(ImportedModelError, match="Hub cannot be reached \\(no network here\\)"):
        call("some/opus-mt-de-en", other, "--revision", "lost")
    with pytest.raises(ImportedModelError, match="returned an error \\(404\\)"):
        call("some/opus-mt-de-en", other, "--revision", "unknown")
    with pytest.raises(UsageError, match="there is no such directory"):
        call("nothing", other)
    with pytest.raises(UsageError, match=r"--revision x: .* is a directory"):
        call(snapshot, other, "--revision", "x")


def test_a_directory_without_a_model_is_named(model: Path) -> None:
    other = model.parent / "runs" / "other"
    config(model_type="transformer-cli")(model)
    with pytest.raises(ImportedModelError, match="was exported with --format hub; use it directly"):
        call(model, other)
    (model / "config.json").unlink()
    (model / "tokenizer_config.json").unlink()
    with pytest.raises(
        ImportedModelError, match=r"has no config\.json, so it is not a transformers model"
    ):
        call(model, other)
    write_json(model / "run.json", {})
    with pytest.raises(ImportedModelError, match="is already a transformer-cli run"):
        call(model, other)
    with pytest.raises(UsageError, match="is a file; name its directory"):
        call(model / "vocab.json", other)
    assert not other.parent.exists()


def test_places_where_a_run_cannot_be(model: Path) -> None:
    with pytest.raises(UsageError, match=r"vocab\.json is not a directory; give another name"):
        call(model, model / "vocab.json" / "runs" / "a")
    with pytest.raises(UsageError, match="the model's directory; choose another place"):
        call(model, model / "runs" / "a")
    assert not (model / "runs").exists()
