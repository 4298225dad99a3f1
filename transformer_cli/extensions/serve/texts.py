"""Translates the texts and documents of requests."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from transformer_cli.base.registry import Entry
from transformer_cli.extensions.documents.command import fill_document
from transformer_cli.extensions.documents.document import Source, join_lines
from transformer_cli.extensions.documents.inline import Span
from transformer_cli.extensions.documents.sentences import (
    JoinedTranslation,
    cut_sentences,
    join_sentences,
)
from transformer_cli.extensions.growing.memory import fold
from transformer_cli.extensions.serve.served_model import Kind, Line, Model, ModelQueue
from transformer_cli.inference.translator import Watcher


async def translate_texts(
    queue: ModelQueue, texts: Sequence[str], kind: Kind
) -> tuple[list[dict[str, Any]], Model]:
    """Translate texts of any number of sentences and lines.

    Return an answer in the form of LibreTranslate for each text, and the model that made it.
    """
    language, known = queue.model.plain.config.data.src_lang, queue.model.corrections
    cut = [
        [(0, len(text))] if fold(text) in known else cut_sentences(text, language) for text in texts
    ]
    pairs = [*zip(texts, cut, strict=True)]
    lines = [*dict.fromkeys(join_lines(text[slice(*at)]) for text, spans in pairs for at in spans)]
    done, model = await queue.translate(lines, kind)
    found = dict(zip(lines, done, strict=True))
    return [_answer(text, spans, found, kind) for text, spans in pairs], model


def _answer(text: str, spans: Sequence[Span], found: dict[str, Line], kind: Kind) -> dict[str, Any]:
    def join(rank: int) -> JoinedTranslation:
        ranked = {
            line: (one.translations[rank:] or one.translations[-1:])[0]
            for line, one in found.items()
        }
        return join_sentences(text, spans, ranked)

    best = join(0)
    answer: dict[str, Any] = {"translatedText": best.text}
    if kind.n_best:
        others = dict.fromkeys(join(rank).text for rank in range(1, kind.n_best))
        answer["alternatives"] = [one for one in others if one != best.text]
    if kind.detailed:
        doubtful: list[int] = []
        count = 0
        for at in spans:
            line = found[join_lines(text[slice(*at)])]
            doubtful += [count + word for word in line.doubtful]
            count += len(line.translations[0].text.split())
        answer["details"] = {
            "source": best.src_words,
            "target": best.tgt_words,
            "links": sorted(best.links),
            "doubtful": doubtful,
            "doubts": best.doubts,
        }
    return answer


async def translate_document(queue: ModelQueue, form: Entry, name: str, data: bytes) -> bytes:
    """Translate a document of a format; raise InputError if it is damaged."""
    return bytes(await queue.translate_document(partial(_fill, form, name, data)))


def _fill(
    form: Entry, name: str, data: bytes, model: Model, should_stop: Callable[[], bool]
) -> bytes:
    settings = model.plain.config.data
    source = Source(name, data, (settings.src_lang, settings.tgt_lang))
    document = form.load()(source)
    document.segments = [segment.without_soft_hyphens() for segment in document.segments]
    watcher = Watcher(should_stop=should_stop)
    return fill_document(model.options, document, model.detailed, None, watcher).data
