"""Documents from strangers: only known encodings are read, and nothing takes forever."""

import codecs
import encodings
import pkgutil
import signal
import string
import textwrap
from pathlib import Path
from typing import Any

import pytest
import sentencex

from extensions.documents.fakes import filled
from transformer_cli.base.errors import TransformerCliError
from transformer_cli.extensions.corpora.opening import open_source
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.corpora.units import find_encoding
from transformer_cli.extensions.documents.sentences import cut_sentences

_NAMES = (module.name for module in pkgutil.iter_modules(encodings.__path__))
ENCODINGS = {name for name in map(find_encoding, _NAMES) if name is not None}
DECLARING = {
    "x.html": '<meta charset="{}"><p>{}</p>\n',
    "x.xlf": '<?xml version="1.0" encoding="{}"?><xliff version="1.2"><file source-language="en" '
    'target-language="de"><body><trans-unit id="1"><source>{}</source></trans-unit></body></file>'
    "</xliff>",
    "x.tmx": '<?xml version="1.0" encoding="{}"?><tmx version="1.4"><body><tu><tuv xml:lang="en">'
    '<seg>{}</seg></tuv><tuv xml:lang="de"><seg>c</seg></tuv></tu></body></tmx>',
    "x.po": 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={}\\n"\n\nmsgid "{}"\n'
    'msgstr "c"\n',
}


@pytest.mark.parametrize("name", DECLARING)
@pytest.mark.parametrize(
    "encoding",
    ["punycode", "idna", "cp037", "utf-7", "hex", "unicode_escape", "rot13", "cp500", "undefined"],
)
def test_only_known_encodings_are_read(name: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = DECLARING[name].format(encoding, "a dog")
    with pytest.raises(TransformerCliError) as refused:
        filled(path, text)
    messages = [str(refused.value)]
    if path.suffix in (".tmx", ".po"):
        source = SourceConfig.model_validate({path.suffix[1:]: path})
        with pytest.raises(TransformerCliError) as refused:
            list(open_source(source, "en", "de").pairs())
        messages.append(str(refused.value))
    for message in messages:
        assert message.startswith(str(path))
        assert f"'{encoding}', which is not supported; convert the file to UTF-8" in message
        assert "\n" not in message


@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_known_encodings_read_ascii_as_ascii(encoding: str, tmp_path: Path) -> None:
    assert codecs.lookup(encoding).name == encoding
    assert string.printable.encode("ascii").decode(encoding) == string.printable
    for name, frame in DECLARING.items():
        path = tmp_path / name
        filled(path, frame.format(encoding, "a dog"))
        if name == "x.po":
            assert list(open_source(SourceConfig(po=path), "en", "de").pairs()) == [("a dog", "c")]


@pytest.mark.parametrize("text", ["Hund " + "« " * 20_000, "犬。" * 10_000, "a" * 30_000])
def test_sentencex_gets_little_at_a_time(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    cut = sentencex.get_sentence_boundaries

    def spy(language: str, part: str) -> Any:
        given.append(len(part))
        return cut(language, part)

    monkeypatch.setattr(sentencex, "get_sentence_boundaries", spy)
    spans = cut_sentences(text, "zh")
    assert max(given) <= 4000
    assert sum(given) <= 4 * len(text)
    assert "".join("".join(text[slice(*span)] for span in spans).split()) == "".join(text.split())


@pytest.mark.parametrize("sentences", [3, 200, 1000])
def test_long_paragraphs_are_cut_as_short_ones(sentences: int) -> None:
    texts = [f"Dr. Smith (no. {number}) saw a dog, e.g. a big one." for number in range(sentences)]
    paragraph = " ".join(texts)
    assert [paragraph[slice(*span)] for span in cut_sentences(paragraph, "en")] == texts


@pytest.mark.posix
def test_cutting_sentences_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):  # it takes seconds; at once, it would take hours
            cut_sentences("Hund " + "« " * 2_000_000, "de")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_a_long_tag_in_a_subtitle_is_wrapped_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    wrap = textwrap.TextWrapper.wrap

    def spy(self: textwrap.TextWrapper, text: str) -> list[str]:
        calls.append(text)
        return wrap(self, text)

    monkeypatch.setattr(textwrap.TextWrapper, "wrap", spy)
    text = "two men in blue shirts are playing football on a <c.{}>lawn</c> with a dog."
    cue = "1\n00:00:03,000 --> 00:00:04,000\n{}\n"
    data, _ = filled(tmp_path / "x.srt", cue.format(text.format("a" * 20_000)))
    # The text is written three times: twice to compare the structure, and once for the file.
    assert len(calls) < 3 * 20
    lines = data.decode().splitlines()[2:]
    assert " ".join(lines).lower() == text.format("a" * 20_000)
    assert len(lines) == 2
