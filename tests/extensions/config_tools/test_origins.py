"""Where settings come from."""

from pathlib import Path

from transformer_cli.config.yaml import load_settings
from transformer_cli.extensions.config_tools.origins import Written, find_origins


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
