"""Where settings come from, as it is found, kept and read again."""

import json
from pathlib import Path

import pytest

from transformer_cli.config.yaml import load_settings
from transformer_cli.extensions.config_tools.origins import Origins, Written, find_origins
from transformer_cli.extensions.config_tools.run_origins import (
    dump_origins,
    load_origins,
    trace_origins,
)

# --- finding them ---------------------------------------------------------------------------------


def test_each_value_has_its_place_and_what_it_replaced(top: Path) -> None:
    origins = find_origins(*load_settings(top))
    assert origins == {
        "seed": (Written(3, "top.yaml", 2), Written(3, "root.yaml", 3)),
        "data.kind": (Written("toy", "root.yaml", 1),),
        "tokenizer.kind": (Written("words", "root.yaml", 2),),
        "training.epochs": (
            Written(30, "top.yaml", 4),
            Written(20, "middle.yaml", 2),
            Written(10, "root.yaml", 5),
        ),
        # A warm-up of another schedule is not the one that was replaced.
        "training.schedule.kind": (
            Written("linear", "top.yaml", 5),
            Written("noam", "root.yaml", 6),
        ),
        "training.schedule.peak": (Written(0.001, "top.yaml", 5),),
        "training.schedule.warmup": (Written(100, "top.yaml", 5),),
    }


def test_overrides_have_no_line_and_replace_what_files_say(top: Path) -> None:
    overrides = [
        "seed=4",
        "seed=5",
        "model.d_ff=8",
        "training.schedule={kind: linear, peak: 1, warmup: 2}",
        "training.epochs=1",
        "training.betas=[0.1, 0.2]",
    ]
    origins = find_origins(*load_settings(top, overrides))
    from_file = Written(3, "top.yaml", 2), Written(3, "root.yaml", 3)
    assert origins["seed"] == (Written(5, "--set", 0), *from_file)
    assert origins["model.d_ff"] == (Written(8, "--set", 0),)
    assert origins["training.betas"] == (Written([0.1, 0.2], "--set", 0),)
    assert origins["training.epochs"][1] == Written(30, "top.yaml", 4)
    warmup = origins["training.schedule.warmup"]
    assert warmup == (Written(2, "--set", 0), Written(100, "top.yaml", 5))


# --- keeping them ---------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("settings")
    path = tmp_path / "origins.json"
    path.write_text(dump_origins(ORIGINS, "settings"))
    return path


ORIGINS: Origins = {
    "seed": (Written(4, "--set", 0), Written(3, "ü.yaml", 2), Written([0.5, None], "b.yaml", 3)),
    "data.test.'a b'.src": (Written("a", "ü.yaml", 7),),
}


def test_they_are_read_as_they_were_written(kept: Path) -> None:
    assert load_origins(kept.parent) == ORIGINS


def test_a_files_name_may_be_no_text(kept: Path) -> None:
    origins: Origins = {"seed": (Written(1, "\udcff.yaml", 3),)}
    kept.write_text(dump_origins(origins, "settings"), encoding="utf-8")
    assert load_origins(kept.parent) == {"seed": (Written(1, "?.yaml", 3),)}


def test_they_belong_to_one_text_of_settings(kept: Path) -> None:
    kept.with_name("config.yaml").write_text("other settings")
    assert load_origins(kept.parent) == {}
    kept.with_name("config.yaml").unlink()
    assert load_origins(kept.parent) == {}


def test_where_there_are_none_there_are_none(tmp_path: Path) -> None:
    assert load_origins(tmp_path / "none") == {}
    assert load_origins(tmp_path) == {}


def test_damage_does_no_harm(kept: Path) -> None:
    whole = kept.read_bytes()
    damaged = [whole[:cut] for cut in range(0, len(whole) - 2, 7)]
    damaged += [b"\xff", b"[" * 10_000, b"{}", b"null", b'{"config_sha256": 1, "origins": {}}']
    content = json.loads(whole)
    damaged.append(json.dumps(content | {"origins": {"seed": []}}).encode())
    content["origins"]["seed"][0]["line"] = "2"
    damaged.append(json.dumps(content).encode())
    for text in damaged:
        kept.write_bytes(text)
        assert load_origins(kept.parent) == {}, text


# --- a run's own config.yaml ----------------------------------------------------------------------


def test_a_runs_own_file_is_seen_through() -> None:
    config = Path("runs/x/config.yaml")
    earlier: Origins = {
        "a": (Written(1, "a.yaml", 1),),
        "b": (Written(6, "a.yaml", 2), Written(5, "base.yaml", 9)),
        "d": (Written(8, "--set", 0),),
    }
    own, by_hand = str(config.absolute()), Written(0, "--set", 0)
    found: Origins = {
        "a": (Written(1, own, 11),),
        "default": (Written(2, own, 12),),
        "b": (by_hand, Written(6, str(config), 13)),
        "c": (by_hand, Written(7, str(config), 14)),
        "d": (by_hand, Written(8, str(config), 15)),
        "e": (Written(0, "over.yaml", 1), Written(8, "other.yaml", 15)),
    }
    assert trace_origins(found, config, earlier) == {
        "a": (Written(1, "a.yaml", 1),),
        "b": (by_hand, Written(6, "a.yaml", 2), Written(5, "base.yaml", 9)),
        "c": (by_hand,),
        "d": (by_hand,),
        "e": found["e"],
    }
    assert trace_origins(found, config, {}) == found
