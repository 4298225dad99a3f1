"""``init --for documents``: a config whose placeholders are protected."""

from pathlib import Path

import pytest
from cli.process import assert_refused, run
from cli.test_init_command import TOY

from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.constraints.settings import find_protect
from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS

OWN = ("--from", "own", "--src", str(TOY / "train.de"), "--tgt", str(TOY / "train.en"))


@pytest.mark.parametrize(("option", "protected"), [(("--for", "documents"), [*GROUPS]), ((), [])])
def test_placeholders_are_protected_if_it_is_for_documents(
    tmp_path: Path, option: tuple[str, ...], protected: list[str]
) -> None:
    assert run("init", *OWN, *option, cwd=tmp_path).code == 0
    config = load_config(tmp_path / "configs" / "own_de_en.yaml")
    assert find_protect(config.tokenizer) == protected


def test_samples_are_for_what_they_are_for(tmp_path: Path) -> None:
    refused = run("init", "--from", "toy", "--for", "documents", cwd=tmp_path)
    assert_refused(refused, 2, "--for documents: works with --from own and opus only")
