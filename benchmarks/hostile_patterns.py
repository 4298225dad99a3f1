"""The regular expressions of the package, found in its modules, and text that is made to slow them.

Text for a pattern comes from its syntax: a sample that matches, of which each character, and each
beginning, is repeated.
"""

import ast
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple

import transformer_cli
from transformer_cli.base import registry

_METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "finditer", "findall")
_ANCHORED = {"match", "fullmatch"}
_LONGEST_SAMPLE = 40
_MOST_SAMPLES = 6

Shape = Callable[[int], str]


class OwnPattern(NamedTuple):
    """A pattern, where it is from, and whether it is only matched where a text begins."""

    place: str
    pattern: re.Pattern[Any]
    is_anchored: bool

    def search(self, text: str) -> None:
        """Use the pattern as the package does."""
        is_bytes = isinstance(self.pattern.pattern, bytes)
        given: Any = text.encode(errors="replace") if is_bytes else text
        if self.is_anchored:
            self.pattern.match(given)
            self.pattern.fullmatch(given)
        else:
            for _ in self.pattern.finditer(given):
                pass


def find_patterns() -> list[OwnPattern]:
    """Return the patterns that modules and classes keep, and those in calls of ``re``."""
    found: dict[tuple[Any, int, bool], OwnPattern] = {}
    for module in walk_packages(transformer_cli.__path__, "transformer_cli."):
        if module.name.endswith("__main__") or not _is_usable(module.name):
            continue
        for own in _patterns_of(module.name):
            key = own.pattern.pattern, own.pattern.flags, own.is_anchored
            found.setdefault(key, own)
    return list(found.values())


def _is_usable(module_name: str) -> bool:
    """Return whether a module is the core's, or of an extension that can be used here."""
    _, package, *names = module_name.split(".")
    return package != "extensions" or not names or registry.is_installed(names[0])


def _patterns_of(module_name: str) -> Iterator[OwnPattern]:
    module = import_module(module_name)
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    for name, value in list(vars(module).items()):
        is_own_class = isinstance(value, type) and value.__module__ == module_name
        for pattern in _inside(dict(vars(value)) if is_own_class else value):
            yield OwnPattern(f"{module_name}.{name}", pattern, _is_anchored(name, source))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str() | bytes() as text), *_],
            ) if method in _METHODS:
                flags = sum(_flag(each) for each in ast.walk(node))  # none is there twice
                place = f"{module_name}:{node.lineno}"
                yield OwnPattern(place, re.compile(text, flags), method in _ANCHORED)


def _flag(node: ast.AST) -> int:
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        return int(getattr(re, node.attr, 0))
    return 0


def _inside(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (dict, list, tuple, set, frozenset)) and len(value) < 1000:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _inside(each)


def _is_anchored(name: str, source: str) -> bool:
    methods = set(re.findall(rf"\b{name}(?:\[[^\]]*\])?\.(\w+)", source)) & set(_METHODS)
    return bool(methods) and methods <= _ANCHORED


# --- text for one pattern -------------------------------------------------------------------------


def attacks(pattern: re.Pattern[Any]) -> dict[str, Shape]:
    """Return texts that may slow a pattern, by what is repeated in them."""
    tree = re._parser.parse(pattern.pattern, pattern.flags)  # type: ignore[attr-defined]
    shapes: dict[str, Shape] = {}
    for sample in dict.fromkeys(_samples(tree)):
        sample = sample[:_LONGEST_SAMPLE]
        for end in range(1, len(sample) + 1):
            head = sample[:end]
            for unit in (sample[end - 1], sample[max(0, end - 2) : end], head):
                shapes[f"{head!r} and {unit!r} repeated"] = _repeat(head, unit)
    return shapes


def _repeat(head: str, unit: str) -> Shape:
    return lambda size: head + unit * (size // len(unit)) + "\0"


def _samples(tree: Any) -> list[str]:
    """Return texts that a parsed pattern, or a part of it, fits, more or less."""
    texts = [""]
    for operator, argument in tree:
        parts = _samples_of(str(operator), argument)
        texts = [
            text + part for part in parts for text in texts[: _MOST_SAMPLES // len(parts) or 1]
        ]
    return texts[:_MOST_SAMPLES]


def _samples_of(operator: str, argument: Any) -> list[str]:
    match operator:
        case "LITERAL":
            return [chr(argument)]
        case "NOT_LITERAL":
            return ["x" if argument != ord("x") else "y"]
        case "ANY":
            return ["x"]
        case "IN":
            return [_member(argument)]
        case "BRANCH":
            return [text for branch in argument[1] for text in _samples(branch)[:2]][:_MOST_SAMPLES]
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least = min(max(1, argument[0]), _LONGEST_SAMPLE)
            return [text * least for text in _samples(argument[2])]
        case "SUBPATTERN":
            return _samples(argument[3])
        case "ATOMIC_GROUP":
            return _samples(argument)
    return [""]


_CATEGORIES = {
    "CATEGORY_DIGIT": "1",
    "CATEGORY_SPACE": " ",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_NOT_WORD": "-",
}


def _member(choices: Any) -> str:
    """Return a character of a set."""
    if str(choices[0][0]) == "NEGATE":
        return next(sign for sign in "x-1 \n<é" if not _is_in(sign, choices[1:]))
    operator, argument = choices[-1]
    match str(operator):
        case "CATEGORY":
            return _CATEGORIES[str(argument)]
        case "RANGE":
            return chr(argument[0])
    return chr(argument)


def _is_in(sign: str, choices: Any) -> bool:
    return any(
        (str(operator) == "LITERAL" and argument == ord(sign))
        or (str(operator) == "RANGE" and argument[0] <= ord(sign) <= argument[1])
        or (str(operator) == "CATEGORY" and _fits_category(sign, str(argument)))
        for operator, argument in choices
    )


def _fits_category(sign: str, category: str) -> bool:
    of = {"DIGIT": sign.isdecimal(), "SPACE": sign.isspace(), "WORD": sign.isalnum() or sign == "_"}
    name = category.removeprefix("CATEGORY_")
    return not of[name.removeprefix("NOT_")] if name.startswith("NOT_") else of[name]
