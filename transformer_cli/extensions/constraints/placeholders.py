"""Placeholders of a line, which a run protects: what ``tokenizer.protect`` lists, and where it is.

They are groups, or the user's own patterns; a translation is compared with its source's.
"""

import math
import re
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache, partial
from time import thread_time
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from transformer_cli.base.errors import TokenizerError, did_you_mean, shorten_middle
from transformer_cli.config.sections import Section
from transformer_cli.config.setting_tree import describe_value
from transformer_cli.text.lines import GROUPS, Group, Search, VerbatimPart, Widen, find_verbatim

if TYPE_CHECKING:
    import regex

_LONGEST = 100
_MOST_REPEATED = 10_000
# ``regex`` writes out each item as often as it must occur. Counts may be nested if a group, or a
# comment after it, is counted.
_COUNT = re.compile(r"\{(\d+)")
_MAY_NEST = re.compile(r"\)\s*\{")
_LITERAL_BRACE = re.compile(r"(\\N\{[^}]{0,200}\}|\\.)|\{(?!\d+,?\d*\}|,\d*\})", re.DOTALL)


class PlaceholderPattern(Section):
    """Placeholders that match a pattern of the user's."""

    pattern: str = Field(description="a Python regular expression")


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

MAX_SECONDS = 5  # processor time that the user's patterns may take in one search of a line


def find_placeholders(line: str, protect: Collection[Protection]) -> list[VerbatimPart]:
    """Return a line's protected placeholders; TokenizerError: a user's pattern takes too long."""
    groups = [each for each in protect if not isinstance(each, PlaceholderPattern)]
    return find_verbatim(line, groups, widen_search(protect))


def widen_search(protect: Collection[Protection]) -> Widen | None:
    """Return what makes a search of one line find the user's patterns, too; None: there are none.

    At the same place, the first of them goes before the others: somebody's '%FILE%' is not printf's
    '%F'. The search raises TokenizerError.
    """
    end = thread_time() + MAX_SECONDS  # not the process's: other threads translate meanwhile
    patterns = (each.pattern for each in protect if isinstance(each, PlaceholderPattern))
    own = [partial(_search_own, pattern, end) for pattern in patterns]
    return (lambda search: _search_by_turns([*own, search])) if own else None


def _search_by_turns(searches: Sequence[Search]) -> Search:
    """Return a search of one line for the leftmost match of any of several."""
    found: list[re.Match[str] | regex.Match[str] | None] = []

    def search(line: str, place: int) -> "re.Match[str] | regex.Match[str] | None":
        if not found:
            found.extend(each(line, place) for each in searches)
        for number, match in enumerate(found):
            if match is not None and match.start() < place:
                found[number] = searches[number](line, place)
        left = (match for match in found if match is not None)
        return min(left, key=lambda match: match.start(), default=None)

    return search


def _search_own(pattern: str, end: float, line: str, place: int) -> "regex.Match[str] | None":
    try:
        return compile_own(pattern).search(line, place, timeout=max(0.01, end - thread_time()))
    except (TimeoutError, MemoryError):  # it may take up to 1 GiB
        raise TokenizerError(
            f"tokenizer.protect: the pattern '{pattern}' takes more than {MAX_SECONDS} s or 1 GiB "
            f"for the line '{shorten_middle(line, 80)}'; simplify it"
        ) from None


def compare_placeholders(src: str, tgt: str, protect: Collection[Protection]) -> str:
    """Return how the placeholders of two lines differ, as in "without '%s', with '% s'".

    Nothing if they are the same. One that is twice in a line has to be twice in the other.
    """
    if not protect:
        return ""
    of_src, of_tgt = (
        Counter(each.text for each in find_placeholders(line, protect)) for line in (src, tgt)
    )
    return ", ".join(
        f"{how} '{text}'"
        for how, texts in (("without", of_src - of_tgt), ("with", of_tgt - of_src))
        for text in texts.elements()
    )
