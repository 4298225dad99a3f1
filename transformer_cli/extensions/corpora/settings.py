"""The settings of text from sources in several formats: filters, splits and mixing."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from transformer_cli.config.data_schema import DataSection, TextFiles
from transformer_cli.config.sections import (
    Count,
    CountOrZero,
    FilePath,
    Section,
    extend_fully,
    setting,
)
from transformer_cli.config.setting_tree import describe_value
from transformer_cli.extensions.checks.rules import FILTER_NAMES, FilterSettings
from transformer_cli.inference.plain_text import ending_of


def _expected(what: str) -> PydanticCustomError:
    """Return the error for a wrong value; ``what`` says what is expected, e.g. 'a number'."""
    return PydanticCustomError("expected", "expected {what}", {"what": what})


def _matching(pattern: str, words: str) -> AfterValidator:
    """Return a check of text that must match ``pattern``; messages describe it with ``words``."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value):
            return value
        raise _expected(words)

    return AfterValidator(check)


SourceFormat = Literal["tmx", "tsv", "jsonl", "parquet", "po", "opus", "hf", "text"]
_FILE_FORMATS: tuple[SourceFormat, ...] = ("tmx", "tsv", "jsonl", "parquet", "po")
SOURCE_FORMATS: tuple[SourceFormat, ...] = (*_FILE_FORMATS, "opus", "hf")
_COLUMNS, _FIELDS = ["src_column", "tgt_column"], ["src_field", "tgt_field"]
_NEEDED: dict[str, Any] = {"tsv": _COLUMNS, "jsonl": _FIELDS, "parquet": _FIELDS}
_FORMATS_OF_KEYS = {
    **dict.fromkeys(_COLUMNS, ("tsv",)),
    **dict.fromkeys(_FIELDS, ("jsonl", "parquet", "hf")),
    "config": ("hf",),
}
PATH_KEYS = ("src", "tgt", *_FILE_FORMATS)  # the keys of a source whose values are paths
TWO_NAMES = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}$"
_TwoNames = Annotated[str, WithJsonSchema({"type": "string", "pattern": TWO_NAMES})]
CorpusName = Annotated[
    _TwoNames, _matching(TWO_NAMES, "CORPUS/VERSION, as listed by transformer-cli init --from opus")
]
DataSetName = Annotated[_TwoNames, _matching(TWO_NAMES, "OWNER/NAME")]
TAG_PATTERN = r"^[A-Za-z0-9_-]{1,32}$"
TagName = Annotated[
    str,
    _matching(TAG_PATTERN, "at most 32 letters, digits, - and _"),
    WithJsonSchema({"type": "string", "pattern": TAG_PATTERN}),
]
MAX_WEIGHT = 1000.0  # the maximum number of times that a pair may be drawn in an epoch

if TYPE_CHECKING:
    FilterName = str
else:
    FilterName = Literal[FILTER_NAMES]


def _read_column(value: object) -> object:
    if isinstance(value, str) or (type(value) is int and value >= 1):
        return value
    raise _expected("the number of a column, from 1, or its name")


# A union would report an error for each of its types.
Column = Annotated[
    int | str,
    BeforeValidator(_read_column),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1}),
]


class SourceConfig(TextFiles):
    """Parallel text in one format, compressed (.gz, .xz, .zst) or not.

    Give one of tmx, tsv, jsonl, parquet, po, opus and hf, or both src and tgt. Paths are relative
    to the working directory and may contain the wildcards * and ?. They may be URLs (https://… or
    s3://…), and may continue into a zip archive, e.g. deu-eng.zip/deu.txt.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 1,
            "dependencies": {"src": ["tgt"], "tgt": ["src"], **_NEEDED},
        }
    )

    src: FilePath | None = setting(None, "aligned text: path of the source side")
    tgt: FilePath | None = setting(None, "path of the target side")
    tmx: FilePath | None = setting(None, "TMX translation memory")
    tsv: FilePath | None = setting(None, "tab-separated values")
    jsonl: FilePath | None = setting(None, "JSON objects, one per line")
    parquet: FilePath | None = setting(None, "Parquet file (extra parquet)")
    po: FilePath | None = setting(None, "gettext PO file")
    opus: CorpusName | None = setting(None, "OPUS corpus and version, e.g. Tatoeba/v2023-04-12")
    hf: DataSetName | None = setting(None, "Hugging Face data set: OWNER/NAME")
    config: str | None = setting(None, "hf: configuration, e.g. de-en; null: default")
    src_column: Column | None = setting(None, "tsv: source column, by number from 1 or by header")
    tgt_column: Column | None = setting(None, "tsv: target column")
    src_field: str | None = setting(
        None, "jsonl, parquet, hf: source field, e.g. 'translation.de', the default for hf"
    )
    tgt_field: str | None = setting(None, "jsonl, parquet, hf: target field")
    weight: Annotated[float, Field(gt=0.0, le=MAX_WEIGHT)] = setting(
        1.0, "how often an epoch uses each pair; 0.5: it uses half of the pairs"
    )
    tag: TagName | None = setting(None, "token before each source sentence, for translate --tag")
    filters: list[FilterName] | None = setting(None, "filters for this source; null: data.filters")
    split: Annotated[bool | str, WithJsonSchema({"type": ["boolean", "string"]})] = setting(
        True,
        "whether val and test may be drawn from this source; hf: name of a split, default train",
    )

    @model_validator(mode="after")
    def _one_format(self) -> Self:
        given: list[str] = [key for key in SOURCE_FORMATS if getattr(self, key) is not None]
        if self.src is not None or self.tgt is not None:
            if not given:
                self._demand("src", "tgt")
            given.append("src")
        if len(given) != 1:
            what = f"{' and '.join(given)} are given" if given else "none is given"
            raise ValueError(
                f"{given[-1] if given else 'src'}: a source is one of "
                f"{', '.join(SOURCE_FORMATS)}, or src and tgt; {what}"
            )
        for key, formats in _FORMATS_OF_KEYS.items():
            if self.format not in formats and getattr(self, key) is not None:
                raise ValueError(f"{key}: is only for {' and '.join(formats)}; remove it")
        self._demand(*_NEEDED.get(self.format, ()))
        if isinstance(self.split, str) and self.hf is None:
            raise ValueError("split: must be true or false; only hf data sets have named splits")
        return self

    def _demand(self, *keys: str) -> None:
        for key in keys:
            if getattr(self, key) is None:
                raise ValueError(f"{key}: missing ({type(self).model_fields[key].description})")

    @model_validator(mode="before")
    @classmethod
    def _is_no_path(cls, value: object) -> object:
        if isinstance(value, str):
            problem = f"expected keys and values, found {describe_value(value)}"
            advised = f"{problem}; write {describe_source(value)}"
            raise PydanticCustomError("refused", "{problem}", {"problem": advised})
        return value

    @property
    def format(self) -> SourceFormat:
        return next((key for key in SOURCE_FORMATS if getattr(self, key) is not None), "text")

    @property
    def path(self) -> Path:
        """The path of the file, or of the source side's file; it may have wildcards."""
        path: Path = getattr(self, "src" if self.format == "text" else self.format)
        return path

    @property
    def is_local(self) -> bool:
        """Whether all files are on this machine, so that nothing is downloaded."""
        paths = [str(getattr(self, key)) for key in PATH_KEYS]
        return not (self.opus or self.hf or any("://" in path for path in paths))

    @property
    def name(self) -> str:
        """The filename without its directory, or the name of a corpus or data set."""
        return self.opus or self.hf or self.path.name

    @property
    def description(self) -> str:
        """``name``, followed by the filename of the target side if the sides are in two files."""
        return f"{self.name} and {self.tgt.name}" if self.tgt is not None else self.name


def describe_source(path: str) -> str:
    """Return an example of the source setting for the file ``path``, to show in messages."""
    ending = ending_of(Path(path)).removeprefix(".")
    shown = path if re.fullmatch(r"[\w./*?-]{1,80}", path) else "FILE"
    match ending:
        case "tsv":
            return f"{{tsv: {shown}, src_column: 1, tgt_column: 2}}"
        case "jsonl" | "parquet":
            return f"{{{ending}: {shown}, src_field: NAME, tgt_field: NAME}}"
        case "tmx" | "po" as form:
            return f"{{{form}: {shown}}}"
    return f"{{src: {shown}, tgt: FILE}}"


def _check_unfiltered(sources: list[SourceConfig]) -> list[SourceConfig]:
    """Raise ValueError if a source has a key that only ``data.sources`` may have."""
    for number, source in enumerate(sources):
        unfit = {"filters", "split"} if source.hf is None else {"filters"}
        for key in sorted(unfit & source.model_fields_set):
            raise ValueError(f"[{number}].{key}: is for data.sources of kind corpus; remove it")
    return sources


class Replay(Section):
    """General text to train on along with the new text, so that the model keeps what it learned."""

    share: Annotated[float, Field(gt=0.0, le=0.99)] = Field(
        description="its share of each epoch's pairs"
    )
    sources: Annotated[
        list[SourceConfig], Field(min_length=1), AfterValidator(_check_unfiltered)
    ] = Field(description="its sources")


class SourceSettings(Section):
    """Settings with sources, whose tags need training that joins no lines."""

    def check_with(self, config: Any) -> None:
        super().check_with(config)
        is_joined = getattr(config.training, "concatenate", 0.0) > 0.0
        if is_joined and tag_names(self):
            raise ValueError(
                "training.concatenate: tags (tag) and placeholders (protect) belong to one line, "
                "so lines cannot be joined; set it to 0, or remove tags and placeholders"
            )


class ReplaySettings(SourceSettings):
    """The setting ``data.replay``, for data kinds with the user's own text."""

    replay: Replay | None = setting(None, "replayed text, to limit forgetting")


class MoreSettings(SourceSettings):
    """The setting ``data.more``, for data kinds that accept additional training pairs."""

    more: Annotated[list[SourceConfig], AfterValidator(_check_unfiltered)] = setting(
        [],
        "more training pairs, such as another model's translations (data diversification, Nguyen "
        "et al. 2020)",
    )


class SplitConfig(Section):
    """The sizes and the seed of splits whose pairs are drawn from the sources."""

    val: Count = Field(description="number of pairs in val")
    test: CountOrZero = setting(0, "number of pairs in test; 0: no such split")
    seed: Annotated[int, Field(ge=0, lt=2**31)] = setting(
        1, "seed, independent of the experiment's"
    )


class CorpusData(ReplaySettings, FilterSettings):
    """Parallel text in several formats, filtered and split."""

    kind: Literal["corpus"]
    sources: Annotated[list[SourceConfig], Field(min_length=1)] = Field(
        description="sources of the pairs"
    )
    split: SplitConfig | None = setting(None, "splits drawn from the sources")
    val: SourceConfig | None = setting(None, "validation pairs, unless split draws them")
    test: dict[str, SourceConfig] = setting(
        {}, "more test splits, by name", may_change=True, may_differ=True
    )
    filters: list[FilterName] = setting(
        ["blank", "duplicates"], "rules that decide which pairs to leave out"
    )
    max_bad_units: Annotated[float, Field(ge=0.0, le=1.0)] = setting(
        0.01, "share of a source's lines, rows or entries that may be damaged; more is an error"
    )

    @model_validator(mode="after")
    def _has_splits(self) -> Self:
        if (self.split is None) == (self.val is None):
            problem = "neither is given" if self.val is None else "both are given"
            raise ValueError(
                f"split: either split draws validation pairs, or val names them; {problem}"
            )
        is_drawn = self.split is not None and self.split.test > 0
        if is_drawn and "test" in self.test:
            raise ValueError("test.test: the name 'test' belongs to split.test; use another name")
        # Files are named after splits, also on Windows and macOS, which ignore case.
        taken = {name: name for name in ("train", "val", *(["test"] if is_drawn else []))}
        for name in self.test:
            problem = ""
            if not re.fullmatch("[A-Za-z0-9_-]{1,64}", name):
                problem = "files are named after it; use only letters, digits, - and _"
            elif re.fullmatch("con|prn|aux|nul|(com|lpt)[0-9]", name.lower()):
                problem = "files are named after it, but Windows does not allow this name; use "
                problem += "another name"
            elif name.lower() in taken:
                problem = f"the name '{taken[name.lower()]}' is taken; use another name"
            if problem:
                raise ValueError(f"test.{name}: {problem}")
            taken[name.lower()] = name
        return self

    @model_validator(mode="after")
    def _given_splits_are_whole(self) -> Self:
        for split, source in self.given_splits.items():
            for key in ("filters", "weight") if source.hf else ("filters", "split", "weight"):
                if getattr(source, key) != SourceConfig.model_fields[key].default:
                    place = split if split == "val" else f"test.{split}"
                    problem = "is for data.sources, as a given split is used whole; remove it"
                    raise ValueError(f"{place}.{key}: {problem}")
        return self

    @property
    def given_splits(self) -> dict[str, SourceConfig]:
        """The sources in ``val`` and ``test``, keyed by split."""
        return {**({} if self.val is None else {"val": self.val}), **self.test}


def find_more(data: Section) -> list[SourceConfig]:
    """Return the sources of additional training pairs, from the setting ``data.more``."""
    return data.more if isinstance(data, MoreSettings) else []


def may_have_more(data: DataSection) -> bool:
    """Return whether data of this kind accepts additional training pairs."""
    return "more" in extend_fully(type(data)).model_fields


def find_replay(data: Section) -> Replay | None:
    """Return ``data.replay``, which adds general text to training; None if it is not set."""
    return data.replay if isinstance(data, ReplaySettings) else None


def added_sources(data: Section) -> dict[str, SourceConfig]:
    """Return the sources that training adds to the split ``train``, keyed by name."""
    replay = find_replay(data)
    lists = {"data.more": find_more(data), "data.replay.sources": replay.sources if replay else []}
    return {
        f"{key}[{number}]": source
        for key, sources in lists.items()
        for number, source in enumerate(sources)
    }


def tag_names(data: Section) -> list[str]:
    """Return the tags of all sources of training, validation and test text, sorted."""
    sources = [*added_sources(data).values()]
    if isinstance(data, CorpusData):
        sources += [*data.sources, *data.given_splits.values()]
    return sorted({source.tag for source in sources if source.tag is not None})
