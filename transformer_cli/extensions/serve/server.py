"""Answers requests: LibreTranslate's interface, the page, and what was learned."""

import asyncio
import secrets
from collections import ChainMap, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from transformer_cli.base.errors import TransformerCliError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import __version__
from transformer_cli.base.registry import entries
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.checks.rules import detect_language
from transformer_cli.extensions.documents.formats import format_of
from transformer_cli.extensions.growing.memory import FILE, read_memory
from transformer_cli.extensions.serve import messages
from transformer_cli.extensions.serve.guard import find_key, refuse
from transformer_cli.extensions.serve.learning import Learner
from transformer_cli.extensions.serve.served_model import Kind, Model, ModelQueue
from transformer_cli.extensions.serve.texts import translate_document, translate_texts

Body = TypeVar("Body", bound=messages.AnyRequest)
Handler = Callable[[Request], Awaitable[Response]]

_KEPT_BYTES = 1 << 26  # of translated files that nobody has fetched yet


@dataclass
class Served:
    """A run that is served: its model, and what it learns from, unless it cannot learn."""

    languages: tuple[str, str]
    options: TranslateOptions
    learner: Learner | None
    queue: ModelQueue = field(init=False)

    def __post_init__(self) -> None:
        run = self.learner.chain[-1] if self.learner else self.options.run
        self.queue = ModelQueue(self._load(run))

    def _load(self, run: Path) -> Model:
        sent = self.learner.corrections.chosen if self.learner else {}
        model = Model(replace(self.options, run=run), ChainMap(sent, read_memory(run / FILE)))
        model.translate([], Kind())  # loads it
        return model

    def take_over(self, run: Path) -> None:
        """Translate with another run from the next batch on."""
        self.queue.model = self._load(run)


@dataclass
class Server:
    """The functions that answer requests.

    Attributes:
        served: the runs, by their pairs of languages.
        keys: the names of keys, by their SHA-256; empty if none is needed.
        is_local: whether only this machine can send requests.
        most_characters: of the texts of a request.
        growing: options of ``train`` for growing.
        logs_texts: whether to log texts and translations.
    """

    served: dict[tuple[str, str], Served]
    keys: dict[str, str]
    is_local: bool
    most_characters: int
    growing: Sequence[str]
    logs_texts: bool
    _files: OrderedDict[str, tuple[str, bytes]] = field(default_factory=OrderedDict)
    _growths: set["asyncio.Task[None]"] = field(default_factory=set)

    def app(self) -> Starlette:
        """Return the ASGI application."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            for task in self._growths:
                task.cancel()
            await asyncio.gather(*self._growths, return_exceptions=True)

        routes = [Route(path, handle, methods=[how]) for how, path, handle, _ in self._endpoints]
        page = StaticFiles(packages=[(__package__, "page")], html=True)
        handlers: dict[Any, Any] = {
            HTTPException: lambda _, error: refuse(error.status_code, error.detail, error.headers),
            TransformerCliError: lambda _, error: refuse(400, str(error)),
        }
        app = Starlette(
            routes=[*routes, Mount("/", page)], lifespan=lifespan, exception_handlers=handlers
        )
        app.state.served = self.served
        return app

    @property
    def _endpoints(self) -> list[tuple[str, str, Handler, type[messages.AnyRequest] | None]]:
        """The method, path, function and body of each request."""
        return [
            ("POST", "/translate", self._translate, messages.TranslateRequest),
            ("POST", "/detect", self._detect, messages.DetectRequest),
            ("POST", "/translate_file", self._translate_file, messages.FileRequest),
            ("POST", "/suggest", self._suggest, messages.SuggestRequest),
            ("POST", "/rollback", self._roll_back, messages.PairRequest),
            ("GET", "/download_file/{name}", self._download_file, None),
            ("GET", "/languages", self._languages, None),
            ("GET", "/frontend/settings", self._settings, None),
            ("GET", "/learning", self._learning, None),
            ("GET", "/health", self._health, None),
            ("GET", "/spec", self._spec, None),
        ]

    # --- translating ------------------------------------------------------------------------------

    async def _translate(self, request: Request) -> Response:
        """Translate a text, or several."""
        given, _ = await self._read(request, messages.TranslateRequest)
        texts = [given.q] if isinstance(given.q, str) else given.q
        self._check_length(texts)
        served, detected = self._choose(given, " ".join(texts))
        if given.format == "html":
            form, model = entries("document")["html"], served.queue.model
            done = [await translate_document(served.queue, form, "q", x.encode()) for x in texts]
            answers: list[dict[str, Any]] = [{"translatedText": one.decode()} for one in done]
        else:
            kind = Kind(given.alternatives + 1 if given.alternatives else None, given.details)
            answers, model = await translate_texts(served.queue, texts, kind)
        for text, answer in zip(texts, answers, strict=True):
            answer |= detected
            if self.logs_texts:
                log(f"{text!r} -> {answer['translatedText']!r}")
        if isinstance(given.q, list):
            names = answers[0] if answers else ["translatedText"]
            answers = [{name: [each[name] for each in answers] for name in names}]
        return JSONResponse({**answers[0], "model": model.options.run.name})

    async def _detect(self, request: Request) -> Response:
        """Detect the language of a text."""
        given, _ = await self._read(request, messages.DetectRequest)
        self._check_length([given.q])
        found = detect_language(given.q)[:3]
        return JSONResponse([_confidence(*each) for each in found])

    async def _translate_file(self, request: Request) -> Response:
        """Translate a file; the answer has the address of the translation."""
        given, _ = await self._read(request, messages.FileRequest)
        if not hasattr(given.file, "filename"):
            raise HTTPException(400, "file: send it as multipart/form-data")
        name = Path(given.file.filename or "text.txt").name
        form = format_of(Path(name))
        if form is None and not name.endswith(".txt"):
            raise HTTPException(400, f"{name[-40:]}: send one of {', '.join(self._endings)}")
        data = await given.file.read()
        served, _ = self._choose(given, data[:10_000].decode(errors="replace"))
        form = form or entries("document")["lines"]
        done = await translate_document(served.queue, form, name, data)
        address = f"{secrets.token_urlsafe(16)}{Path(name).suffix.lower()}"
        self._files[address] = (f"{Path(name).stem}_{served.languages[1]}{Path(name).suffix}", done)
        while sum(len(kept) for _, kept in self._files.values()) > _KEPT_BYTES:
            self._files.popitem(last=False)
        url = str(request.base_url.replace(path=f"/download_file/{address}"))
        return JSONResponse({"translatedFileUrl": url})

    async def _download_file(self, request: Request) -> Response:
        """Send a translated file."""
        if (kept := self._files.get(request.path_params["name"])) is None:
            raise HTTPException(404, "there is no such file any more; translate it again")
        name, data = kept
        plain = "".join(
            sign if (sign.isascii() and sign.isalnum()) or sign in "._-" else "_" for sign in name
        )
        sent = {"Content-Disposition": f'attachment; filename="{plain}"'}
        return Response(data, headers=sent, media_type="application/octet-stream")

    # --- learning ---------------------------------------------------------------------------------

    async def _suggest(self, request: Request) -> Response:
        """Take a correction; answer once it is on the disk."""
        given, sender = await self._read(request, messages.SuggestRequest)
        self._check_length([given.q, given.s])
        served, _ = self._choose(given, given.q)
        if (learner := served.learner) is None:
            raise HTTPException(403, "this server takes no corrections")
        if not given.q.strip() or not given.s.strip():
            raise HTTPException(400, "q and s: neither may be empty")
        (before,), _ = await translate_texts(served.queue, [given.q], Kind())
        add = learner.corrections.add
        await asyncio.to_thread(add, given.q, given.s, before["translatedText"], sender)
        if learner.is_due:
            task = asyncio.create_task(learner.grow(self.growing, served.take_over))
            self._growths.add(task)
            task.add_done_callback(self._growths.discard)
        return JSONResponse({"success": True})

    async def _roll_back(self, request: Request) -> Response:
        """Leave out the last growth."""
        given, _ = await self._read(request, messages.PairRequest)
        if not (self.keys or self.is_local):
            raise HTTPException(403, "needs a key; start the server with --keys")
        served, _ = self._choose(given, "")
        if served.learner is None:
            raise HTTPException(403, "this server takes no corrections")
        await asyncio.to_thread(served.take_over, served.learner.roll_back())
        return JSONResponse({"success": True, **served.learner.facts})

    async def _learning(self, _: Request) -> Response:
        """What each model learns from corrections, and what came of it."""
        facts = [
            {"source": src, "target": tgt, **served.learner.facts}
            for (src, tgt), served in self.served.items()
            if served.learner
        ]
        return JSONResponse(facts)

    # --- what there is ----------------------------------------------------------------------------

    async def _languages(self, _: Request) -> Response:
        """The languages, and those that each can be translated into."""
        codes = sorted({code for pair in self.served for code in pair})
        return JSONResponse([self._language(code) for code in codes])

    def _language(self, code: str) -> dict[str, Any]:
        targets = sorted(tgt for src, tgt in self.served if src == code)
        return {"code": code, "name": _name_language(code), "targets": targets}

    async def _settings(self, _: Request) -> Response:
        """What a page needs to know."""
        src, tgt = next(iter(self.served))
        learns = any(served.learner for served in self.served.values())
        about = {
            "apiKeys": bool(self.keys),
            "keyRequired": bool(self.keys),
            "charLimit": self.most_characters,
            "frontendTimeout": 500,
            "language": {"source": self._language(src), "target": self._language(tgt)},
            "suggestions": learns,
            "filesTranslation": True,
            "supportedFilesFormat": self._endings,
        }
        return JSONResponse(about)

    @property
    def _endings(self) -> list[str]:
        return [
            ".txt",
            *(e for each in entries("document").values() for e in each.facts["endings"]),
        ]

    async def _health(self, _: Request) -> Response:
        """Whether the server works."""
        return JSONResponse({"status": "ok"})

    async def _spec(self, _: Request) -> Response:
        """This description, in OpenAPI."""
        paths: dict[str, Any] = {}
        for how, path, handle, body in self._endpoints:
            responses = {"200": {"description": "the answer"}, "400": {"description": "the error"}}
            about: dict[str, Any] = {"summary": handle.__doc__, "responses": responses}
            if body:
                kind = "multipart/form-data" if body is messages.FileRequest else "application/json"
                about["requestBody"] = {"content": {kind: {"schema": body.model_json_schema()}}}
            paths[path] = {how.lower(): about}
        info = {"title": "transformer-cli serve", "version": __version__}
        return JSONResponse({"openapi": "3.1.0", "info": info, "paths": paths})

    # --- reading requests -------------------------------------------------------------------------

    async def _read(self, request: Request, kind: type[Body]) -> tuple[Body, str]:
        """Return the body of a request and who sent it, or refuse it."""
        try:
            if request.headers.get("content-type", "").startswith("application/json"):
                body = await request.json()
            else:
                body = dict(await request.form())
            given = kind.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise HTTPException(400, f"{place}: {first['msg']}") from None
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body is neither JSON nor a form") from None
        if not self.keys:
            return given, request.client.host if request.client else ""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if (name := find_key(self.keys, given.api_key or bearer)) is None:
            raise HTTPException(403, "api_key: is missing or wrong")
        return given, name

    def _check_length(self, texts: Sequence[str]) -> None:
        if (count := sum(map(len, texts))) > self.most_characters:
            raise HTTPException(400, f"{count:,} characters; send at most {self.most_characters:,}")
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise HTTPException(400, "the text has half of a character (a surrogate)") from None

    def _choose(self, given: messages.PairRequest, text: str) -> tuple[Served, dict[str, Any]]:
        """Return the run for a request's languages, and what is said about a detected one."""
        source, target, detected = base_language(given.source), base_language(given.target), {}
        if given.source == "auto":
            sources = [src for src, tgt in self.served if tgt == target]
            found = [each for each in detect_language(text) if each[0] in sources]
            source, share = found[0] if found else (next(iter(sources), ""), 0.0)
            detected = {"detectedLanguage": _confidence(source, share)}
        if (served := self.served.get((source, target))) is None:
            pairs = ", ".join(f"{src} to {tgt}" for src, tgt in self.served)
            raise HTTPException(
                400, f"cannot translate {given.source[:20]} to {given.target[:20]}; can: {pairs}"
            )
        return served, detected


def _confidence(code: str, share: float) -> dict[str, Any]:
    return {"language": code, "confidence": round(100 * share)}


def _name_language(code: str) -> str:
    """Return the English name of a language, as spaCy has it, or its code."""
    try:
        return str(import_module(f"spacy.lang.{code}").__all__[0])
    except (ImportError, AttributeError):
        return code
