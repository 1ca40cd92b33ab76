"""Annotated data: formats, splitting, conversion and inspection."""

from __future__ import annotations

from pathlib import Path

from relatum.types import Document


def load_documents(path: str | Path, format: str | None = None) -> list[Document]:
    """Load all documents of a file or folder; the format is guessed if none is named.

    Raises `DataError`, which carries every bad record with its place, if there is any.
    """
    # Here and not above: whoever wants another part of this package need not wait for all formats.
    from relatum.data.corpus import read_documents
    from relatum.data.problems import Problems

    problems = Problems()
    documents = list(read_documents(Path(path), format, problems))
    problems.raise_if_any()
    return documents
