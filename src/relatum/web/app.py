"""The HTTP application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from relatum._version import __version__
from relatum.look.rendering import STYLES
from relatum.web.body import answer_in_time, read_message
from relatum.web.guard import Gate, Guard, State, refusal_response
from relatum.web.label_studio import LabelStudioBackend, PredictRequest, SetupRequest, WebhookRequest
from relatum.web.limits import STATUS, Limits, Refusal
from relatum.web.messages import (
    ErrorResponse,
    ExtractRequest,
    ExtractResponse,
    HealthResponse,
    Message,
    ModelsResponse,
    ProbeRequest,
    ProbeResponse,
)
from relatum.web.reference import reference_page
from relatum.web.served import ServedModel
from relatum.web.static_files import PageFiles

STATIC = Path(__file__).parent / "static"


class PlainRoute(APIRoute):
    """A route whose function is given the raw request, and reads and checks it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.endpoint


def make_app(
    models: Sequence[ServedModel],
    limits: Limits | None = None,
    token: str | None = None,
    origins: Sequence[str] = (),
    static: Path = STATIC,
    hosts: frozenset[str] | None = None,
    label_studio: LabelStudioBackend | None = None,
) -> FastAPI:
    """Make an application that serves these models; the first model answers requests that name none.

    Requests by other host names than `hosts` are refused; None allows any, and `relatum.web.hosts.hosts_of` returns the
    names for the address that the server listens at. The application's `state.guard` has the state of the server, and
    can be set to accept no more requests. With `label_studio`, it also answers Label Studio's requests for predictions.
    """
    limits, state = limits or Limits(), State()
    app = FastAPI(
        title="relatum",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=_make_lifespan(models, state),
        # Traces and records of errors quote requests; and no variable of the environment may send them elsewhere.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    app.state.guard = state
    app.router.route_class = PlainRoute
    _add_models(app, models, limits)
    _add_health(app, models, state, "ok" if label_studio is None else "UP")
    if label_studio is not None:
        _add_label_studio(app, label_studio, limits)
    _add_pages(app, PageFiles(static, STYLES))
    _add_refusals(app)
    state.paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    # The last is the outermost: browsers are not told what pages may ask of a name that is not ours.
    app.add_middleware(Guard, state=state, limits=limits, token=token, takes_passwords=label_studio is not None)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(Gate, state=state, hosts=hosts, open_to_others=bool(origins))
    return app


def _make_lifespan(
    models: Sequence[ServedModel], state: State
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return what starts the models with the server, and closes their queues when it ends."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        for model in models:
            model.start()
        try:
            yield
        except asyncio.CancelledError:
            return  # the server is stopped at once: nothing is waited for
        state.accepting = False
        for model in models:
            model.queue.close()

    return lifespan


def _add_models(app: FastAPI, models: Sequence[ServedModel], limits: Limits) -> None:
    """Add the addresses that models answer at."""
    named = {model.name: model for model in models}

    def find(name: str | None) -> ServedModel:
        model = models[0] if name is None else named.get(name)
        if model is None:
            raise Refusal("not_found", f"model: there is none of that name; there are {', '.join(named)}")
        return model

    @app.post("/extract", **_described(ExtractRequest, ExtractResponse))
    async def extract(request: Request) -> Response:
        """Entities and relations of one text, or of several."""
        asked = await read_message(request, ExtractRequest, limits)
        model = find(asked.model)
        results = await answer_in_time(request, model.extract(asked.all_texts, asked.threshold), limits)
        return _json({"model": model.name, "results": results})

    @app.post("/probe", **_described(ProbeRequest, ProbeResponse))
    async def probe(request: Request) -> Response:
        """The entities and relations that each layer of the model finds in a sentence, and its attention."""
        asked = await read_message(request, ProbeRequest, limits)
        model = find(asked.model)
        found = await answer_in_time(request, model.probe(asked.text, asked.sentence), limits)
        return _json({"model": model.name, **found})

    @app.get("/models", response_model=ModelsResponse)
    async def list_models(_request: Request) -> Response:
        """The models that this server answers with."""
        return _json({"models": [{**one.info(), "default": one is models[0]} for one in models]})


def _add_health(app: FastAPI, models: Sequence[ServedModel], state: State, status: str) -> None:
    """Add the state of the server; Label Studio's models say UP."""

    @app.head("/health", include_in_schema=False)
    @app.get("/health", response_model=HealthResponse)
    async def health(_request: Request) -> Response:
        """The state of the server, and the number of sentences that wait."""
        waiting = sum(model.queue.n_waiting for model in models)
        return _json({"status": status, "version": __version__, "queue": waiting, "accepting": state.accepting})


def _add_label_studio(app: FastAPI, backend: LabelStudioBackend, limits: Limits) -> None:
    """Add the addresses that Label Studio asks; its own documentation describes them."""

    @app.post("/setup", include_in_schema=False)
    async def setup(request: Request) -> Response:
        return _json(backend.setup(await read_message(request, SetupRequest, limits)))

    @app.post("/predict", include_in_schema=False)
    async def predict(request: Request) -> Response:
        asked = await read_message(request, PredictRequest, limits)
        return _json(await answer_in_time(request, backend.predict(asked), limits))

    @app.post("/webhook", include_in_schema=False)
    async def webhook(request: Request) -> Response:
        return _json(backend.acknowledge(await read_message(request, WebhookRequest, limits)))

    @app.get("/versions", include_in_schema=False)
    async def versions(_request: Request) -> Response:
        return _json({"versions": [backend.version]})


def _add_pages(app: FastAPI, files: PageFiles) -> None:
    """Add the page, its files and the reference of the addresses."""

    @app.get("/docs", include_in_schema=False)
    async def docs(_request: Request) -> Response:
        return Response(reference_page(app.openapi()), media_type="text/html")

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request) -> Response:
        return files.answer("index.html", request)

    @app.api_route("/static/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def static_file(request: Request) -> Response:
        return files.answer(request.path_params["path"], request)


def _add_refusals(app: FastAPI) -> None:
    """Let every error be answered in the same form."""

    @app.exception_handler(Refusal)
    async def refused(_request: Request, refusal: Refusal) -> Response:
        return refusal_response(refusal)

    @app.exception_handler(HTTPException)
    async def not_there(_request: Request, error: HTTPException) -> Response:
        code = {status: code for code, status in STATUS.items()}.get(error.status_code, "invalid")
        message = {
            "not_found": "there is nothing at this address; GET /docs lists what there is",
            "not_allowed": "this address does not take this method; GET /docs lists what there is",
        }
        response = refusal_response(Refusal(code, message.get(code, "the request cannot be read")))
        response.headers.update(error.headers or {})  # the methods that an address does take
        return response


def _json(content: object) -> Response:
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, media_type="application/json", headers={"cache-control": "no-store"})


def _described(request: type[Message], response: type[Message]) -> dict[str, Any]:
    """Return the OpenAPI description of an address whose body we read ourselves, to limit its size."""
    refusals = {STATUS[code]: {"model": ErrorResponse} for code in STATUS if code not in ("not_allowed", "internal")}
    body = {"required": True, "content": {"application/json": {"schema": request.model_json_schema()}}}
    return {"response_model": response, "responses": refusals, "openapi_extra": {"requestBody": body}}
