"""A check of a file's name and first bytes, to find out whether its lines are text."""

import re
from contextlib import suppress
from pathlib import Path

from transformer_cli.base.errors import TransformerCliError, UsageError
from transformer_cli.base.text_files import is_compressed, open_text

_NO_LINES = re.compile(
    r"\.(adoc|asciidoc|ass|astro|cjs|conf|cshtml|css|csv|dfxp|dita|docx?|ejs|epub|ftl|g?mo|idml|inc"
    r"|ini|ipynb|js|json[cl]?|jspx?|jsx|log|mdx|mjs|njk|od[pst]|parquet|pdf|php|plist|pot?|pptx?"
    r"|properties|qmd|resx|rmd|rst|rtf|sbv|scss|ssa|strings|stringsdict|sub|svelte|svg|tex|tmx|toml"
    r"|ts[vx]|ttml|twig|vue|xcstrings|(sd|mq|m)?xliff|xlf|xlsx?|xml|xsd|xslt?|ya?ml)"
)
"""File extensions of files whose lines are not sentences, e.g. of tables and code.

Those that are also language codes, such as .arb, .cs, .hbs, .lrc, .smi and .ts, are left out. So
is .zip, as another error lists the files in it.
"""
_MARKUP_OR_CODE = re.compile(
    rb"""(?:\xef\xbb\xbf)?\s*(?:
    <[?!] | <(?:html|sami|script|svg|template|ts|tt|xliff)\b | <[^<>\n]+>[ \t]*\r?\n\s*[<{]
    | \{[%\#] | \{\s*"[^"\n]*"\s*: | \[\s*\{\s*" | [\[{]\s*\n             # templates, JSON
    | \[\d\d:\d\d\.\d\d\] | \[(?:al|ar|ti):                             # LRC
    | (?:\d+\s*\n)?[\d:.,]+\s-->\s | WEBVTT\b | \[script\sinfo\]
    | (?:\#[^\n]*\n\s*)*msg(?:id|ctxt)\s*" | %PDF- | \{\\rtf | \\documentclass | \#! | /\*
    | import\s+(?:\{[^{}]*\}|\*\s+as\s+\w+)\s+from\s+["'] | ["']use\s(?:client|strict)["']
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Beginnings of files whose lines are not sentences; no prose begins with any of them."""
_SNIFFED_BYTES = 4096


def check_is_text(path: Path, readable: str) -> None:
    """Raise a UsageError if the lines of a file are not sentences.

    Call this if no installed extension reads it. ``readable`` names what else users can give.
    """
    if _NO_LINES.fullmatch(ending_of(path)) or _begins_as_markup_or_code(path):
        raise UsageError(
            f"{path}: its lines are not sentences, and no installed extension reads it here; save "
            f"its text with one sentence on each line, or give {readable}"
        )


def ending_of(path: Path) -> str:
    """Return a file name's extension in lower case, ignoring a compression extension like '.gz'."""
    return (path.with_suffix("") if is_compressed(path) else path).suffix.lower()


def _begins_as_markup_or_code(path: Path) -> bool:
    with suppress(TransformerCliError, OSError):  # a later read reports the error
        if path.is_file():
            with open_text(path) as file:
                return bool(_MARKUP_OR_CODE.match(file.read(_SNIFFED_BYTES)))
    return False
