"""Text in, text out: order, blank lines, streams, limits, and runs read from disk."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
import yaml
from copied_text import DATA
from texts import read_texts

from inference.translators import (
    LINES,
    MAX_POSITIONS,
    SIZE,
    numbers,
    random_translator,
    searched,
    translate_ids,
)
from transformer_cli.base.errors import CheckpointError, RunError
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.config.data_schema import FilesData
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.config.tokenizer_schema import WordsConfig
from transformer_cli.inference.engine import Hypothesis, SearchEngine
from transformer_cli.inference.loading import ComputeOptions, load_torch_translator
from transformer_cli.inference.translator import TextTranslator, Watcher
from transformer_cli.model.transformer import Transformer, build_model, weights_of
from transformer_cli.runs.checkpoint import save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.training.preparation import prepare_data

# --- lines ----------------------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [1, 3])
def test_batches_change_nothing(beam_size: int) -> None:
    translator = random_translator().with_search(beam_size=beam_size, max_length=6)
    alone = [translator.translate([line])[0] for line in LINES]
    assert len(set(alone)) >= 4, "the case is too easy"
    for batch_tokens in (1, 9, 8192):
        assert translator.with_search(batch_tokens=batch_tokens).translate(LINES) == alone


def test_blank_lines_are_empty_and_not_searched() -> None:
    translator = random_translator(end_bias=-1e4)
    lines = ["", "5 6", "  ", "\t", "7", "\u3000", ""]
    translations = translator.translate(lines)
    assert [bool(each) for each in translations] == [bool(line.strip()) for line in lines]
    assert searched(translator) == 2


@pytest.mark.parametrize("lines", [[], [""], ["", " "]], ids=repr)
def test_nothing_to_search(lines: list[str]) -> None:
    translator = random_translator()
    assert translator.translate(lines) == [""] * len(lines)
    assert searched(translator) == 0


@pytest.mark.parametrize("lines", [["", *LINES, " "], [numbers(30), "", *LINES], ["", " "]])
def test_progress_counts_each_line_once(lines: list[str]) -> None:
    finished: list[int] = []
    translator = random_translator(positions="learned").with_search(max_length=4, batch_tokens=12)
    translator.translate(lines, watcher=Watcher(finished.append))
    assert sum(finished) == len(lines)
    assert len(finished) > 1 or len(lines) == 2


@pytest.mark.parametrize(("beam_size", "sentences"), [(1, [4, 4]), (2, [2] * 4), (99, [1] * 8)])
def test_batches_count_every_row_of_a_beam(beam_size: int, sentences: list[int]) -> None:
    finished: list[int] = []
    translator = random_translator().with_search(beam_size, batch_tokens=16, max_length=1)
    translator.translate(["5 6 7"] * 8, watcher=Watcher(finished.append))
    assert finished == sentences


@pytest.mark.parametrize("beam_size", [1, 3])
def test_ids_keep_their_order(beam_size: int) -> None:
    translator = random_translator().with_search(beam_size, batch_tokens=12, max_length=6)
    sources = [[*map(int, line.split()), EOS_ID] for line in LINES]
    alone = [translate_ids(translator, [source])[0] for source in sources]
    assert len(set(map(tuple, alone))) >= 4, "the case is too easy"
    assert translate_ids(translator, sources) == alone
    assert [" ".join(map(str, ids)) for ids in alone] == translator.translate(LINES)


def test_empty_ids_stay_empty() -> None:
    finished: list[int] = []
    translator = random_translator(end_bias=-1e4).with_search(batch_tokens=8, max_length=3)
    sources = [[], [5, EOS_ID], [], [6, 7, 8, 9, EOS_ID], [6, EOS_ID], []]
    outputs = translate_ids(translator, sources, finished.append)
    assert [len(ids) for ids in outputs] == [0, 3, 0, 3, 3, 0]
    assert sum(finished) == searched(translator) == 3


def test_progress_is_told_of_each_batch_in_order() -> None:
    finished: list[int] = []
    translator = random_translator().with_search(batch_tokens=20, max_length=3)
    # Longest first, as many to a batch as fill 20 places, padding included.
    sources = [[5] * 4 + [EOS_ID]] * 10 + [[5] * 9 + [EOS_ID]] * 3 + [[5, EOS_ID]] * 12
    translate_ids(translator, sources, finished.append)
    assert finished == [2, 2, 4, 4, 4, 9]


# --- workers --------------------------------------------------------------------------------------


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets torch's number of threads, for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("beam_size", "precision"),
    [
        (1, torch.bfloat16),
        (3, torch.float32),
        pytest.param(1, torch.float32, marks=pytest.mark.long),
        pytest.param(3, torch.bfloat16, marks=pytest.mark.long),
    ],
)
def test_several_workers_translate_as_one_does(
    beam_size: int, precision: torch.dtype, threads: Callable[[int], None]
) -> None:
    translator = random_translator().with_search(beam_size, batch_tokens=24, max_length=10)
    translator = replace(translator, engine=replace(translator.engine, precision=precision))
    sources = [[*torch.randint(4, SIZE, (length,)).tolist(), EOS_ID] for length in range(1, 12)] * 2
    found = {}
    for workers in (1, 3):
        threads(workers)
        found[workers] = translate_ids(translator, sources)
    assert len(set(map(tuple, found[1]))) >= 4, "the case is too easy"
    assert found[3] == found[1]


def test_several_workers_share_one_table_of_positions(threads: Callable[[int], None]) -> None:
    # Sources beyond the 256 positions that a table begins with, for which workers make it longer.
    translator = random_translator(end_bias=-1e4).with_search(batch_tokens=8, max_length=3)
    sources = [[*torch.randint(4, SIZE, (length,)).tolist(), EOS_ID] for length in (300, 700, 500)]
    alone = []
    for source in sources:
        engine = replace(translator.engine, model=copy.deepcopy(translator.engine.model))
        alone += translate_ids(replace(translator, engine=engine), [source])
    threads(2)
    assert translate_ids(translator, sources) == alone


class WrongProgressError(Exception):
    pass


def test_a_caller_that_fails_gets_its_error_and_an_unpacked_model() -> None:
    def fail(_: int) -> None:
        raise WrongProgressError

    translator = random_translator(end_bias=-1e4).with_search(batch_tokens=8, max_length=3)
    threads_before = torch.get_num_threads()
    with pytest.raises(WrongProgressError):
        translator.translate(LINES, watcher=Watcher(fail))
    assert torch.get_num_threads() == threads_before
    with torch.no_grad():
        translator.engine.model.output.bias[7] += 1e3
    ids = torch.tensor([[5, EOS_ID]])
    assert translator.engine.model(ids, ids).argmax(dim=2).tolist() == [[7, 7]]


# --- limits ---------------------------------------------------------------------------------------


class CopyingEngine:
    """A search engine without a model, which says what it is told."""

    fingerprint: ClassVar[dict[str, str]] = {"engine": "copying"}
    name = "copying"
    is_on_gpu = False

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def search(self, sources: Sequence[list[int]], *others: object) -> list[list[Hypothesis]]:
        self.seen.extend(sources)
        return [[Hypothesis(ids[:-1], 0.0)] for ids in sources]


def copying_translator() -> tuple[CopyingEngine, TextTranslator[SearchEngine]]:
    """Another program's engine does in place of ours: a translator asks it for ids only."""
    engine, ours = CopyingEngine(), random_translator(positions="learned")
    return engine, TextTranslator(engine, ours.tokenizers, ours.config, ours.decoding)


def test_any_engine_translates_and_is_part_of_the_fingerprint() -> None:
    engine, translator = copying_translator()
    assert translator.translate(["7 5 9", " "]) == ["7 5 9", ""]
    assert engine.seen == [[7, 5, 9, EOS_ID]]
    assert translator.settings_fingerprint["engine"] == "copying"


def test_chunks_are_as_equal_as_can_be_and_in_order() -> None:
    engine, translator = copying_translator()
    line = " ".join(str(4 + number % 10) for number in range(25))
    assert translator.translate(["", line, "9"]) == ["", line, "9"]
    assert [len(ids) - 1 for ids in engine.seen] == [8, 8, 9, 1]
    assert all(ids[-1] == EOS_ID for ids in engine.seen)


def test_outputs_end_where_learned_positions_do() -> None:
    translator = random_translator(end_bias=-1e4, positions="learned")
    translations = translator.translate([numbers(11), "5"])
    assert [len(each.split()) for each in translations] == [MAX_POSITIONS, MAX_POSITIONS]


def test_sinusoidal_positions_take_any_line() -> None:
    translator = random_translator(end_bias=-1e4).with_search(max_length=3)
    assert len(translator.translate([numbers(LONGEST_SOURCE)])[0].split()) == 3
    assert len(translator.translate([numbers(LONGEST_SOURCE + 1)])[0].split()) == 6


@pytest.mark.parametrize("beam_size", [1, 2])
def test_an_output_that_does_not_end_is_cut(beam_size: int) -> None:
    translator = random_translator(end_bias=-1e4).with_search(beam_size=beam_size)
    translator = replace(
        translator, decoding=translator.decoding.model_copy(update={"max_length_ratio": 1.5})
    )
    lines = ["5", numbers(3), numbers(8)]
    assert [len(each.split()) for each in translator.translate(lines)] == [11, 14, 22]
    shorter = translator.with_search(max_length=12).translate(lines)
    assert [len(each.split()) for each in shorter] == [11, 12, 12]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_specials_are_never_written(beam_size: int) -> None:
    translator = random_translator(favoured=(UNK_ID, BOS_ID, PAD_ID), end_bias=-2.0)
    outputs = translator.with_search(beam_size=beam_size).translate(LINES)
    written = {int(word) for line in outputs for word in line.split()}
    assert written
    assert min(written) > PAD_ID


def test_searching_changes_what_it_is_told() -> None:
    before = random_translator()
    after = before.with_search(beam_size=7, batch_tokens=99, max_length=5)
    assert (after.decoding.beam_size, after.decoding.batch_tokens, after.max_length) == (7, 99, 5)
    assert after.decoding.length_penalty == before.decoding.length_penalty
    assert after.with_search() == after
    assert (before.decoding, before.max_length) == (DecodingConfig(), None)


# --- runs -----------------------------------------------------------------------------------------

CPU = torch.device("cpu")
RUN_CONFIG = Config(
    data=FilesData.model_validate(yaml.safe_load(DATA)),
    tokenizer=WordsConfig(kind="words", min_freq=1),
    model=ModelConfig(d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1),
    decoding=DecodingConfig(beam_size=2),
)


def prepared_run(path: Path) -> RunDirectory:
    run = RunDirectory(path)
    initialize_run(run, RUN_CONFIG)
    prepare_data(RUN_CONFIG, read_texts(RUN_CONFIG.data), run)
    return run


def model_of_step(step: int) -> Transformer:
    return build_model(RUN_CONFIG.model, 10, 10, PAD_ID, seed=100 + step)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run with checkpoints of steps 1, 2 and 3, of which the second is the best."""
    run = prepared_run(tmp_path_factory.mktemp("runs") / "copy")
    for step in (1, 2, 3):
        state = {"step": step, "best_step": 2}
        tokenizer = fingerprint(run.tokenizer)
        save_checkpoint(run.checkpoints, weights_of(model_of_step(step)), {}, state, tokenizer)
    return run


@pytest.mark.parametrize(
    ("checkpoint", "step"), [("best", 2), ("last", 3), ("{}/step-00000001", 1)]
)
def test_a_checkpoint_is_found_and_loaded(run: RunDirectory, checkpoint: str, step: int) -> None:
    where = checkpoint.format(run.checkpoints)
    translator = load_torch_translator(run, where, ComputeOptions(device="cpu"))
    assert not translator.engine.model.training
    assert translator.decoding == RUN_CONFIG.decoding
    expected = weights_of(model_of_step(step))
    loaded = weights_of(translator.engine.model)
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], expected[name]) for name in expected)


def test_a_loaded_run_translates(run: RunDirectory) -> None:
    translator = load_torch_translator(run, "best", ComputeOptions(device="cpu")).with_search(
        max_length=5
    )
    translations = translator.translate(["1 2 3 4", "", "5 5 unseen 1"])
    assert len(translations) == 3
    assert translations[1] == ""
    assert {word for line in translations for word in line.split()} <= set("123456")


def test_no_run_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^.*/none: not a run directory.*make one with.*$") as error:
        load_torch_translator(RunDirectory(tmp_path / "none"), "best", ComputeOptions(device="cpu"))
    assert "\n" not in str(error.value)


@pytest.mark.posix
@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("best", r"checkpoints: no checkpoint yet; train first"),
        ("last", r"checkpoints: no checkpoint yet; train first"),
        ("nowhere/step-00000001", r"^`checkpoint` nowhere/step-00000001: not found; give best"),
    ],
)
def test_no_checkpoint_is_an_error_of_one_line(
    tmp_path: Path, checkpoint: str, message: str, run: RunDirectory
) -> None:
    untrained = RunDirectory(tmp_path)
    initialize_run(untrained, RUN_CONFIG)
    untrained.tokenizer.symlink_to(run.tokenizer)
    with pytest.raises(CheckpointError, match=message) as error:
        load_torch_translator(untrained, checkpoint, ComputeOptions(device="cpu"))
    assert "\n" not in str(error.value)


def test_no_tokenizer_is_an_error_of_one_line(tmp_path: Path) -> None:
    untrained = RunDirectory(tmp_path)
    initialize_run(untrained, RUN_CONFIG)
    with pytest.raises(CheckpointError, match=r": no checkpoint yet; train first: ") as error:
        load_torch_translator(untrained, "best", ComputeOptions(device="cpu"))
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_another_tokenizer_is_refused(run: RunDirectory) -> None:
    foreign = save_checkpoint(
        run.path, weights_of(model_of_step(9)), {}, {"step": 9}, "another fingerprint"
    )
    with pytest.raises(CheckpointError, match=r"step-00000009: trained with a different tokenizer"):
        load_torch_translator(run, str(foreign), ComputeOptions(device="cpu"))
