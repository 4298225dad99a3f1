"""A served run grows with corrections, and takes over without losing a request."""

import asyncio
import json
import shutil
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from extensions.serve.conftest import Open
from extensions.serve.test_server import TEXT, ask
from transformer_cli.base.errors import InputError, RunError
from transformer_cli.extensions.serve.command import ServeOptions, open_app
from transformer_cli.extensions.serve.served import Served, find_weakness

REASON = "error: run+1: rejected, and renamed to run+1.rejected: new text 3 → 1 BLEU"


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Replace training by a copy; return a list of what comes of the next ones."""
    following: list[str | None] = []

    async def copy(_: Served, old: Path, new: Path) -> str | None:
        if (problem := following.pop(0)) is None:
            shutil.copytree(old, new, ignore=shutil.ignore_patterns("served"))
        return problem

    monkeypatch.setattr(Served, "_train", copy)
    return following


def _correct(client: TestClient, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        ask(client, "/suggest", q=f"1 2 {number}", s=f"3 4 {number}")


def _learning(client: TestClient) -> dict[str, object]:
    while True:
        if not (facts := ask(client, "/learning"))["is_growing"]:
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
    own_run: Path, outcomes: list[str | None]
) -> None:
    outcomes += [None]
    given = ServeOptions(runs=[own_run], threads=1, learn=20)
    for start in (0, 20):
        with open_app(given) as app, TestClient(app, "http://localhost") as client:
            _correct(client, 20 if start == 0 else 5, start)
            facts = _learning(client)
            assert (facts["run"], facts["grown"], facts["new"]) == ("run+1", 1, start // 4)
            assert "accepted" in str(facts["last"])
            assert ask(client, q="5 6")["model"] == "run+1"
            with pytest.raises(RunError, match="in use by"), open_app(given):
                pass


@pytest.mark.parametrize(
    ("new_text", "why"),
    [
        ({"before": 20.8, "after": 27.9, "half_width": 3.1}, None),
        ({"before": 0.62, "after": 0.66, "half_width": 0.09}, "0.6 → 0.7 ± 0.1"),
        ({"before": 20.0, "after": 18.0, "half_width": 1.0}, "learned too little"),
        (None, "too few good corrections"),
    ],
)
def test_only_a_run_that_is_clearly_better_takes_over(
    tmp_path: Path, new_text: object, why: str | None
) -> None:
    record = {"new_text": new_text} if new_text else {}
    (tmp_path / "growth.json").write_text(json.dumps(record))
    found = find_weakness(tmp_path)
    assert found is None if why is None else why in str(found)


def _train_by(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a program in Python, which is given the path of the new run, train instead."""
    start = asyncio.create_subprocess_exec

    async def start_another(*command: Any, **named: Any) -> object:
        new = command[command.index("--run-dir") + 1]
        begin = "import os, pathlib, signal, sys; new = pathlib.Path(sys.argv[1]); "
        return await start(sys.executable, "-c", begin + program, new, **named)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_another)


def test_a_training_that_is_killed_takes_over_nothing(
    serve: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    _train_by("os.kill(os.getpid(), signal.SIGKILL)", monkeypatch)
    client = serve(learn=20)
    _correct(client, 20)
    facts = _learning(client)
    assert facts["run"] == "run"
    assert "signal 9 ended the training" in str(facts["last"])


WEAK = '{"new_text": {"before": 1.0, "after": 1.1, "half_width": 0.2}}'


@pytest.mark.parametrize(
    ("program", "why", "left"),
    [
        (f"new.mkdir(); (new / 'growth.json').write_text('{WEAK}')", "learned too little", []),
        (
            "new.with_name('run+1.rejected-2').mkdir(); "
            "sys.exit('error: run+1: rejected, and renamed to run+1.rejected-2: 3 → 1')",
            "rejected",
            [],
        ),
        ("new.mkdir(); sys.exit('error: run+1: in use by process 1')", "in use", ["run+1"]),
    ],
)
def test_only_finished_runs_that_do_not_take_over_are_deleted(
    serve: Open,
    own_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    why: str,
    left: list[str],
) -> None:
    _train_by(program, monkeypatch)
    for name in ("run+1.rejected", "run+10"):  # somebody's
        own_run.with_name(name).mkdir()
    client = serve(learn=20)
    there = {path.name for path in own_run.parent.iterdir()}
    _correct(client, 20)
    assert why in str(_learning(client)["last"])
    assert {path.name for path in own_run.parent.iterdir()} == there | {*left}


@pytest.mark.parametrize("grown", [["a/b"], [""], [3], ["../run"]])
def test_a_state_that_names_no_grown_run_is_ignored(
    serve: Open, own_run: Path, grown: list[object]
) -> None:
    (own_run / "served").mkdir()
    state = {"grown": grown, "learned": {}, "last": ""}
    (own_run / "served/learning.json").write_text(json.dumps(state))
    assert ask(serve(), q="5 6")["model"] == "run"


def test_learning_needs_the_languages(client: TestClient) -> None:
    for path in ("/learning", "/rollback"):
        answer = client.post(path, json={"source": "auto", "target": "xx"})
        assert answer.status_code == 400


def test_one_text_corrected_again_and_again_is_one_correction(
    serve: Open, outcomes: list[str | None]
) -> None:
    client = serve(learn=20)
    for number in range(50):
        ask(client, "/suggest", q="1 2", s=f"3 {number}")
    assert _learning(client)["new"] == 1


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), InputError("broken")])
def test_a_growth_that_fails_says_why_and_is_not_repeated(
    serve: Open, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    calls: list[Path] = []

    async def fail(_: Served, old: Path, new: Path) -> str | None:
        calls.append(new)
        raise error

    monkeypatch.setattr(Served, "_train", fail)
    client = serve(learn=20)
    _correct(client, 25)
    assert str(error) in str(_learning(client)["last"])
    assert len(calls) == 1


def test_a_rollback_while_the_run_grows_discards_the_growth(
    serve: Open, own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = Event()

    async def copy(_: Served, old: Path, new: Path) -> str | None:
        if new.name == "run+2":
            await asyncio.to_thread(finish.wait)
        shutil.copytree(old, new, ignore=shutil.ignore_patterns("served"))
        return None

    monkeypatch.setattr(Served, "_train", copy)
    client = serve(learn=20)
    _correct(client, 20)
    assert _learning(client)["run"] == "run+1"
    _correct(client, 20, start=20)
    assert ask(client, "/rollback")["run"] == "run"
    finish.set()
    facts = _learning(client)
    assert (facts["run"], facts["grown"]) == ("run", 0)
    assert "left out meanwhile" in str(facts["last"])


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
    assert (_learning(client)["learn"], _learning(client)["new"]) == (None, 30)


@pytest.mark.long
def test_a_run_really_grows_and_starts_again(own_run: Path) -> None:
    given = ServeOptions(runs=[own_run], threads=1, learn=20)
    with open_app(given) as app, TestClient(app, "http://localhost") as client:
        for number in range(20):
            digits = [str(number // 6**place % 6 + 1) for place in range(5)]
            ask(client, "/suggest", q=" ".join(digits), s=" ".join(reversed(digits)))
        facts = _learning(client)
        assert "run+1" in str(facts["last"]), facts
    assert not (own_run.with_name("run+1") / "served").exists()
    with open_app(given) as app, TestClient(app, "http://localhost") as client:
        assert _learning(client)["last"] == facts["last"]
