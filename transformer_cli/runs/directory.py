"""What lies where in a run directory, and when it may be written to."""

import os
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.origins import Origins, dump_origins, load_origins, trace_origins
from transformer_cli.config.resuming import MAY_CHANGE
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config, load_config
from transformer_cli.errors import ConfigError, RunError
from transformer_cli.files import (
    TEMPORARY_MARK,
    remove_directory,
    remove_leftovers,
    write_text,
)
from transformer_cli.runs import contents, shared
from transformer_cli.runs.mark import is_run, write_mark
from transformer_cli.runs.replacing import set_aside

_SHAPES_TOKENIZER = ("data.", "tokenizer.", "init")
# Paths. What lies there may have been moved, with the whole checkout, say.
_FILES = ("data.train.", "data.val.", "data.more", "init")
_TOKENIZER_FILES = [
    f"tokenizer.{side}{key}" for side in ("", "src_", "tgt_") for key in ("model", "file")
]


@dataclass(frozen=True)
class RunDirectory:
    """The paths of one run; making one touches nothing."""

    path: Path

    @property
    def config(self) -> Path:
        """The resolved settings, as YAML."""
        return self.path / "config.yaml"

    @property
    def origins(self) -> Path:
        """Where the settings come from; see config/origins.py."""
        return self.path / "origins.json"

    @property
    def tokenizer(self) -> Path:
        """The directory of the tokenizer's files."""
        return self.path / "tokenizer"

    @property
    def encoded(self) -> Path:
        """The directory of the training text as token ids; see data/store.py."""
        return self.path / "encoded"

    @property
    def checkpoints(self) -> Path:
        """The directory that holds one directory a checkpoint."""
        return self.path / "checkpoints"

    @property
    def lock(self) -> Path:
        """What a writing process holds on to; see ``locked``."""
        return self.path / ".lock"

    @property
    def metrics(self) -> Path:
        """What was measured while training, one JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """The directory of the same as event files of TensorBoard."""
        return self.path / "tensorboard"

    @property
    def curves(self) -> Path:
        """The same as a picture."""
        return self.path / "curves.png"

    @property
    def report(self) -> Path:
        """The page that ``report`` makes of the run."""
        return self.path / "report.html"

    @property
    def _own(self) -> tuple[Path, ...]:
        """All that is written to under the lock, and the lock; a report is made without it."""
        return tuple(self.path / name for name in contents.ALL if name != self.report.name)

    @property
    def is_shared(self) -> bool:
        """Whether it holds no run, but a model as it is shared; see shared.py."""
        return not self.config.is_file() and (self.path / shared.CONFIG).is_file()

    @property
    def is_for_ctranslate2(self) -> bool:
        """Whether it holds no run, but a model that was exported for CTranslate2."""
        return (self.path / "model.bin").is_file()

    def check_not_shared(self) -> None:
        """Make sure that this is a run, with checkpoints, and no model as it is shared.

        Raises:
            RunError: it is one.
        """
        if self.is_shared:
            raise RunError(
                f"{self.path}: is an exported model, which has no checkpoints and is not trained "
                "on; name a run, or begin one from this model with init"
            )

    def load_config(self) -> Config:
        """The run's settings, or a shared model's.

        Raises:
            RunError: this is neither.
        """
        from transformer_cli.runs.lock import put_back

        put_back(self)
        if self.is_for_ctranslate2:
            raise RunError(
                f"{self.path}: is exported for CTranslate2, whose models nothing but translate "
                "reads, with --engine ctranslate2; name the run that it was made of"
            )
        if self.is_shared:
            return shared.read_description(self.path)[1]
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

    def prepare(
        self, config: Config, overwrite: bool = False, origins: Origins | None = None
    ) -> None:
        """Make the directory ready for ``config``, keeping what an earlier session left.

        Args:
            config: the settings to run with.
            overwrite: start anew; what the directory holds of an earlier run is set aside. See
                replacing.py for what then becomes of it.
            origins: where the settings come from, if that is to be kept.

        Raises:
            RunError: it cannot be written, or holds something else.
            ConfigError: it holds a run whose settings differ in a way that cannot go on.
        """
        try:
            self._prepare(config, overwrite, origins or {})
        except OSError as error:
            named = Path(error.filename or self.path)
            where = named if named.is_relative_to(self.path) else self.path
            raise RunError(f"{where}: cannot be written: {error.strerror or error}") from error

    def _prepare(self, config: Config, overwrite: bool, origins: Origins) -> None:
        self.check_is_run_or_empty()
        # The lock is ours: what a process left in our files' places is a dead one's.
        if self.path.is_dir():
            ours = [path.name for path in self._own]
            remove_leftovers(self.path, ours, [self.report.name])
        for name, patterns in contents.WRITTEN_WHOLE.items():
            if (self.path / name).is_dir():
                remove_leftovers(self.path / name, patterns, ())
        # Before they go: a run may be started anew from its own config.yaml.
        origins = trace_origins(origins, self.config, load_origins(self.origins))
        is_begun = self.config.is_file() and not overwrite
        is_of_other_text = is_begun and self.check_resumable(config)
        # The mark comes first, and stays: by it the directory is known as a run, whenever the
        # process dies.
        self.path.mkdir(parents=True, exist_ok=True)
        write_mark(self.path)
        if overwrite:
            set_aside(self.path)
        elif is_of_other_text:
            self.forget_text()
        text = dump_config(config)
        if not self.config.is_file() or self.config.read_bytes() != text.encode():
            write_text(self.config, text)
        # Those of the settings as they first were are kept, whatever file says the same now.
        if origins and not load_origins(self.origins):
            write_text(self.origins, dump_origins(origins, text))
        self.checkpoints.mkdir(exist_ok=True)
        _check_writable(self.checkpoints)

    def check_is_run_or_empty(self) -> None:
        """Make sure that nothing but a run, or nothing at all, is in the directory.

        Links are refused where a run is written to: a run from elsewhere could have its writer
        change any file.

        Raises:
            RunError: there are files that are not a run's, or lie elsewhere.
        """
        self.check_not_shared()
        for path in self._own:
            if path.is_symlink():
                raise RunError(
                    f"{path}: is a link, and what is written there would be written elsewhere; "
                    f"move what it leads to into {self.path}, or link that directory as a whole"
                )
        if not self.path.is_dir() or is_run(self.path):
            return
        for path in sorted(self.path.iterdir()):
            if not contents.is_of_a_beginning(path):
                raise RunError(
                    f"{self.path}: holds files but no run ({path.name}, and no {contents.MARK} of "
                    "transformer-cli's); choose another directory with --run-dir"
                )

    def check_no_foreign_files(self) -> None:
        """Make sure that the run can be replaced: that all there is in its directories is its own.

        Raises:
            RunError: something is not.
        """
        contents.check_no_foreign_files(self.path)

    def forget_text(self) -> None:
        """Remove what was made of the training text: tokenizers, and the text in their tokens."""
        for directory in (self.tokenizer, self.encoded):
            self.forget(directory)

    def forget(self, directory: Path) -> None:
        """Remove one of the run's directories, if it is there.

        Raises:
            RunError: something in it is not the run's.
        """
        if directory.is_dir():
            contents.check_no_foreign_files(self.path, (directory.name,))
            remove_directory(directory)

    def check_resumable(self, config: Config) -> bool:
        """Make sure that the run that is there can go on with ``config``; nothing is written.

        Returns:
            Whether what was made of the training text is of other settings, and to be made again.

        Raises:
            ConfigError: it cannot.
        """
        # torch is imported with it
        from transformer_cli.runs.checkpoint import list_checkpoints, tells_batches

        # What `accumulate` makes of a step is looked at when training goes on.
        told = tells_batches(self.checkpoints)
        may_change = tuple(key for key in MAY_CHANGE if told or key != "training.accumulate")
        changed = [
            difference
            for difference in differences(self.load_config(), config)
            if not difference.key.startswith(may_change)
        ]
        if not list_checkpoints(self.checkpoints):
            # Nothing is trained yet, and a tokenizer is made again in seconds.
            return any(difference.key.startswith(_SHAPES_TOKENIZER) for difference in changed)
        if changed := [each for each in changed if not _has_only_moved(each)]:
            listed = "; ".join(map(str, changed))
            raise ConfigError(
                f"{self.path}: trained with other settings ({listed}); "
                "go on with the old ones, choose another --run-dir, or start anew with --overwrite"
            )
        return False


def _has_only_moved(difference: Difference) -> bool:
    """Whether files have another path than before because nothing is left in the old place."""
    if not (difference.key.startswith(_FILES) or difference.key in _TOKENIZER_FILES):
        return False
    old, new = _paths(difference.old), _paths(difference.new)
    return 0 < len(old) == len(new) and not any(Path(path).exists() for path in old)


def _paths(value: object) -> list[str]:
    if isinstance(value, list):  # of pairs of files
        return [path for pair in value for path in pair.values()]
    return [value] if isinstance(value, str) else []


def _check_writable(directory: Path) -> None:
    # Permissions alone do not tell: root has them on a disk that is mounted read-only.
    trial = directory / f"trial{TEMPORARY_MARK}{os.getpid()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        error.filename = str(directory)
        raise
