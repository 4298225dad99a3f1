"""Warm up the server that tests fork: import everything, and build spaCy's rules.

The server imports this module, with its own search path.
"""

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import spacy
import spared as spared

from cli import process as process  # the forks' own

_TESTS = Path(__file__).parents[1]
_PACKAGE = _TESTS.with_name("transformer_cli")
_LATE = [  # what others import when they are called
    "numpy.ctypeslib",
    "numpy.ma",
    "sacrebleu.tokenizers.tokenizer_13a",
    "sacremoses",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.summary.writer.record_writer",
    "torch._dynamo",
]

for file in sorted((_TESTS / "extensions").glob("*/in_forks.py")):
    module = importlib.import_module(f"extensions.{file.parent.name}.in_forks")
    process.IN_FORKS.append(module.prepare)
sys.path.remove(str(_TESTS))
os.environ.pop("PYTHONPATH")
if (path := os.environ.pop(process.USERS_PATH, None)) is not None:
    os.environ["PYTHONPATH"] = path
for name in _LATE:
    importlib.import_module(name)
for file in sorted(_PACKAGE.rglob("*.py")):
    if file.name != "__main__.py":
        parts = file.relative_to(_PACKAGE.parent).with_suffix("").parts
        try:
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
        except ModuleNotFoundError as error:
            # Of an extension that needs another one, which is not here.
            if not (error.name or "").startswith("transformer_cli.extensions."):
                raise

# Of the languages of tests, as many as a training makes; each takes as long as a tiny model.
_blank = spacy.blank
_made = {language: [_blank(language) for _ in range(4)] for language in ("xx", "de", "en")}


def _take_or_make(name: str, **options: Any) -> Any:
    made = _made.get(name, [])
    return made.pop() if made and not options else _blank(name, **options)


spacy.blank = _take_or_make
gc.collect()
gc.freeze()
