"""A served run grows with corrections, and takes over without losing a request."""

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli.process import run
from starlette.testclient import TestClient

from extensions.serve.conftest import Open
from extensions.serve.test_server import TEXT, ask
from transformer_cli.extensions.serve.learning import Learner

REASON = "error: run+1: rejected, and renamed to run+1.rejected: new text 3 → 1 BLEU"


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Replace training by a copy; return a list of what comes of the next ones."""
    following: list[str | None] = []

    async def copy(_: Learner, old: Path, new: Path, options: Sequence[str]) -> str | None:
        if (problem := following.pop(0)) is None:
            shutil.copytree(old, new, ignore=shutil.ignore_patterns("served"))
        return problem

    monkeypatch.setattr(Learner, "_train", copy)
    return following


def _correct(client: TestClient, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        ask(client, "/suggest", q=f"1 2 {number}", s=f"3 4 {number}")


def _learning(client: TestClient) -> dict[str, object]:
    while True:
        (facts,) = client.get("/learning").json()
        if facts["state"] != "growing":
            assert isinstance(facts, dict)
            return facts
        time.sleep(0.02)


def test_a_growth_takes_over_and_is_rolled_back(
    serve: Open, tmp_path: Path, own_run: Path, outcomes: list[str | None]
) -> None:
    outcomes += [None, None]
    client = serve(learn=20)
    _correct(client, 19)
    assert _learning(client)["run"] == "run"
    _correct(client, 1, start=19)
    facts = _learning(client)
    assert (facts["run"], facts["new"], facts["grown"]) == ("run+1", 0, 1)
    assert "accepted" in str(facts["last"])
    assert ask(client, q="5 6")["model"] == "run+1"
    assert ask(client, q="1 2 3")["translatedText"] == "3 4 3"
    _correct(client, 20, start=20)
    assert _learning(client)["run"] == "run+2"
    assert ask(client, "/rollback", q="")["run"] == "run+1"
    assert ask(client, q="5 6")["model"] == "run+1"
    assert ask(client, q="1 2 39")["translatedText"] == "3 4 39"
    state = json.loads((own_run / "served/learning.json").read_text())
    assert state["grown"] == ["run+1"]
    ask(client, "/rollback", q="")
    assert client.post("/rollback", json=TEXT).status_code == 400


def test_a_server_starts_with_what_it_had_learned(
    serve: Open, own_run: Path, outcomes: list[str | None]
) -> None:
    outcomes += [None]
    client = serve(learn=20)
    _correct(client, 20)
    assert _learning(client)["run"] == "run+1"
    with pytest.raises(Exception, match="in use by"):
        serve(learn=20)


def test_a_rejected_growth_says_why(serve: Open, own_run: Path, outcomes: list[str | None]) -> None:
    outcomes += [REASON, None]
    client = serve(learn=20)
    _correct(client, 20)
    facts = _learning(client)
    assert (facts["run"], facts["grown"], facts["new"]) == ("run", 0, 0)
    assert REASON in str(facts["last"])
    assert ask(client, q="5 6")["model"] == "run"
    _correct(client, 20, start=20)
    assert _learning(client)["run"] == "run+1"


def test_without_learn_corrections_only_wait(serve: Open, outcomes: list[str | None]) -> None:
    client = serve()
    _correct(client, 30)
    assert (_learning(client)["state"], _learning(client)["new"]) == ("off", 30)


@pytest.mark.long
def test_a_run_really_grows(serve: Open, own_run: Path) -> None:
    client = serve(learn=20)
    for number in range(20):
        digits = [str((number * place) % 6 + 1) for place in range(1, 6)]
        ask(client, "/suggest", q=" ".join(digits), s=" ".join(reversed(digits)))
    facts = _learning(client)
    assert "run+1" in str(facts["last"]), facts
    assert run("runs", own_run.parent).code == 0
