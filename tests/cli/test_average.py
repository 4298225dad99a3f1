import json
from pathlib import Path

from cli.process import assert_refused, run


def test_an_average_is_evaluated_and_translated_with_like_any_checkpoint(own_run: Path) -> None:
    finished = run("average", own_run, "--last", "2")
    assert (finished.code, finished.err) == (0, "")
    path = own_run / "checkpoints" / "average"
    assert finished.out == f"{path}: the average of step-00000050, step-00000060\n"
    for which in ("average", "best", "last", path):
        report = run("evaluate", own_run, "--checkpoint", which, "--json")
        assert report.code == 0
        assert json.loads(report.out)["sentences"] == 20
        translated = run("translate", own_run, "--checkpoint", which, stdin=b"s1 s2 s3\n")
        assert translated.code == 0
        assert translated.out.count("\n") == 1


def test_all_checkpoints_are_averaged_unless_a_number_is_given(own_run: Path) -> None:
    finished = run("average", own_run)
    assert (finished.code, finished.err) == (0, "")
    there = sorted(path.name for path in (own_run / "checkpoints").glob("step-*"))
    assert finished.out.endswith(f": the average of {', '.join(there)}\n")


def test_an_average_is_of_no_step(own_run: Path) -> None:
    assert run("average", own_run, "--last", "2").code == 0
    values = json.loads(run("evaluate", own_run, "--checkpoint", "average", "--json").out)
    assert values["checkpoint"] == str(own_run / "checkpoints" / "average")
    assert values["step"] is None
    table = run("evaluate", own_run, "--checkpoint", "average").out
    assert table.startswith("test: 20 sentences, greedy, average\n")


def test_training_goes_on_beside_an_average(own_run: Path) -> None:
    assert run("average", own_run, "--last", "2").code == 0
    config = own_run / "config.yaml"
    longer = ("--set", "training.epochs=13")
    finished = run("train", config, "--run-dir", own_run, *longer)
    assert finished.code == 0
    assert "trained 65 steps" in finished.out
    assert (own_run / "checkpoints" / "average").is_dir()


def test_mistakes_are_one_line(own_run: Path, tmp_path: Path) -> None:
    assert_refused(run("average", own_run, "--last", "50"), 2, " 50 ", "training.keep_last=50")
    assert_refused(run("average", own_run, "--last", "0"), 2, "--last")
    assert_refused(run("average", tmp_path / "none"), 2, "not a run directory")
    assert not (tmp_path / "none").exists()
    assert_refused(
        run("evaluate", own_run, "--checkpoint", "average"),
        2,
        "no average yet",
        f"run: transformer-cli average {own_run}",
    )


def test_of_a_run_without_checkpoints_there_is_no_average(config: Path) -> None:
    directory = config.parent / "run"
    assert run("vocab", config, "--run-dir", directory).code == 0
    for options in ((), ("--last", "2")):
        assert_refused(
            run("average", directory, *options),
            1,
            f"{directory}/checkpoints: no checkpoint yet; train first",
        )
