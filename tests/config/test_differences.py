"""The settings that differ between configs."""

from typing import Any

from transformer_cli.config.differences import Difference, differences, iter_differing
from transformer_cli.config.schema import Config


def _config(**sections: Any) -> Config:
    required = {"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}}
    return Config.model_validate({**required, **sections})


def test_equal_configurations_have_none() -> None:
    assert differences(_config(), _config(seed=1)) == []


def test_leaves_are_named_in_the_schemas_order() -> None:
    new = _config(
        decoding={"beam_size": 4},
        training={"betas": (0.9, 0.99), "patience": 3},
        model={"d_model": 64},
        seed=2,
    )
    assert differences(_config(), new) == [
        Difference("seed", 1, 2),
        Difference("model.d_model", 256, 64),
        Difference("training.betas", [0.9, 0.98], [0.9, 0.99]),
        Difference("training.patience", None, 3),
        Difference("decoding.beam_size", 1, 4),
    ]


def test_keys_that_only_one_kind_has_are_none_on_the_other_side() -> None:
    old = _config(training={"schedule": {"kind": "noam", "factor": 2.0, "warmup": 400}})
    new = _config(training={"schedule": {"kind": "cosine", "peak": 1e-3, "warmup": 400}})
    assert differences(old, new) == [
        Difference("training.schedule.kind", "noam", "cosine"),
        Difference("training.schedule.factor", 2.0, None),
        Difference("training.schedule.peak", None, 1e-3),
    ]


def test_sections_that_only_one_kind_has_are_told_leaf_by_leaf() -> None:
    pair = {"src": "/a", "tgt": "/b"}
    files = {"kind": "files", "src_lang": "de", "tgt_lang": "en", "train": pair, "val": pair}
    old = _config(data=files)
    new = _config(data={**files, "test": {"2016": pair, "a.b": pair}})
    assert differences(old, new) == [
        Difference("data.test.2016.src", None, "/a"),
        Difference("data.test.2016.tgt", None, "/b"),
        Difference("data.test.'a.b'.src", None, "/a"),
        Difference("data.test.'a.b'.tgt", None, "/b"),
    ]
    assert Difference("data.train.src", "/a", None) in differences(old, _config())


# --- of several -----------------------------------------------------------------------------------


def test_only_what_is_not_the_same_in_all_is_listed_with_a_value_for_each() -> None:
    configs = [
        _config(),
        _config(model={"d_model": 64}),
        _config(model={"d_model": 64}, training={"patience": 3}),
    ]
    assert list(iter_differing(configs)) == [
        (("model", "d_model"), [256, 64, 64]),
        (("training", "patience"), [None, None, 3]),
    ]


def test_sections_that_some_have_are_told_leaf_by_leaf() -> None:
    noam = _config(training={"schedule": {"kind": "noam", "factor": 2.0, "warmup": 400}})
    cosine = _config(training={"schedule": {"kind": "cosine", "peak": 1e-3, "warmup": 400}})
    schedule = ("training", "schedule")
    assert list(iter_differing([noam, cosine, noam])) == [
        ((*schedule, "kind"), ["noam", "cosine", "noam"]),
        ((*schedule, "factor"), [2.0, None, 2.0]),
        ((*schedule, "peak"), [None, 1e-3, None]),
    ]


def test_nothing_differs_from_itself() -> None:
    assert not list(iter_differing([_config(seed=5)] * 3))
    assert not list(iter_differing([_config()]))
