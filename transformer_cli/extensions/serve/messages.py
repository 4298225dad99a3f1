"""The bodies of requests, as in LibreTranslate, with a few additions."""

from typing import Any

from pydantic import BaseModel, Field

from transformer_cli.extensions.serve.served_model import MOST_ALTERNATIVES


class AnyRequest(BaseModel):
    """What every request may have."""

    api_key: str = Field("", description="a key, if the server asks for one")


class DetectRequest(AnyRequest):
    """Detect the language of a text."""

    q: str = Field(description="the text")


class PairRequest(AnyRequest):
    """Leave out what the model of two languages learned last."""

    source: str = Field(description="language code; for /translate, 'auto' detects it")
    target: str = Field(description="language code")


class TranslateRequest(PairRequest):
    """Translate a text, or a list of texts."""

    q: str | list[str] = Field(description="the text, or several")
    format: str = Field("text", pattern="^(text|html)$", description="'text' or 'html'")
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES, description="how many to add")
    details: bool = Field(False, description="whether to align words and to mark doubtful ones")


class FileRequest(PairRequest):
    """Translate a file, sent as form data."""

    file: Any = Field(description="the file", json_schema_extra={"format": "binary"})


class SuggestRequest(PairRequest):
    """Correct a translation, from which the model may then learn."""

    q: str = Field(description="the source text")
    s: str = Field(description="its correct translation")
