"""Writing a knowledge graph to a file or folder, in the format that its suffix says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from relatum.data.atomic import new_folder, replacing_file
from relatum.errors import RelatumError
from relatum.graph.graph import BASE
from relatum.graph.rdf import check_base
from relatum.graph.text import writable

if TYPE_CHECKING:
    from relatum.graph.graph import KnowledgeGraph

GraphFormat = Literal["json", "html", "graphml", "turtle", "jsonld", "cypher", "csv"]

_SUFFIXES: dict[str, GraphFormat] = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".graphml": "graphml",
    ".ttl": "turtle",
    ".jsonld": "jsonld",
    ".cypher": "cypher",
    ".cql": "cypher",
    ".csv": "csv",
}


def find_format(path: Path) -> GraphFormat:
    """Return the format of a file by its suffix."""
    try:
        return _SUFFIXES[path.suffix.lower()]
    except KeyError:
        raise RelatumError(
            f"{path}: the format cannot be told from the suffix {path.suffix!r}; expected {', '.join(_SUFFIXES)}, or "
            f"a format: {', '.join(get_args(GraphFormat))}"
        ) from None


def save(graph: KnowledgeGraph, path: Path, format: GraphFormat, base: str = BASE, title: str = "") -> None:
    """Write the graph; csv is a new folder, everything else a file. It appears whole or not at all."""
    if format == "csv":
        from relatum.graph.neo4j import write_csv

        with new_folder(path) as draft:
            write_csv(graph, draft)
        return
    text = to_text(graph, format, base, title)
    with replacing_file(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def to_text(graph: KnowledgeGraph, format: GraphFormat, base: str = BASE, title: str = "") -> str:
    """Return the graph in a format that is one text; all but csv are."""
    check_base(base)
    if format == "json":
        return json.dumps(graph.to_dict(), ensure_ascii=True, indent=1) + "\n"
    if format == "html":
        return graph.to_html(writable(title))
    if format == "graphml":
        return graph.to_graphml()
    if format == "turtle":
        return graph.to_turtle(base)
    if format == "jsonld":
        return graph.to_jsonld(base)
    if format == "cypher":
        return graph.to_cypher()
    if format == "csv":
        raise RelatumError("csv is a folder of two files; name a new folder to write")
    raise RelatumError(f"unknown format {format!r}; there are: {', '.join(get_args(GraphFormat))}")
