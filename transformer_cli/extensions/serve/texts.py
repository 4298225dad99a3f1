"""Translates the texts and documents of requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class TextRequest:
    """Texts to translate, sentence by sentence, and what to say about them.

    Attributes:
        texts: they may have several sentences and lines.
        alternatives: how many other translations to return.
        details: whether to return words, their alignment, and which are doubtful.
    """

    texts: Sequence[str]
    alternatives: int = 0
    details: bool = False

    async def translate(self, queue: ModelQueue) -> tuple[list[dict[str, Any]], Model]:
        """Return an answer for each text, and the model that translated them."""
        data = queue.model.plain.config.data
        known = queue.model.corrections
        cut = [
            [(0, len(text))] if fold(text) in known else cut_sentences(text, data.src_lang)
            for text in self.texts
        ]
        pairs = [*zip(self.texts, cut, strict=True)]
        lines = [
            *dict.fromkeys(join_lines(text[slice(*at)]) for text, spans in pairs for at in spans)
        ]
        kind = Kind(self.alternatives + 1 if self.alternatives else None, self.details)
        done, model = await queue.translate(lines, kind)
        found = dict(zip(lines, done, strict=True))
        return [self._answer(text, spans, found) for text, spans in pairs], model

    def _answer(self, text: str, spans: Sequence[Span], found: dict[str, Line]) -> dict[str, Any]:
        def join(rank: int) -> JoinedTranslation:
            ranked = {
                line: one.translations[min(rank, len(one.translations) - 1)]
                for line, one in found.items()
            }
            return join_sentences(text, spans, ranked)

        best = join(0)
        answer: dict[str, Any] = {"translatedText": best.text}
        if self.alternatives:
            others = [join(rank).text for rank in range(1, self.alternatives + 1)]
            answer["alternatives"] = [one for one in dict.fromkeys(others) if one != best.text]
        if self.details:
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
