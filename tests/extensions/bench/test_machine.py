from importlib.metadata import version
from pathlib import Path

import pytest

from transformer_cli.extensions.bench import machine


def test_facts_have_versions_and_the_device() -> None:
    facts = machine.describe_machine("cpu")
    assert facts["torch"] == version("torch")
    assert facts["device"] == "cpu"
    assert all(facts.values())


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (
            "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx512f avx2\n",
            ("Some CPU", "avx2, avx512f"),
        ),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", (None, "asimd, bf16")),
        (None, (None, None)),
    ],
)
def test_processors(
    listed: str | None, expected: tuple[str | None, str | None], tmp_path: Path
) -> None:
    if listed is not None:
        (tmp_path / "cpuinfo").write_text(listed)
    found = machine.describe_processor(tmp_path / "cpuinfo")
    assert all(found)
    assert all(one in (None, two) for one, two in zip(expected, found, strict=True))
