"""The JSON Schema: what we ship fits it, what is wrong does not. And the page of all settings."""

import json
from pathlib import Path

import jsonschema
import pytest
from cli.process import Finished, run
from installed import is_whole

from docs.settings import PAGE, core_settings, renew
from transformer_cli.cli.init import find_configs
from transformer_cli.config.schema import Config, NoamSchedule
from transformer_cli.config.setting_tree import parse, values
from transformer_cli.config.yaml import dump_config, load_config
from transformer_cli.extensions.config_tools.json_schema import schema_text

_ROOT = Path(__file__).parents[3]
_SHIPPED = list(find_configs().values())
_SCHEMA = json.loads(schema_text())
_PAGE = PAGE.read_text(encoding="utf-8")
_REQUIRED = "data: {kind: toy}\ntokenizer: {kind: words}\n"

of_all = pytest.mark.skipif(not is_whole(), reason="it has the settings of all extensions")


def fits(text: str) -> bool:
    content = values(parse(text, "x.yaml"))
    return bool(jsonschema.Draft7Validator(_SCHEMA).is_valid(content))


def test_it_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(_SCHEMA)


@of_all
def test_the_shipped_one_is_up_to_date() -> None:
    """Or: transformer-cli config schema > configs/schema.json."""
    # As values: the order of keys is pydantic's, which changes with its version.
    shipped = json.loads((_ROOT / "configs" / "schema.json").read_text(encoding="utf-8"))
    assert shipped == _SCHEMA


def test_the_reference_is_up_to_date() -> None:
    """Or: python -m docs.settings."""
    for path, page in renew().items():
        assert page == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", _SHIPPED, ids=lambda path: path.name)
def test_shipped_files_fit_with_their_base_and_resolved(path: Path) -> None:
    assert fits(path.read_text(encoding="utf-8"))
    assert fits(dump_config(load_config(path)))


@pytest.mark.parametrize(
    "text",
    [
        "seed: 1e4",
        "init: ~/runs/x",
        "training: {betas: [0, 0.5], clip_norm: null, schedule: {kind: constant, peak: 1}}",
        "model: {dropout: 0, norm: post}",
    ],
)
def test_what_is_right(text: str) -> None:
    assert fits(_REQUIRED + text)


@pytest.mark.parametrize(
    "text",
    [
        "sed: 1",
        "seed: '1'",
        "seed: -1",
        "seed: 1.5",
        "base: 3",
        "model: {d_modle: 3}",
        "model: {norm: Pre}",
        "model: {dropout: 1}",
        "model: null",
        "training: {schedule: {kind: linaer, peak: 1, warmup: 1}}",
        "training: {schedule: {kind: linear, peak: 1, warmup: 1, factor: 2}}",
        "training: {schedule: {kind: linear, peak: 1}}",
        "training: {schedule: {peak: 1, warmup: 1}}",
        "training: {betas: [0.9]}",
        "training: {betas: [0.9, 0.9, 0.9]}",
        "training: {ema_decay: 1}",
    ],
)
def test_what_is_wrong(text: str) -> None:
    assert not fits(_REQUIRED + text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "data: {kind: toy}",
        "data: {kind: toy}\ntokenizer: {min_freq: 1}",
        "data: {kind: words}\ntokenizer: {kind: words}",
        "data: {kind: files, src_lang: de, tgt_lang: en}\ntokenizer: {kind: words}",
        "data: {kind: toy, more: [{src: a}]}\ntokenizer: {kind: words}",
    ],
)
def test_what_is_not_enough(text: str) -> None:
    assert not fits(f"seed: 1\n{text}")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("training: {schedule: {warmup: 3}}", True),
        ("data: {train: {src: a}}", True),
        ("data: {test: {news: {src: a}}}", True),
        ("training: {schedule: {warm: 3}}", False),
        ("data: {train: {source: a}}", False),
        # Lists are not merged, so theirs are whole.
        ("data: {more: [{src: a}]}", False),
    ],
)
def test_a_base_may_say_the_rest(text: str, right: bool) -> None:
    assert fits(f"base: x.yaml\n{text}") is right


def test_it_tells_people_what_a_setting_is() -> None:
    training = _SCHEMA["properties"]["training"]
    assert training["title"] == "training"
    assert training["properties"]["batch_tokens"] == {
        "title": "training.batch_tokens",
        "default": 4096,
        "description": "maximum tokens per side in a batch, including padding",
        "exclusiveMaximum": 2**31,
        "exclusiveMinimum": 0,
        "type": "integer",
    }
    kinds = training["properties"]["schedule"]["anyOf"]
    assert [kind["properties"]["kind"]["const"] for kind in kinds][:2] == ["noam", "constant"]
    assert kinds[1]["properties"]["peak"]["title"] == "training.schedule.peak"
    assert kinds[1]["description"] == "A linear rise over the warm-up, then constant at `peak`."


def test_its_defaults_are_the_programs() -> None:
    config = Config.model_validate({"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}})
    for section, settings in config.model_dump(mode="json").items():
        part = _SCHEMA["properties"][section]
        if "anyOf" in part:
            (part,) = [each for each in part["anyOf"] if _kind(each) == settings["kind"]]
        if "properties" in part:
            for key, default in settings.items():
                if key != "kind":
                    assert part["properties"][key]["default"] == default, f"{section}.{key}"


def _kind(part: dict[str, dict[str, dict[str, str]]]) -> str:
    return part["properties"]["kind"]["const"]


def test_the_reference_has_every_setting() -> None:
    page = core_settings()
    config = Config.model_validate({"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}})
    for section in config.model_dump().values():
        if isinstance(section, dict):
            for key in section.keys() - {"kind"}:
                assert f"\n| `{key}` | " in page
    for row in (
        "| `val.tgt` | path | required | validation pairs: path of the target",
        "| `dropout` | number, 0 to 0.9 | `0.1` | dropout rate of embeddings",
        "| `ema_decay` | number, more than 0 and less than 1 | `null` | decay of",
        "| `norm` | `pre` or `post` | `pre` | ",
        "| `warmup` | integer, at least 1 | required | optimizer steps of linear warm-up |",
    ):
        assert f"\n{row}" in page
    assert "\n#### training.schedule: kind cosine\n" in page


@pytest.mark.posix
def test_the_references_example_is_one(tmp_path: Path) -> None:
    (tmp_path / "configs").symlink_to(_ROOT / "configs")
    lines = _PAGE.partition("    # mine.yaml\n")[2].partition("\n\n")[0].splitlines()
    example = tmp_path / "mine.yaml"
    example.write_text("\n".join(line.removeprefix("    ") for line in lines))
    training = load_config(example).training
    assert (training.epochs, training.batch_tokens) == (30, 2048)
    assert isinstance(training.schedule, NoamSchedule)
    assert training.schedule.factor == 2.0


def test_schema_is_printed() -> None:
    assert run("config", "schema") == Finished(0, schema_text(), "")
    assert json.loads(schema_text())["additionalProperties"] is False
