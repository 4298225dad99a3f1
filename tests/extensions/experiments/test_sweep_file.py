"""A sweep file: its content, and each mistake as one line with its place."""

import re
from pathlib import Path

import pytest
from copied_text import DATA

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.setting_tree import values
from transformer_cli.extensions.experiments.sweep_file import Sweep, load_sweep

BASE = (
    f"data: {DATA}\n"
    + """\
tokenizer: {kind: words, min_freq: 1}
"""
)


def _load(directory: Path, text: str) -> list[dict[str, object]]:
    points = _sweep(directory, text).points
    return [{key: values(node) for key, node in point.nodes.items()} for point in points]


def _sweep(directory: Path, text: str) -> Sweep:
    (directory / "base.yaml").write_text(BASE)
    (directory / "sweep.yaml").write_text(text)
    return load_sweep(directory / "sweep.yaml")


def test_a_grid_has_every_combination(tmp_path: Path) -> None:
    points = _load(
        tmp_path, "base: base.yaml\ngrid: {model.dropout: [0.1, 0.2], training.epochs: [3, 4, 5]}\n"
    )
    assert points == [
        {"model.dropout": dropout, "training.epochs": epochs}
        for dropout in (0.1, 0.2)
        for epochs in (3, 4, 5)
    ]


def test_points_may_be_listed(tmp_path: Path) -> None:
    points = "[{model.dropout: 0.2}, {training.epochs: 3, model.d_ff: 8}]"
    text = f"base: base.yaml\npoints: {points}\n"
    assert _load(tmp_path, text) == [
        {"model.dropout": 0.2},
        {"training.epochs": 3, "model.d_ff": 8},
    ]
    names = [point.name for point in _sweep(tmp_path, text).points]
    assert names == ["dropout=0.2", "epochs=3,d_ff=8"]


def test_names_are_values_by_the_shortest_keys_that_differ(tmp_path: Path) -> None:
    sweep = _sweep(
        tmp_path,
        "base: base.yaml\n"
        "grid:\n"
        "  training.schedule: [{kind: noam, warmup: 10}]\n"
        "  model.dropout: [0.25, 1e-3]\n",
    )
    assert [point.name for point in sweep.points] == [
        "schedule=kind-noam-warmup-10,dropout=0.25",
        "schedule=kind-noam-warmup-10,dropout=0.001",
    ]


def test_keys_with_one_last_part_are_named_in_full(tmp_path: Path) -> None:
    sweep = _sweep(
        tmp_path, "base: base.yaml\ngrid: {decoding.batch_tokens: [9], training.batch_tokens: [7]}"
    )
    assert [point.name for point in sweep.points] == [
        "decoding.batch_tokens=9,training.batch_tokens=7"
    ]


def test_points_without_names_of_their_own_keep_them_in_a_larger_grid(tmp_path: Path) -> None:
    sections = [
        f"{{epochs: {epochs}, batch_tokens: 1000, label_smoothing: 0.25, max_length: 100, "
        "accumulate: 2, clip_norm: 0.5, keep_last: 3}"
        for epochs in (3, 4, 5)
    ]
    text = "base: base.yaml\ngrid: {training: [%s]}\n"
    few = _sweep(tmp_path, text % ", ".join(sections[1:])).points
    more = _sweep(tmp_path, text % ", ".join(sections)).points
    assert [point.name for point in few] == [point.name for point in more[1:]]
    assert all(re.fullmatch("point-[0-9a-f]{8}", point.name) for point in more)


def test_without_a_grid_the_base_is_the_only_point(tmp_path: Path) -> None:
    sweep = _sweep(tmp_path, "base: base.yaml\nseeds: 5\n")
    assert [point.name for point in sweep.points] == ["base"]
    assert sweep.settings.seeds == 5


def test_a_point_changes_the_base(tmp_path: Path) -> None:
    sweep = _sweep(tmp_path, "base: base.yaml\ngrid: {model.dropout: [0.3]}\n")
    assert sweep.config_of(sweep.points[0]).model.dropout == 0.3
    assert sweep.points[0].options == ["--set", "model.dropout=0.3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "base: base.yaml\nseeds: 2\ngrid:\n  model.dropot: [0.1]\n",
            "sweep.yaml:4: model.dropot: unknown key; did you mean 'dropout'?",
        ),
        (
            "base: base.yaml\ngrid:\n  model.dropout: [0.1,\n    1.5]\n",
            "sweep.yaml:4: model.dropout: expected at most 0.9, found 1.5",
        ),
        ("base: base.yaml\nsedes: 2\n", "sweep.yaml:2: sedes: unknown key; did you mean 'seeds'?"),
        ("base: base.yaml\nseeds: 0\n", "sweep.yaml:2: seeds: expected more than 0, found 0"),
        (
            "base: base.yaml\ngrid: {model.dropout: 0.1}\n",
            "sweep.yaml:2: grid.'model.dropout': expected a list, found 0.1",
        ),
        ("base: no.yaml\n", "sweep.yaml:1: base: there is no file "),
        (
            "base: base.yaml\npoints: [{seed: 1}, {}]\n",
            "sweep.yaml:2: points[1]: changes no setting; add one, or leave it out",
        ),
        ("seeds: 2\n", "sweep.yaml: base: missing"),
        (
            "base: base.yaml\ngrid: {seed: [1, 2]}\n",
            "sweep.yaml:2: seed: every point uses the same seeds; set their number with seeds",
        ),
        (
            "base: base.yaml\nevaluate: [test, tset]\n",
            "sweep.yaml:2: evaluate[1]: data.kind files has no split 'tset'; did you mean 'test'?",
        ),
        (
            "base: base.yaml\ngrid: {model.dropout: [0.1]}\npoints: [{model.d_ff: 8}]\n",
            "sweep.yaml:3: points: a sweep has either a grid or points; leave one of them out",
        ),
        (
            "base: base.yaml\ngrid: {training.epochs: [3, 3.0]}\n",
            "sweep.yaml:2: 'training.epochs': 3 occurs twice; leave one out",
        ),
        (
            "base: base.yaml\ngrid: {model: [{d_ff: 8}], model.d_ff: [8]}\n",
            "sweep.yaml:2: model.d_ff: is part of model, which also varies; leave one out",
        ),
        (
            "base: base.yaml\npoints:\n- {model.d_ff: 8}\n- {model.d_ff: 8}\n",
            "sweep.yaml:4: points[1]: occurs twice; leave one out",
        ),
        ("base: ''\n", "sweep.yaml:1: base: expected the path of a YAML file"),
        (
            "base: base.yaml\npoints: [{seed: 3}]\n",
            "sweep.yaml:2: seed: every point uses the same seeds; set their number with seeds",
        ),
        (
            "base: base.yaml\ngrid: {model.d_ff: []}\n",
            "sweep.yaml:2: grid.'model.d_ff': expected a list of at least 1, found a list of 0",
        ),
        (
            "base: base.yaml\nmodel: {dropout: 0.1}\n",
            "sweep.yaml: is a config; write a file with base: sweep.yaml, and grid",
        ),
        ("", "sweep.yaml: the file is empty; it needs at least base"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
