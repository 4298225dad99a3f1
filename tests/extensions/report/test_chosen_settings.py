from transformer_cli.config.schema import Config
from transformer_cli.extensions.config_tools.origins import Origins, Written
from transformer_cli.extensions.report.run_page import Setting, chosen_settings

CONFIG = Config.model_validate(
    {
        "data": {"kind": "toy"},
        "tokenizer": {"kind": "words", "min_freq": 3},
        "model": {"d_model": 64},
        "training": {"betas": [0.9, 0.99], "schedule": {"kind": "constant", "peak": 0.01}},
    }
)


def test_settings_that_are_no_defaults_are_told() -> None:
    told = {each.key: (each.value, each.instead_of) for each in chosen_settings(CONFIG, {})}
    assert told == {
        "data.kind": ("toy", None),
        "tokenizer.kind": ("words", None),
        "tokenizer.min_freq": (3, 2),
        "model.d_model": (64, 256),
        "training.schedule.kind": ("constant", None),
        "training.schedule.peak": (0.01, None),
        "training.betas": ([0.9, 0.99], [0.9, 0.98]),
    }


def test_what_a_base_has_said_counts_for_more_than_the_default() -> None:
    origins: Origins = {
        "model.d_model": (Written(64, "my.yaml", 7), Written(128, "base.yaml", 3)),
        # As in the schema, but not as in the base.
        "seed": (Written(1, "--set", 0), Written(2, "base.yaml", 1)),
        # As in the base, which has chosen it.
        "tokenizer.min_freq": (Written(3, "my.yaml", 4), Written(3, "base.yaml", 9)),
    }
    told = {each.key: each for each in chosen_settings(CONFIG, origins)}
    assert told["model.d_model"] == Setting(
        "model.d_model", 64, 128, False, "my.yaml:7", "base.yaml:3"
    )
    assert told["seed"] == Setting("seed", 1, 2, False, "--set", "base.yaml:1")
    assert told["tokenizer.min_freq"] == Setting(
        "tokenizer.min_freq", 3, 2, False, "my.yaml:4", None
    )
    assert told["data.kind"] == Setting("data.kind", "toy", None, True, None, None)


def test_a_section_that_nobody_has_written_is_not_told() -> None:
    config = Config.model_validate({"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}})
    assert [each.key for each in chosen_settings(config, {})] == ["data.kind", "tokenizer.kind"]


def test_splits_are_told_one_by_one() -> None:
    pair = {"src": "/a", "tgt": "/b"}
    data = {"kind": "files", "src_lang": "de", "tgt_lang": "en", "train": pair, "val": pair}
    config = Config.model_validate(
        {"data": {**data, "test": {"mine": pair}}, "tokenizer": {"kind": "words"}}
    )
    told = {each.key: each.value for each in chosen_settings(config, {})}
    assert (told["data.test.mine.src"], told["data.test.mine.tgt"]) == ("/a", "/b")
    assert "data.test" not in told


def test_a_source_is_told_without_its_defaults() -> None:
    data = {
        "kind": "corpus",
        "src_lang": "de",
        "tgt_lang": "en",
        "sources": [{"src": "/a", "tgt": "/b"}],
        "val": {"tsv": "/v.tsv", "src_column": 1, "tgt_column": "en"},
        "test": {"news": {"po": "/n.po"}},
    }
    config = Config.model_validate({"data": data, "tokenizer": {"kind": "words"}})
    told = {each.key: each.value for each in chosen_settings(config, {})}
    assert told["data.sources"] == [{"src": "/a", "tgt": "/b"}]
    assert {
        key: value for key, value in told.items() if key.startswith(("data.val", "data.test"))
    } == {
        "data.val.tsv": "/v.tsv",
        "data.val.src_column": 1,
        "data.val.tgt_column": "en",
        "data.test.news.po": "/n.po",
    }
