"""Replayed text: its share of each epoch, drawn again, beside all of the corpus's own."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.base.errors import CorpusError
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import EpochBatches
from transformer_cli.data.corpus import StreamedText
from transformer_cli.data.kinds import open_training_text
from transformer_cli.extensions.checks.findings import check_corpus
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.training.preparation import PreparedData, prepare_data, prepare_text, read_val

OWN, NEAR, FAR, TOO_LONG, BLANK = "own", "near", "far", "long", "blank"
SIZES = {OWN: 60, NEAR: 40, FAR: 20}
LIMIT = 8


def write(directory: Path, name: str, lines: list[str]) -> dict[str, str]:
    """Write aligned files whose sides are the same."""
    for side in ("src", "tgt"):
        (directory / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return {side: str(directory / f"{name}.{side}") for side in ("src", "tgt")}


def lines(name: str) -> list[str]:
    """Return lines of a word that only they have, some of them too long or blank."""
    kept = [" ".join([f"{name}{number}"] * (1 + number % 5)) for number in range(SIZES[name])]
    return [*kept, *([" ".join([TOO_LONG] * 9)] * 50), ""]


def config(directory: Path, kind: str, share: float | None, **settings: Any) -> Config:
    own = write(directory, OWN, lines(OWN))
    replay = [write(directory, NEAR, lines(NEAR)), write(directory, FAR, lines(FAR))]
    data: dict[str, Any] = {"kind": kind, "src_lang": "xx", "tgt_lang": "xx"}
    data |= {"train": own} if kind == "files" else {"sources": [own], "filters": []}
    data["val"] = write(directory, "val", ["own0", "near0", "new"])
    if share is not None:
        replay[1]["weight"] = 2  # type: ignore[assignment]
        data["replay"] = {"share": share, "sources": replay}
    return Config.model_validate(
        {
            "data": data | settings,
            "tokenizer": {"kind": "words", "min_freq": 1},
            "training": {"max_length": LIMIT},
        }
    )


def prepare(directory: Path, config: Config) -> PreparedData:
    run = RunDirectory(directory / "run")
    initialize_run(run, config)
    prepare_text(config.data, run)
    train = StreamedText.of(open_training_text(config.data, run.text_place))
    texts = read_val(config.data, train, run.text_place)
    return prepare_data(config, texts, run)


def draw(directory: Path, config: Config, epochs: int) -> list[Counter[str]]:
    """Return how often each epoch has each word that begins a pair."""
    data = prepare(directory, config)
    batches = EpochBatches(data.pairs, config.training.batch_tokens, seed=1)
    vocabulary = data.tokenizers.tgt
    return [
        Counter(
            vocabulary.decode([int(row[0])])
            for batch in batches.iter_epoch(epoch)
            for row in batch.tgt_out
        )
        for epoch in range(epochs)
    ]


def count(drawn: Counter[str], name: str) -> int:
    return sum(drawn[f"{name}{number}"] for number in range(SIZES[name]))


@pytest.mark.parametrize(("kind", "share"), [("files", 0.25), ("files", 0.75), ("corpus", 0.25)])
def test_each_epoch_has_its_share_of_replayed_pairs(
    tmp_path: Path, kind: str, share: float
) -> None:
    for drawn in draw(tmp_path, config(tmp_path, kind, share), 2):
        assert all(drawn[f"{OWN}{number}"] == 1 for number in range(SIZES[OWN]))
        replayed = share / (1 - share) * SIZES[OWN]
        # Both sources weigh the same: 40 pairs, and 20 of weight 2.
        assert count(drawn, NEAR) == pytest.approx(replayed / 2, abs=1)
        assert count(drawn, FAR) == pytest.approx(replayed / 2, abs=1)
        assert drawn.total() == SIZES[OWN] + count(drawn, NEAR) + count(drawn, FAR)


def test_replayed_pairs_are_drawn_equally_often(tmp_path: Path) -> None:
    drawn = draw(tmp_path, config(tmp_path, "files", 0.25), 40)
    assert len({frozenset(each) for each in drawn[:5]}) == 5
    total = sum(drawn, Counter[str]())
    for name, weight in ((NEAR, 0.25), (FAR, 0.5)):
        often = [total[f"{name}{number}"] for number in range(SIZES[name])]
        assert max(often) - min(often) <= 3
        assert often[0] == pytest.approx(40 * weight, abs=2)


def test_the_share_is_of_text_as_it_is_weighted(tmp_path: Path) -> None:
    more = write(tmp_path, "more", ["more0", "more1", "more2", "more3"])
    settings = config(tmp_path, "files", 0.5, more=[more | {"weight": 5}])
    (drawn,) = draw(tmp_path, settings, 1)
    assert count(drawn, NEAR) + count(drawn, FAR) == SIZES[OWN] + 4 * 5


def test_without_replay_nothing_is_drawn(tmp_path: Path) -> None:
    (drawn,) = draw(tmp_path, config(tmp_path, "files", None), 1)
    assert drawn.total() == SIZES[OWN]


def test_there_have_to_be_pairs_to_replay(tmp_path: Path) -> None:
    settings = config(tmp_path, "files", 0.5)
    for name in (NEAR, FAR):
        write(tmp_path, name, ["", " ".join("x" * 9)])
    with pytest.raises(CorpusError, match=r"^data\.replay: every pair has a blank side or is long"):
        draw(tmp_path, settings, 1)


def test_a_pair_is_drawn_at_most_a_thousand_times(tmp_path: Path) -> None:
    settings = config(tmp_path, "files", 0.99)
    for name in (NEAR, FAR):
        write(tmp_path, name, ["x"])
    # 60 * 99 draws of one pair, and of another that has twice its weight.
    with pytest.raises(CorpusError, match=r"^data\.replay: with share 0\.99, .* 3,960 times"):
        draw(tmp_path, settings, 1)
    with pytest.raises(ValueError, match=r"share"):
        config(tmp_path, "files", 0.999)


def test_the_summary_says_what_is_replayed(tmp_path: Path) -> None:
    settings = config(tmp_path, "files", 0.25)
    data = prepare(tmp_path, settings)
    rows = list(data.pairs.rows())
    assert rows == [("replay", "20 of 80 pairs an epoch, drawn from 60")]


def test_validation_pairs_that_are_replayed_are_found(tmp_path: Path) -> None:
    report = check_corpus(config(tmp_path, "files", 0.5))
    (found,) = [each for each in report.findings if each.what == "in_training"]
    assert found.count == 2
    assert found.places[1] == f"{tmp_path}/val.src:2"
