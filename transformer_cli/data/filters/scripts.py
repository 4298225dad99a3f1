"""Letters of another script."""

from functools import lru_cache

from transformer_cli.data.filters.protocol import PairFilter
from transformer_cli.text.scripts import script_of, scripts_of

_LEAST_LETTERS = 5
"""A line of fewer, an abbreviation say, tells no script."""
_script_of = lru_cache(maxsize=1 << 16)(script_of)


def script_filter(src_lang: str, tgt_lang: str) -> PairFilter:
    """Return the filter of pairs with a side in a script that its language is not written in."""
    src_scripts, tgt_scripts = scripts_of(src_lang), scripts_of(tgt_lang)
    return PairFilter(
        "script",
        "most letters of a side are of a script that its language is not written in",
        lambda src, tgt: _is_foreign(src, src_scripts) or _is_foreign(tgt, tgt_scripts),
    )


def _is_foreign(line: str, scripts: frozenset[str] | None) -> bool:
    """Return whether most letters are of other scripts; None: of an unknown language."""
    if scripts is None or ("LATIN" in scripts and line.isascii()):
        return False
    letters = [_script_of(character) for character in line if character.isalpha()]
    foreign = sum(script is not None and script not in scripts for script in letters)
    return len(letters) >= _LEAST_LETTERS and 2 * foreign > len(letters)
