"""``transformer-cli vocab``."""

from dataclasses import dataclass

from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import SINGLE_PROCESS
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, declared_by
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.base import workers
    from transformer_cli.config import yaml
    from transformer_cli.data import kinds
    from transformer_cli.runs import directory
    from transformer_cli.training import preparation, summary


@dataclass(frozen=True)
class VocabOptions(CommandOptions):
    """What ``vocab`` is given."""

    config: options.Config
    run_dir: options.RunDir = None
    set_: options.Set = None
    overwrite: options.Overwrite = False


@declared_by(VocabOptions)
def vocab(given: VocabOptions) -> None:
    """Build the vocabularies or subword models of an experiment.

    Finds or fetches the corpus, learns from its training side, writes the tokenizer and the encoded
    training text into the run directory and prints a summary. `train` does this by itself where it
    is missing.

    \b
    Example:
      transformer-cli vocab configs/toy.yaml
    """
    given.check_extras()
    run = directory.RunDirectory(options.run_directory(given.config, given.run_dir))
    settings = yaml.load_config(given.config, given.set_ or [])
    kinds.check_has_text(settings.data, given.config)
    directory.check_unlocked(run)  # before torch is imported, so that a second writer fails at once
    directory.check_config_files(run.path, yaml.list_base_files(given.config))
    request = preparation.TrainRequest(
        config=settings,
        run=run,
        overwrite=given.overwrite,
        extras=given.extras,
        open_executor=workers.find_executor(given.extras, run.path),
    )
    with preparation.open_data(request, SINGLE_PROCESS) as data:
        blank_train, blank_val = data.texts.train.stats.blank, data.texts.blank_in_val
    rows = summary.summarize_sides(settings, data)
    say("\n".join(align_columns(rows, left=3)))
    left_out = f"{blank_train} of train, {blank_val} of val"
    say(f"pairs with a blank side, left out: {left_out}")
    say(f"written to {run.tokenizer}")
