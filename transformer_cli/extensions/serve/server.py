"""Answers requests, with LibreTranslate's interface, and sends the page."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from ipaddress import ip_network
from itertools import chain, compress, count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from transformer_cli.base.errors import TransformerCliError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import __version__
from transformer_cli.base.registry import Entry, entries
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.checks.rules import detect_language
from transformer_cli.extensions.documents.command import fill_document
from transformer_cli.extensions.documents.document import Source, join_lines
from transformer_cli.extensions.documents.formats import format_of
from transformer_cli.extensions.documents.sentences import (
    cut_texts,
    join_sentences,
    list_sentences,
)
from transformer_cli.extensions.growing.memory import fold
from transformer_cli.extensions.serve.guard import Guard, find_key, read_keys, refuse
from transformer_cli.extensions.serve.model import Model, ShouldStop, Wanted
from transformer_cli.extensions.serve.served import Served
from transformer_cli.inference.translator import Watcher

_MOST_ALTERNATIVES, _MOST_TEXTS = 10, 1_000
_KEPT_BYTES = 1 << 26  # of translated files, of which the oldest are forgotten


class AnyRequest(BaseModel):
    """What every request may have."""

    model_config = ConfigDict(str_max_length=1 << 30)  # with a limit, Pydantic refuses surrogates

    api_key: str | None = None


class DetectRequest(AnyRequest):
    """A text whose language to detect."""

    q: str


class PairRequest(AnyRequest):
    """The languages of a model; the source may be 'auto' where a text is translated."""

    source: str
    target: str


class TranslateRequest(PairRequest):
    """One text or several to translate; ``details`` are words, their alignment, and doubts."""

    q: str | list[str]
    format: str = Field("text", pattern="^(text|html)?$")
    alternatives: int = Field(0, ge=0, le=_MOST_ALTERNATIVES)
    details: bool = False


class FileRequest(PairRequest):
    """A file to translate, as form data."""

    file: Any = Field(json_schema_extra={"type": "string", "format": "binary"})


class SuggestRequest(PairRequest):
    """A text, and its correct translation."""

    q: str
    s: str


Handler = Callable[[Request, Any], Awaitable[Any]]


class Server:
    """The functions that answer requests, each of which is given a request and its body."""

    def __init__(self, served: Mapping[tuple[str, str], Served], given: Any) -> None:
        """Serve runs, by their pairs of languages, with the options of ``serve``."""
        self.served, self.given = served, given
        self.keys = read_keys(given.keys) if given.keys else {}
        self._files: dict[str, tuple[str, bytes]] = {}
        self._endpoints: list[tuple[str, str, Handler, type[AnyRequest] | None]] = [
            ("POST", "/translate", self._translate, TranslateRequest),
            ("POST", "/detect", self._detect, DetectRequest),
            ("POST", "/translate_file", self._translate_file, FileRequest),
            ("POST", "/suggest", self._suggest, SuggestRequest),
            ("POST", "/rollback", self._roll_back, PairRequest),
            ("POST", "/learning", self._learning, PairRequest),
            ("GET", "/download_file/{name}", self._download_file, None),
            ("GET", "/languages", self._languages, None),
            ("GET", "/frontend/settings", self._settings, None),
            ("GET", "/health", self._health, None),
            ("GET", "/spec", self._spec, None),
        ]

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        detect_language("")  # so that no request waits until it is loaded

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            for served in self.served.values():
                served.grow_if_due()
            with suppress(asyncio.CancelledError):  # by a second Ctrl-C
                yield
            await asyncio.gather(*(served.stop_growing() for served in self.served.values()))

        routes = [
            Route(path, partial(self._answer, handle, body), methods=[method])
            for method, path, handle, body in self._endpoints
        ]
        page = Mount("/", StaticFiles(packages=[(__package__, "page")], html=True))
        handlers: dict[Any, Any] = {
            HTTPException: lambda _, error: refuse(error.status_code, error.detail, error.headers),
            TransformerCliError: lambda _, error: refuse(400, str(error)),
            ClientDisconnect: lambda *_: refuse(400, "the request was not sent to its end"),
        }
        app = Starlette(routes=[*routes, page], lifespan=lifespan, exception_handlers=handlers)
        return CORSMiddleware(Guard(app, self.given), self.given.cors or (), ["GET", "POST"], ["*"])

    async def _answer(
        self, handle: Handler, kind: type[AnyRequest] | None, request: Request
    ) -> Response:
        answer = await handle(request, kind and await self._read(request, kind))
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    # --- translating ------------------------------------------------------------------------------

    async def _translate(self, _: Request, given: TranslateRequest) -> dict[str, Any]:
        """Translate a text, or several."""
        texts = [given.q] if isinstance(given.q, str) else given.q
        self._check_length(texts)
        served, detected = self._choose(given, " ".join(texts))
        model = served.queue.model
        if given.format == "html":
            fill = partial(_fill_html, model, texts)
            done = await served.queue.translate_document(fill, is_file=False)
            none: dict[str, Any] = {"alternatives": []} if given.alternatives else {}
            answers = [{"translatedText": one} | none for one in done]
        else:
            wanted = Wanted(given.alternatives + 1 if given.alternatives else None, given.details)
            answers = await _translate_texts(served, model, texts, wanted)
        for text, answer in zip(texts, answers, strict=True):
            answer |= detected
            if self.given.log_texts:
                log(f"{text!r} -> {answer['translatedText']!r}")
        if isinstance(given.q, str):
            (answer,) = answers
        else:
            names = answers[0] if answers else ["translatedText"]
            answer = {name: [each[name] for each in answers] for name in names}
        return {**answer, "model": model.options.run.name}

    async def _detect(self, _: Request, given: DetectRequest) -> list[dict[str, Any]]:
        """Detect the language of a text."""
        self._check_length([given.q])
        found = await asyncio.to_thread(detect_language, given.q)
        return [_confidence(*each) for each in found[:3]]

    async def _translate_file(self, request: Request, given: FileRequest) -> dict[str, str]:
        """Translate a file; the answer has the address of the translation."""
        if not hasattr(given.file, "filename"):
            raise HTTPException(400, "file: send it as multipart/form-data")
        path = Path(re.sub(r"[^\w.-]", "_", given.file.filename or "text.txt", flags=re.ASCII))
        if path.suffix.lower() not in self._endings:
            raise HTTPException(400, f"{path.suffix[:20]}: send one of {', '.join(self._endings)}")
        data = await given.file.read()
        served, _ = self._choose(given, data[:10_000].decode(errors="replace"))
        form = format_of(path) or entries("document")["lines"]
        fill = partial(_fill, served.queue.model, form, path.name, data)
        done = await served.queue.translate_document(fill)
        name = f"{secrets.token_urlsafe(16)}{path.suffix}"
        self._files[name] = f"{path.stem}_{served.languages[1]}{path.suffix}", done
        while (
            len(self._files) > 1
            and sum(len(x) + 1000 for _, x in self._files.values()) > _KEPT_BYTES
        ):
            del self._files[next(iter(self._files))]
        return {"translatedFileUrl": str(request.base_url.replace(path=f"/download_file/{name}"))}

    async def _download_file(self, request: Request, _: None) -> Response:
        """Send a translated file."""
        if (kept := self._files.get(request.path_params["name"])) is None:
            raise HTTPException(404, "there is no such file any more; translate it again")
        sent = {"Content-Disposition": f'attachment; filename="{kept[0]}"'}
        return Response(kept[1], headers=sent, media_type="application/octet-stream")

    # --- learning ---------------------------------------------------------------------------------

    async def _suggest(self, request: Request, given: SuggestRequest) -> dict[str, Any]:
        """Take a correction, and answer once it is on the disk."""
        self._check_length([given.q, given.s])
        served, _ = self._choose(given, given.q)
        (before,) = await _translate_texts(served, served.queue.model, [given.q], Wanted())
        correction = given.q, given.s, before["translatedText"], request.state.sender
        now = await asyncio.to_thread(served.corrections.add, *correction)
        served.grow_if_due()
        return {"success": True, "translatedText": now}

    async def _roll_back(self, _: Request, given: PairRequest) -> dict[str, Any]:
        """Leave out the last growth."""
        if not (self.keys or self.given.is_local):
            raise HTTPException(403, "needs a key; start the server with --keys")
        served = self._choose(given, None)[0]
        await served.roll_back()
        return served.facts

    async def _learning(self, _: Request, given: PairRequest) -> dict[str, Any]:
        """What the model learns from corrections, and what the last growth led to."""
        return self._choose(given, None)[0].facts

    # --- facts ------------------------------------------------------------------------------------

    async def _languages(self, *_: Any) -> list[dict[str, Any]]:
        """The languages, and those into which each can be translated."""
        return [self._language(code) for code in sorted(set(chain(*self.served)))]

    def _language(self, code: str) -> dict[str, Any]:
        targets = sorted(tgt for src, tgt in self.served if src == code)
        return {"code": code, "name": code, "targets": targets}

    async def _settings(self, *_: Any) -> dict[str, Any]:
        """What a page needs to know."""
        src, tgt = next(iter(self.served))
        return {
            "apiKeys": bool(self.keys),
            "keyRequired": bool(self.keys),
            "charLimit": self.given.max_chars,
            "frontendTimeout": 500,
            "language": {"source": self._language(src), "target": self._language(tgt)},
            "suggestions": True,
            "filesTranslation": True,
            "supportedFilesFormat": self._endings,
        }

    @property
    def _endings(self) -> list[str]:
        return [".txt", *(e for one in entries("document").values() for e in one.facts["endings"])]

    async def _health(self, *_: Any) -> dict[str, str]:
        """Whether the server works."""
        return {"status": "ok"}

    async def _spec(self, *_: Any) -> dict[str, Any]:
        """A description of all requests, in OpenAPI."""
        paths: dict[str, Any] = {}
        for method, path, handle, body in self._endpoints:
            responses = {"200": {"description": "the answer"}, "400": {"description": "an error"}}
            about: dict[str, Any] = {"summary": handle.__doc__, "responses": responses}
            for name in re.findall(r"\{(\w+)\}", path):
                place = {"in": "path", "required": True, "schema": {"type": "string"}}
                about["parameters"] = [{"name": name, **place}]
            if body:
                schema = {"schema": body.model_json_schema()}
                kinds = ["application/json", "application/x-www-form-urlencoded"]
                if body is FileRequest:
                    kinds = ["multipart/form-data"]
                about["requestBody"] = {"content": dict.fromkeys(kinds, schema)}
            paths[path] = {method.lower(): about}
        info = {"title": "transformer-cli serve", "version": __version__}
        return {"openapi": "3.1.0", "info": info, "paths": paths}

    # --- reading requests -------------------------------------------------------------------------

    async def _read(self, request: Request, kind: type[AnyRequest]) -> AnyRequest:
        """Return the body of a request, and note who sent it; or refuse it."""
        content = request.headers.get("content-type", "").lower()
        try:
            if content.startswith("multipart/"):
                body: Any = dict(await request.form())
            elif "json" in content:
                body = await request.json()
            else:
                form = parse_qsl((await request.body()).decode(), keep_blank_values=True)
                body = {**request.query_params, **dict(form)}
            given = kind.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = first["loc"][0] if first["loc"] else "the body"
            raise HTTPException(400, f"{place}: {first['msg']}") from None
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body is neither JSON nor a form") from None
        sender: str | None = request.client.host if request.client else ""
        if sender and ":" in sender:  # one household has all addresses of a network
            sender = str(ip_network((sender.partition("%")[0], 64), strict=False))
        if self.keys:
            bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
            if (sender := find_key(self.keys, given.api_key or bearer)) is None:
                raise HTTPException(403, "api_key: is missing or wrong")
        request.state.sender = sender
        return given

    def _check_length(self, texts: Sequence[str]) -> None:
        most = self.given.max_chars
        if (count := sum(map(len, texts))) > most or len(texts) > _MOST_TEXTS:
            sent = f"{count:,} characters in {len(texts):,} texts"
            raise HTTPException(400, f"{sent}; send at most {most:,} in {_MOST_TEXTS:,}")

    def _choose(self, given: PairRequest, text: str | None) -> tuple[Served, dict[str, Any]]:
        """Return the run for a request's languages, and what is said about a detected one."""
        source, target = base_language(given.source), base_language(given.target)
        detected = {}
        if given.source == "auto" and text is not None:
            sources = [src for src, tgt in self.served if tgt == target]
            found = [each for each in detect_language(text) if each[0] in sources]
            source, share = found[0] if found else (next(iter(sources), ""), 0.0)
            detected = {"detectedLanguage": _confidence(source, share)}
        if (served := self.served.get((source, target))) is None:
            pairs = ", ".join(f"{src} to {tgt}" for src, tgt in self.served)
            asked = f"{given.source[:20]} to {given.target[:20]}"
            raise HTTPException(400, f"cannot translate {asked}, only {pairs}")
        return served, detected


def _confidence(code: str, share: float) -> dict[str, Any]:
    return {"language": code, "confidence": round(100 * share)}


# --- texts and documents --------------------------------------------------------------------------


async def _translate_texts(
    served: Served, model: Model, texts: Sequence[str], wanted: Wanted
) -> list[dict[str, Any]]:
    """Return the answer for each text, which may have several sentences and lines."""
    cut = cut_texts(texts, served.languages[0], lambda text: fold(text) in model.corrections)
    lines = list_sentences(cut)
    found = dict(zip(lines, await served.queue.translate(model, lines, wanted), strict=True))
    ranks = [
        {line: (one.translations[rank:] or one.translations[-1:])[0] for line, one in found.items()}
        for rank in range(wanted.n_best or 1)
    ]
    answers = []
    for text in texts:
        spans = cut[text]
        best, *others = (join_sentences(text, spans, rank) for rank in ranks)
        answer: dict[str, Any] = {"translatedText": best.text}
        if wanted.n_best:
            other_texts = dict.fromkeys(other.text for other in others)
            answer["alternatives"] = [one for one in other_texts if one and one != best.text]
        if wanted.is_detailed:
            doubtful = chain(*(found[join_lines(text[slice(*at)])].doubtful for at in spans))
            answer["details"] = {
                "source": best.src_words,
                "target": best.tgt_words,
                "links": sorted(best.links),
                "doubtful": [*compress(count(), doubtful)],
                "doubts": best.doubts,
            }
        answers.append(answer)
    return answers


def _fill_html(model: Model, texts: Sequence[str], should_stop: ShouldStop) -> list[str]:
    """Translate texts in HTML."""
    form = entries("document")["html"]
    data = (f"\ufeff{text}".encode() for text in texts)  # else <meta> would name the encoding
    return [_fill(model, form, "q", one, should_stop).decode("utf-8-sig") for one in data]


def _fill(model: Model, form: Entry, name: str, data: bytes, should_stop: ShouldStop) -> bytes:
    """Translate a document."""
    settings = model.plain.config.data
    document = form.load()(Source(name, data, (settings.src_lang, settings.tgt_lang)))
    document.segments = [segment.without_soft_hyphens() for segment in document.segments]
    watcher = Watcher(should_stop=should_stop)
    translator = model.plain if form.name == "lines" else model.detailed  # which aligns tags
    return bytes(fill_document(model.options, document, translator, None, watcher).data)
