"""docs/packages.md names what pyproject.toml requires."""

import re

from docs.packages import PAGE, direct


def test_each_requirement_has_a_licence() -> None:
    """Or: python -m docs.packages."""
    rows = re.findall(r"^\| \w.* \| (.*) \| .*\|$", PAGE.read_text("utf-8"), re.M)
    cells = [cell for row in rows[1:] for cell in re.split(r", (?![^(]*\))", row) if cell]
    named = {name: extras.rstrip(")") for name, _, extras in (c.partition(" (") for c in cells)}
    expected = {name: ", ".join(of) for name, of in direct().items() if "base" not in of}
    assert named == dict.fromkeys(direct(), "") | expected
