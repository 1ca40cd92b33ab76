"""A real browser, a real server, and a small random model that reads only characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from relatum.extractor.extractor import Extractor
from relatum.schema import RelationType, Schema

from ...small_models import make_small_model

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def extractor() -> Extractor:
    """Weights so large that it finds many entities, and relations that cross, in any text."""
    schema = Schema(("Loc", "Peop"), (RelationType("Live_In"), RelationType("Kin")))
    return Extractor(make_small_model("model.n_layers=3", seed=93, schema=schema))


@contextmanager
def serving(extractors: dict[str, Extractor], token: str | None = None) -> Iterator[str]:
    """The address of a server with these models and room for small requests only."""
    pytest.importorskip("fastapi", reason="needs fastapi: pip install 'relatum[web]'")
    from relatum.web.app import make_app
    from relatum.web.limits import Limits
    from relatum.web.listening import address_of, bind
    from relatum.web.served import ServedModel
    from relatum.web.server import Server

    limits = Limits(max_bytes=20_000)
    models = [ServedModel(name, extractor, limits) for name, extractor in extractors.items()]
    server = Server(make_app(models, limits, token), limits.max_seconds)
    listener = bind("127.0.0.1", 0)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield address_of(listener)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def address(extractor: Extractor) -> Iterator[str]:
    with serving({"tiny": extractor, "other": extractor}) as served:
        yield served


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Open]:
    """Opens the page, with a fragment, and with settings of a browser; at the end nobody may have complained.

    Answers of 400 and above are complaints of the browser, too, unless they are expected.
    """
    contexts = []
    complaints: list[str] = []
    expected: list[str] = []

    def open(fragment: str = "", at: str = address, refusals: bool = False, width: int = 1280, **settings: str) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 800}, **settings)  # type: ignore[arg-type]
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda sent: None if sent.url.startswith(at) else complaints.append(f"asked {sent.url}"))
        expected.extend(["Failed to load resource"] if refusals else [])
        page.goto(at + fragment)
        return page

    yield open
    for context in contexts:
        context.close()
    assert [said for said in complaints if not said.startswith(tuple(expected))] == []
