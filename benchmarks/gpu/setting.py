"""What every part is given: the device, the amount, and a place for what parts leave each other."""

import gc
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.environments import ROOT
from benchmarks.gpu.parts import Row
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_config
from transformer_cli.data.multi30k import find
from transformer_cli.runs.directory import RunDirectory

SMALL_MODEL, BASE_MODEL = "multi30k_de_en_bpe.yaml", "multi30k_de_en_base.yaml"

# Its 600 subwords can be learned from 4,000 captions.
_TOY = ("data={kind: toy, src_lang: de, tgt_lang: en}", "tokenizer.vocab_size=600")
_TINY = (
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "model.d_model=64",
    "model.d_ff=64",
)


def is_multi30k_here() -> bool:
    """Return whether Multi30k is on disk; nothing is downloaded."""
    return all(find(split, "de", "en") for split in ("train", "val", "test_2016_flickr"))


@dataclass(frozen=True)
class Setting:
    """Where and how much to measure.

    Attributes:
        device: to measure.
        small: whether only to see that the benchmark works, on the toy corpus with tiny models.
        work: directory of the corpus and of the run, which later parts use.
    """

    device: torch.device
    small: bool
    work: Path

    @property
    def uses_toy(self) -> bool:
        """Whether the toy corpus stands in for Multi30k."""
        return self.small or not is_multi30k_here()

    @property
    def run(self) -> RunDirectory:
        """The run that the part ``whole`` trains."""
        return RunDirectory(self.work / "run")

    def changes(self) -> tuple[str, ...]:
        """Return the changes of every configuration, as ``--set`` takes them."""
        return (*(_TOY if self.uses_toy else ()), *(_TINY if self.small else ()))

    def config(self, name: str, *changes: str) -> Config:
        """Return a shipped configuration with this setting's changes and further ones."""
        return load_config(ROOT / "configs" / name, (*self.changes(), *changes))


def model_name(config: str) -> str:
    """Return what a configuration's model is called in a table."""
    return {SMALL_MODEL: "small", BASE_MODEL: "base"}[config]


def precision_name(precision: torch.dtype) -> str:
    """Return a dtype's name."""
    return str(precision).removeprefix("torch.")


def on_off(value: bool) -> str:
    """Return what a switch is called in a table."""
    return "on" if value else "off"


def attempt(label: Row, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield ``rows``, each with ``label``; an error becomes a row and leaves the next ones be."""
    try:
        for row in rows:
            yield {**label, **row}
    except Exception as error:  # whatever fails costs its own row
        traceback.print_exc(file=sys.stderr)
        first = (str(error).splitlines() or [""])[0]
        yield {**label, "error": f"{type(error).__name__}: {first}"[:200]}
    free_memory()


def free_memory() -> None:
    """Give back what dead objects held, and start a new peak."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
