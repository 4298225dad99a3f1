"""The YAML text of a new config, with a model whose size suits the user's text."""

from collections.abc import Mapping

_HEAD = """\
# yaml-language-server: $schema=schema.json
# {what}, {src_lang} to {tgt_lang}: {pairs:,} pairs.
# Paths are relative to the directory where you run a command. Editors use schema.json to complete
# keys, and `transformer-cli config show` prints every setting.
data:
  kind: corpus           # one or more sources, in many formats
  src_lang: {src_lang}
  tgt_lang: {tgt_lang}
  sources:
    - {train}
"""
_SPLIT = """\
  # Held out: no source or target of these pairs stays in the training text.
  split: {{val: {val}, test: {test}}}
"""
_MODEL = """
tokenizer:
  kind: sentencepiece    # subwords, learned from the training text
  vocab_size: {vocab_size}
{tokenizer}
{about}model:
  d_model: {d_model}
  num_heads: {num_heads}
  d_ff: {d_ff}
  num_encoder_layers: {layers}
  num_decoder_layers: {layers}
  dropout: {dropout}
  tying: all             # both languages share one vocabulary

training:
  epochs: {epochs}
  batch_tokens: {batch_tokens}     # at most this many tokens per side in a step
  schedule: {{{schedule}}}
"""
_SMALL: dict[str, object] = {
    "vocab_size": "{}        # an error if the text is too small for it",
    "about": "# A small model for a small text: a larger one would memorize it.\n",
    **{"d_model": 128, "num_heads": 4, "d_ff": 256, "layers": 2, "dropout": "0.1"},
    **{"epochs": 20, "batch_tokens": 2048, "schedule": "kind: linear, peak: 3e-3, warmup: 100"},
}
_MEDIUM: dict[str, object] = {
    **{"vocab_size": 8000, "about": "", "d_model": 256, "num_heads": 4, "d_ff": 1024, "layers": 3},
    "dropout": "0.2           # 0.1 for more text, 0.3 for less",
    **{"epochs": 8, "batch_tokens": 2560, "schedule": "kind: linear, peak: 2e-3, warmup: 300"},
}
_LARGE: dict[str, object] = {
    "vocab_size": 32000,
    "about": '# The base model of "Attention Is All You Need": a size for a GPU.\n',
    **{"d_model": 512, "num_heads": 8, "d_ff": 2048, "layers": 6, "dropout": "0.1"},
    **{"epochs": 10, "batch_tokens": 4096, "schedule": "kind: noam, factor: 2.0, warmup: 4000"},
}
_NO_TEST = """\
  # Text to score the finished model on; neither training nor validation uses it:
  # test:
  #   test: {src: FILE, tgt: FILE}
"""


def fill_template(
    what: str,
    languages: tuple[str, str],
    pairs: int,
    sources: Mapping[str, str],
    held_out: Mapping[str, int],
    tokenizer: str,
) -> str:
    """Return the YAML config of an experiment whose training source has ``pairs`` pairs.

    ``sources`` has the YAML of the source for ``train``, and optionally ``val`` and ``test``.
    ``held_out`` says how many pairs to draw from ``train`` for ``val`` and ``test``. ``tokenizer``
    is YAML to add to that section.
    """
    src_lang, tgt_lang = languages
    trained = pairs - sum(held_out.values())
    size = _SMALL if trained < 20_000 else _MEDIUM if trained < 500_000 else _LARGE
    head = _HEAD.format(
        what=what, src_lang=src_lang, tgt_lang=tgt_lang, pairs=pairs, train=sources["train"]
    )
    val = f"  val: {sources['val']}\n" if "val" in sources else ""
    split = _SPLIT.format(**{"test": 0, **held_out}) if held_out else ""
    test = f"  test:\n    test: {sources['test']}\n" if "test" in sources else ""
    if not test and "test" not in held_out:
        test = _NO_TEST
    vocab_size = str(size["vocab_size"]).format(max(500, trained // 500 * 100))
    rest = _MODEL.format(**{**size, "vocab_size": vocab_size, "tokenizer": tokenizer})
    return f"{head}{val}{split}{test}{rest}"
