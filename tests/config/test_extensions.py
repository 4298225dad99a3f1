"""Kinds of sections and keys that extensions add to the settings."""

import json
import sys
from types import ModuleType
from typing import Any, Literal

import pytest

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError
from transformer_cli.config.data_schema import DataSection
from transformer_cli.config.differences import differences
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Section, setting
from transformer_cli.config.setting_tree import parse
from transformer_cli.config.tokenizer_schema import TokenizerSection, WordsConfig
from transformer_cli.config.validation import validate_as
from transformer_cli.config.yaml import dump_config


class Riddles(DataSection):
    """Riddles and their answers."""

    kind: Literal["riddles"]
    depth: int = setting(3, "how deep")


class Shouting(Section):
    """Adds keys to tokenizers; the manifest does not have to name the keys."""

    shout: int = setting(0, "exclamation marks behind each line")
    echo: int = setting(0, "how often each line is repeated")

    def check_with(self, config: Any) -> None:
        """Check that short lines do not shout."""
        super().check_with(config)
        if config.training.max_length < self.shout:
            raise ValueError("tokenizer.shout: louder than lines are long")


def shout(tokenizer: TokenizerSection) -> int:
    """Read the key as an extension does."""
    return tokenizer.shout if isinstance(tokenizer, Shouting) else 0


@pytest.fixture
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install an extension with a kind of data, and a key of words tokenizers."""
    manifest, settings = ModuleType("loud.manifest"), ModuleType("loud.settings")
    vars(settings).update(Riddles=Riddles, Shouting=Shouting)
    manifest.provides = {  # type: ignore[attr-defined]
        "corpus": {"riddles": {"settings": "settings:Riddles"}},
        "tokenizer settings": {"shout": {"load": "settings:Shouting", "kinds": ("words",)}},
    }
    monkeypatch.setitem(sys.modules, "loud", ModuleType("loud"))
    monkeypatch.setitem(sys.modules, "loud.settings", settings)
    monkeypatch.setattr(registry, "_shipped", lambda: {"loud": manifest})


RIDDLES = "data: {kind: riddles, src_lang: de, tgt_lang: en, depth: 5}\n"
TOY = "data: {kind: toy}\n"


def validate(text: str) -> Config:
    return validate_as(Config, parse(text, "x.yaml"))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        validate(text)
    return str(refused.value)


@pytest.mark.usefixtures("loud")
def test_a_section_of_an_added_kind_is_read_and_written() -> None:
    config = validate(RIDDLES + "tokenizer: {kind: words}\n")
    assert config.data == Riddles(kind="riddles", src_lang="de", tgt_lang="en", depth=5)
    assert validate(dump_config(config)) == config


@pytest.mark.usefixtures("loud")
def test_an_added_key_is_read_and_written() -> None:
    config = validate(TOY + "tokenizer: {kind: words, shout: 2}\n")
    assert isinstance(config.tokenizer, WordsConfig)
    assert shout(config.tokenizer) == 2
    assert "shout: 2" in dump_config(config)
    assert validate(dump_config(config)) == config


@pytest.mark.usefixtures("loud")
def test_a_class_may_add_several_keys() -> None:
    plain, echoing, both = (
        validate(f"{TOY}tokenizer: {{kind: words{keys}}}\n")
        for keys in ("", ", shout: 0, echo: 2", ", shout: 3, echo: 2")
    )
    assert type(echoing.tokenizer) is type(both.tokenizer) is not type(plain.tokenizer)
    assert shout(both.tokenizer) == 3
    assert [each.key for each in differences(plain, echoing)] == ["tokenizer.echo"]
    assert [each.key for each in differences(echoing, both)] == ["tokenizer.shout"]


@pytest.mark.usefixtures("loud")
def test_a_default_is_not_recorded_whether_or_not_it_is_written() -> None:
    written = validate(TOY + "tokenizer: {kind: words, shout: 0}\n")
    left_out = validate(TOY + "tokenizer: {kind: words}\n")
    assert written == left_out
    assert "shout" not in dump_config(written)
    assert not isinstance(written.tokenizer, Shouting)
    loud = validate(TOY + "tokenizer: {kind: words, shout: 1}\n")
    assert [str(each) for each in differences(written, loud)] == ["tokenizer.shout was 0, now 1"]
    assert loud.fingerprint() != written.fingerprint() == left_out.fingerprint()


@pytest.mark.usefixtures("loud")
def test_mistakes_in_added_sections_and_keys_name_their_place() -> None:
    assert refusal("data: {kind: riddles, src_lang: de, tgt_lang: en,\n  dept: 1}\n") == (
        "x.yaml:2: data.dept: unknown key for kind 'riddles'; did you mean 'depth'?"
    )
    words = TOY + "tokenizer:\n  kind: words\n"
    assert refusal(words + "  shout: much\n").startswith(
        "x.yaml:4: tokenizer.shout: expected an integer, found the text 'much'"
    )
    assert "did you mean 'shout'?" in refusal(words + "  shoud: 2\n")
    assert refusal(words + "  shout: 300\n") == (
        "x.yaml:4: tokenizer.shout: louder than lines are long"
    )
    other = TOY + "tokenizer:\n  kind: sentencepiece\n  shout: 2\n"
    assert refusal(other).startswith("x.yaml:4: tokenizer.shout: unknown key for kind")


@pytest.mark.usefixtures("loud")
def test_the_json_schema_has_what_is_installed() -> None:
    text = json.dumps(Config.model_json_schema())
    assert '"riddles"' in text
    assert text.count('"shout"') == 1


def test_what_is_not_installed_is_named_in_one_line() -> None:
    assert refusal(RIDDLES + "tokenizer: {kind: words}\n").startswith(
        "x.yaml:1: data.kind: expected 'toy'"
    )
    assert refusal(TOY + "tokenizer: {kind: words, shout: 2}\n").startswith(
        "x.yaml:2: tokenizer.shout: unknown key for kind 'words'"
    )


def test_a_broken_class_of_another_package_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = ModuleType("broken.manifest")
    manifest.provides = {  # type: ignore[attr-defined]
        "tokenizer settings": {"whisper": {"load": "settings:Whispering"}},
    }
    others = {"broken": manifest}
    monkeypatch.setattr(registry, "_others", lambda: others)
    for key in ("min_freqs", "whisper"):  # neither is there
        assert f":2: tokenizer.{key}: unknown key" in refusal(
            f"{TOY}tokenizer: {{kind: words, {key}: 1}}\n"
        )
    warning = (
        "warning: extension broken is left out: ModuleNotFoundError: No module named 'broken'\n"
    )
    assert capsys.readouterr().err == warning
