"""Corpora found by name, by a server that answers as the documents of OPUS and the Hub say."""

import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.process import Finished, assert_refused, run
from web import Web, serve

from transformer_cli.base.errors import CorpusError
from transformer_cli.config.data_schema import FilesData
from transformer_cli.config.schema import Config
from transformer_cli.data.kinds import open_split
from transformer_cli.extensions.corpora import by_name, opus
from transformer_cli.extensions.corpora.by_name import list_fetched
from transformer_cli.extensions.corpora.opening import open_source
from transformer_cli.extensions.corpora.provenance import read_fetched
from transformer_cli.extensions.corpora.settings import CorpusData, SourceConfig
from transformer_cli.extensions.exchange.imported import find_import_source
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import record_provenance

DE = [f"Der Hund {number} sieht {number + 1} Katzen." for number in range(300)]
EN = [f"Dog {number} sees {number + 1} cats." for number in range(300)]
README = """\
Corpus Name: Tatoeba
     Package: Tatoeba.de-en in Moses format
     Website: http://opus.nlpl.eu/Tatoeba-v2023-04-12.php
     Release: v2023-04-12
     License: <a href=https://creativecommons.org/licenses/by/2.0/fr/>CC BY 2.0 FR</a></p>

This corpus is part of OPUS - the open collection of parallel corpora
"""
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
            (opus, "API", "opusapi/"),
        ):
            monkeypatch.setattr(module, name, server.url + path)
        yield server


def command(web: Web, work: Path, *arguments: str | Path) -> Finished:
    return run(*arguments, cwd=work, before=partial(lead_to, web.url, work / "cache"))


def lead_to(url: str, cache: Path) -> None:
    """In the program's process, have the services' addresses lead here."""
    by_name.ARCHIVES = by_name.HUB = url
    opus.API = f"{url}opusapi/"
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


def data(source: dict[str, Any], src: str = "de", tgt: str = "en") -> CorpusData:
    split = {"val": 20, "test": 20}
    given = {"kind": "corpus", "src_lang": src, "tgt_lang": tgt, "sources": [source]}
    return CorpusData.model_validate({**given, "split": split})


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
        (503, b"", "opusapi/: OPUS cannot be asked: the server answered 503; try again later"),
        (200, b"<html>", "is of an unknown form"),
        (200, b'{"corpora": []}', "no text in 'de' and 'en'"),
    ],
)
def test_what_opus_does_not_answer_is_an_error(
    web: Web, status: int, body: bytes, fragment: str
) -> None:
    web.bodies[QUESTION], web.statuses[QUESTION] = body, status
    with pytest.raises(CorpusError, match=fragment):
        opus.list_releases("de", "en")


def test_a_corpus_is_read_where_it_lies_in_either_direction(web: Web) -> None:
    web.bodies[TATOEBA] = moses(README=README, LICENSE="Terms.\n")
    source = {"opus": "Tatoeba/v2023-04-12"}
    assert read(source) == list(zip(DE, EN, strict=True))
    assert read(source, "en", "de") == list(zip(EN, DE, strict=True))
    assert web.requests == [TATOEBA]
    sha256 = hashlib.sha256(web.bodies[TATOEBA]).hexdigest()
    [found] = list_fetched(data(source))
    assert (found.name, found.url) == ("Tatoeba/v2023-04-12", web.url + TATOEBA)
    licence = "CC BY 2.0 FR (https://creativecommons.org/licenses/by/2.0/fr/)"
    assert (found.sha256, found.licence) == ((sha256,), licence)


def test_what_was_fetched_for_earlier_runs_is_taken_over(web: Web, tmp_path: Path) -> None:
    web.bodies[TATOEBA] = moses(README=README)
    source = {"opus": "Tatoeba/v2023-04-12"}
    read(source)
    runs = [RunDirectory(tmp_path / name) for name in ("a", "b", "c")]
    for earlier, begun in zip([None, *runs], runs, strict=False):
        begun.path.mkdir()
        given = {"kind": "copy"} if earlier else data(source).model_dump(mode="json")
        settings: dict[str, Any] = {"data": given, "tokenizer": {"kind": "words"}}
        settings |= {"init": str(earlier.path)} if earlier else {}
        record_provenance(begun, Config.model_validate(settings))
        if earlier is None:
            record = {"source": "me/model", "revision": "1"}
            (begun.path / "import.json").write_text(json.dumps(record))
    shutil.rmtree(runs[0].path)
    assert read_fetched(runs[2].path) == list_fetched(data(source))
    assert find_import_source(runs[2].path) == "me/model at commit 1"


def test_a_url_has_terms_too_and_a_file_none(web: Web) -> None:
    web.bodies |= {"a.zip": pack(README=README, x="a\n"), "b.txt": b"b\n"}
    sums = [hashlib.sha256(web.bodies[name]).hexdigest() for name in ("a.zip", "b.txt")]
    pair = {"src": web.url + "a.zip/x", "tgt": web.url + "b.txt", "sha256": sums}
    files = {"kind": "files", "src_lang": "de", "tgt_lang": "en", "train": pair, "val": pair}
    given = FilesData.model_validate(files)
    assert list_fetched(given) == ()
    assert list(open_split(given, "train").pairs()) == [("a", "b")]
    archive, file = list_fetched(given)
    assert (archive.name, archive.sha256, file.sha256) == ("a.zip", (sums[0],), (sums[1],))
    assert str(archive.licence).startswith("CC BY 2.0 FR (")
    assert file.licence is None


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
    web.bodies[TATOEBA] = moses(README=README)
    (tmp_path / "my.yaml").write_text(CONFIG)
    assert command(web, tmp_path, "vocab", "my.yaml").code == 0
    web.bodies.clear()
    for directory in ("runs/my", "runs/other"):
        trained = command(web, tmp_path, "train", "my.yaml", "--run-dir", directory)
        assert trained.code == 0, trained.err
    (tmp_path / "cache").rename(tmp_path / "gone")
    longer = ("--set", "training.max_steps=2", "--extend")
    again = ("train", "my.yaml", "--run-dir", "runs/other", *longer)
    assert command(web, tmp_path, *again).code == 0
    assert web.requests == [TATOEBA]
    for directory in ("my", "other"):
        to = (f"shared-{directory}", "--format", "hub")
        exported = command(web, tmp_path, "export", f"runs/{directory}", *to)
        assert exported.code == 0, exported.err
        card = (tmp_path / f"shared-{directory}" / "README.md").read_text()
        for known in ("Tatoeba/v2023-04-12", "CC BY 2.0 FR", web.url + TATOEBA):
            assert known in card


# --- the Hub --------------------------------------------------------------------------------------


@pytest.fixture
def hub(web: Web) -> Web:
    """A data set in two files, whose card and other files stay where they are."""
    pytest.importorskip("pyarrow")
    parts = {f"de-en/train/000{number}.parquet": parquet(DE[number::2]) for number in range(2)}
    siblings: list[dict[str, Any]] = [{"rfilename": ".gitattributes", "size": 9}]
    for name, body in reversed(parts.items()):
        lfs = {"sha256": hashlib.sha256(body).hexdigest(), "pointerSize": "131"}
        siblings.append({"rfilename": name, "size": len(body), "blobId": "0", "lfs": lfs})
        web.bodies[f"datasets/me/news/resolve/{COMMIT}/{name}"] = body
    tree = {"id": "me/news", "sha": COMMIT, "siblings": siblings}
    web.bodies[CONVERTED] = json.dumps(tree).encode()
    card: dict[str, Any] = {"sha": "1" * 40, "siblings": [{"rfilename": "evil.py"}]}
    card |= {"cardData": {"license": "cc-by-4.0"}}
    web.bodies["api/datasets/me/news"] = json.dumps(card).encode()
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
    assert not any(".py" in each for each in hub.requests)
    hub.bodies.clear()  # as without a network
    assert read(source) == pairs
    [found] = list_fetched(data(source))
    assert len(hub.requests) == asked == 4
    assert (found.name, found.licence) == (f"me/news@{COMMIT}", "cc-by-4.0")
    assert found.url == f"{hub.url}datasets/me/news/tree/{COMMIT}"
    assert len(found.sha256) == 2


def test_each_split_of_a_data_set_is_recorded(hub: Web) -> None:
    tree, body = json.loads(hub.bodies[CONVERTED]), parquet(DE[:3])
    lfs = {"sha256": hashlib.sha256(body).hexdigest()}
    tree["siblings"].append({"rfilename": "de-en/test/0000.parquet", "lfs": lfs})
    hub.bodies[CONVERTED] = json.dumps(tree).encode()
    hub.bodies[f"datasets/me/news/resolve/{COMMIT}/de-en/test/0000.parquet"] = body
    train, test = ({"hf": "me/news", "config": "de-en", "split": it} for it in ("train", "test"))
    read(train), read(test)
    settings = {"kind": "corpus", "src_lang": "de", "tgt_lang": "en"}
    given = CorpusData.model_validate({**settings, "sources": [train, train], "val": test})
    assert [len(each.sha256) for each in list_fetched(given)] == [2, 1]


def test_a_file_that_is_not_the_hub_s_is_not_kept(hub: Web) -> None:
    name = f"datasets/me/news/resolve/{COMMIT}/de-en/train/0001.parquet"
    hub.bodies[name] = parquet(DE[:3])
    assert "is not the file that was asked for" in failure({"hf": "me/news", "config": "de-en"})


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
            "opus: expected CORPUS/VERSION, as transformer-cli init --from opus lists them",
        ),
        ("{opus: ../x}", "opus: expected CORPUS/VERSION"),
        ("{hf: news}", "hf: expected OWNER/NAME, found"),
        ("{opus: A/v1, config: de-en}", "config: is for hf; leave it out"),
        ("{opus: A/v1, split: train}", "split: is true or false; only data sets of hf"),
    ],
)
def test_names_that_cannot_be_are_refused(tmp_path: Path, source: str, fragment: str) -> None:
    (tmp_path / "my.yaml").write_text(CONFIG.replace("{opus: Tatoeba/v2023-04-12}", source))
    assert_refused(run("config", "show", "my.yaml", cwd=tmp_path), 2, fragment)


# --- a zip of one's own ---------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize(("src", "columns"), [("de", (2, 1)), ("en", (1, 2))])
def test_a_zip_of_everyday_sentences_is_configured(
    tmp_path: Path, src: str, columns: tuple[int, int]
) -> None:
    rows = [f"{en}\t{de}\tCC-BY 2.0 (France)" for de, en in zip(DE, EN, strict=True)]
    packed = pack(**{"deu.txt": lines(rows), "_about.txt": "Terms.\n"})
    (tmp_path / "deu-eng.zip").write_bytes(packed)
    languages = ("--src-lang", src, "--tgt-lang", "de" if src == "en" else "en")
    zipped = ("--from", "tatoeba", "--src", "deu-eng.zip")
    finished = run("init", "new", *zipped, *languages, cwd=tmp_path)
    assert finished.code == 0, finished.err
    [config] = (tmp_path / "new" / "configs").glob("own_tatoeba*.yaml")
    text = config.read_text()
    source = f"src_column: {columns[0]}, tgt_column: {columns[1]}"
    assert f'- {{tsv: "../deu-eng.zip/deu.txt", {source}}}' in text
    assert (
        "# Everyday sentences of tatoeba.org and www.manythings.org/anki (CC-BY 2.0 France), "
        in text
    )
    assert "300 pairs" in text
    assert "split: {val: 15, test: 15, near: apart}" in text
    prepared = run("vocab", f"configs/{config.name}", cwd=tmp_path / "new")
    assert prepared.code == 0, prepared.err
    train = tmp_path / "new" / "runs" / config.stem / "corpus" / "train.src"
    assert set(train.read_text().splitlines()) <= set(DE if src == "de" else EN)


def test_a_zip_of_another_script_than_its_languages_is_refused(tmp_path: Path) -> None:
    rows = [f"{en}\t{de}\tCC-BY 2.0 (France)" for de, en in zip(DE, EN, strict=True)]
    (tmp_path / "deu-eng.zip").write_bytes(pack(**{"deu.txt": lines(rows)}))
    arguments = ("--src", "deu-eng.zip", "--src-lang", "zh_TW", "--tgt-lang", "en")
    refused = run("init", "--from", "tatoeba", *arguments, cwd=tmp_path)
    assert_refused(refused, 2, "--src-lang zh-TW: most lines of that side of deu-eng.zip are in")


@pytest.mark.parametrize(
    ("arguments", "code", "fragment"),
    [
        ((), 2, "--src: is missing; name a zip"),
        (("--src", "a.zip", *LANGUAGES[:3], "fr"), 2, "name en, too"),
        (("--src", "a.zip", *LANGUAGES), 1, "no file in the archive matches"),
        (("--src", "a.zip", *LANGUAGES, "--tgt", "b"), 2, "--tgt: goes with --from own only"),
        (("--src", "no.zip", *LANGUAGES), 2, "no.zip: there is no such file"),
        (("--src", "a.zip.1", *LANGUAGES), 1, "a.zip.1: is no zip by its name"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], code: int, fragment: str
) -> None:
    for name in ("a.zip", "a.zip.1"):
        (tmp_path / name).write_bytes(pack(x="text"))
    assert_refused(run("init", "--from", "tatoeba", *arguments, cwd=tmp_path), code, fragment)
