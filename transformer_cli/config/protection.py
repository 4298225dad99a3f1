"""What ``tokenizer.protect`` lists: groups of placeholders, and patterns of a user's own.

A pattern may come with a stranger's model, so one is refused that could take time exponential in a
line's length: nothing that itself matches in several ways is repeated, and few repetitions give
back what they took.
"""

import re
import warnings
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from transformer_cli.config.sections import Section
from transformer_cli.config.setting_tree import describe_value
from transformer_cli.errors import did_you_mean

Protected = Literal["printf", "braces", "tags", "urls"]
GROUPS: tuple[Protected, ...] = get_args(Protected)
_LONGEST = 100
_MOST_GREEDY = 4
_ESCAPE_OR_SET = re.compile(r"\\.|\[\^?+\]?+(?:\\.|[^\]\\])*+\]", re.DOTALL)
_OPENING = re.compile(r"\((?:\?(?:i?:|[=!>]|<[=!]))?")
_REPETITION = re.compile(r"(\)?)([*+?]|\{\d*,?\d*\})([+?]?)")


class PlaceholderPattern(Section):
    """Placeholders of a form of one's own."""

    pattern: str = Field(description="regular expression of Python's")


Protection = Protected | PlaceholderPattern


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
    """Return why a pattern is none that can be protected; None: it is one."""
    if len(pattern) > _LONGEST:
        return f"{len(pattern)} characters; at most {_LONGEST}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # '[[' is to mean something else
            finds_nothing = bool(re.compile(pattern).search(""))
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression of Python's: {error}"
    if finds_nothing:
        return "fits where there is no text at all, as 'x*' does; write 'x+', say"
    bare = _ESCAPE_OR_SET.sub("x", pattern)
    if any(opening == "(" for opening in _OPENING.findall(bare)):
        return "has a group that is numbered or named, or sets flags; write '(?:…)' or '(?i:…)'"
    repetitions = _REPETITION.findall(_OPENING.sub("(", bare))
    if any(group and how != "?" and end != "+" for group, how, end in repetitions):
        return "repeats a group, which may take for ever; write '(?:…)++', or repeat '[…]'"
    greedy = sum(end != "+" and not re.fullmatch(r"\{\d+\}", how) for _, how, end in repetitions)
    if greedy > _MOST_GREEDY:
        return (
            f"{greedy} repetitions that give back, at most {_MOST_GREEDY}; write 'x++' for 'x+' "
            "where it need not"
        )
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
