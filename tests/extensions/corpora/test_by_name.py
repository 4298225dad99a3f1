"""Corpora found by name, by a server that answers as the documents of OPUS and the Hub say."""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.process import Finished, assert_refused, run
from web import Web, serve

from transformer_cli.base.errors import CorpusError
from transformer_cli.extensions.corpora import by_name
from transformer_cli.extensions.corpora.opening import open_source
from transformer_cli.extensions.corpora.settings import SourceConfig

DE = [f"Der Hund {number} sieht {number + 1} Katzen." for number in range(300)]
EN = [f"Dog {number} sees {number + 1} cats." for number in range(300)]
QUESTION = "opusapi/?source=de&target=en&preprocessing=moses&version=latest"
TATOEBA = "OPUS-Tatoeba/v2023-04-12/moses/de-en.txt.zip"
COMMIT = "2" * 40
CONVERTED = "api/datasets/me/news/revision/refs%2Fconvert%2Fparquet?blobs=true"
LANGUAGES = ("--src-lang", "de", "--tgt-lang", "en")
CONFIG = """\
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources: [{opus: Tatoeba/v2023-04-12}]
  split: {val: 20, test: 20}
tokenizer: {kind: words}
model: {d_model: 8, num_heads: 2, d_ff: 16, num_encoder_layers: 1, num_decoder_layers: 1}
training: {max_steps: 1, batch_tokens: 500}
"""


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setenv("TRANSFORMER_CLI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve() as server:
        for module, name, path in (
            (by_name, "ARCHIVES", ""),
            (by_name, "HUB", ""),
            (by_name, "API", "opusapi/"),
        ):
            monkeypatch.setattr(module, name, server.url + path)
        yield server


def command(web: Web, work: Path, *arguments: str | Path) -> Finished:
    return run(*arguments, cwd=work, before=partial(lead_to, web.url, work / "cache"))


def lead_to(url: str, cache: Path) -> None:
    """In the program's process, have the services' addresses lead here."""
    by_name.ARCHIVES = by_name.HUB = url
    by_name.API = f"{url}opusapi/"
    os.environ |= {"TRANSFORMER_CLI_CACHE": str(cache), "NO_PROXY": "127.0.0.1"}


def lines(texts: list[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def pack(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return packed.getvalue()


def moses(**others: str) -> bytes:
    return pack(**{"Tatoeba.de-en.de": lines(DE), "Tatoeba.de-en.en": lines(EN)}, **others)


def read(source: dict[str, Any], src: str = "de", tgt: str = "en") -> list[tuple[str, str]]:
    return list(open_source(SourceConfig.model_validate(source), src, tgt).pairs())


def failure(source: dict[str, Any]) -> str:
    with pytest.raises(CorpusError) as error:
        read(source)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- OPUS -----------------------------------------------------------------------------------------


def answer(web: Web) -> bytes:
    """What OPUS' API answers; pairs and sizes may be unknown."""
    corpora: list[tuple[str, str, Any, str]] = [
        ("Books", "v1", 51_467, "de-en.txt.zip"),
        ("Tatoeba", "v2023-04-12", 400, "de-en.txt.zip"),
        ("EUbookshop", "v2", 9_000_000, "de-en.txt.zip"),
        ("EUbookshop", "v2", 9_500_000, "de-en.strict.txt.zip"),
        ("Empty", "v1", "", "de-en.txt.zip"),
        ("], x: [", "v1", 8, "de-en.txt.zip"),
    ]
    entries = [
        {
            **{"corpus": corpus, "version": version, "source": "de", "target": "en", "id": 1},
            **{"alignment_pairs": pairs, "size": pairs and pairs // 20, "documents": ""},
            **{"latest": "True", "preprocessing": "moses"},
            "url": f"{web.url}OPUS-{corpus}/{version}/moses/{file}",
        }
        for corpus, version, pairs, file in corpora
    ]
    return json.dumps({"corpora": entries}).encode()


def test_init_lists_corpora_the_largest_first_and_configures_one(web: Web, tmp_path: Path) -> None:
    web.bodies[QUESTION] = answer(web)
    listed = command(web, tmp_path, "init", "--from", "opus", *LANGUAGES)
    assert listed.code == 0, listed.err
    rows = [line.split() for line in listed.out.splitlines()]
    names = ["EUbookshop/v2", "Books/v1", "Tatoeba/v2023-04-12", "Empty/v1"]
    assert [row[0] for row in rows] == ["corpus", *names]
    assert rows[1][1:] == ["9,000,000", "461", "MB"]
    assert rows[-1][1:] == ["?", "?"]
    assert "init --from opus:EUbookshop --src-lang de --tgt-lang en" in listed.err

    reverse = ("--src-lang", "en", "--tgt-lang", "de")
    chosen = command(web, tmp_path, "init", "--from", "opus:Books", *reverse)
    assert chosen.code == 0, chosen.err
    text = (tmp_path / "configs" / "opus_books_en_de.yaml").read_text()
    for wanted in ("- {opus: Books/v1}\n", "51,467 pairs", "d_model: 256\n", "test: 1000}"):
        assert wanted in text
    shown = command(web, tmp_path, "config", "show", "configs/opus_books_en_de.yaml")
    assert shown.code == 0, shown.err
    assert web.requests == [QUESTION] * 2

    wrong = command(web, tmp_path, "init", "--from", "opus:Boks", *LANGUAGES)
    assert_refused(wrong, 1, "OPUS has no corpus 'Boks'; did you mean 'Books'?")
    unknown = command(web, tmp_path, "init", "--from", "opus:Empty", *LANGUAGES)
    assert_refused(unknown, 1, "Empty/v1: OPUS does not say how large it is", "{opus: Empty/v1}")


@pytest.mark.parametrize(
    ("status", "body", "fragment"),
    [
        (503, b"", "opusapi/: cannot reach OPUS: the server answered 503; try again later"),
        (200, b"<html>", "cannot understand the "),
        (200, b'{"corpora": []}', "no text in 'de' and 'en'"),
    ],
)
def test_what_opus_does_not_answer_is_an_error(
    web: Web, status: int, body: bytes, fragment: str
) -> None:
    web.bodies[QUESTION], web.statuses[QUESTION] = body, status
    with pytest.raises(CorpusError, match=fragment):
        by_name.list_releases("de", "en")


def test_a_corpus_is_read_where_it_lies_in_either_direction(web: Web) -> None:
    web.bodies[TATOEBA] = moses(README="Terms.\n")
    source = {"opus": "Tatoeba/v2023-04-12"}
    assert read(source) == list(zip(DE, EN, strict=True))
    assert read(source, "en", "de") == list(zip(EN, DE, strict=True))
    assert web.requests == [TATOEBA]


def test_codes_of_countries_are_those_of_opus(web: Web) -> None:
    name = "OPUS-QED/v2.0a/moses/en-pt_BR.txt.zip"
    web.bodies[name] = pack(**{"QED.en-pt_BR.pt_BR": "Oi.\n", "QED.en-pt_BR.en": "Hi.\n"})
    assert read({"opus": "QED/v2.0a"}, "pt-BR", "en") == [("Oi.", "Hi.")]


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (404, "transformer-cli init --from opus --src-lang de --tgt-lang en lists what OPUS has"),
        (503, "try again later"),
    ],
)
def test_what_opus_has_not_is_named(web: Web, status: int, advice: str) -> None:
    web.statuses[TATOEBA] = status
    message = failure({"opus": "Tatoeba/v2023-04-12"})
    assert message.startswith(f"{web.url}{TATOEBA}: could not be fetched: the server answered")
    assert message.endswith(f"{status}; {advice}")


@pytest.mark.long
def test_a_run_trains_without_a_network_and_its_card_says_on_what(web: Web, tmp_path: Path) -> None:
    web.bodies[TATOEBA] = moses(README="Terms.\n")
    (tmp_path / "my.yaml").write_text(CONFIG)
    assert command(web, tmp_path, "vocab", "my.yaml").code == 0
    web.bodies.clear()
    for directory in ("runs/my", "runs/other"):
        trained = command(web, tmp_path, "train", "my.yaml", "--run-dir", directory)
        assert trained.code == 0, trained.err
    (tmp_path / "cache").rename(tmp_path / "gone")
    longer = ("--set", "training.max_steps=2")
    again = ("train", "my.yaml", "--run-dir", "runs/other", *longer)
    assert command(web, tmp_path, *again).code == 0
    assert web.requests == [TATOEBA]
    for directory in ("my", "other"):
        to = (f"shared-{directory}", "--format", "hub")
        exported = command(web, tmp_path, "export", f"runs/{directory}", *to)
        assert exported.code == 0, exported.err
        card = (tmp_path / f"shared-{directory}" / "README.md").read_text()
        assert "Pairs of `Tatoeba/v2023-04-12`" in card


# --- the Hub --------------------------------------------------------------------------------------


@pytest.fixture
def hub(web: Web) -> Web:
    """A data set in two files, whose other files stay where they are."""
    pytest.importorskip("pyarrow")
    parts = {f"de-en/train/000{number}.parquet": parquet(DE[number::2]) for number in range(2)}
    siblings: list[dict[str, Any]] = [{"rfilename": ".gitattributes", "size": 9}]
    for name, body in reversed(parts.items()):
        lfs = {"sha256": hashlib.sha256(body).hexdigest(), "pointerSize": "131"}
        siblings.append({"rfilename": name, "size": len(body), "blobId": "0", "lfs": lfs})
        web.bodies[f"datasets/me/news/resolve/{COMMIT}/{name}"] = body
    tree = {"id": "me/news", "sha": COMMIT, "siblings": siblings}
    web.bodies[CONVERTED] = json.dumps(tree).encode()
    return web


def parquet(de: list[str], name: str = "translation") -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"de": src, "en": EN[DE.index(src)]} for src in de]
    written = io.BytesIO()
    pq.write_table(pa.table({name: rows}), written)
    return written.getvalue()


def test_a_data_set_stays_at_its_commit(hub: Web, capfd: pytest.CaptureFixture[str]) -> None:
    source = {"hf": "me/news", "config": "de-en", "split": "train"}
    pairs = read(source)
    assert [pair[0] for pair in pairs] == DE[::2] + DE[1::2]
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "hf: me/news: 2 files, 1 MB"
    assert [": fetching " in line for line in said[1:]] == [True, True]
    asked = len(hub.requests)
    hub.bodies.clear()  # as without a network
    assert read(source) == pairs
    assert len(hub.requests) == asked == 3


def test_a_file_that_is_not_the_hub_s_is_not_kept(hub: Web) -> None:
    name = f"datasets/me/news/resolve/{COMMIT}/de-en/train/0001.parquet"
    hub.bodies[name] = parquet(DE[:3])
    assert "not the expected file" in failure({"hf": "me/news", "config": "de-en"})


def test_fields_have_the_names_that_are_given(hub: Web) -> None:
    source = {"hf": "me/news", "config": "de-en", "tgt_field": "translation.de"}
    assert read(source)[0] == (DE[0], DE[0])
    message = failure({**source, "tgt_field": "en"})
    assert "no field 'en'; there are 'translation.de'" in message


@pytest.mark.parametrize(
    ("source", "fragments"),
    [
        ({"config": "de-fr"}, ("hf: me/news: no configuration", "'de-en/train'?", "config and")),
        ({"config": "de-en", "split": "x"}, ("'de-en/x'",)),
        ({"hf": "me/none"}, ("api/datasets/me/none/", "answered 404; check the name, and that")),
    ],
)
def test_what_the_hub_has_not_is_named(
    hub: Web, source: dict[str, str], fragments: tuple[str, ...]
) -> None:
    message = failure({"hf": "me/news", **source})
    for fragment in fragments:
        assert fragment in message


def test_files_that_need_a_login_are_read_by_another_path(hub: Web) -> None:
    hub.statuses[f"datasets/me/news/resolve/{COMMIT}/de-en/train/0000.parquet"] = 401
    message = failure({"hf": "me/news", "config": "de-en"})
    assert "answered 401; check the name" in message
    assert "needs a login" in message


@pytest.mark.parametrize("given", [{"size": 3}, {"sha256": None}, {"sha256": "ZZ"}, "x"])
def test_a_large_file_without_a_checksum_is_refused(hub: Web, given: object) -> None:
    tree = json.loads(hub.bodies[CONVERTED])
    tree["siblings"][1]["lfs"] = given
    hub.bodies[CONVERTED] = json.dumps(tree).encode()
    assert "cannot understand the Hub's answer" in failure({"hf": "me/news", "config": "de-en"})
    assert not any("resolve" in each for each in hub.requests)


def test_an_answer_of_another_kind_can_be_got_rid_of(hub: Web) -> None:
    good = hub.bodies[CONVERTED]
    hub.bodies[CONVERTED] = b"<html>Log in to this hotel's network</html>"
    kept = Path(failure({"hf": "me/news", "config": "de-en"}).partition(": ")[0])
    kept.unlink()
    hub.bodies[CONVERTED] = good
    assert len(read({"hf": "me/news", "config": "de-en"})) == len(DE)


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        (
            "{opus: Tatoeba}",
            "opus: expected CORPUS/VERSION, as listed by transformer-cli init --from opus",
        ),
        ("{opus: ../x}", "opus: expected CORPUS/VERSION"),
        ("{hf: news}", "hf: expected OWNER/NAME, found"),
        ("{opus: A/v1, config: de-en}", "config: is only for hf; remove it"),
        ("{opus: A/v1, split: train}", "split: must be true or false; only hf data sets"),
    ],
)
def test_names_that_cannot_be_are_refused(tmp_path: Path, source: str, fragment: str) -> None:
    (tmp_path / "my.yaml").write_text(CONFIG.replace("{opus: Tatoeba/v2023-04-12}", source))
    assert_refused(run("config", "show", "my.yaml", cwd=tmp_path), 2, fragment)
