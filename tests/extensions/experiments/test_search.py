"""Searches by workers: trials are points, whose runs' validations are told to Optuna."""

import subprocess
import time
from pathlib import Path

import pytest

from extensions.experiments.conftest import Start
from transformer_cli.base.errors import ConfigError, RunError, UsageError
from transformer_cli.config.choices import PrecisionName
from transformer_cli.config.yaml import dump_config
from transformer_cli.extensions.experiments.job import Job
from transformer_cli.extensions.experiments.results import read_run_state
from transformer_cli.extensions.experiments.runner import Computing
from transformer_cli.extensions.experiments.search import Trial
from transformer_cli.extensions.experiments.sweep import SweepDirectory, SweepPlan
from transformer_cli.extensions.experiments.sweep_file import load_sweep

pytest.importorskip("optuna")
SEARCH = """\
base: base.yaml
search: {model.dropout: {uniform: [0.0, 0.6]}, training.epochs: [3, 4]}
"""


def _trials(directory: Path, worker: "subprocess.Popen[bytes]") -> list[Trial]:
    worker.communicate()
    assert worker.returncode == 0
    plan = SweepPlan(
        load_sweep(directory / "sweep.yaml"), SweepDirectory(directory / "out"), Computing()
    )
    assert plan.search is not None
    return plan.search.study.trials


def _score(dropout: object) -> float:
    assert isinstance(dropout, float | int)
    return 50 - abs(dropout - 0.3) * 100 + 9


def test_a_trial_is_judged_by_the_mean_of_its_seeds_best_validations(
    directory: Path, start: Start
) -> None:
    (directory / "sweep.yaml").write_text(f"{SEARCH}seeds: 2\ntrials: 4\n")
    trials = _trials(directory, start())
    assert [trial.state for trial in trials] == ["complete"] * 4
    for number, trial in enumerate(trials, 1):
        assert trial.value == pytest.approx(_score(trial.values["model.dropout"]))
        runs = list((directory / f"out/runs/trial-{number:03}").iterdir())
        assert sorted(run.name for run in runs) == ["seed-1", "seed-2"]


@pytest.mark.long
def test_a_search_that_is_killed_goes_on_with_the_same_trials(
    directory: Path, start: Start
) -> None:
    (directory / "sweep.yaml").write_text(f"{SEARCH}trials: 5\n")
    whole = _trials(directory, start(jobs=1))
    (directory / "out").rename(directory / "whole")
    for _ in range(3):
        worker = start(jobs=1)
        time.sleep(1.2)
        worker.kill()
        worker.communicate()
    assert _trials(directory, start(jobs=1)) == whole


@pytest.mark.long
def test_a_hopeless_trial_is_stopped_and_has_no_further_seeds(
    directory: Path, start: Start
) -> None:
    (directory / "sweep.yaml").write_text(f"{SEARCH}trials: 6\nprune: median\nseeds: 2\n")
    trials = _trials(directory, start(HOPELESS="trial-006", STEP_SECONDS="0"))
    assert [trial.state for trial in trials] == ["complete"] * 5 + ["pruned"]
    assert read_run_state(directory / "out", "runs/trial-006/seed-1") == "pruned"


def test_a_failed_run_fails_its_trial(directory: Path, start: Start) -> None:
    (directory / "sweep.yaml").write_text("base: base.yaml\nsearch: {model.dropout: [0.5, 0.3]}\n")
    trials = _trials(directory, start())
    assert {trial.state for trial in trials} == {"fail", "complete"}
    (failed,) = (trial for trial in trials if trial.state == "fail")
    assert failed.why == "model.dropout: 0.5 is too much here"


def test_without_data_every_trial_fails_and_the_search_ends(directory: Path, start: Start) -> None:
    (directory / "sweep.yaml").write_text(f"{SEARCH}trials: 3\n")
    trials = _trials(directory, start(NO_DATA="1"))
    assert [trial.state for trial in trials] == ["fail"] * 3
    assert {trial.why for trial in trials} == {"no data here"}


@pytest.mark.long
def test_no_trial_is_begun_after_the_budget(directory: Path, start: Start) -> None:
    # Ten seconds a run, as it says itself; of two at a time, 12 s are spent after the third.
    (directory / "sweep.yaml").write_text(f"{SEARCH}trials: 20\nbudget: 0.2min\n")
    trials = _trials(directory, start(STEP_SECONDS="0.15"))
    assert 3 <= len(trials) <= 4


def test_a_search_that_has_ended_leaves_its_runs_to_be_scored(directory: Path) -> None:
    (directory / "sweep.yaml").write_text(f"{SEARCH}trials: 1\nevaluate: [test]\n")
    out = SweepDirectory(directory / "out")
    out.create()
    for trials in (1, 0):  # and so it is when the same command is run again
        plan = SweepPlan(load_sweep(directory / "sweep.yaml"), out, Computing())
        for _ in range(trials):
            assert plan.extend()
            assert plan.search is not None
            plan.search.end(plan.points[0], "complete", [1.0])
        assert not plan.is_complete
        assert plan.extend()
        assert plan.is_complete
        assert not plan.extend()


def test_text_that_has_changed_since_the_sweep_began_is_refused(directory: Path) -> None:
    for name in ("train", "val", "test"):
        for side in ("de", "en"):
            (directory / f"{name}.{side}").write_text("1 2\n2 1\n")
    pairs = {
        name: f"{{src: '{directory}/{name}.de', tgt: '{directory}/{name}.en'}}"
        for name in ("train", "val", "test")
    }
    (directory / "base.yaml").write_text(
        "data:\n  kind: files\n  src_lang: de\n  tgt_lang: en\n"
        f"  train: {pairs['train']}\n  val: {pairs['val']}\n  test: {{test: {pairs['test']}}}\n"
        "tokenizer: {kind: words}\n"
    )
    (directory / "sweep.yaml").write_text("base: base.yaml\nseeds: 2\nevaluate: [test]\n")
    out = SweepDirectory(directory / "out")
    out.create()

    def make_plan() -> SweepPlan:
        return SweepPlan(load_sweep(directory / "sweep.yaml"), out, Computing())

    def prepare(plan: SweepPlan) -> None:
        data = plan.runs()[0].data
        out.begin(data)
        tokenizer = out.path / data.name / "tokenizer"
        tokenizer.mkdir(parents=True, exist_ok=True)
        out.finish(data)

    prepare(make_plan())
    (directory / "train.en").write_text("1 2\n2 1\n3\n")
    plan = make_plan()
    plan.check_trained_alike()  # nothing is trained yet: the text may just have been corrected
    out.done.clear()
    assert not out.seems_done(plan.runs()[0].data)
    prepare(plan)
    run = plan.runs()[0]
    (run.directory.checkpoints / "step-00000001").mkdir(parents=True)
    run.directory.config.write_text(dump_config(run.config))
    make_plan().check_trained_alike()
    (directory / "test.en").write_text("1 2\n2 1\n4\n")  # only scored again
    make_plan().check_trained_alike()
    (directory / "train.en").write_text("1 2\n2 1\n4\n")
    with pytest.raises(ConfigError, match="out: train has changed since the sweep began"):
        make_plan().check_trained_alike()
    (directory / "train.en").unlink()  # nothing can be told of it, nor is it forgotten
    make_plan().check_trained_alike()
    (directory / "train.en").write_text("1 2\n2 1\n5\n")
    with pytest.raises(ConfigError, match="out: train has changed since the sweep began"):
        make_plan().check_trained_alike()


@pytest.mark.parametrize("changed", ["a.tsv", "more.tsv"])
def test_sources_and_added_text_that_have_changed_are_refused(
    directory: Path, changed: str
) -> None:
    for name in ("a", "more"):
        lines = (f"{name} {number}\t{number} {name}\n" for number in range(20))
        (directory / f"{name}.tsv").write_text("".join(lines))
    source = "{{tsv: '{0}/{1}.tsv', src_column: 1, tgt_column: 2}}"
    own = f"{source.format(directory, 'a')}"
    data = f"kind: corpus\n  sources: [{own}]\n  split: {{val: 2}}\n  filters: []\n"
    if changed == "more.tsv":
        pair = "{{src: '{0}/{1}.tsv', tgt: '{0}/{1}.tsv'}}".format(directory, "a")
        data = f"kind: files\n  train: {pair}\n  val: {pair}\n"
        data += f"  more: [{source.format(directory, 'more')}]\n"
    (directory / "base.yaml").write_text(
        f"data:\n  src_lang: de\n  tgt_lang: en\n  {data}tokenizer: {{kind: words}}\n"
    )
    (directory / "sweep.yaml").write_text("base: base.yaml\nseeds: 2\n")
    out = SweepDirectory(directory / "out")
    out.create()
    plan = SweepPlan(load_sweep(directory / "sweep.yaml"), out, Computing())
    run = plan.runs()[0]
    out.begin(run.data)
    (out.path / run.data.name / "tokenizer").mkdir(parents=True)
    out.finish(run.data)
    (run.directory.checkpoints / "step-00000001").mkdir(parents=True)
    run.directory.config.write_text(dump_config(run.config))
    plan.check_trained_alike()
    with (directory / changed).open("a") as file:
        file.write("new\tnew\n")
    plan = SweepPlan(load_sweep(directory / "sweep.yaml"), out, Computing())
    with pytest.raises(ConfigError, match=r"out: train has changed since the sweep"):
        plan.check_trained_alike()


def test_a_run_without_checkpoint_may_get_other_settings(directory: Path) -> None:
    (directory / "sweep.yaml").write_text("base: base.yaml\nseeds: 1\n")
    out = SweepDirectory(directory / "out")
    out.create()
    plan = SweepPlan(load_sweep(directory / "sweep.yaml"), out, Computing())
    run = plan.runs()[0]
    run.directory.path.mkdir(parents=True)
    other = run.config.model_copy(update={"seed": 7})
    run.directory.config.write_text(dump_config(other))
    plan.check_trained_alike()
    (run.directory.checkpoints / "step-00000001").mkdir(parents=True)
    with pytest.raises(ConfigError, match="trained with other settings"):
        plan.check_trained_alike()


def test_what_is_done_stays_so_where_its_inputs_are_gone(directory: Path) -> None:
    out = SweepDirectory(directory / "out")
    out.create()
    job = Job("text", dict, list)
    out.begin(job)
    out.finish(job)
    out.end(job, "failed", "a file is gone")
    record = out.read("text")
    assert out.failed == {"text": "a file is gone"}
    assert record is not None
    assert record.state == "done"


def test_all_trainings_have_the_precision_of_the_first(directory: Path) -> None:
    def choose(out: SweepDirectory, precision: PrecisionName) -> Computing:
        return Computing.choose(out, "cpu", precision, None, allow_suspect_data=False)

    out = SweepDirectory(directory / "float32")
    chosen = choose(out, "float32")
    assert chosen.precisions == {"precision": "float32", "training_precision": "float32"}
    out.create(**chosen.precisions)
    assert choose(out, "auto") == chosen
    with pytest.raises(
        UsageError, match=r"begun with --precision float32; resume it so, or .*-dir"
    ):
        choose(out, "bfloat16")
    out = SweepDirectory(directory / "auto")
    out.create(precision="auto", training_precision="bfloat16")
    assert choose(out, "auto").training_options[-1] == "bfloat16"
    with pytest.raises(UsageError, match="begun without --precision; "):
        choose(out, "float32")


def test_failures_with_a_pruned_trial_between_them_are_not_in_a_row(directory: Path) -> None:
    (directory / "sweep.yaml").write_text(f"{SEARCH}trials: 20\n")
    out = SweepDirectory(directory / "out")
    out.create()
    search = SweepPlan(load_sweep(directory / "sweep.yaml"), out, Computing()).search
    assert search is not None
    for number in range(12):
        assert search.extend()
        point = search.points[-1]
        search.end(point, "pruned" if number % 2 else "fail", why="too much")
    for _ in range(5):
        assert search.extend()
        search.end(search.points[-1], "fail", why="too much")
    with pytest.raises(RunError, match="the last 5 trials have all failed"):
        search.extend()


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("{model.dropout: {uniform: [0.1, 1.5]}}", "expected at most 0.9, found 1.5"),
        ("{model.dropot: [0.1, 0.2]}", "unknown key; did you mean 'dropout'?"),
    ],
)
def test_the_ends_of_ranges_have_to_be_valid(directory: Path, search: str, message: str) -> None:
    (directory / "sweep.yaml").write_text(f"base: base.yaml\nsearch: {search}\n")
    with pytest.raises(ConfigError, match=f"sweep.yaml:2: model.*{message.split('?')[0]}"):
        load_sweep(directory / "sweep.yaml")
