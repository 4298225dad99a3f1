"""``transformer-cli translate``: its options, and how extensions add kinds of input."""

from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.registry import entries
from transformer_cli.cli import options
from transformer_cli.cli.declaring import CommandOptions, ExtraOptions, declared_by, option
from transformer_cli.config.choices import DecodingErrors
from transformer_cli.config.decoding_schema import DecodingConfig

with lazy_imports():
    from transformer_cli.base import files, locations
    from transformer_cli.cli import translation
    from transformer_cli.inference import plain_text

_STREAM = Path("-")


@dataclass(frozen=True)
class FileOptions(CommandOptions):
    """The options for the run, the input and the output; '-' is standard input or output."""

    heading = "Input and output"
    run: options.Run
    input_: Annotated[
        Path,
        option(
            "PATH",
            "Text, one sentence per line, or a document.",
            "--input",
            "-i",
            parser=options.read_path,
        ),
    ] = _STREAM
    output: Annotated[
        Path,
        option(
            "PATH", "Where to write the translations.", "--output", "-o", parser=options.read_path
        ),
    ] = _STREAM
    errors: Annotated[
        DecodingErrors, option(None, "Invalid UTF-8: stop, or write U+FFFD instead.")
    ] = "strict"


def _with_settings(declared: type[CommandOptions]) -> Any:
    """Add to a dataclass an option for each search setting that declares an option."""
    added: list[Any] = []
    for name, (metavar, about) in DecodingConfig.options().items():
        least, most = DecodingConfig.bounds(name)
        described = option(metavar, f"{about}  [default: the run's]", min=least, max=most)
        kind: Any = DecodingConfig.model_fields[name].annotation
        added.append((name, Annotated[kind | None, described], None))
    own = {"heading": vars(declared)["heading"]}
    return make_dataclass(declared.__name__, added, bases=(declared,), frozen=True, namespace=own)


@_with_settings
@dataclass(frozen=True)
class DecodingOptions(CommandOptions):
    """The options for the checkpoint and the search, including those of ``DecodingConfig``."""

    heading = "Search"
    checkpoint: options.Checkpoint = "best"
    beam_size: options.BeamSize = None
    batch_tokens: Annotated[
        int | None,
        option(
            "N",
            "Maximum batch size: source tokens times beam size.  [default: the run's]",
            min=1,
        ),
    ] = None
    max_length: Annotated[
        int | None,
        option("N", "Maximum tokens per translation.  [default: depends on the source]", min=1),
    ] = None

    @property
    def search(self) -> dict[str, Any]:
        """The search settings, keyed by name; None means that the run's setting applies."""
        return {key: getattr(self, key, None) for key in DecodingConfig.model_fields}


@dataclass(frozen=True)
class InputOptions(ExtraOptions):
    """The options for a kind of input, e.g. tables, that an extension adds to ``translate``.

    A subclass of ``cli.translation.InputFormat``, imported only when it is needed, handles such
    input. The entry in the manifest lists the ``endings`` of such files' names, and describes the
    files in ``reads``, e.g. 'a picture (.png)'.
    """

    order: ClassVar[int] = 0
    """If several kinds match an input, the one with the lowest order handles it."""
    replaces_input: ClassVar[bool] = False
    """Whether the output may be the same file as the input."""

    def matches(self, given: "TranslateOptions") -> bool:
        """Return whether the input is of this kind, judging by its path and the given options."""
        raise NotImplementedError

    def open(self, given: "TranslateOptions") -> "translation.InputFormat":
        """Return the format that translates the input."""
        raise NotImplementedError


@dataclass(frozen=True)
class TranslateOptions(options.HardwareOptions, DecodingOptions, FileOptions):
    """All options of ``translate``: input, output, search, engine and hardware."""

    heading = "Hardware"
    engine: Annotated[
        str,
        option(
            "|".join(("auto", "torch", *entries("engine"))),
            "auto: a faster engine if it writes the same text as torch, else torch.",
        ),
    ] = "auto"

    @property
    def kind(self) -> InputOptions | None:
        """The options for the input's kind, or None if the input is plain lines of text."""
        found = (e for e in self.extras if isinstance(e, InputOptions) and e.matches(self))
        return min(found, key=lambda each: each.order, default=None)

    def concerns_extensions(self) -> bool:
        """Return whether the input or the output may be something other than lines of text."""
        is_file = not locations.is_url(self.input_) and self.input_.is_file()
        is_one = is_file or (is_stream(self.input_) and not self.input_.is_dir())
        listed = entries("translate options").values()
        endings = {ending for each in listed for ending in each.facts.get("endings", ())}
        names = map(plain_text.ending_of, (self.input_, self.output))
        return not is_one or not endings.isdisjoint(names)

    @property
    def input_name(self) -> str:
        """The input's name in messages."""
        return "standard input" if str(self.input_) == "-" else str(self.input_)

    @property
    def reads_file(self) -> bool:
        """Whether the input is a file, not a pipe, so that all its lines are available at once."""
        return not is_stream(self.input_)

    @property
    def models(self) -> list[Path]:
        """The paths of the runs to read: the one to translate with, and those in other options."""
        return [self.run, *(run for _, run in self.marked("run"))]

    def describe_kinds(self) -> str:
        """Return a text that lists the kinds of input, e.g. 'lines of text or a picture (.png)'."""
        read = [each.facts.get("reads") for each in entries("translate options").values()]
        *others, last = filter(None, ["lines of text", *read])
        return f"{', '.join(others)} or {last}" if others else last

    def check(self) -> None:
        """Raise a UsageError, before long work, unless the options can be used together."""
        self.check_extras()
        kind = self.kind
        inputs = [("-i", self.input_), *self.marked("reads")]
        if str(self.output) != "-":
            others = inputs[1:] if kind and kind.replaces_input else inputs
            options.check_output(self.output, "-o", others, self.models)
        for name, path in self.marked("writes"):
            if str(path) != "-" and path.resolve() == self.output.resolve():
                raise UsageError(f"translate: -o and {name} are both {self.output}; use two files")
            options.check_output(path, name, inputs, self.models)


@declared_by(TranslateOptions)
def translate(given: TranslateOptions) -> None:
    """Translate text, one sentence per line; input line N becomes output line N.

    By default, it reads from standard input and writes to standard output. Until -o FILE is
    complete, its lines are in FILE.partial; run the same command again to resume.

    \b
    Example:
      transformer-cli translate runs/toy -i data/toy/test.de -o test.en
    """
    translation.open_format(given).translate(given)


def is_stream(path: Path) -> bool:
    """Return whether a path is '-', i.e. standard input or output, or a device or a pipe."""
    return str(path) == "-" or files.is_stream(path)
