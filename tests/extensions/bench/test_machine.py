from importlib.metadata import version
from pathlib import Path

import pytest
from cli import process

from transformer_cli.base import packages
from transformer_cli.extensions.bench import machine


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_facts_have_versions_and_the_precision(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformer_cli.model.device.has_bfloat16", lambda: precision != "float32")
    facts = machine.describe_machine("cpu")
    assert facts["torch"] == version("torch")
    assert facts["precision"] == precision
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


@pytest.mark.parametrize("words", [("--version", "--verbose"), ("--verbose", "--version")])
def test_it_is_printed_for_an_issue(words: tuple[str, ...]) -> None:
    finished = process.run(*words)
    assert (finished.code, finished.err) == (0, "")
    lines = dict(line.split(None, 1) for line in finished.out.splitlines())
    assert lines["transformer-cli"] == packages.__version__
    assert lines["precision"] in ("float32", "bfloat16")


def test_verbose_is_for_the_version() -> None:
    process.assert_refused(process.run("--verbose", "init"), 2, "--verbose: is for --version")
