"""Placeholders and tags, from a configuration to translations."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run

from transformer_cli import Translator
from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.constraints.placeholders import compare_placeholders
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.growing.growth import CONFIG, Growth
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import load_tokenizers

DOCUMENT = Path(__file__).parents[3] / "docs" / "extensions" / "exchange.md"

SETTINGS = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: text.de, tgt: text.en}
  val: {src: text.de, tgt: text.en}
  more: [{src: text.de, tgt: text.en, tag: web}, {src: text.de, tgt: text.en, tag: news}]
tokenizer:
  kind: sentencepiece
  vocab_size: 30
  byte_fallback: false
  protect: [printf, braces]
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}
training: {epochs: 1, batch_tokens: 200, schedule: {kind: constant, peak: 1e-2, warmup: 10}}
"""
LINES = [f"{name}: das %s ist {{{name}}}" for name in "abcdefgh"] * 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _train_once(tmp_path_factory.mktemp)


@cache
def _train_once(make_directory: Callable[[str], Path]) -> Path:
    directory = make_directory("protected")
    for language in ("de", "en"):
        (directory / f"text.{language}").write_text("".join(f"{line}\n" for line in LINES))
    (directory / "own.yaml").write_text(SETTINGS)
    finished = run("train", "own.yaml", "--allow-suspect-data", cwd=directory)
    assert finished.code == 0, finished.err
    return directory / "runs" / "own"


@pytest.mark.long
def test_what_exports_lack_is_refused(trained: Path) -> None:
    refused = run("export", trained, "exported", "--format", "transformers")
    assert refused.code == 2, refused.err


def test_lines_whose_placeholders_differ_are_counted(trained: Path, tmp_path: Path) -> None:
    # Of one token, so at most one of four placeholders.
    text = "a\na {a} %s {b} %d\n\na {a} %s {b} %d\n"
    told = "2 of 4 lines: placeholders differ; lines 2, 4\n"
    found = run("translate", trained, "--max-length", "1", stdin=text.encode())
    assert (found.code, found.err) == (0, told)
    assert found.out.count("\n") == 4
    (tmp_path / "in").write_text(text)
    files = ("-i", tmp_path / "in", "-o", tmp_path / "out", "--max-length", "1")
    assert run("translate", trained, *files, "--n-best", "2").err == told


@pytest.mark.parametrize(
    ("name", "text", "output", "line"),
    [
        ("in.tsv", "de\n\na {a} %s\n", "out.tsv", 3),
        ("in.jsonl", '{"de": ""}\n{"de": "a {a} %s"}\n', "out.jsonl", 2),
    ],
)
def test_lines_are_named_as_in_the_input(
    trained: Path, tmp_path: Path, name: str, text: str, output: str, line: int
) -> None:
    (tmp_path / name).write_text(text.replace("%s", "%s a b das ist " * 220))
    column = "--src-column" if name == "in.tsv" else "--src-field"
    options = ("-i", name, column, "de", "-o", output, "--max-length", "1")
    found = run("translate", trained, *options, cwd=tmp_path)
    assert found.code == 0, found.err
    long, differ, doubt = found.err.splitlines()
    assert long.startswith(f"warning: {name}: line {line}: ")
    assert differ.endswith(f"lines: placeholders differ; line {line}")
    assert doubt.endswith(f"doubtful, too short; line {line}")


def test_a_tag_is_put_before_lines(trained: Path, training: Training) -> None:
    text = b"a: das %s ist {a}\nb\n"
    outs = {}
    for tag in ("news", "web"):
        found = run("translate", trained, "--tag", tag, "--scores", stdin=text)
        assert found.code == 0, found.err
        outs[tag] = found.out
    assert outs["news"] != outs["web"]
    refused = run("translate", trained, "--tag", "nwes", stdin=text)
    assert_refused(refused, 2, "--tag: no tag 'nwes'; did you mean 'news'? known tags: news, web")
    refused = run("translate", training.run, "--tag", "news", stdin=text)
    assert_refused(refused, 2, "--tag: no tag 'news'; the run has no tags")
    translator = Translator.load(trained)
    lines = text.decode().splitlines()
    best = [json.loads(each)["translations"][0]["text"] for each in outs["web"].splitlines()]
    assert translator.translate(lines, tag="web", beam_size=1) == best


def test_evaluate_counts_lines_and_takes_a_tag(trained: Path, tmp_path: Path) -> None:
    files = ("--src", trained.parents[1] / "text.de", "--ref", trained.parents[1] / "text.en")
    reports = []
    for tag in ((), ("--tag", "web")):
        out = tmp_path / f"out{len(tag)}"
        found = run("evaluate", trained, *files, *tag, "--json", "-o", out)
        assert found.code == 0, found.err
        reports.append(json.loads(found.out))
        pairs = list(zip(LINES, out.read_text().splitlines(), strict=True))
        differing = sum(1 for pair in pairs if compare_placeholders(*pair, ["printf", "braces"]))
        assert reports[-1]["placeholders_differ"] == differing > 0
    assert reports[0]["perplexity"] != reports[1]["perplexity"]
    table = run("evaluate", trained, *files).out
    row = next(line.split() for line in table.splitlines() if "placeholders" in line)
    assert row[:2] == ["placeholders", str(reports[0]["placeholders_differ"])]
    refused = run("evaluate", trained, *files, "--tag", "x")
    assert refused.code == 2
    assert refused.err.endswith("evaluate: --tag: no tag 'x'; known tags: news, web\n")
    assert_refused(run("evaluate", trained, "--tag", "web"), 2, "--tag is for --src and --ref")


@pytest.mark.long_cases
@pytest.mark.parametrize(("form", "fence"), [("onnx", "python"), ("ctranslate2", "py")])
def test_documented_programs_write_slots_and_tags(
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: str,
    fence: str,
) -> None:
    exported = run("export", trained, tmp_path / "exported", "--format", form)
    assert exported.code == 0, exported.err
    blocks = re.findall(rf"```{fence}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    # Others are of SentencePiece alone, or of other formats.
    (with_tag,) = (block for block in blocks if "[]  # or " in block)
    program = (blocks[0] if form == "onnx" else "") + with_tag
    text = b"%s: Datei {name} fehlt\n"
    monkeypatch.chdir(tmp_path)
    tagged = program.replace("[]  # or ", "").replace('"news"', '"web"')
    for code, tag in ((program, ()), (tagged, ("--tag", "web"))):
        exec(code, {})
        own = run("translate", trained, *tag, "--engine", "ctranslate2", stdin=text)
        # CTranslate2 goes on where a run's own search has its limit.
        assert own.out.strip()
        assert capsys.readouterr().out.startswith(own.out.rstrip("\n"))


def test_onnx_has_the_ids_of_each_side(trained: Path, tmp_path: Path) -> None:
    assert run("export", trained, tmp_path / "exported", "--format", "onnx").code == 0
    reserved = json.loads((tmp_path / "exported" / "onnx.json").read_text())["reserved"]
    tokenizers = load_tokenizers(trained / "tokenizer")
    for name, side in (("src", tokenizers.src), ("tgt", tokenizers.tgt)):
        found = reserved[name]
        assert side.token(found["joiner"]) == "⟨joiner⟩"
        assert [side.token(number) for number in found["slots"]] == [
            f"⟨{number}⟩" for number in range(1, 17)
        ]
        assert found["tags"] == tokenizers.src.reserved_ids["tags"]


@pytest.mark.parametrize("form", ["hub", "ctranslate2"])
def test_an_exported_model_has_slots_and_tags(trained: Path, tmp_path: Path, form: str) -> None:
    exported = run("export", trained, tmp_path / "model", "--format", form)
    assert exported.code == 0, exported.err
    text = b"a: das %s ist {a}\n%d\n"
    found = [
        run("translate", path, "--tag", "web", "--engine", engine, stdin=text)
        for path, engine in (
            (trained, "torch" if form == "hub" else "ctranslate2"),
            (tmp_path / "model", "auto"),
        )
    ]
    assert [each.code for each in found] == [0, 0], found[1].err
    assert found[0].out == found[1].out
    assert found[1].out.count("\n") == 2


def test_init_needs_the_tags_of_the_sources(trained: Path, tmp_path: Path) -> None:
    settings = SETTINGS.replace("tag: web", "tag: blog").replace(
        "text.", f"{trained.parents[1]}/text."
    )
    (tmp_path / "heir.yaml").write_text(f"init: {trained}\n{settings}")
    refused = run("train", "heir.yaml", "--allow-suspect-data", cwd=tmp_path)
    assert refused.code == 1
    assert "has no tag 'blog', but only news, web" in refused.err.splitlines()[-1]


def test_a_doubtful_line_may_be_written_as_its_source(trained: Path, tmp_path: Path) -> None:
    text = f"a\n{'das ist so ' * 9}\n"
    plain = run("translate", trained, "--max-length", "1", stdin=text.encode())
    told = "1 of 2 lines: doubtful, too short; line 2\n"
    assert (plain.code, plain.err) == (0, told)
    found = run(
        "translate", trained, "--max-length", "1", "--fallback", "source", stdin=text.encode()
    )
    assert (found.code, found.err) == (0, told)
    assert found.out.splitlines() == [plain.out.splitlines()[0], text.splitlines()[1]]
    refused = run("translate", trained, "--scores", "--fallback", "source", stdin=b"")
    assert_refused(refused, 2, "--scores writes the model's output; leave out --fallback")


def test_a_grown_run_replays_text_with_its_tags(trained: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.tsv"
    new.write_text("".join(f"{number} %s\tthe {number} %s\n" for number in range(60)))
    growth = Growth.plan(RunDirectory(trained), RunDirectory(tmp_path / "grown"), [new])
    growth.write()
    config = load_config(tmp_path / "grown" / CONFIG)
    assert isinstance(config.data, CorpusData)
    assert config.data.replay is not None
    replayed = config.data.replay.sources
    assert {source.tag for source in replayed} == {None, "web", "news"}
    for source in replayed:
        assert source.src is not None
        assert set(source.src.read_text().splitlines()) <= set(LINES)
    assert config.init == trained
    assert config.data.val is not None
    assert config.data.val.src is not None
    assert len(config.data.val.src.read_text().splitlines()) == len(LINES)
    assert config.tokenizer == load_config(trained / "config.yaml").tokenizer
