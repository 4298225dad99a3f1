"""`serve` answers like LibreTranslate, in this process."""

import hashlib
import json
import re
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest
from cli.process import run
from starlette.testclient import TestClient

from extensions.serve.conftest import Open

TEXT = {"source": "xx", "target": "xx"}


def ask(client: TestClient, path: str = "/translate", **body: object) -> dict[str, object]:
    answer = client.post(path, json=TEXT | body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, dict)
    return found


def test_texts_are_translated_as_by_the_command(client: TestClient, own_run: Path) -> None:
    lines = ["1 2 3 4 5", "6 5 4 3 2"]
    expected = run("translate", own_run, stdin="\n".join(lines).encode()).out.splitlines()
    assert ask(client, q=lines) == {"translatedText": expected, "model": "run"}
    form = client.post("/translate", data=TEXT | {"q": lines[0]}).json()
    assert form["translatedText"] == expected[0]
    assert ask(client, q="")["translatedText"] == ""
    assert ask(client, q=[])["translatedText"] == []


def test_forms_are_in_utf8(client: TestClient) -> None:
    text = "Ä ö 日本".encode()
    ask(client, "/suggest", q=text.decode(), s="corrected")
    answer = client.post("/translate", content=b"source=xx&target=xx&q=" + text)
    assert answer.json()["translatedText"] == "corrected"


def test_many_texts_take_linear_time(client: TestClient) -> None:
    texts = [f"{number}." for number in range(900)]
    found = ask(client, q=texts, alternatives=1, details=True)["translatedText"]
    assert isinstance(found, list)
    assert len(found) == 900


def test_white_space_between_sentences_stays(client: TestClient) -> None:
    one = ask(client, q="1 2 3")["translatedText"]
    assert ask(client, q="1 2 3\n\n  1 2 3\n")["translatedText"] == f"{one}\n\n  {one}\n"


def test_alternatives_and_details(client: TestClient) -> None:
    found = ask(client, q="1 2 3 4", alternatives=2, details=True)
    text, details = found["translatedText"], found["details"]
    assert isinstance(text, str)
    assert isinstance(details, dict)
    assert [text[slice(*at)] for at in details["target"]] == text.split()
    assert len(details["source"]) == 4
    assert all(0 <= src < 4 and tgt < len(text.split()) for src, tgt in details["links"])
    assert set(details["doubtful"]) <= set(range(len(text.split())))
    others = found["alternatives"]
    assert isinstance(others, list)
    assert text not in others
    assert 1 <= len(others) <= 2


def test_html_keeps_its_tags(client: TestClient) -> None:
    found = ask(client, q=["<p>1 2 <b>3</b></p>", "4 &amp; 5"], format="html")["translatedText"]
    assert isinstance(found, list)
    assert found[0].startswith("<p>")
    assert found[0].count("<b>") == found[0].count("</b>") == 1


def test_html_is_text_already_whatever_charset_it_names(client: TestClient) -> None:
    ask(client, "/suggest", q="ü 日本", s="é 日本")
    for charset in ("iso-8859-1", "utf-16"):
        q = f'<meta charset="{charset}"><p>ü 日本</p>'
        found = ask(client, q=q, format="html", alternatives=1)
        assert found["translatedText"] == q.replace("ü", "é")
        assert found["alternatives"] == []


def test_requests_may_have_other_forms(client: TestClient) -> None:
    expected = ask(client, q="1 2 3")["translatedText"]
    body = json.dumps(TEXT | {"q": "1 2 3", "api_key": None, "format": ""})
    answers = [
        client.post("/translate", params=TEXT | {"q": "1 2 3"}),
        client.post("/translate", params=TEXT, data={"q": "1 2 3"}),
        client.post("/translate", content=body, headers={"Content-Type": "Application/JSON"}),
        client.post("/translate", content=body, headers={"Content-Type": "text/json"}),
    ]
    assert [each.json().get("translatedText") for each in answers] == [expected] * 4
    for path in client.get("/spec").json()["paths"].items():
        names = re.findall(r"\{(\w+)\}", path[0])
        (about,) = path[1].values()
        assert [each["name"] for each in about.get("parameters", [])] == names


def test_a_file_is_translated_and_downloaded(client: TestClient) -> None:
    form = client.post("/translate_file", data=TEXT, files={"file": ("ü x.txt", b"1 2 3\n\n4\n")})
    assert form.status_code == 200, form.text
    answer = client.get(form.json()["translatedFileUrl"])
    assert answer.text.count("\n") == 3
    assert "attachment" in answer.headers["content-disposition"]
    assert client.get("/download_file/other.txt").status_code == 404
    upper = client.post("/translate_file", data=TEXT, files={"file": ("X.TXT", b"1 2 3\n\n4\n")})
    assert client.get(upper.json()["translatedFileUrl"]).text == answer.text
    for name, data in (("x.exe", b"1"), ("x.po", b'msgid "'), ("x.po.gz", b"1")):
        refused = client.post("/translate_file", data=TEXT, files={"file": (name, data)})
        assert refused.status_code == 400
        assert "\n" not in refused.json()["error"]


def test_what_there_is(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/languages").json() == [{"code": "xx", "name": "xx", "targets": ["xx"]}]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 10_000
    assert ".po" in settings["supportedFilesFormat"]
    paths = client.get("/spec").json()["paths"]
    assert paths["/translate"]["post"]["requestBody"]
    assert {"/suggest", "/detect", "/health"} <= paths.keys()


def test_languages_are_detected(client: TestClient) -> None:
    answer = client.post("/detect", json={"q": "Das ist ein ganz normaler deutscher Satz."})
    assert answer.json()[0]["language"] == "de"
    assert answer.json()[0]["confidence"] > 50
    found = ask(client, q="Das ist ein deutscher Satz.", source="auto")
    assert found["detectedLanguage"] == {"language": "xx", "confidence": 0}  # the only one


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"q": "1", "source": "fr"}, 400, "only xx to xx"),
        ({"q": 1}, 400, "q"),
        ({}, 400, "q"),
        ({"q": "1", "format": "pdf"}, 400, "format"),
        ({"q": "1", "alternatives": 10_000}, 400, "alternatives"),
        ({"q": "1" * 10_001}, 400, "at most 10,000"),
        ({"q": ["1" * 6_000, "1" * 6_000]}, 400, "at most 10,000"),
        ({"q": "\ud800"}, 400, "unicode"),
        ({"q": [""] * 1_001}, 400, "in 1,000"),
        ({"q": "1" * 200_000}, 413, "too large"),
    ],
)
def test_faulty_requests_are_refused(
    client: TestClient, body: dict[str, object], status: int, why: str
) -> None:
    kind = {"Content-Type": "application/json"}
    answer = client.post("/translate", content=json.dumps(TEXT | body), headers=kind)
    assert answer.status_code == status
    assert why in answer.json()["error"]


def test_bodies_that_are_no_json_are_refused(client: TestClient) -> None:
    for data in (b"{", b"[" * 100_000, b"\xff", b"[]", b"null"):
        kind = {"Content-Type": "application/json"}
        assert client.post("/translate", content=data, headers=kind).status_code == 400


# --- corrections ----------------------------------------------------------------------------------


def test_a_correction_applies_at_once_and_is_kept(serve: Open, own_run: Path) -> None:
    client = serve()
    before = ask(client, q="1 2 3")["translatedText"]
    corrected = {"success": True, "translatedText": "<b>& three"}
    assert ask(client, "/suggest", q="1  2 3", s="<b>& three\x01") == corrected
    assert ask(client, q=["1 2 3"])["translatedText"] == ["<b>& three"]
    assert ask(client, q="1 2 3", details=True, alternatives=1)["translatedText"] == "<b>& three"
    assert ask(client, q="1 2 3 4")["translatedText"] != "<b>& three"
    (unit,) = ElementTree.parse(own_run / "served/suggestions.tmx").iter("tu")
    assert unit.findtext("prop") == before
    assert re.fullmatch(r"\d{8}T\d{6}Z", unit.get("creationdate", ""))
    facts = ask(client, "/learning")
    assert (facts["corrections"], facts["new"], facts["run"]) == (1, 1, "run")


def test_texts_are_corrected_as_a_whole(client: TestClient) -> None:
    ask(client, "/suggest", q="1 2.\n3 4.", s="both")
    assert ask(client, q="1 2.\n3 4.")["translatedText"] == "both"
    assert ask(client, q=" 1 2.\n3 4.\n")["translatedText"] == " both\n"


def test_the_addresses_of_an_ipv6_network_have_one_voice(client: TestClient) -> None:
    hosts = [f"2001:db8:0:1::{number}" for number in range(3)] + ["2001:db8:0:2::1", "10.0.0.1"]
    for host, given in zip(hosts, ["junk"] * 3 + ["good"] * 2, strict=True):
        other = TestClient(client.app, "http://localhost", client=(host, 1))
        ask(other, "/suggest", q="1 2", s=given)
    assert ask(client, q="1 2")["translatedText"] == "good"


def test_empty_corrections_are_refused(client: TestClient) -> None:
    for pair in ({"q": " ", "s": "a"}, {"q": "a", "s": "\n"}, {"q": "a", "s": "\x01"}):
        assert client.post("/suggest", json=TEXT | pair).status_code == 400


# --- who may send what ----------------------------------------------------------------------------


def _write_keys(path: Path, **keys: str) -> Path:
    lines = [f"{name} {hashlib.sha256(key.encode()).hexdigest()}\n" for name, key in keys.items()]
    path.write_text("# keys\n\n" + "".join(lines))
    return path


def test_keys(serve: Open, tmp_path: Path, own_run: Path) -> None:
    client = serve(keys=_write_keys(tmp_path / "keys", ann="secret", bob="other"), host="0.0.0.0")
    wrong: list[dict[str, str]] = [{}, {"api_key": "sec"}, {"api_key": "secret "}, {"api_key": "é"}]
    for given in wrong:
        for path in ("/translate", "/suggest", "/detect", "/rollback", "/learning"):
            answer = client.post(path, json=TEXT | {"q": "1", "s": "2"} | given)
            assert answer.status_code == 403
            assert "secret" not in answer.text
    assert ask(client, q="1", api_key="secret")
    ask(client, "/suggest", q="1", s="2", api_key="other")
    assert 'creationid="bob"' in (own_run / "served/suggestions.tmx").read_text()
    bearer = {"Authorization": "Bearer secret"}
    assert client.post("/translate", json=TEXT | {"q": "1"}, headers=bearer).status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"]


def test_pages_of_other_sites_are_refused(serve: Open) -> None:
    client = serve(cors=["https://good.example"])
    for origin in ("https://evil.example", "null", "http://localhost.evil.example", "http://["):
        answer = client.post(
            "/suggest", data=TEXT | {"q": "1", "s": "2"}, headers={"Origin": origin}
        )
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    own = {"Origin": "http://localhost"}
    assert client.post("/translate", json=TEXT | {"q": "1"}, headers=own).status_code == 200
    good = {"Origin": "https://good.example"}
    answer = client.post("/translate", json=TEXT | {"q": "1"}, headers=good)
    assert answer.headers["access-control-allow-origin"] == "https://good.example"
    asked = {**good, "Access-Control-Request-Method": "POST"}
    answer = client.options("/translate", headers=asked)
    assert answer.headers["access-control-allow-origin"] == "https://good.example"


def test_a_name_of_another_site_is_refused(client: TestClient) -> None:
    answer = client.get("/health", headers={"Host": "evil.example"})
    assert answer.status_code == 403


def test_pages_cannot_run_foreign_code(client: TestClient) -> None:
    for path in ("/", "/page.js", "/translate"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    html = client.get("/").text
    assert "<script>" not in html
    assert "innerHTML" not in client.get("/page.js").text


def test_too_many_requests_are_told_to_wait(serve: Open) -> None:
    client = serve(queue=1)
    answers: list[int] = []

    def post() -> None:
        answer = client.post("/translate", json=TEXT | {"q": ["1 2 3 4"] * 50})
        assert answer.status_code == 200 or answer.headers["retry-after"]
        assert "connection" not in answer.headers  # it stays open for the next request
        answers.append(answer.status_code)

    threads = [Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) == {200, 503}
    assert client.post("/translate", json=TEXT | {"q": "1"}).status_code == 200


def test_texts_are_only_logged_if_asked(serve: Open, capfd: pytest.CaptureFixture[str]) -> None:
    client = serve()
    ask(client, q="1 2 3 4")
    ask(client, "/suggest", q="1 2 3 4", s="5")
    assert "1 2 3" not in capfd.readouterr().err


def test_logged_texts(serve: Open, capfd: pytest.CaptureFixture[str]) -> None:
    ask(serve(log_texts=True), q="1 2 3 4")
    assert "1 2 3 4" in capfd.readouterr().err


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--host", "0.0.0.0"], "add --keys FILE, or --open"),
        (["--open", "--keys", "k"], "leave one of them out"),
        (["--learn", "3"], "20"),
        (["--cors", "*"], "expected an origin"),
        (["--keys", "none"], "cannot be read"),
    ],
)
def test_options_that_are_refused(own_run: Path, arguments: list[str], why: str) -> None:
    refused = run("serve", own_run, *arguments)
    assert refused.code == 2
    assert why in refused.err
    assert refused.err.count("\n") <= 3


def test_two_runs_of_the_same_languages_are_refused(own_run: Path, training: object) -> None:
    other = own_run.with_name("other")
    other.symlink_to(own_run)
    refused = run("serve", own_run, own_run)
    assert refused.code in (1, 2)
    assert refused.out == ""
