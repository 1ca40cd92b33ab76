"""Data formats: one module each, found by name or by a look at the file."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path

from relatum.data.formats import (
    ace,
    bioc,
    brat,
    corp,
    docbin,
    doccano,
    docred,
    gliner,
    jsonl,
    label_studio,
    prodigy,
    pubtator,
    scierc,
    spert,
    table_sequence,
    triples,
    uima,
    webanno,
)
from relatum.data.formats.base import Format, Holds
from relatum.errors import FormatError

FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        jsonl.FORMAT,
        spert.FORMAT,  # before table-sequence, whose keys it shares
        table_sequence.FORMAT,
        scierc.FORMAT,
        brat.FORMAT,
        brat.WITHOUT_EVENTS,
        label_studio.FORMAT,
        doccano.FORMAT,
        corp.FORMAT,
        docbin.FORMAT,
        ace.FORMAT,
        pubtator.FORMAT,
        docred.FORMAT,
        prodigy.FORMAT,
        webanno.FORMAT,
        bioc.FORMAT,
        bioc.JSON,
        uima.FORMAT,
        triples.FORMAT,
        gliner.FORMAT,
        gliner.TEXTS,
    )
}

__all__ = ["FORMATS", "Format", "Holds", "get_format", "guess_format", "nearest_formats"]


def get_format(name: str) -> Format:
    """Return the format of that name; the error for an unknown name lists all formats."""
    try:
        return FORMATS[name]
    except KeyError:
        near = difflib.get_close_matches(name, FORMATS, 1)
        hint = f"did you mean {near[0]!r}? There are" if near else "there are"
        raise FormatError(f"unknown format {name!r}; {hint}: {', '.join(FORMATS)}") from None


def guess_format(path: Path) -> Format | None:
    """Return the first format that recognises the content of the file or folder; our own, the least strict, is last."""
    candidates = sorted(FORMATS.values(), key=lambda candidate: candidate is jsonl.FORMAT)
    return next((format for format in candidates if format.recognise(path)), None)


def nearest_formats(keys: Collection[str]) -> list[Format]:
    """Return the JSON formats that share most of these keys, or nearly the same, the nearest first; two at most."""

    def n_shared(format: Format) -> int:
        return sum(bool(difflib.get_close_matches(key, format.record_keys, 1, 0.8)) for key in keys if key != "id")

    nearest = sorted(FORMATS.values(), key=n_shared, reverse=True)
    return [format for format in nearest[:2] if n_shared(format)]
