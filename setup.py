"""Put configs/ and the toy text into the wheel; all else of the build is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_SHIPPED = (
    "configs/*.yaml",
    "configs/schema.json",
    "data/toy/*.de",
    "data/toy/*.en",
)


class _BuildWithShippedFiles(build_py):
    """Copy them under transformer_cli/shipped, where transformer_cli/base/packages.py looks.

    Where the program runs from a checkout, it reads them there.
    """

    def run(self) -> None:
        if not self.editable_mode:
            # What an earlier build left there, as of files that are gone, would be packed too.
            shutil.rmtree(Path(self.build_lib, "transformer_cli"), ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        # In configs/ these are links, or copies where there can be no links, as in an sdist.
        added = {path.name for path in Path().glob("transformer_cli/extensions/*/configs/*.yaml")}
        for pattern in _SHIPPED:
            for source in Path().glob(pattern):
                if source.name in added:
                    continue
                target = Path(self.build_lib, "transformer_cli", "shipped", source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


setup(cmdclass={"build_py": _BuildWithShippedFiles})
