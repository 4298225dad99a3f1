"""What ``tokenizer.protect`` lists: groups of placeholders, and the user's own patterns."""

import math
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from transformer_cli.base.errors import did_you_mean
from transformer_cli.config.sections import Section
from transformer_cli.config.setting_tree import describe_value

if TYPE_CHECKING:
    import regex

_LONGEST = 100
_MOST_REPEATED = 10_000
# ``regex`` writes out each item as often as it must occur. Counts may be nested if a group, or a
# comment after it, is counted.
_COUNT = re.compile(r"\{(\d+)")
_MAY_NEST = re.compile(r"\)\s*\{")
_LITERAL_BRACE = re.compile(r"(\\N\{[^}]*\}|\\.)|\{(?!\d+,?\d*\}|,\d*\})", re.DOTALL)


class PlaceholderPattern(Section):
    """Placeholders that match a pattern of the user's."""

    pattern: str = Field(description="a Python regular expression")


Group = Literal["printf", "braces", "tags", "urls"]  # those of text.verbatim
GROUPS: tuple[Group, ...] = get_args(Group)
Protection = Group | PlaceholderPattern


@cache
def compile_own(pattern: str) -> "regex.Pattern[str]":
    """Compile a user's pattern, perhaps from a stranger's model, for searches in limited time.

    A brace that begins no count stays a brace: ``regex`` would read 'x{e}' as an approximate match.
    """
    import regex  # a tenth of a second, and few runs have such a pattern

    return regex.compile(_LITERAL_BRACE.sub(lambda brace: brace[1] or r"\{", pattern))


def _check_items(value: object) -> object:
    """Raise ValueError, which names the item, if one is neither a group nor a usable pattern."""
    for number, item in enumerate(value if isinstance(value, list) else []):
        match item:
            case {"pattern": str() as pattern} if len(item) == 1:
                if problem := _find_problem(pattern):
                    raise ValueError(f"[{number}].pattern: {problem}")
            case str() if item in GROUPS:
                pass
            case _ if not isinstance(item, PlaceholderPattern):
                groups = ", ".join(f"'{group}'" for group in GROUPS)
                hint = did_you_mean(item, GROUPS) if isinstance(item, str) else None
                raise ValueError(
                    f"[{number}]: expected {groups} or a mapping {{pattern: REGEX}}, found "
                    f"{describe_value(item)}{f'; {hint}' if hint else ''}"
                )
    return value


def _find_problem(pattern: str) -> str | None:
    """Return why a pattern cannot be used; None: it can."""
    if len(pattern) > _LONGEST:
        return f"{len(pattern)} characters; at most {_LONGEST}"
    counts = [max(1, int(count)) for count in _COUNT.findall(pattern)]
    if (math.prod if _MAY_NEST.search(pattern) else sum)(counts) > _MOST_REPEATED:
        return f"its counts, as in '{{99}}', repeat more than {_MOST_REPEATED:,} items; lower them"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # '[[:alpha:]]' is another set in regex
            re.compile(pattern)
        finds_nothing = compile_own(pattern).search("", timeout=1)
    except TimeoutError:
        return "takes more than a second to search an empty line; simplify it"
    except FutureWarning as error:
        return f"{error}; in a set, write '\\[' for '[', and a backslash before each doubled sign"
    except Exception as error:  # of either library: errors of their own, OverflowError and others
        return f"isn't a valid Python regular expression: {error}"
    if finds_nothing:
        return "matches empty text, as 'x*' does; write 'x+', for example"
    return None


ProtectedParts = Annotated[
    list[
        Annotated[
            Protection,
            WithJsonSchema(
                {
                    "oneOf": [
                        {"type": "string", "enum": list(GROUPS)},
                        {
                            "type": "object",
                            "properties": {"pattern": {"type": "string", "maxLength": _LONGEST}},
                            "required": ["pattern"],
                            "additionalProperties": False,
                        },
                    ]
                }
            ),
        ]
    ],
    BeforeValidator(_check_items),
]
