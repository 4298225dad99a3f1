"""The settings of the data: where parallel text comes from."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from transformer_cli.base.locations import fetched_from
from transformer_cli.config.sections import FilePath, Kinds, Language, Section, setting

_SHA256 = "^[0-9A-Fa-f]{64}$"


def _read_sums(value: object) -> object:
    sums = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) and re.fullmatch(_SHA256, each) for each in sums):
        problem = "expected a SHA-256, which is 64 hexadecimal digits, or a list of them"
        raise PydanticCustomError("refused", problem)
    return [str(each).lower() for each in sums]


class TextFiles(Section):
    """Paths of text, some of which may be URLs."""

    sha256: (
        Annotated[
            list[str],
            BeforeValidator(_read_sums),
            WithJsonSchema(
                {"type": ["string", "array"], "pattern": _SHA256, "items": {"pattern": _SHA256}}
            ),
        ]
        | None
    ) = setting(
        None,
        "SHA-256 of an https:// file; for two URLs, a list with src's first",
    )

    @model_validator(mode="after")
    def _one_sum_a_file(self) -> Self:
        paths = (value for _, value in self if isinstance(value, Path))
        urls = set(filter(None, map(fetched_from, paths)))
        if self.sha256 is not None and len(self.sha256) != len(urls):
            given = f"{len(self.sha256)} given for {len(urls)} fetched files"
            raise ValueError(f"sha256: {given}; give one for each https:// URL, src's first")
        return self

    @model_serializer(mode="wrap")
    def _as_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A pair of files is recorded as two paths, as it was before there were other formats.
        settings: dict[str, Any] = dump(self)
        fields = type(self).model_fields
        keys = sorted(settings, key="sha256".__eq__)  # last
        return {key: settings[key] for key in keys if settings[key] != fields[key].default}

    @property
    def sums(self) -> tuple[str | None, str | None]:
        """The SHA-256 that the fetched source and target files must have; None means any."""
        return (self.sha256[0], self.sha256[-1]) if self.sha256 else (None, None)


class FilePair(TextFiles):
    """Two aligned text files: line n of one translates line n of the other.

    Relative paths start from the working directory. A path may be a URL, e.g. s3://bucket/train.de
    or https://host/train.de. It may lead into a zip archive, e.g. https://host/de-en.txt.zip/*.de.
    """

    src: FilePath = Field(description="path of the source side")
    tgt: FilePath = Field(description="path of the target side")


class DataSection(Section):
    """The settings of one kind of data."""

    place = "data"

    kind: str
    src_lang: Language = Field(description="source language, e.g. de, pt-BR or zh_TW")
    tgt_lang: Language = Field(description="target language")


class GermanEnglish(DataSection):
    """A corpus that has German and English, in either direction."""

    src_lang: Literal["de", "en"] = setting("de", "source language")
    tgt_lang: Literal["de", "en"] = setting("en", "target language")

    @model_validator(mode="after")
    def _two_languages(self) -> Self:
        if self.src_lang == self.tgt_lang:
            raise ValueError(f"tgt_lang: '{self.tgt_lang}' is also src_lang; they must differ")
        return self


class ToyData(GermanEnglish):
    """The toy captions in data/toy: made by a grammar, for experiments of a few minutes."""

    kind: Literal["toy"]


class FilesData(DataSection):
    """Any parallel text, as pairs of files."""

    kind: Literal["files"]
    train: FilePair = Field(description="training pairs")
    val: FilePair = Field(description="validation pairs")
    test: dict[str, FilePair] = setting(
        {}, "test splits, by name", may_change=True, may_differ=True
    )

    @model_validator(mode="after")
    def _split_names_are_free(self) -> Self:
        for name in ("train", "val"):
            if name in self.test:
                raise ValueError(f"test.{name}: the name '{name}' is taken; use another name")
        return self


DataConfig = Annotated[
    DataSection,
    Kinds("corpus", ToyData, FilesData),
]
