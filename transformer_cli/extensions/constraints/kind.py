"""The ``CodecKind`` of reserved tokens, and what it records about them in tokenizer.json."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from transformer_cli.base import registry
from transformer_cli.config.schema import Config
from transformer_cli.extensions.constraints.settings import find_protect
from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS, Group
from transformer_cli.text.protocol import Lines, Tokenizers

_TAG = r"^[A-Za-z0-9_-]{1,32}$"  # the form of tags in the settings of sources


class ReservedRecord(BaseModel):
    """What reserved tokens stand for: placeholders, and tags in the order of their ids."""

    model_config = ConfigDict(extra="forbid", strict=True)

    protect: list[Group] = []
    tags: list[Annotated[str, Field(pattern=_TAG)]] = []


def make_record(protect: Sequence[Group], tags: Sequence[str] = ()) -> dict[str, Any]:
    """Return a ``ReservedRecord`` as a dict, with placeholder groups in a fixed order."""
    groups = [group for group in GROUPS if group in protect]
    record = ReservedRecord(protect=groups, tags=list(tags))
    return record.model_dump(mode="json", exclude_defaults=True)


class ReservedKind:
    """The ``CodecKind`` that gives tokenizers the reserved tokens that a config needs."""

    def describe(self, config: Config) -> dict[str, Any]:
        sources = registry.entries("mixing").values()
        tags = {tag for each in sources for tag in each.load("tags")(config.data)}
        return make_record(find_protect(config.tokenizer), sorted(tags))

    def searches_again(self, config: Config) -> bool:
        return bool(find_protect(config.tokenizer))

    def check(self, record: Any) -> None:
        try:
            ReservedRecord.model_validate(record)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise ValueError(f"{key}: {first['msg']}") from error

    def check_reuse(self, record: dict[str, Any], wanted: dict[str, Any]) -> None:
        there, asked = map(ReservedRecord.model_validate, (record, wanted))
        if missing := [tag for tag in asked.tags if tag not in there.tags]:
            known = f"only {', '.join(there.tags)}" if there.tags else "none"
            raise ValueError(
                f"has no tag '{missing[0]}', but {known}; a vocabulary cannot grow, so remove "
                "the tag from the sources"
            )

    def text_to_learn(self, record: dict[str, Any], src: Lines, tgt: Lines) -> tuple[Lines, Lines]:
        from transformer_cli.extensions.constraints.reserved import without_slots

        protect = ReservedRecord.model_validate(record).protect
        if not protect:
            return src, tgt
        return without_slots(src, tgt, protect, 0), without_slots(src, tgt, protect, 1)

    def learn(self, record: dict[str, Any], src: Lines, tgt: Lines) -> dict[str, Any]:
        return record

    def open(self, tokenizers: Tokenizers, record: dict[str, Any]) -> Tokenizers:
        from transformer_cli.extensions.constraints.reserved import ReservedTokenizers

        reserved = ReservedRecord.model_validate(record)
        return ReservedTokenizers.of(tokenizers, reserved.protect, reserved.tags)


KIND = ReservedKind()
