"""docs/packages.md names what pyproject.toml requires."""

import re

from docs.packages import PAGE, direct


def test_each_requirement_has_a_row_with_a_licence() -> None:
    """Or: python -m docs.packages."""
    rows = re.findall(r"^\| (\S+) \| ([\w, ]+) \| (\w.*) \|$", PAGE.read_text("utf-8"), re.M)
    named = {name: of.split(", ") for name, of, _ in rows if "," not in name}
    assert {name: of for name, of in named.items() if name in direct()} == direct()
