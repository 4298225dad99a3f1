"""A run's records, validations and checkpoints, each at its step, however often it is stopped."""

import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

import transformer_cli
from transformer_cli.base.errors import CheckpointError, ConfigError, TrainingError
from transformer_cli.config.schema import Config
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.model.transformer import build_model, weights_of
from transformer_cli.runs.checkpoint import Checkpoint, find_checkpoint, list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.runs.metrics_log import Record
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training import session as session_module
from transformer_cli.training.session import LOG_EVERY, Observer, Session, Validation
from transformer_cli.training.trainer import StepResult, Trainer

TOKENIZER = "fingerprint"
TENSORS = ("model.safetensors", "optimizer.safetensors")
STEPS_PER_EPOCH = 6


def text() -> EncodedText:
    """Twelve pairs, two to a batch of 12 tokens."""
    sentences = [[4 + (number + place) % 8 for place in range(5)] for number in range(12)]
    return EncodedText(
        TokenArray.from_sentences(sentences), TokenArray.from_sentences(sentences[::-1])
    )


def config(tokenizer: dict[str, Any] | None = None, **training: Any) -> Config:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "dropout": 0.2}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    settings = {
        "batch_tokens": 12,
        "epochs": 4,
        "keep_last": 99,
        "schedule": {"kind": "constant", "peak": 0.001},
    }
    return Config.model_validate(
        {
            "data": {"kind": "toy"},
            "tokenizer": tokenizer or {"kind": "words"},
            "model": sizes | layers,
            "training": settings | training,
        }
    )


def validation(bleu: float, loss: float = 2.0, bleu_lc: float | None = None) -> Validation:
    return Validation(loss, {"bleu": bleu, "bleu_lc": bleu if bleu_lc is None else bleu_lc})


def open_session(
    run: RunDirectory, settings: Config, results: Sequence[Validation] | None = None
) -> Session:
    """A session that validates as ``results`` say, or else by what its weights are."""
    initialize_run(run, settings)
    model = build_model(settings.model, 12, 12, PAD_ID, settings.seed)
    trainer = Trainer(model, text(), settings, torch.float32)
    assert trainer.steps_per_epoch == STEPS_PER_EPOCH
    script = iter(results or ())

    def by_weights(give_up: Callable[[], bool]) -> Validation:
        trainer.eval_model.eval()
        torch.rand(5)
        total = sum(
            weight.double().abs().sum().item() for weight in trainer.eval_model.parameters()
        )
        return Validation(total / 1000.0, {"bleu": total % 10.0, "bleu_lc": total % 7.0})

    validate = by_weights if results is None else lambda give_up: next(script)
    return Session(settings, run, trainer, TOKENIZER, validate)


Event = StepResult | Record


def never() -> bool:
    return False


def events(
    session: Session, should_stop: Callable[[], bool], see: Callable[[Event], None] = lambda _: None
) -> list[Event]:
    """Train; return the steps and the records in the order of things."""
    seen: list[Event] = []

    def show(event: Event) -> None:
        seen.append(event)
        see(event)

    session.train(should_stop, show, show)
    return seen


def after(steps: int) -> Callable[[], bool]:
    """Ask to stop after so many steps of a session."""
    asked = count(1)
    return lambda: next(asked) >= steps


def metrics(run: RunDirectory) -> list[dict[str, Any]]:
    """The records, apart from their seconds and the sessions' own."""
    found = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    found = [record for record in found if record["kind"] != "session"]
    for record in found:
        assert record.pop("seconds") >= 0.0
        if record["kind"] == "train":
            assert record.pop("tokens_per_second") > 0
            assert record.pop("eta_seconds") >= 0
    return found


def steps_of(run: RunDirectory, kind: str) -> list[int]:
    return [record["step"] for record in metrics(run) if record["kind"] == kind]


def saved_steps(run: RunDirectory) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in list_checkpoints(run.checkpoints)]


def state_of(run: RunDirectory, which: str = "last") -> dict[str, Any]:
    path = find_checkpoint(run.checkpoints, which)
    return Checkpoint.open(path, TOKENIZER).load_state().model_dump()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


# --- what happens when ----------------------------------------------------------------------------


@pytest.mark.long
def test_a_training_record_every_fifty_steps_and_at_the_end(run: RunDirectory) -> None:
    assert LOG_EVERY == 50
    session = open_session(run, config(epochs=99, max_steps=105, validate_every=99))
    progress = [event for event in events(session, never) if isinstance(event, StepResult)]
    found = [record for record in metrics(run) if record["kind"] == "train"]
    assert [record["step"] for record in found] == [50, 100, 105]
    for record, steps in zip(found, (progress[:50], progress[50:100], progress[100:]), strict=True):
        tokens = sum(each.tgt_tokens for each in steps)
        smoothed = sum(each.loss for each in steps)
        unsmoothed = sum(each.nll_loss for each in steps)
        assert record["tgt_tokens"] == tokens
        assert record["loss"] == pytest.approx(smoothed / tokens, rel=1e-6)
        assert record["perplexity"] == pytest.approx(math.exp(unsmoothed / tokens), rel=1e-6)
        assert record["learning_rate"] == steps[-1].learning_rate
        assert record["grad_norm"] == steps[-1].gradient_norm > 0.0
        assert record["epoch"] == record["step"] // STEPS_PER_EPOCH


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epochs": 3}, [6, 12, 18]),
        ({"epochs": 3, "max_steps": 14}, [6, 12, 14]),
        ({"epochs": 3, "validate_every": 4}, [4, 8, 12, 16, 18]),
        ({"epochs": 2, "validate_every": 6}, [6, 12]),
        ({"epochs": 2, "validate_every": 99}, [12]),
    ],
)
def test_validations_come_when_they_are_due(
    run: RunDirectory, settings: dict[str, Any], expected: list[int]
) -> None:
    events(open_session(run, config(**settings)), never)
    assert steps_of(run, "validation") == expected
    assert saved_steps(run) == expected


def test_checkpoints_come_in_between_if_asked_for(run: RunDirectory) -> None:
    events(open_session(run, config(epochs=2, save_every=4)), never)
    assert saved_steps(run) == [4, 6, 8, 12]
    assert steps_of(run, "validation") == [6, 12]


def test_events_come_in_the_order_of_things(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LOG_EVERY", 3)
    session = open_session(run, config(epochs=1), [validation(7.0)])
    names = [
        event["kind"] if isinstance(event, dict) else event.step for event in events(session, never)
    ]
    assert names == [1, 2, 3, "train", 4, 5, 6, "train", "validation"]


def test_what_an_event_tells_is_already_in_the_file(run: RunDirectory) -> None:
    session = open_session(run, config(epochs=1), [validation(7.0)])
    records = [event for event in events(session, never) if isinstance(event, dict)]
    lines = run.metrics.read_text().splitlines()
    assert [json.loads(line) for line in lines[1:]] == records


def test_each_session_begins_with_a_record_of_what_it_computes_with(run: RunDirectory) -> None:
    events(open_session(run, config()), after(8))
    events(open_session(run, config()), never)
    events(open_session(run, config()), never)  # nothing is left to do
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    found = [record for record in lines if record["kind"] == "session"]
    assert lines[0] == found[0]
    assert [(each["step"], each["epoch"]) for each in found] == [(0, 0), (8, 1)]
    for each in found:
        assert (each["device"], each["precision"], each["processes"]) == ("cpu", "float32", 1)
        assert each["threads"] == torch.get_num_threads()
        assert each["torch"] == torch.__version__
        assert each["transformer_cli"] == transformer_cli.__version__


def test_a_session_after_the_checkpoint_that_training_goes_on_from_is_forgotten(
    run: RunDirectory,
) -> None:
    events(open_session(run, config(epochs=1)), never)
    events(open_session(run, config(epochs=2)), after(2))
    events(open_session(run, config(epochs=2)), never)
    for name in ("step-00000008", "step-00000012"):
        shutil.rmtree(run.checkpoints / name)
    events(open_session(run, config(epochs=2)), never)
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert [each["step"] for each in lines if each["kind"] == "session"] == [0, 6, 6]


def test_a_validation_is_recorded_with_all_its_numbers(run: RunDirectory) -> None:
    scores = {"bleu": 10.0, "bleu_lc": 12.0, "chrf": 20.0}
    samples = [{"source": "a", "reference": "b", "translation": "c"}]
    result = Validation(2.0, scores, "intl", "chrf", samples=samples)
    events(open_session(run, config(epochs=1), [result]), never)
    assert metrics(run)[-1] == {
        "kind": "validation",
        "step": 6,
        "epoch": 1,
        "loss": 2.0,
        "perplexity": pytest.approx(7.3890561),  # e^2
        "bleu": 10.0,
        "bleu_lc": 12.0,
        "chrf": 20.0,
        "tokenize": "intl",
        "select": "chrf",
        "best": True,
        "samples": samples,
    }


# --- the best one ---------------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("results", "best", "best_step"),
    [
        ([validation(1.0), validation(3.0), validation(2.0)], [True, True, False], 12),
        ([validation(0.0), validation(0.0), validation(0.0)], [True, False, False], 6),
        ([validation(5.0, 2.0), validation(5.0, 1.9), validation(5.0, 2.0)], [1, 1, 0], 12),
        ([validation(5.0, 2.0), validation(4.9, 0.1), validation(5.1, 9.0)], [1, 0, 1], 18),
        # Case counts for a tokenizer that keeps it.
        ([validation(2.0, bleu_lc=3.0), validation(1.0, bleu_lc=9.0)], [True, False], 6),
    ],
)
def test_the_best_has_the_highest_bleu_then_the_lowest_loss(
    run: RunDirectory, results: list[Validation], best: list[bool], best_step: int
) -> None:
    session = open_session(run, config(epochs=len(results)), results)
    events(session, never)
    found = [record for record in metrics(run) if record["kind"] == "validation"]
    assert [record["best"] for record in found] == best
    assert session.state.best_step == best_step
    assert state_of(run, "best")["step"] == best_step


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("select", "best_step", "best_rank"),
    [("bleu_lc", 12, 9.0), ("chrf", 6, 30.0), ("loss", 12, -1.0)],
)
def test_the_best_is_chosen_by_what_the_validation_says(
    run: RunDirectory, select: str, best_step: int, best_rank: float
) -> None:
    results = [
        Validation(1.5, {"bleu": 2.0, "bleu_lc": 3.0, "chrf": 30.0}, select=select),
        Validation(1.0, {"bleu": 1.0, "bleu_lc": 9.0, "chrf": 20.0}, select=select),
    ]
    session = open_session(run, config(epochs=2), results)
    events(session, never)
    assert (session.state.best_step, session.state.best_rank) == (best_step, best_rank)
    assert [each["best"] for each in metrics(run) if each["kind"] == "validation"] == [
        True,
        best_step == 12,
    ]


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("keep", "scores", "left"),
    [
        (1, [1.0, 9.0, 2.0, 3.0], [12, 24]),
        (1, [1.0, 2.0, 3.0, 4.0], [24]),
        (2, [9.0, 1.0, 2.0, 3.0], [6, 18, 24]),
        (2, [1.0, 2.0, 9.0, 3.0], [18, 24]),
        (9, [1.0, 2.0, 9.0, 3.0], [6, 12, 18, 24]),
    ],
)
def test_the_newest_and_the_best_are_kept(
    run: RunDirectory, keep: int, scores: list[float], left: list[int]
) -> None:
    session = open_session(run, config(keep_last=keep), [validation(score) for score in scores])
    events(session, never)
    assert saved_steps(run) == left


def test_each_checkpoint_has_the_rank_of_its_own_validation(run: RunDirectory) -> None:
    scores = [validation(score) for score in (1.0, 9.0, 2.0)]
    events(open_session(run, config(epochs=3, save_every=4), scores), never)
    ranks = {step: state_of(run, f"step-{step:08d}")["rank"] for step in saved_steps(run)}
    assert ranks == {4: None, 6: 1.0, 8: None, 12: 9.0, 16: None, 18: 2.0}


@pytest.mark.long
def test_patience_runs_out(run: RunDirectory) -> None:
    scores = [3.0, 2.0, 4.0, 4.0, 1.0, 9.0]
    settings = config(epochs=6, patience=2)
    session = open_session(run, settings, [validation(score) for score in scores])
    events(session, never)
    assert session.is_finished
    assert session.trainer.step == 5 * STEPS_PER_EPOCH
    assert state_of(run)["bad_validations"] == 2

    again = open_session(run, settings, [])
    assert again.is_finished
    assert events(again, never) == []

    more_patient = open_session(run, config(epochs=6, patience=3), [validation(9.0)])
    assert not more_patient.is_finished
    events(more_patient, never)
    assert more_patient.state.best_step == 6 * STEPS_PER_EPOCH


# --- stopping and going on ------------------------------------------------------------------------


def test_a_request_to_stop_saves_and_ends(run: RunDirectory) -> None:
    session = open_session(run, config())
    seen = events(session, after(8))
    assert [event.step for event in seen if isinstance(event, StepResult)][-1] == 8
    assert saved_steps(run) == [6, 8]
    assert steps_of(run, "validation") == [6]
    assert not session.is_finished


@pytest.mark.long
def test_a_request_to_stop_where_it_saves_anyway(run: RunDirectory) -> None:
    events(open_session(run, config(save_every=3)), after(6))
    assert saved_steps(run) == [3, 6]
    assert steps_of(run, "validation") == [6]


def assert_same_run(run: RunDirectory, other: RunDirectory) -> None:
    assert metrics(run) == metrics(other)
    states = [state_of(each) for each in (run, other)]
    for state in states:
        assert state.pop("seconds") > 0.0
    assert states[0] == states[1]
    last, other_last = (
        Checkpoint.open(find_checkpoint(each.checkpoints, "last"), TOKENIZER)
        for each in (run, other)
    )
    for tensors, others in (
        (last.load_weights(), other_last.load_weights()),
        (last.load_optimizer(), other_last.load_optimizer()),
    ):
        assert tensors.keys() == others.keys()
        assert all(torch.equal(tensors[name], others[name]) for name in tensors)


SETTINGS = config(epochs=3, save_every=4, keep_last=2)


@pytest.fixture
def frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training record every 5 steps."""
    monkeypatch.setattr(session_module, "LOG_EVERY", 5)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A whole run of 18 steps: records every 5, checkpoints every 4, validations every 6."""
    run = RunDirectory(tmp_path_factory.mktemp("uninterrupted"))
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(session_module, "LOG_EVERY", 5)
        events(open_session(run, SETTINGS), never)
    assert steps_of(run, "train") == [5, 10, 15, 18]
    return run


@pytest.mark.long_cases
@pytest.mark.usefixtures("frequent")
@pytest.mark.parametrize("every", [1, 5, 6, 7])
def test_stopping_changes_nothing(
    run: RunDirectory, uninterrupted: RunDirectory, every: int
) -> None:
    session = open_session(run, SETTINGS)
    while not session.is_finished:
        events(session, after(every))
        session = open_session(run, SETTINGS)
    assert_same_run(run, uninterrupted)


@pytest.mark.long_cases
@pytest.mark.usefixtures("frequent")
@pytest.mark.parametrize("number", [1, 7, 9, 11, 12, 16])
def test_being_killed_changes_nothing(
    run: RunDirectory, uninterrupted: RunDirectory, number: int
) -> None:
    left = iter(range(number - 1, -1, -1))

    def die(event: Event) -> None:
        if not next(left):
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        events(open_session(run, SETTINGS), never, die)
    (run.checkpoints / "step-00000099.partial-99999999").mkdir()
    with run.metrics.open("a") as file:
        file.write('{"kind": "train", "st')
    events(open_session(run, SETTINGS), never)
    assert_same_run(run, uninterrupted)


LEVERS: dict[str, Any] = {"ema_decay": 0.9, "rdrop_alpha": 2.0}


@pytest.mark.usefixtures("frequent")
def test_stopping_changes_nothing_where_an_average_is_kept(tmp_path: Path) -> None:
    settings = config(epochs=2, save_every=4, keep_last=2, **LEVERS)
    straight, stopped = RunDirectory(tmp_path / "straight"), RunDirectory(tmp_path / "stopped")
    events(open_session(straight, settings), never)
    session = open_session(stopped, settings)
    while not session.is_finished:
        events(session, after(5))
        session = open_session(stopped, settings)
    assert_same_run(stopped, straight)


def test_a_finished_session_does_nothing(run: RunDirectory, uninterrupted: RunDirectory) -> None:
    shutil.copytree(uninterrupted.path, run.path)
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    session = open_session(run, SETTINGS, [])
    assert session.is_finished
    assert events(session, never) == []
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


class Noting(Observer):
    """Notes what it is told, until it fails at a kind of record."""

    writes = "notes.txt"

    def __init__(self, fails_at: str = "") -> None:
        self.seen: list[object] = []
        self._fails_at = fails_at

    def on_begin(self, run: RunDirectory, step: int, start_time: float) -> None:
        self.seen.append((run, step, start_time <= time.time()))

    def on_record(self, record: Record) -> None:
        if record["kind"] == self._fails_at:
            raise OSError("no space")
        self.seen.append(record["kind"])

    def on_end(self) -> None:
        self.seen.append("end")


def test_observers_see_a_session_and_cannot_harm_it(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    noting, failing = Noting(), Noting(fails_at="validation")
    session = open_session(run, SETTINGS)
    session._observers = [noting, failing]
    events(session, never)
    assert session.is_finished
    kinds = [record["kind"] for record in metrics(run)]
    assert noting.seen == [(run, 0, True), "session", *kinds, "end"]
    assert failing.seen == [(run, 0, True), "session", *kinds[: kinds.index("validation")]]
    assert capsys.readouterr().err == f"warning: {run.path / 'notes.txt'}: not written: no space\n"


def test_more_epochs_go_on_from_the_end(run: RunDirectory) -> None:
    events(open_session(run, config(epochs=1)), never)
    session = open_session(run, config(epochs=2))
    assert (session.trainer.step, session.is_finished) == (6, False)
    events(session, never)
    assert steps_of(run, "validation") == [6, 12]


def test_time_adds_up_over_sessions(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(1000.0, 10.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    events(open_session(run, config()), after(1))
    first = state_of(run)["seconds"]
    assert first >= 10.0
    next(clock)  # time between the sessions is nobody's
    again = open_session(run, config())
    next(clock)  # and so is time in which steps are tried
    events(again, after(1))
    assert state_of(run)["seconds"] == 2 * first


def test_a_damaged_checkpoint_is_passed_over_for_the_newest_whole_one(
    run: RunDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    straight = RunDirectory(tmp_path / "straight")
    events(open_session(straight, config(epochs=3)), never)
    events(open_session(run, config(epochs=2)), never)
    damaged = find_checkpoint(run.checkpoints, "last") / "optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    session = open_session(run, config(epochs=3))
    assert session.trainer.step == STEPS_PER_EPOCH
    assert f"{damaged}: damaged" in capsys.readouterr().err
    assert (run.checkpoints / f"damaged-{damaged.parent.name}").is_dir()
    events(session, never)
    last, expected = (find_checkpoint(each.checkpoints, "last") for each in (run, straight))
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (last / name).read_bytes() == (expected / name).read_bytes()
    assert metrics(run) == metrics(straight)


def test_where_no_checkpoint_is_whole_nothing_is_touched(run: RunDirectory) -> None:
    events(open_session(run, config(epochs=2)), never)
    for path in list_checkpoints(run.checkpoints):
        (path / "state.json").write_text("{}")
    before = saved_steps(run)
    with pytest.raises(CheckpointError, match=r"all checkpoints are damaged, .*`overwrite`"):
        open_session(run, config(epochs=3))
    assert saved_steps(run) == before


def test_no_memory_is_no_other_model(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    events(open_session(run, config(epochs=1)), never)

    def restore(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    monkeypatch.setattr(Trainer, "restore", restore)
    with pytest.raises(torch.OutOfMemoryError):
        open_session(run, config(epochs=2))


def test_a_best_checkpoint_that_went_for_a_damaged_one_is_forgotten(run: RunDirectory) -> None:
    settings = config(epochs=3, keep_last=2)
    # Each is the best in its turn: the first one goes when the third comes.
    events(open_session(run, settings, [validation(each) for each in (1, 2, 3)]), never)
    assert saved_steps(run) == [12, 18]
    shutil.rmtree(run.checkpoints / "step-00000018")
    shutil.copytree(run.checkpoints / "step-00000012", run.checkpoints / "step-00000006")
    state = run.checkpoints / "step-00000012" / "state.json"
    state.write_text("{}")
    session = open_session(run, config(epochs=4, keep_last=2), [validation(0.5), validation(0.25)])
    assert session.state.best_step is None
    assert session.state.best_rank == -1.0


@pytest.mark.long_cases
@pytest.mark.parametrize("at", [1, 4])
def test_an_interrupted_validation_is_taken_up_again(
    run: RunDirectory, tmp_path: Path, at: int
) -> None:
    straight = RunDirectory(tmp_path / "straight")
    results = [validation(bleu) for bleu in (4.0, 3.0, 2.0, 5.0)]
    events(open_session(straight, config(keep_last=1), results), never)

    script = iter(results[: at - 1])
    session = open_session(run, config(keep_last=1))
    session.validate = lambda give_up: next(script, None)
    events(session, never)
    assert (session.stopped, session.is_finished) == (True, False)
    assert saved_steps(run)[-1] == at * STEPS_PER_EPOCH
    # Once more before it is done.
    session = open_session(run, config(keep_last=1))
    session.validate = lambda give_up: None
    assert events(session, never) == []
    assert (session.stopped, session.is_finished) == (True, False)
    # Once more killed when it was done, but not saved.
    with run.metrics.open("a") as file:
        step = at * STEPS_PER_EPOCH
        file.write(json.dumps({"kind": "validation", "step": step, "seconds": 1.0}) + "\n")

    session = open_session(run, config(keep_last=1), results[at - 1 :])
    events(session, never)
    assert (session.stopped, session.is_finished) == (False, True)
    assert metrics(run) == metrics(straight)
    assert saved_steps(run) == saved_steps(straight)
    timeless = [{**state_of(each), "seconds": 0} for each in (run, straight)]
    assert timeless[0] == timeless[1]


def test_each_validation_finds_its_step_saved_and_the_older_ones_kept(run: RunDirectory) -> None:
    session = open_session(run, config(epochs=3, keep_last=1))
    results = iter([validation(5.0), validation(3.0), validation(4.0)])
    found = []

    def validate(give_up: Callable[[], bool]) -> Validation:
        files = [find_checkpoint(run.checkpoints, "last") / name for name in TENSORS]
        inodes = [file.stat().st_ino for file in files]
        found.append((saved_steps(run), state_of(run)["unvalidated"], inodes))
        return next(results)

    session.validate = validate
    for _ in events(session, never):
        pass
    steps, unvalidated, inodes = zip(*found, strict=True)
    assert steps == ([6], [6, 12], [6, 12, 18])
    assert unvalidated == (True, True, True)
    # The weights were written once.
    last = find_checkpoint(run.checkpoints, "last")
    assert [(last / name).stat().st_ino for name in TENSORS] == inodes[-1]
    assert (saved_steps(run), state_of(run)["unvalidated"]) == ([6, 18], False)
    assert state_of(run, "best")["step"] == 6


@pytest.mark.long_cases
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_training_killed_in_a_validation_goes_on_with_it(
    run: RunDirectory, tmp_path: Path, at: int
) -> None:
    straight = RunDirectory(tmp_path / "straight")
    results = [validation(bleu) for bleu in (4.0, 3.0, 5.0)]
    events(open_session(straight, config(epochs=3, keep_last=1), results), never)
    settings = config(epochs=3, keep_last=1)
    # After its last result, the script ends in an error, which leaves the session where it is.
    with pytest.raises(StopIteration):
        events(open_session(run, settings, results[: at - 1]), never)
    assert saved_steps(run)[-1] == at * STEPS_PER_EPOCH
    session = open_session(run, settings, results[at - 1 :])
    first, *_ = events(session, never)
    assert isinstance(first, dict)
    assert (first["kind"], first["step"]) == ("validation", at * STEPS_PER_EPOCH)
    assert_same_run(run, straight)
    assert saved_steps(run) == saved_steps(straight)


def test_weights_whose_validation_loss_is_no_number_are_not_kept(run: RunDirectory) -> None:
    session = open_session(
        run, config(epochs=2, keep_last=1), [validation(1.0), validation(1.0, math.nan)]
    )
    with pytest.raises(TrainingError, match=r"^step 12: the validation loss is nan; "):
        events(session, never)
    assert saved_steps(run) == [6]


def test_a_checkpoint_that_cannot_be_written_ends_it(run: RunDirectory) -> None:
    def block(event: Event) -> None:
        if isinstance(event, dict):  # the first validation, just before its state is saved
            shutil.rmtree(run.checkpoints)
            run.checkpoints.touch()

    with pytest.raises(CheckpointError, match=str(run.checkpoints)):
        events(open_session(run, config()), never, block)


# --- losses that are no numbers -------------------------------------------------------------------


def poison(session: Session, step: int, value: float) -> None:
    """Train; from ``step`` on the weights are spoilt."""

    def spoil(event: Event) -> None:
        if isinstance(event, StepResult) and event.step == step:
            with torch.no_grad():
                session.trainer.model.output.bias[5] = value

    events(session, never, spoil)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("settings", [{}, {"validate_every": 3}, {"save_every": 3}])
def test_a_loss_that_is_no_number_ends_training_unsaved(
    run: RunDirectory, value: float, settings: dict[str, Any]
) -> None:
    session = open_session(run, config(**settings))
    said = r"^step 3 \(epoch 1, batch 3\): the loss is (nan|inf) and .*skip_nonfinite=10$"
    with pytest.raises(TrainingError, match=said):
        poison(session, 2, value)
    assert saved_steps(run) == []
    assert metrics(run) == []


def test_weights_spoilt_by_the_very_step_that_is_saved_are_refused(run: RunDirectory) -> None:
    session = open_session(run, config(validate_every=99, save_every=5))
    with pytest.raises(TrainingError, match=r"^step 5: a weight is not a finite number; "):
        poison(session, 5, math.nan)
    assert saved_steps(run) == []


def test_saved_weights_are_those_of_the_step(run: RunDirectory) -> None:
    session = open_session(run, config())
    events(session, after(2))
    saved = Checkpoint.open(find_checkpoint(run.checkpoints, "last"), TOKENIZER).load_weights()
    ours = weights_of(session.trainer.model)
    assert saved.keys() == ours.keys()
    assert all(torch.equal(saved[name], ours[name]) for name in ours)


def test_saved_weights_are_the_average_where_there_is_one(run: RunDirectory) -> None:
    session = open_session(run, config(**LEVERS))
    events(session, after(2))
    checkpoint = Checkpoint.open(find_checkpoint(run.checkpoints, "last"), TOKENIZER)
    saved, beside = checkpoint.load_weights(), checkpoint.load_optimizer()
    average, trained = weights_of(session.trainer.eval_model), weights_of(session.trainer.model)
    assert saved.keys() == average.keys() == trained.keys()
    for name, weight in saved.items():
        assert torch.equal(weight, average[name])
        assert not torch.equal(weight, trained[name])
        assert torch.equal(beside[f"weight.{name}"], trained[name])


def test_a_run_does_not_begin_or_cease_to_average(run: RunDirectory) -> None:
    events(open_session(run, config(**LEVERS)), after(2))
    for changes in ({"ema_decay": None}, {"ema_decay": 0.8}, {"rdrop_alpha": 0.0}):
        with pytest.raises(ConfigError, match=f"training.{next(iter(changes))} was "):
            open_session(run, config(**LEVERS | changes))
