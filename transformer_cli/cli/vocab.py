"""``transformer-cli vocab``: prepare the tokenizers and the training text of a run."""

from dataclasses import dataclass

from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import SINGLE_PROCESS
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, declared_by
from transformer_cli.cli.display import align_columns, say
from transformer_cli.cli.options import TrainOptions
from transformer_cli.cli.train import make_request

with lazy_imports():
    from transformer_cli.training import preparation, summary


@dataclass(frozen=True)
class VocabOptions(CommandOptions):
    """The options of ``vocab``: the config, changed settings, and the run directory."""

    config: options.Config
    run_dir: options.RunDir = None
    set_: options.Set = None
    overwrite: options.Overwrite = False


@declared_by(VocabOptions)
def vocab(given: VocabOptions) -> None:
    """Prepare the text: build the tokenizers and encode the training text.

    It writes both into the run directory and prints a summary. train does the same if you have not
    run vocab.

    \b
    Example:
      transformer-cli vocab configs/toy.yaml
    """
    given.check_extras()
    request = make_request(TrainOptions(**vars(given)))  # train has all of these options too
    with preparation.open_data(request, SINGLE_PROCESS) as data:
        blank_train, blank_val = data.texts.train.stats.blank, data.texts.blank_in_val
    rows = summary.summarize_sides(request.config, data)
    say("\n".join(align_columns(rows, left=3)))
    left_out = f"{blank_train} of train, {blank_val} of val"
    say(f"pairs with a blank side, left out: {left_out}")
    say(f"written to {request.run.tokenizer}")
