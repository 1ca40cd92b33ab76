"""`relatum serve`: a local web page and an HTTP interface."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from relatum.cli.options import MaxCells, Precision, Splitting, read_splitting
from relatum.extractor.finding import DEFAULT_MODEL


def serve(
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="[NAME=]NAME_OR_PATH",
            help="A model that comes with relatum, or the folder of a model; may be repeated, and the first is the "
            "default model. Without it, all models that come with relatum are served.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="The port to listen on; 0 is any free port.")
    ] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="RELATUM_TOKEN",
            show_envvar=True,
            help="The bearer token that requests need. Prefer the environment variable: others on the machine may see "
            "options.",
        ),
    ] = None,
    label_studio: Annotated[
        bool,
        typer.Option("--label-studio", help="Also answer Label Studio, which asks the default model for predictions."),
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SCORE", help="Leave out of predictions what has a lower score."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="The device for the models.")] = "auto",
    precision: Precision = "fp32",
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Sentences per batch. Default: depends on the device."),
    ] = None,
    max_cells: MaxCells = None,
    splitting: Splitting = None,
    readers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Batches read in parallel. Default: depends on the device."),
    ] = None,
    max_bytes: Annotated[int, typer.Option(min=1, metavar="N", help="The most bytes in a request.")] = 262_144,
    max_sentences: Annotated[int, typer.Option(min=1, metavar="N", help="The most sentences in a request.")] = 1000,
    max_seconds: Annotated[float, typer.Option(min=0.001, metavar="N", help="The most seconds for a request.")] = 30.0,
    max_waiting: Annotated[
        int, typer.Option(min=1, metavar="N", help="The most sentences waiting for a model; further ones are refused.")
    ] = 4000,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Allow requests from pages of this origin, such as https://example.org; may be repeated.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also answer to this host name; may be repeated."),
    ] = None,
) -> None:
    """Serve a page to try models in a browser, and an HTTP interface.

    Only this machine can reach the server, unless you set --host. Texts are neither stored nor logged. Ctrl-C answers
    all accepted requests and then stops; a second Ctrl-C stops at once.
    """
    from relatum.cli.console import say
    from relatum.errors import MissingExtraError, RelatumError

    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtraError("relatum serve", "web") from None
    from relatum.web.limits import Limits

    if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
        raise RelatumError("--token: expected a word of visible ASCII characters, such as 32 random letters and digits")
    if token is None and "RELATUM_TOKEN" in os.environ:  # an option that is set to nothing counts as not given
        raise RelatumError("RELATUM_TOKEN is set, but empty; set it to a token, or unset it to let anybody ask")
    if threshold is not None and not label_studio:
        raise typer.BadParameter('--threshold is for --label-studio; other requests have a "threshold" of their own')
    given = read_splitting(splitting)
    rules = given.get("words"), given.get("sentences")
    limits = Limits(max_bytes, max_sentences, max_seconds, max_waiting)
    from relatum.web.hosts import hosts_of
    from relatum.web.listening import address_of, bind, is_local
    from relatum.web.server import Server, spare_collections

    with bind(host, port) as listener:  # before the models are loaded, which takes longer
        hosts = hosts_of((host, listener.getsockname()[0]), is_local(listener), allow_host or ())
        if token is None and not is_local(listener):
            say(f"anybody who reaches {address_of(listener)} can use the models; set RELATUM_TOKEN to ask for a token")
        from relatum.extractor.extractor import Extractor
        from relatum.web.app import make_app
        from relatum.web.label_studio import LabelStudioBackend
        from relatum.web.served import ServedModel

        served = []
        for name, path in name_models(models or shipped_default_first()).items():
            extractor = Extractor.from_pretrained(path, device, precision, batch_size, max_cells, *rules)
            served.append(ServedModel(name, extractor, limits, batch_size, readers))
        backend = LabelStudioBackend(served[0], threshold) if label_studio else None
        app = make_app(served, limits, token, allow_origin or (), hosts=hosts, label_studio=backend)
        server = Server(app, max_seconds)
        _log_requests()
        spare_collections()
        address = address_of(listener)
        listener.listen()  # whoever reads the next line may come before the server has started
        say(f"serving {', '.join(one.name for one in served)} at {address} (Ctrl-C stops)")
        if open_page:
            import webbrowser

            webbrowser.open(address)
        server.run(sockets=[listener])
    say("stopped")


def shipped_default_first() -> list[str]:
    """Return the names of the models that come with relatum, beginning with the default."""
    from relatum.extractor.finding import shipped_models

    return sorted(shipped_models(), key=lambda name: name != DEFAULT_MODEL)


def name_models(given: list[str]) -> dict[str, str]:
    """Return model paths by the names they are served by: the name before a =, else the last part of the path."""
    from relatum.errors import RelatumError

    named: dict[str, str] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not equals or Path(one).is_dir():
            name, path = Path(one).resolve().name if Path(one).is_dir() else one, one
        if not name or not name.isprintable():
            raise RelatumError(f"--model {one}: expected a name before the =, such as --model mine=PATH")
        if name in named:
            raise RelatumError(
                f"--model {one}: there is already one that is called {name!r} ({named[name]}); give it another name, "
                f"such as --model other={path}"
            )
        named[name] = path
    return named


def _log_requests() -> None:
    """Log one line for every request on standard error: its address, not its content."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    for name, level in (("relatum.web", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
