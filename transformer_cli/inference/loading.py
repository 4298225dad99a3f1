"""Load translators from trained runs and exported models."""

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
    """Which engine, device, precision and threads to use; named like command-line options.

    ``search`` has search settings to replace the run's; a value of None keeps the run's value. Here
    they only affect the choice of the engine; ``TextTranslator.with_search`` sets them.
    """

    engine: str = "auto"
    device: DeviceName = "auto"
    precision: SearchPrecisionName = "auto"
    threads: int | None = None
    search: Mapping[str, Any] = field(default_factory=dict)


def load_translator(
    run: RunDirectory, checkpoint: str, options: ComputeOptions
) -> TextTranslator[SearchEngine]:
    """Load a run, or a shared or exported model, with the engine that ``choose_engine`` returns.

    ``checkpoint`` is 'best', 'last', 'average' or a path.

    Raises:
        UsageError: the options exclude each other, or the device does not support them.
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
    """Return a torch translator for the loss, and one to search with, or None if it is the same.

    For precision int8, the torch model uses float32. For ``needing_torch``, see ``choose_engine``.
    """
    engine = choose_engine(run, options, needing_torch)
    exact = replace(options, precision="float32") if options.precision == "int8" else options
    scorer = load_torch_translator(run, checkpoint, exact).with_search(**options.search)
    if engine == "torch":
        return scorer, None
    searcher = _find_engine(engine).load(run, checkpoint, options)
    return scorer, searcher.with_search(**options.search)


def load_torch_translator(
    run: RunDirectory, checkpoint: str, options: ComputeOptions
) -> TextTranslator[Any]:  # with the torch engine
    """Load a model with torch, whichever engine ``options`` name; see ``load_translator``."""
    # Importing torch takes a second; other engines may not need it.
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

    The manifest names it under ``provides["engine"]``. The entry has two more keys: ``mark``, the
    name of a file that only models exported for this engine have, and ``reader``, the program that
    reads these models.
    """

    def choose(
        self,
        run: RunDirectory,
        options: ComputeOptions,
        needing_torch: Sequence[str],
        prefers_torch: bool,
    ) -> bool:
        """Return whether to search with this engine; see ``choose_engine``.

        Raises:
            UsageError: the user chose this engine, but it does not support the options.
        """

    def load(
        self, run: RunDirectory, checkpoint: str, options: ComputeOptions
    ) -> TextTranslator[SearchEngine]:
        """Load a model with this engine."""

    def load_settings(self, run: RunDirectory) -> Config:
        """Return the settings of a model that was exported for this engine."""


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
    """Return the name of the engine to search with; 'auto' picks one that is as good as torch.

    ``needing_torch`` has those of the user's options that not every engine supports.
    ``prefers_torch`` says that the user wants scores, which other engines may compute differently.

    Raises:
        UsageError: no engine supports int8, or the options exclude each other.
        ConfigError, RunError: there is no run, or it is damaged.
    """
    if options.precision == "int8" and options.engine == "torch":
        raise UsageError("`precision` int8: `engine` torch does not support it; omit one of them")
    asked = {"torch": [], "auto": list(entries("engine"))}.get(options.engine, [options.engine])
    for name in asked:
        if _find_engine(name).choose(run, options, needing_torch, prefers_torch):
            return name
    if options.precision == "int8":
        raise UsageError(f"`precision` {describe_missing('engine', 'int8')}")
    return "torch"
