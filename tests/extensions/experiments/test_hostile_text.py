"""A sweep's page shows text that would steer it."""

import json
from pathlib import Path

from extensions.experiments.test_page import compare, make_groups
from transformer_cli.extensions.experiments.page import describe_groups, render_groups
from transformer_cli.extensions.experiments.results import EvaluatedSplit, SweepResults

STEERING = "a\x1b]0;owned\x07\x9b2J\u202etxt.exe\u2066\u200f\u061cb"


SHOWN = r"a\x1b]0;owned\x07\x9b2J\u202etxt.exe\u2066\u200f\u061cb"


HIDDEN = set("\x00\x07\x08\x1b\x7f\x9b\u2028\u202a\u202e\u2066\u2069\u200e\u200f\u061c\udcff")


def test_a_page_shows_what_would_steer_it(tmp_path: Path) -> None:
    groups = make_groups(tmp_path, {"reference": [[1.0]], STEERING: [[2.0]]})
    split = EvaluatedSplit(
        STEERING,
        sentences=1,
        groups=["reference", STEERING],
        comparisons={"bleu": compare("nrefs:1", [[30.0], [33.0]])},
    )
    page = render_groups(describe_groups(SweepResults(STEERING, groups, {}, "bleu", [split])), "")
    assert SHOWN in page
    assert "\x1b" not in page
    assert "\x07" not in page
    assert not HIDDEN & set(page)
    (data,) = (line for line in page.splitlines() if 'id="data"' in line)
    shown = json.loads(data.partition(">")[2].rpartition("</script>")[0])
    assert not HIDDEN & set(json.dumps(shown, ensure_ascii=False))
