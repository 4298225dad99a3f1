"""The paths of a run directory, and checks of what it holds."""

from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_config
from transformer_cli.errors import RunError
from transformer_cli.files import check_no_links, remove_directory
from transformer_cli.runs import contents, hub_model
from transformer_cli.runs.mark import is_run


@dataclass(frozen=True)
class RunDirectory:
    """The paths of one run; creating this object touches no file."""

    path: Path

    @property
    def config(self) -> Path:
        """Path of the resolved settings, as YAML."""
        return self.path / "config.yaml"

    @property
    def origins(self) -> Path:
        """Path of the settings' origins; see config/origins.py."""
        return self.path / "origins.json"

    @property
    def tokenizer(self) -> Path:
        """Directory of the tokenizer's files."""
        return self.path / "tokenizer"

    @property
    def encoded(self) -> Path:
        """Directory of the training text as token ids; see data/store.py."""
        return self.path / "encoded"

    @property
    def corpus(self) -> Path:
        """Directory of the text prepared from sources; see data/preparing.py."""
        return self.path / "corpus"

    @property
    def checkpoints(self) -> Path:
        """Directory with one directory per checkpoint."""
        return self.path / "checkpoints"

    @property
    def lock(self) -> Path:
        """Path of the file that a writing process locks; see ``lock_run``."""
        return self.path / ".lock"

    @property
    def metrics(self) -> Path:
        """Path of the training metrics, one JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """Directory of the metrics as TensorBoard event files."""
        return self.path / "tensorboard"

    @property
    def curves(self) -> Path:
        """Path of the metrics as a picture."""
        return self.path / "curves.png"

    @property
    def report(self) -> Path:
        """Path of the page that ``report`` writes."""
        return self.path / "report.html"

    @property
    def locked_paths(self) -> tuple[Path, ...]:
        """Paths that are written under the lock, and the lock; ``report`` needs none."""
        return tuple(self.path / name for name in contents.ALL if name != self.report.name)

    @property
    def is_hub_model(self) -> bool:
        """True if this is an exported Hugging Face Hub model; see hub_model.py."""
        return not self.config.is_file() and (self.path / hub_model.CONFIG).is_file()

    @property
    def is_for_ctranslate2(self) -> bool:
        """True if this is a model exported for CTranslate2."""
        return (self.path / "model.bin").is_file()

    def check_not_hub_model(self) -> None:
        """Check that this is not an exported Hub model, which has no checkpoints.

        Raises:
            RunError: it is one.
        """
        if self.is_hub_model:
            raise RunError(
                f"{self.path}: is an exported model, which has no checkpoints and is not trained "
                "on; name a run, or begin one from this model with init"
            )

    def load_config(self) -> Config:
        """Return the settings of the run or the Hub model.

        Raises:
            RunError: it is neither.
        """
        from transformer_cli.runs.lock import restore_previous

        restore_previous(self)
        if self.is_for_ctranslate2:
            raise RunError(
                f"{self.path}: is exported for CTranslate2, whose models nothing but translate "
                "reads, with --engine ctranslate2; name the run that it was made of"
            )
        if self.is_hub_model:
            return hub_model.read_hub_config(self.path)[1]
        if not self.path.exists():
            raise RunError(
                f"{self.path}: not a run directory, there is nothing of that name; "
                "make one with: transformer-cli train CONFIG"
            )
        if not self.config.is_file():
            raise RunError(
                f"{self.path}: not a run directory, it has no config.yaml; "
                "make one with: transformer-cli train CONFIG"
            )
        return load_config(self.config)

    def check_is_run_or_empty(self) -> None:
        """Check that the directory holds a run or nothing.

        Links are refused where a run is written: a stranger's could make us change any file.

        Raises:
            RunError: it holds other files, or links, pipes or devices.
        """
        self.check_not_hub_model()
        check_no_links(self.path, {path.name for path in self.locked_paths})
        if not self.path.is_dir() or is_run(self.path):
            return
        for path in sorted(self.path.iterdir()):
            if not contents.is_leftover_of_start(path):
                raise RunError(
                    f"{self.path}: holds files but no run ({path.name}, and no {contents.MARK} of "
                    "transformer-cli's); choose another directory with --run-dir"
                )

    def check_no_foreign_files(self) -> None:
        """Check that the run's directories hold only files that transformer-cli has written.

        Raises:
            RunError: they hold others.
        """
        contents.check_no_foreign_files(self.path)

    def remove_data(self) -> None:
        """Remove the prepared data: tokenizers, encoded text, and the corpus made of sources."""
        for directory in (self.tokenizer, self.encoded, self.corpus):
            self.remove(directory)

    def remove(self, directory: Path) -> None:
        """Remove one of the run's directories, if it exists.

        Raises:
            RunError: it holds files that transformer-cli has not written.
        """
        if directory.is_dir():
            contents.check_no_foreign_files(self.path, (directory.name,))
            remove_directory(directory)
