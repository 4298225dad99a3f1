"""Translators of trained runs and of exported models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from transformer_cli.base.errors import UsageError
from transformer_cli.base.registry import describe_missing, entries, find
from transformer_cli.config.choices import DeviceName, SearchPrecisionName
from transformer_cli.config.schema import Config
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory


@dataclass(frozen=True)
class ComputeOptions:
    """How a model is to search: the options of these names.

    ``search`` has the settings of the search that are not the run's, or None. They decide which
    engine is as good; ``TextTranslator.with_search`` sets them.
    """

    engine: str = "auto"
    device: DeviceName = "auto"
    precision: SearchPrecisionName = "auto"
    threads: int | None = None
    search: Mapping[str, Any] = field(default_factory=dict)


def load_translator(
    run: RunDirectory, checkpoint: str, options: ComputeOptions
) -> TextTranslator[SearchEngine]:
    """Load a run, or a model as it is shared or exported, with the engine of ``choose_engine``.

    ``checkpoint`` is 'best', 'last', 'average' or a path.

    Raises:
        UsageError: the options do not go together, or the device cannot compute like that.
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
        MissingExtraError: the engine's package is not installed.
    """
    engine = choose_engine(run, options)
    if engine != "torch":
        return _find_engine(engine).load(run, checkpoint, options)
    return load_torch_translator(run, checkpoint, options)


def load_scorer(
    run: RunDirectory,
    checkpoint: str,
    options: ComputeOptions,
    needing_torch: Sequence[str] = (),
) -> tuple[TextTranslator[Any], TextTranslator[SearchEngine] | None]:
    """Load a model with torch, for its loss, and what searches instead if another engine does.

    With int8, torch's is in float32. ``needing_torch`` is as for ``choose_engine``.
    """
    engine = choose_engine(run, options, needing_torch)
    exact = replace(options, precision="float32") if options.precision == "int8" else options
    scorer = load_torch_translator(run, checkpoint, exact).with_search(**options.search)
    if engine == "torch":
        return scorer, None
    searcher = load_translator(run, checkpoint, replace(options, engine=engine))
    return scorer, searcher.with_search(**options.search)


def load_torch_translator(
    run: RunDirectory, checkpoint: str, options: ComputeOptions
) -> TextTranslator[Any]:  # of torch's engine
    """Load a model with torch, whatever engine ``options`` name; see ``load_translator``."""
    # Torch takes a second, which other engines may do without.
    from transformer_cli.inference.search import TorchEngine
    from transformer_cli.model.device import choose_device, choose_precision, use_threads
    from transformer_cli.runs.trained_model import load_trained_model

    use_threads(options.threads)
    device = choose_device(options.device)
    assert options.precision != "int8"
    precision = choose_precision(options.precision, device)
    trained = load_trained_model(run, checkpoint)
    engine = TorchEngine(trained.model.to(device), precision)
    return TextTranslator(
        engine, trained.tokenizers, trained.config, trained.config.decoding, checkpoint=trained.sum
    )


class Engine(Protocol):
    """A search engine that an extension adds.

    The manifest names it under ``provides["engine"]``; facts of the entry are the name of the file
    by which a model exported for it is recognised, ``mark``, and the program that reads it,
    ``reader``.
    """

    def choose(
        self,
        run: RunDirectory,
        options: ComputeOptions,
        needing_torch: Sequence[str],
        prefers_torch: bool,
    ) -> bool:
        """Return whether it searches; see ``choose_engine``.

        Raises:
            UsageError: it is asked for, and cannot do what the options ask for.
        """

    def load(
        self, run: RunDirectory, checkpoint: str, options: ComputeOptions
    ) -> TextTranslator[SearchEngine]:
        """Load a model."""

    def load_settings(self, run: RunDirectory) -> Config:
        """Return the settings of a model that is exported for it."""


def _find_engine(name: str) -> Engine:
    if (entry := find("engine", name)) is None:
        there = ("auto", "torch", *entries("engine"))
        raise UsageError(f"`engine` {describe_missing('engine', name, there)}")
    found: Engine = entry.load()
    return found


def choose_engine(
    run: RunDirectory,
    options: ComputeOptions,
    needing_torch: Sequence[str] = (),
    prefers_torch: bool = False,
) -> str:
    """Return the name of the engine to search with; 'auto' is one that is as good as torch.

    Args:
        run: a run, or a model as it is shared or exported.
        options: the user's.
        needing_torch: options given that not every engine can serve.
        prefers_torch: whether scores are asked for, which other engines may compute otherwise.

    Raises:
        UsageError: int8 is asked for and no engine has it, or the options do not go together.
        ConfigError, RunError: there is no run, or it is damaged.
    """
    if options.precision == "int8" and options.engine == "torch":
        raise UsageError("`precision` int8: `engine` torch has no int8; leave one of them out")
    asked = {"torch": [], "auto": list(entries("engine"))}.get(options.engine, [options.engine])
    for name in asked:
        if _find_engine(name).choose(run, options, needing_torch, prefers_torch):
            return name
    if options.precision == "int8":
        raise UsageError(f"`precision` {describe_missing('engine', 'int8')}")
    return "torch"
