import pytest

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.setting_tree import parse
from transformer_cli.extensions.experiments.sweep_file import Space, read_space


def space_of(text: str) -> Space:
    return read_space(parse(text, "sweep.yaml"))


def test_choices_and_ranges_are_read() -> None:
    space = space_of(
        "training.schedule.peak: {log: [5e-4, 5e-3]}\n"
        "model.d_ff: [512, 1024]\n"
        "model.dropout: {uniform: [0, 0.4]}\n"
        "training.schedule.warmup: {int: [100, 1e3]}\n"
        "training.epochs: {int_log: [1, 64]}\n"
    )
    assert {key: each.describe() for key, each in space.items()} == {
        "training.schedule.peak": "{log: [0.0005, 0.005]}",
        "model.d_ff": "[512, 1024]",
        "model.dropout": "{uniform: [0.0, 0.4]}",
        "training.schedule.warmup": "{int: [100, 1000]}",
        "training.epochs": "{int_log: [1, 64]}",
    }
    assert [each.place.line for each in space.values()] == [1, 2, 3, 4, 5]


def test_what_has_to_fit_the_schema_comes_with_its_line() -> None:
    space = space_of("model.d_ff: [512, 1024]\nmodel.dropout: {uniform: [0, 1.5]}")
    limits = {key: (each.limits, each.place.line) for key, each in space.items()}
    assert limits == {"model.d_ff": ((512, 1024), 1), "model.dropout": ((0.0, 1.5), 2)}


def test_a_choice_may_be_anything_that_yaml_has() -> None:
    space = space_of(
        "training.betas: [[0.9, 0.98], [0.9, 0.999]]\n"
        "training.schedule: [{kind: noam}, {kind: constant, peak: 1e-3}]\n"
        "model.tie: [null, true, 1, '1', ö]\n"
    )
    labels = space["model.tie"].records
    assert labels == ["null", "true", "1", '"1"', '"ö"']
    assert [space["model.tie"].decode(label) for label in labels] == [None, True, 1, "1", "ö"]
    betas, schedules = (space[f"training.{key}"] for key in ("betas", "schedule"))
    assert betas.decode(betas.labels[1]) == [0.9, 0.999]
    assert schedules.decode(schedules.labels[1]) == {"kind": "constant", "peak": 0.001}


def test_numbers_are_rounded_within_their_range() -> None:
    space = space_of("a: {log: [1.23444e-4, 9.87656e-4]}\nb: {uniform: [0, 0.4]}\nc: {int: [1, 9]}")
    assert [space["a"].record(3.333333e-4), space["b"].record(0.123456789)] == [3.333e-4, 0.1235]
    assert space["c"].record(5) == 5
    # Where rounding leads out of the range, the end of the range comes.
    assert space["a"].record(1.234441e-4) == 1.23444e-4
    assert space["a"].record(9.876559e-4) == 9.87656e-4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\na.b: 3", "sweep.yaml:2: search.a.b: expected a list of choices, or a range as in"),
        ("a: {log: [1, 2], int: [1, 2]}", ":1: search.a: expected a list of choices, or a range"),
        ("a: {}", ":1: search.a: expected a list of choices"),
        ("a: []", ":1: search.a: expected two choices or more, found 0; what is fixed belongs"),
        ("a: [512]", ":1: search.a: expected two choices or more, found 1; "),
        ("a: [512, 1024, 512.0]", ":1: search.a: 512 is there twice; keep one"),
        ("a: {lgo: [1, 2]}", "search.a: unknown distribution 'lgo'; did you mean 'log'?"),
        (
            "model: {dropout: {uniform: [0, 1]}}",
            "search.model: unknown distribution 'dropout'; it is one of uniform, log, int, int_log;"
            " a setting is one key with dots, as in model.dropout",
        ),
        ("a: {log: 3}", ":1: search.a.log: expected two numbers, found 3"),
        ("a: {log: [1, 2, 3]}", "search.a.log: expected two numbers, found a list of 3"),
        ("a: {uniform: [false, true]}", "search.a.uniform: expected two numbers, found a list of"),
        ("a: {uniform: [0, 1e400]}", "search.a.uniform: expected two numbers"),
        ("a: {int: [0, 1e30]}", "search.a.int: expected two numbers"),
        ("a: {int: [1, 2.5]}", "search.a.int: expected whole numbers, found [1, 2.5]"),
        ("a: {uniform: [1, 1]}", "search.a.uniform: expected [A, B] with A less than B, found [1"),
        ("a: {int: [9, 1]}", "search.a.int: expected [A, B] with A less than B, found [9, 1]"),
        ("a: {log: [0, 1]}", "search.a.log: has no logarithm at 0; begin with more than 0"),
        ("a: {int_log: [-1, 1]}", "search.a.int_log: has no logarithm at -1; begin with more"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        space_of(text)
    assert message in str(error.value)
    assert str(error.value).startswith("sweep.yaml:")
    assert "\n" not in str(error.value)
