"""The audit of an experiment's texts notes what is lost of them."""

from pathlib import Path

from transformer_cli.config.data_schema import FilesData
from transformer_cli.data.corpus import StreamedText
from transformer_cli.data.kinds import open_training_text
from transformer_cli.extensions.checks.options import SuspectOptions
from transformer_cli.extensions.checks.text_audit import TextAudit


def test_units_of_added_text_that_cannot_be_read_are_noted(tmp_path: Path) -> None:
    for name in ("a.de", "a.en"):
        (tmp_path / name).write_text("".join(f"{name} {n}\n" for n in range(9)))
    table = tmp_path / "more.tsv"
    table.write_text("a\n" + "".join(f"a {n}\tb {n}\n" for n in range(199)))
    files = {"src": str(tmp_path / "a.de"), "tgt": str(tmp_path / "a.en")}
    data = FilesData.model_validate(
        {"kind": "files", "src_lang": "de", "tgt_lang": "en", "train": files, "val": files}
        | {"more": [{"tsv": str(table), "src_column": 1, "tgt_column": 2}]}
    )
    source = open_training_text(data)
    audit = TextAudit(data, None, source.parts, extras=[SuspectOptions(True)], is_begun=False)
    text = StreamedText.of(source)
    audit.conclude(text.stats.text_sha256, is_known=False)
    why = f"{table}:1: 1 column; there is no column 2"
    assert audit.notes == [f"data.more[0]: 1 of 200 units cannot be read ({why})"]
