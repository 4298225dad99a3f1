"""The configurations and the toy text that travel with the program."""

import shutil
from importlib.resources import files
from pathlib import Path

SCHEMA = Path("configs/schema.json")
TOY = Path("data/toy")


def shipped_directory() -> Path:
    """Return the directory that has ``configs`` and ``data/toy``.

    A wheel has them within the package (setup.py), a checkout beside it.
    """
    package = Path(str(files("transformer_cli")))
    packed = package / "shipped"
    return packed if packed.is_dir() else package.parent


def shipped_configs() -> dict[str, str]:
    """Return what each shipped configuration is for, by its name: the file's second line.

    Without those that continue from other runs, which ``distill`` trains in a checkout.
    """
    texts = {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted((shipped_directory() / "configs").glob("*.yaml"))
    }
    return {
        name: text.splitlines()[1].removeprefix("# ")
        for name, text in texts.items()
        if "\ninit:" not in text
    }


def copy_shipped(name: str, target: Path) -> None:
    """Copy a shipped configuration, its bases, the schema and, for the toy captions, their text."""
    # Here, since the shell's completion of settings imports this module at each press of a key.
    from transformer_cli.config.base_files import list_base_files
    from transformer_cli.config.data_schema import ToyData
    from transformer_cli.config.yaml import load_config

    directory = shipped_directory()
    config = directory / "configs" / f"{name}.yaml"
    wanted = [*list_base_files(config), directory / SCHEMA]
    if isinstance(load_config(config).data, ToyData):
        wanted += (directory / TOY).glob("*.[de][en]")
    for path in wanted:
        copy = target / path.relative_to(directory)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
