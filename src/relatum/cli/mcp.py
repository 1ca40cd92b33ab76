"""`relatum mcp`: tools for agents."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

import typer

from relatum.cli.options import MaxCells, Precision
from relatum.cli.serve import name_models, shipped_default_first


def mcp(
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="[NAME=]NAME_OR_PATH",
            help="A model for clients: one that comes with relatum, or the folder of a model; may be repeated, and the "
            "first is the default model. Without it, clients may use all models that come with relatum.",
        ),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over streamable HTTP on this machine, not standard input and output.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="The port for --http; 0 is any free port. Default: 8766."),
    ] = None,
    max_characters: Annotated[int, typer.Option(min=1, metavar="N", help="The most characters in a text.")] = 100_000,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="The device for the models.")] = "auto",
    precision: Precision = "fp32",
    max_cells: MaxCells = None,
) -> None:
    """Serve extraction as tools for agents, by the Model Context Protocol (MCP).

    An agent's host starts this command and talks to it over standard input and output. The tools are extract, models
    and schema. They read nothing but the text that they are given.
    """
    from relatum.cli.console import say
    from relatum.errors import RelatumError

    if port is not None and not http:
        raise RelatumError("--port: there is no port without --http; give --http, too, or leave out --port")
    from relatum.extractor.extractor import Extractor
    from relatum.integrations.mcp import make_server, run_http, run_stdio

    named = name_models(models or shipped_default_first())
    extractors = {
        name: Extractor.from_pretrained(path, device, precision, max_cells=max_cells) for name, path in named.items()
    }
    server = make_server(extractors, max_characters)
    if not http:
        run_stdio(server)
        return
    from relatum.web.listening import address_of, bind

    with bind("127.0.0.1", 8766 if port is None else port) as listener:
        listener.listen()
        say(f"serving {', '.join(extractors)} at {address_of(listener)}mcp (Ctrl-C stops)")
        with suppress(KeyboardInterrupt):  # raised again after the server has stopped
            run_http(server, listener)
    say("stopped")
