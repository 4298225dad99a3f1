"""The options of ``init`` for the user's own text and for OPUS corpora."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.cli.declaring import ExtraOptions, option

if TYPE_CHECKING:
    from transformer_cli.cli.init import InitOptions

_OF_OPUS = ("src_lang", "tgt_lang", "name")  # for ``--from opus``; ``--from own`` accepts all


def _file(about: str) -> Any:
    return option("FILE", f"With --from own: {about}")


@dataclass(frozen=True)
class TextOptions(ExtraOptions):
    """The options of ``init`` that describe the text for a new config."""

    heading = "Your text"
    about = (
        "--from own is for your own text: the config fits the size of the text, and holds out "
        "pairs for validation and test if you give none. --from opus:NAME does the same for a "
        "corpus from OPUS; the train command downloads it. --from opus lists the corpora."
    )

    src: Annotated[Path | None, _file("source side of the training text.")] = None
    tgt: Annotated[Path | None, _file("target side of the training text.")] = None
    bitext: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "With --from own, instead of --src and --tgt: training text with both sides (TMX, PO "
            "or TSV); repeatable.",
            "--bitext",
        ),
    ] = None
    val_src: Annotated[
        Path | None, _file("source side of the validation text.  [default: part of --src]")
    ] = None
    val_tgt: Annotated[Path | None, _file("target side of the validation text.")] = None
    test_src: Annotated[
        Path | None, _file("source side of the test text.  [default: part of --src]")
    ] = None
    test_tgt: Annotated[Path | None, _file("target side of the test text.")] = None
    src_lang: Annotated[
        str | None, option("CODE", "Source language.  [default: from the files' names]")
    ] = None
    tgt_lang: Annotated[
        str | None, option("CODE", "Target language.  [default: from the files' names]")
    ] = None
    name: Annotated[
        str | None, option("NAME", "Name of the config.  [default: from the text and languages]")
    ] = None

    def check(self, given: "InitOptions") -> None:
        name = (given.from_ or "").partition(":")[0]
        for field, value in asdict(self).items():
            fitting = ["own", "opus"] if field in _OF_OPUS else ["own"]
            if value is not None and name not in fitting:
                names = " and ".join(fitting)
                raise UsageError(f"--{field.replace('_', '-')}: works with --from {names} only")
        if self.name is not None and Path(self.name).name != self.name:
            raise UsageError(f"--name {self.name}: is a path; give only a name, e.g. mine")


@dataclass(frozen=True)
class TokenizerOptions(ExtraOptions):
    """Options of ``init``, from another extension, that set keys of ``tokenizer``."""

    @property
    def tokenizer_yaml(self) -> str:
        """Lines to add to that section of a new config."""
        raise NotImplementedError

    def check(self, given: "InitOptions") -> None:
        for name, _, value in self.given():
            if (given.from_ or "").partition(":")[0] not in ("own", "opus"):
                names = "works with --from own and opus only"
                raise UsageError(f"--{name.rstrip('_')} {value}: {names}")
