"""Breaches of the schema as one line that names key, place, what was found and what is wanted."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.data_schema import FilesData, ToyData
from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import parse
from transformer_cli.config.validation import validate_as
from transformer_cli.config.yaml import dump_config, load_config
from transformer_cli.extensions.corpora.settings import find_more

_REQUIRED = "data: {kind: copy}\ntokenizer: {kind: words}\n"


def _validate(text: str) -> Config:
    return validate_as(Config, parse(text, "x.yaml"))


def _refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        _validate(text)
    return str(refusal.value)


def test_numbers_fit_where_their_value_does() -> None:
    config = _validate(
        _REQUIRED + "training:\n  schedule: {kind: noam, warmup: 4e3, factor: 2}\n  eps: 1e-9\n"
        "  batch_tokens: 4000.0\n  betas: [0, 0.98]\n  clip_norm: null\n"
    )
    assert config.training.schedule.warmup == 4000
    assert isinstance(config.training.schedule.warmup, int)
    assert config.training.batch_tokens == 4000
    assert config.training.eps == 1e-9
    assert config.training.betas == (0.0, 0.98)
    assert isinstance(config.training.betas[0], float)
    assert config.training.clip_norm is None


def test_norwegian_is_a_language_and_paths_start_here() -> None:
    config = _validate(
        "data: {kind: files, src_lang: no, tgt_lang: en,\n"
        "  train: {src: a, tgt: 12:30}, val: {src: c, tgt: d}}\n"
        "tokenizer: {kind: words}\n"
    )
    assert config.data.src_lang == "no"
    assert isinstance(config.data, FilesData)
    assert config.data.train.tgt == Path.cwd() / "12:30"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model:\n  num_head: 3\n",
            "x.yaml:4: model.num_head: unknown key; did you mean 'num_heads'?",
        ),
        ("trainin: {}\n", "x.yaml:3: trainin: unknown key; did you mean 'training'?"),
        (
            "decoding:\n  q: 3\n",
            "x.yaml:4: decoding.q: unknown key; "
            "the keys are beam_size, length_penalty, batch_tokens, max_length_ratio",
        ),
        ("training:\n  q: 3\n", "x.yaml:4: training.q: unknown key"),
        (
            "training:\n  schedule:\n    kind: noam\n    warm_up: 3\n",
            "x.yaml:6: training.schedule.warm_up: unknown key for kind 'noam'; "
            "did you mean 'warmup'?",
        ),
        (
            "training:\n  schedule:\n    kind: noam\n    noam: 3\n",
            "x.yaml:6: training.schedule.noam: unknown key for kind 'noam'; "
            "the keys are kind, factor, warmup",
        ),
        (
            "'a.b': 3\n",
            "x.yaml:3: 'a.b': unknown key; "
            "the keys are base, seed, init, data, tokenizer, model, training, decoding, evaluation",
        ),
    ],
)
def test_unknown_keys(text: str, message: str) -> None:
    assert _refusal(_REQUIRED + text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: '3'", "seed: expected a whole number, found the text '3'"),
        ("seed: 1_000", "seed: expected a whole number, found the text '1_000'"),
        ("seed: 1.5", "seed: expected a whole number, found 1.5"),
        ("seed: true", "seed: expected a whole number, found true"),
        ("seed:", "seed: expected a whole number, found nothing (null)"),
        ("seed: [1]", "seed: expected a whole number, found a list of 1"),
        ("seed: {a: 1}", "seed: expected a whole number, found keys and values"),
        ("seed: -1", "seed: expected at least 0, found -1"),
        (f"seed: {2**31}", f"seed: expected less than {2**31}, found {2**31}"),
        ("model:", "model: expected keys and values, found nothing (null)"),
        ("model: {d_model: 0}", "model.d_model: expected more than 0, found 0"),
        ("model: {dropout: 1}", "model.dropout: expected at most 0.9, found 1"),
        ("model: {dropout: '0.1'}", "model.dropout: expected a number, found the text '0.1'"),
        ("model: {norm: Pre}", "model.norm: expected 'pre' or 'post', found the text 'Pre'"),
        ("training: {rdrop_alpha: -1}", "training.rdrop_alpha: expected at least 0.0, found -1"),
        ("training: {ema_decay: 0}", "training.ema_decay: expected more than 0.0, found 0"),
        ("training: {ema_decay: 1}", "training.ema_decay: expected less than 1.0, found 1"),
        (
            "training: {init_share: 0.5}",
            "training.init_share: needs init, the run whose weights it is of",
        ),
        ("training: {eps: 1e999}", "training.eps: expected a finite number, found inf"),
        ("training: {eps: .nan}", "training.eps: expected a number, found the text '.nan'"),
        ("training: {betas: 1}", "training.betas: expected a list, found 1"),
        ("training: {betas: [0.9]}", "training.betas[1]: missing"),
        ("training: {betas: [0, 0, 0]}", "training.betas: expected a list of 2, found a list of 3"),
        ("training: {betas: [0, x]}", "training.betas[1]: expected a number, found the text 'x'"),
        ("training: {schedule: 3}", "training.schedule: expected keys and values, found 3"),
        (
            "training: {schedule: {kind: noam, warmup: x}}",
            "training.schedule.warmup: expected a whole number, found the text 'x'",
        ),
    ],
)
def test_wrong_values(text: str, message: str) -> None:
    assert _refusal(_REQUIRED + text) == f"x.yaml:3: {message}"


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ("lowercase: no", "lowercase: expected true or false, found the text 'no'"),
        (
            "src_rules: German",
            "src_rules: expected a language code such as 'de', 'pt-BR' or 'zh_TW', ",
        ),
        ("src_rules: 3", "src_rules: expected text, found 3"),
        ("max_size: 4", "max_size: expected at least 5, found 4"),
    ],
)
def test_wrong_values_in_a_section_with_kinds(tokenizer: str, message: str) -> None:
    text = f"data: {{kind: copy}}\ntokenizer:\n  kind: words\n  {tokenizer}\n"
    assert _refusal(text).startswith(f"x.yaml:4: tokenizer.{message}")


def test_long_values_are_cut() -> None:
    assert len(_refusal(f"{_REQUIRED}seed: {'x' * 10_000}")) < 200


def test_wrong_values_inside_files_data() -> None:
    text = (
        "data:\n  kind: files\n  src_lang: de\n  tgt_lang: en\n"
        "  train: {src: a, tgt: b}\n  val: {src: a, tgt: b}\n  test:\n    files:\n      src: 3\n"
        "      tgt: b\ntokenizer: {kind: words}\n"
    )
    assert _refusal(text) == "x.yaml:9: data.test.files.src: expected a path, found 3"


def test_paths_of_inheritance_and_of_added_pairs_start_here() -> None:
    config = _validate(
        "init: runs/a\ndata: {kind: toy, more: [{src: a, tgt: ~/b}, {src: /c, tgt: d}]}\n"
        "tokenizer: {kind: words}\n"
    )
    assert config.init == Path.cwd() / "runs" / "a"
    assert isinstance(config.data, ToyData)
    assert [(pair.src, pair.tgt) for pair in find_more(config.data)] == [
        (Path.cwd() / "a", Path.home() / "b"),
        (Path("/c"), Path.cwd() / "d"),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("kind: toy\n  more: 3", "more: expected a list, found 3"),
        ("kind: toy\n  more: [a]", "more[0]: expected keys and values, found the text 'a'"),
        ("kind: toy\n  more: [{src: a}]", "more[0].tgt: missing (path of the target side)"),
        ("kind: multi30k\n  more: [{src: 3, tgt: b}]", "more[0].src: expected a path, found 3"),
        ("kind: toy\n  more: [{src: a, tgt: b, by: c}]", "more[0].by: unknown key"),
        ("kind: copy\n  more: []", "more: unknown key for kind 'copy'"),
        ("kind: toy\n  replay: null", "replay: unknown key for kind 'toy'"),
        (
            "kind: files\n  replay: {share: 0.5, sources: [{src: a, tgt: b, split: false}]}\n"
            "  src_lang: de\n  tgt_lang: en\n  train: {src: a, tgt: b}\n  val: {src: a, tgt: b}",
            "replay.sources[0].split: is for data.sources of kind corpus; leave it out",
        ),
        (
            "kind: corpus\n  test: {a b: {src: a, tgt: b}}\n  src_lang: de\n  tgt_lang: en\n"
            "  split: {val: 1}\n  sources: [{src: a, tgt: b}]",
            "test.'a b': files are named after it; use letters, digits, - and _ only",
        ),
    ],
)
def test_wrong_added_pairs(data: str, message: str) -> None:
    refusal = _refusal(f"data:\n  {data}\ntokenizer: {{kind: words}}\n")
    assert refusal.startswith(f"x.yaml:3: data.{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "data: {kind: multi30}\ntokenizer: {kind: words}\n",
            "x.yaml:1: data.kind: expected 'multi30k', 'toy', 'copy', 'files', 'corpus' or "
            "'imported', found the text 'multi30'; did you mean 'multi30k'?",
        ),
        (
            "data: {kind: copy}\ntokenizer:\n  kind: [1]\n",
            "x.yaml:3: tokenizer.kind: expected 'words', 'sentencepiece', 'marian', "
            "'wordpiece' or 'huggingface', found a list of 1",
        ),
        (
            "data: {kind: copy}\ntokenizer:\n  lowercase: true\n",
            "x.yaml:2: tokenizer.kind: missing; it is 'words', 'sentencepiece', 'marian', "
            "'wordpiece' or 'huggingface'",
        ),
        (
            "tokenizer: {kind: words}\n",
            "x.yaml: data: missing; give it a kind: 'multi30k', 'toy', 'copy', 'files', 'corpus' "
            "or 'imported'",
        ),
        (
            "data: {kind: copy}\ntokenizer: {kind: words}\n"
            "training:\n  schedule:\n    kind: constant\n",
            "x.yaml:4: training.schedule.peak: missing (peak learning rate)",
        ),
    ],
)
def test_kinds_and_what_is_missing(text: str, message: str) -> None:
    assert _refusal(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model:\n  d_model: 250\n  num_heads: 4\n",
            "x.yaml:5: model.num_heads: 4 heads do not divide d_model 250",
        ),
        (
            "model:\n  d_model: 9\n  num_heads: 3\n",
            "x.yaml:4: model.d_model: sinusoidal positions need an even d_model, not 9",
        ),
        (
            "model:\n  tying: all\n",
            "x.yaml:4: model.tying: 'all' needs one vocabulary for both sides "
            "(subwords with joint: true, or one file for both); use 'output'",
        ),
        (
            "model:\n  positions: learned\n  max_positions: 100\n",
            "x.yaml:5: model.max_positions: 100 must be more than training.max_length 256 "
            "(one position is for EOS)",
        ),
        (
            "training: {max_length: 1000}\nmodel:\n  positions: learned\n",
            "x.yaml:4: model.max_positions: 512 must be more than training.max_length 1000 "
            "(one position is for EOS)",
        ),
    ],
)
def test_keys_that_do_not_fit_each_other(text: str, message: str) -> None:
    assert _refusal(_REQUIRED + text) == message


def test_keys_of_a_kind_that_do_not_fit_each_other() -> None:
    text = "data:\n  kind: toy\n  tgt_lang: de\ntokenizer: {kind: words}\n"
    assert _refusal(text) == "x.yaml:3: data.tgt_lang: 'de' is src_lang too; they must differ"
    text = (
        "data:\n  kind: files\n  src_lang: de\n  tgt_lang: en\n  train: {src: a, tgt: b}\n"
        "  val: {src: a, tgt: b}\n  test:\n    val: {src: a, tgt: b}\ntokenizer: {kind: words}\n"
    )
    assert _refusal(text) == (
        "x.yaml:8: data.test.val: the name 'val' is taken; call it something else"
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Train", "the name 'train' is taken"),
        ("VAL", "the name 'val' is taken"),
        ("Test", "the name 'test' is taken"),
        ("NEWS", "the name 'news' is taken"),
        ("con", "files are named after it, and Windows has none of this name"),
        ("Lpt1", "files are named after it, and Windows has none of this name"),
    ],
)
def test_splits_have_files_on_all_systems(name: str, problem: str) -> None:
    text = (
        "data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n  sources: [{src: a, tgt: b}]\n"
        "  split: {val: 1, test: 1}\n  test:\n    news: {src: a, tgt: b}\n"
    )
    _validate(f"{text}tokenizer: {{kind: words}}\n")
    refusal = _refusal(f"{text}    {name}: {{src: a, tgt: b}}\ntokenizer: {{kind: words}}\n")
    assert refusal == f"x.yaml:9: data.test.{name}: {problem}; call it something else"


def test_the_first_line_is_told_and_the_others_follow() -> None:
    text = _REQUIRED + "training:\n  epochs: 0\nmodel:\n  d_modl: 3\nseed: x\n"
    with pytest.raises(ConfigError) as refusal:
        _validate(text)
    assert str(refusal.value) == "x.yaml:4: training.epochs: expected more than 0, found 0"
    assert refusal.value.others == [
        "x.yaml:6: model.d_modl: unknown key; did you mean 'd_model'?",
        "x.yaml:7: seed: expected a whole number, found the text 'x'",
    ]


def test_of_very_many_mistakes_some_are_told() -> None:
    with pytest.raises(ConfigError) as refusal:
        _validate(_REQUIRED + "".join(f"k{number}: 1\n" for number in range(1000)))
    assert len(refusal.value.others) == 21
    assert refusal.value.others[-1] == "and 979 more errors"


def test_a_misspelt_key_is_not_missing() -> None:
    with pytest.raises(ConfigError) as refusal:
        _validate("dta: {kind: copy}\n")
    assert str(refusal.value) == "x.yaml:1: dta: unknown key; did you mean 'data'?"
    assert [line.split(";")[0] for line in refusal.value.others] == [
        "x.yaml: tokenizer: missing",
    ]


@pytest.mark.parametrize(
    "tokenizer",
    [
        "{kind: words}",
        "{kind: sentencepiece, model_type: unigram}",
        "{kind: wordpiece}",
        "{kind: huggingface, file: tokenizer.json}",
    ],
)
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_bpe_dropout_needs_merges(tokenizer: str, side: str) -> None:
    refusal = _refusal(
        f"data: {{kind: copy}}\ntokenizer: {tokenizer}\ntraining: {{{side}_bpe_dropout: 0.1}}\n"
    )
    assert "bpe_dropout" in refusal
    assert "model_type: bpe" in refusal


@pytest.mark.parametrize(
    ("data", "protect"),
    [
        ("{kind: toy}", "[urls]"),
        ("{kind: toy, more: [{src: a.de, tgt: a.en, tag: web}]}", "[]"),
    ],
)
def test_what_stands_once_in_a_line_is_not_concatenated(data: str, protect: str) -> None:
    settings = f"data: {data}\ntokenizer: {{kind: sentencepiece, protect: {protect}}}\n"
    assert "concatenate" in _refusal(settings + "training: {concatenate: 0.5}\n")


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (
            "{kind: sentencepiece, vocab_size: 9, model: m}",
            "tokenizer.vocab_size: is for learning, and a model made elsewhere is settled; "
            "leave it out",
        ),
        (
            "{kind: sentencepiece, model: m, tgt_model: n}",
            "tokenizer.tgt_model: model is for both sides; give that, or src_model and tgt_model",
        ),
        (
            "{kind: sentencepiece, tgt_model: n}",
            "tokenizer.src_model: missing, as tgt_model is for one side; give both, or model",
        ),
        (
            "{kind: huggingface, src_file: n}",
            "tokenizer.tgt_file: missing, as src_file is for one side; give both, or file",
        ),
        (
            "{kind: huggingface}",
            "tokenizer.file: missing (path of a tokenizer.json for both sides)",
        ),
        (
            "{kind: huggingface, file: a, vocab_size: 9}",
            "tokenizer.vocab_size: unknown key for kind 'huggingface'; "
            "the keys are kind, file, src_file, tgt_file, lowercase, protect",
        ),
    ],
)
def test_files_made_elsewhere_are_for_one_side_or_both(tokenizer: str, message: str) -> None:
    assert _refusal(f"data: {{kind: copy}}\ntokenizer: {tokenizer}\n") == f"x.yaml:2: {message}"


@pytest.mark.parametrize(
    ("tokenizer", "is_one"),
    [
        ({"kind": "sentencepiece", "model": "m"}, True),
        ({"kind": "sentencepiece", "src_model": "m", "tgt_model": "m"}, False),
        ({"kind": "huggingface", "file": "f"}, True),
        ({"kind": "huggingface", "src_file": "f", "tgt_file": "f"}, False),
        ({"kind": "wordpiece"}, True),
        ({"kind": "wordpiece", "joint": False}, False),
    ],
)
def test_tying_needs_one_vocabulary(tokenizer: dict[str, object], is_one: bool) -> None:
    settings = {"data": {"kind": "copy"}, "tokenizer": tokenizer, "model": {"tying": "all"}}
    if is_one:
        config = Config.model_validate(settings)
        # What is settled by files is not written down, and so can be read again.
        assert Config.model_validate(config.model_dump(mode="json")) == config
    else:
        with pytest.raises(ValidationError, match="one vocabulary"):
            Config.model_validate(settings)


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("training: {max_step: 3}\n", "max_steps"),
        ("training: {vocab_size: 3}\n", "tokenizer.vocab_size"),
        ("training: {schedule: {kind: bpe}}\n", None),
    ],
)
def test_a_hint_is_of_what_may_stand_there(setting: str, hint: str | None) -> None:
    refusal = _refusal(_REQUIRED + setting)
    assert ("did you mean" in refusal) == (hint is not None)
    assert hint is None or f"did you mean '{hint}'" in refusal


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ("beam_size: 3", "beam_size: unknown key; did you mean 'decoding.beam_size'?"),
        ("d_model: 3", "d_model: unknown key; did you mean 'model.d_model'?"),
        (
            "training: {dropout: 0.1}",
            "training.dropout: unknown key; did you mean 'model.dropout'?",
        ),
        ("model: {epochs: 3}", "model.epochs: unknown key; did you mean 'training.epochs'?"),
        ("decoding: {kind: 3}", "decoding.kind: unknown key; the keys are "),
    ],
)
def test_a_key_of_another_section_is_found_there(settings: str, hint: str) -> None:
    assert hint in _refusal(f"{_REQUIRED}{settings}\n")


def test_a_key_of_another_kind_of_data_is_no_hint() -> None:
    refusal = _refusal("data: {kind: copy, split: {val: 3}}\ntokenizer: {kind: words}\n")
    assert "data.split: unknown key for kind 'copy'" in refusal
    assert "did you mean" not in refusal


@pytest.mark.parametrize("key", ["filters: [length]", "weight: 2", "split: false"])
def test_splits_that_are_given_are_whole(key: str) -> None:
    source = "{{tsv: a.tsv, src_column: 1, tgt_column: 2{}}}"
    said = _refusal(
        "data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n"
        f"  sources: [{source.format('')}]\n  val: {source.format(f', {key}')}\n"
        "tokenizer: {kind: words}\n"
    )
    assert f"data.val.{key.partition(':')[0]}: is for data.sources" in said


@pytest.mark.parametrize("column", ["1.5", "0", "-1", "true"])
def test_a_column_that_can_not_be_is_told_once(column: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _validate(
            "data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n"
            f"  sources: [{{tsv: a.tsv, src_column: {column}, tgt_column: 2}}]\n"
            "  split: {val: 1}\ntokenizer: {kind: words}\n"
        )
    wanted = "data.sources[0].src_column: expected the number of a column, from 1, or its name"
    assert f"{wanted}, found {column}" in str(caught.value)
    assert not caught.value.others


@pytest.mark.parametrize(
    ("source", "message"),
    [
        *(
            (
                name,
                f"data.sources[0]: expected keys and values, found the text '{name}'; write {as_}",
            )
            for name, as_ in (
                ("dir/a.mo", "{po: dir/a.mo}"),
                ("*.po.gz", "{po: *.po.gz}"),
                ("a.TMX", "{tmx: a.TMX}"),
                ("a.tsv", "{tsv: a.tsv, src_column: 1, tgt_column: 2}"),
                ("a.jsonl.zst", "{jsonl: a.jsonl.zst, src_field: NAME, tgt_field: NAME}"),
                ("a.de", "{src: a.de, tgt: FILE}"),
                ("a b.de", "{src: FILE, tgt: FILE}"),
            )
        ),
    ],
)
def test_a_source_that_is_a_bare_path_is_answered_with_an_example(
    source: str, message: str
) -> None:
    shown = source if source.startswith("{") else f"'{source}'"
    refusal = _refusal(
        f"data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n  sources: [{shown}]\n"
        "  split: {val: 1}\ntokenizer: {kind: words}\n"
    )
    assert refusal == f"x.yaml:5: {message}"


@pytest.mark.parametrize(
    ("encoding", "found"),
    [("'{input}'", "the text '{input}'"), ("16", "16")],
)
def test_an_unknown_encoding_is_refused(encoding: str, found: str) -> None:
    refusal = _refusal(
        "data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n  split: {val: 1}\n"
        f"  sources:\n    - {{src: a, tgt: b, encoding: {encoding}}}\ntokenizer: {{kind: words}}\n"
    )
    assert refusal.endswith(f": expected an encoding such as cp1252 or utf-16, found {found}")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("printff", "protect.0.: expected 'printf', 'braces', 'tags', 'urls' or a mapping"),
        ("printff", "found the text 'printff'; did you mean 'printf'"),
        ("{patern: x}", "protect.0.: expected .* found keys and values"),
        ("{pattern: 'x*'}", "protect.0..pattern: matches empty text"),
        ("{pattern: '['}", "isn't a valid Python regular expression"),
        ("{pattern: '[[:alpha:]]'}", r"Possible nested set at .*; in a set, write '.\[' for '\['"),
        ("{pattern: '(?:a{99}){999}'}", "its counts, .* repeat more than 10,000 items"),
        ("{pattern: '(?x)(a{99}) (?#x) {999}'}", "its counts, .* repeat more than 10,000 items"),
        ("{pattern: 'a{9999}b{9999}'}", "its counts, .* repeat more than 10,000 items"),
        ("{pattern: '" + "(?:||||)" * 11 + "(?=.)'}", "takes more than a second"),
        ("{pattern: " + "a" * 101 + "}", "101 characters; at most 100"),
    ],
)
def test_what_cannot_be_protected_is_refused(item: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"data: {{kind: toy}}\ntokenizer:\n  kind: words\n  protect:\n    - {item}\n")
    with pytest.raises(ConfigError, match=rf"a.yaml:5: tokenizer\..*{said}"):
        load_config(file)


def test_there_is_one_average() -> None:
    both = "init: a\ntraining: {init_share: 0.5, ema_decay: 0.9}"
    assert "training.init_share: ema_decay is another average" in _refusal(_REQUIRED + both)


def test_possessive_groups_can_be_protected(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    pattern = r"(?:[0-9a-f]{2}:){5}+[0-9a-f]{2}"
    file.write_text(
        f"data: {{kind: toy}}\ntokenizer: {{kind: words, protect: [{{pattern: '{pattern}'}}]}}\n"
    )
    config = load_config(file)
    assert config.tokenizer.model_dump()["protect"] == [{"pattern": pattern}]
    file.write_text(dump_config(config))
    assert load_config(file) == config
