"""A trained model in a directory of its own, as it is shared on the Hugging Face Hub.

It holds

- ``config.json``: what kind of model this is, the settings of its run, and the SHA-256 of the
  weights and of tokenizer.json, which has those of the tokenizers' other files,
- ``model.safetensors``: the weights,
- ``tokenizer/``: the tokenizers, as in a run,
- ``README.md``: the model card, for people.

Whatever else lies there, Git's files say, is of no concern.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import Place, values
from transformer_cli.config.validation import validate
from transformer_cli.config.yaml_parser import parse
from transformer_cli.errors import RunError

CONFIG, CARD, TOKENIZER = "config.json", "README.md", "tokenizer"
MODEL_TYPE: Literal["transformer-cli"] = "transformer-cli"
WEIGHTS_SUM, TOKENIZER_SUM = "model.safetensors", "tokenizer/tokenizer.json"
_POINTER = b"version https://git-lfs.github.com/spec/"


class Sums(BaseModel):
    """SHA-256 of the files that the others hang on."""

    model_config = ConfigDict(strict=True)

    weights: str
    tokenizer: str


class Description(BaseModel):
    """What config.json says apart from the settings; other programs may add to it."""

    model_config = ConfigDict(strict=True)

    model_type: Literal["transformer-cli"]
    format: Literal[1]
    sha256: Sums


def read_description(directory: Path) -> tuple[Description, Config]:
    """Read config.json: what the model is, and its run's settings.

    Raises:
        RunError: it is not a model's of ours, or files are not there yet.
        ConfigError: the settings are none that a run can have; the message names the line.
    """
    _check_no_lfs_pointers(directory)
    path = directory / CONFIG
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read: {error}") from error
    # JSON is YAML too, and our parser of that knows the lines.
    root = parse(text, lambda line: Place(str(path), line))
    entries = root.value if isinstance(root.value, dict) else {}
    if "settings" not in entries or not isinstance(entries["settings"].value, dict):
        raise RunError(f"{path}: has no settings: not a model that transformer-cli has exported")
    try:
        description = Description.model_validate(values(root))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RunError(
            f"{path}: {key}: {first['msg']}; this is no model of transformer-cli's, or one of a "
            "later version's"
        ) from error
    return description, validate(entries["settings"])


def _check_no_lfs_pointers(directory: Path) -> None:
    """Make sure that Git LFS has left the files themselves, not where to find them.

    Raises:
        RunError: a file is a pointer.
    """
    for path in (directory / WEIGHTS_SUM, *sorted((directory / TOKENIZER).glob("*"))):
        if not path.is_file():
            continue  # whoever needs it says so; a pipe would be waited for
        try:
            with path.open("rb") as file:
                is_pointer = file.read(len(_POINTER)) == _POINTER
        except OSError:
            continue
        if is_pointer:
            raise RunError(
                f"{path}: Git LFS has left only a pointer to this file; get it with: git lfs pull"
            )
