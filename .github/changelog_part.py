"""Prints what CHANGELOG.md says of a version: ``changelog_part.py VERSION``."""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def part(changelog: str, version: str) -> str:
    """Return the text below a version's heading, without it."""
    _, heading, rest = changelog.partition(f"\n## {version}\n")
    text = re.split(r"^## ", rest, maxsplit=1, flags=re.M)[0].strip()
    if not heading or not text:
        sys.exit(f"CHANGELOG.md: has no part '## {version}'; name the version there")
    return text + "\n"


if __name__ == "__main__":
    sys.stdout.write(part(CHANGELOG.read_text(encoding="utf-8"), sys.argv[1]))
