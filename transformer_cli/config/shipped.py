"""The files that travel with the program: configurations, their schema and the toy text."""

from importlib.resources import files
from pathlib import Path

from transformer_cli.base.registry import folders

SCHEMA = Path("configs/schema.json")
TOY = Path("data/toy")


def shipped_directory() -> Path:
    """Return the directory that has ``configs`` and ``data/toy``.

    A wheel has them within the package (setup.py), a checkout beside it.
    """
    package = Path(str(files("transformer_cli")))
    packed = package / "shipped"
    return packed if packed.is_dir() else package.parent


def find_configs() -> dict[str, Path]:
    """Return the shipped configurations by name, with those of extensions."""
    # A checkout's configs/ has links to extensions' files, which may be gone or of no use here.
    own = (path for path in shipped_directory().glob("configs/*.yaml") if not path.is_symlink())
    added = (path for folder in folders() for path in folder.glob("configs/*.yaml"))
    return {path.stem: path for path in sorted((*own, *added), key=lambda path: path.stem)}


def shipped_configs() -> dict[str, str]:
    """Return what each shipped configuration is for, by its name: the file's second line.

    Without those that continue from other runs, which are trained in a checkout.
    """
    texts = {name: path.read_text(encoding="utf-8") for name, path in find_configs().items()}
    return {
        name: text.splitlines()[1].removeprefix("# ")
        for name, text in texts.items()
        if "\ninit:" not in text
    }
