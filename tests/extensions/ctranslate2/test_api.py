"""Python programs, where CTranslate2 searches."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extensions.ctranslate2.test_ctranslate2 import TEXT, subword_run
from transformer_cli import Translator
from transformer_cli.base.errors import UsageError


@pytest.mark.long
def test_where_ctranslate2_searches_torch_scores(tmp_path: Path) -> None:
    run_directory = subword_run(tmp_path / "run", joint=True)
    translator = Translator.load(run_directory.path, device="cpu")
    texts = translator.translate(TEXT)
    assert list(translator._loaded) == ["ctranslate2"]
    assert [best.text for best, *_ in translator.translate_n_best(TEXT)] == texts
    assert list(translator._loaded) == ["ctranslate2", "torch"]
    alone = Translator.load(run_directory.path, device="cpu", precision="int8")
    assert len(alone.translate_n_best(TEXT, n_best=2)) == len(TEXT)
    refused: list[dict[str, Any]] = [{"prefixes": TEXT}, {"alignments": True}]
    for wrong in refused:
        with pytest.raises(UsageError, match=f"{next(iter(wrong))}: need torch"):
            alone.translate_n_best(TEXT, **wrong)
    with pytest.raises(UsageError, match="translate: prefixes: need torch, which has no int8"):
        alone.translate(TEXT, prefixes=TEXT)


@pytest.mark.long
@pytest.mark.posix
@pytest.mark.parametrize("translates", [True, False])
def test_a_fork_translates_and_ends(translates: bool, tmp_path: Path) -> None:
    program = f"""
import os, sys, threading
from transformer_cli import Translator
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine
translator = Translator.load({str(subword_run(tmp_path / "run", joint=True).path)!r}, device="cpu")
assert isinstance(translator._loaded["ctranslate2"].engine, CTranslate2Engine)
expected = translator.translate({TEXT})
with translator._turn:  # by another thread
    child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if {translates}:
    assert translator.translate({TEXT}) == expected
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.long
@pytest.mark.posix
@pytest.mark.parametrize(("threads", "loads"), [(2, False), (None, False), (2, True)])
def test_a_fork_translates_by_torch(threads: int | None, loads: bool, tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
from transformer_cli import Translator
run = {str(subword_run(tmp_path / "run", joint=True).path)!r}
translator = Translator.load(run, device="cpu", threads={threads})
search = lambda: translator.translate_n_best({TEXT}, 1, alignments=True)
expected = search()
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(50)  # not to be left behind, should it hang
if {loads}:
    translator = Translator.load(run, device="cpu", threads={threads})
assert [[one.text for one in each] for each in search()] == [
    [one.text for one in each] for each in expected
]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
