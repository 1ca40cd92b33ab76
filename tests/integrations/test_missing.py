"""The message about a host's library that is not installed."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from relatum.errors import MissingExtraError


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("llama_index", "llama_index.core.schema", "llama-index"),
        ("langchain", "langchain_core.documents", "langchain"),
        ("neo4j_graphrag", "neo4j_graphrag.components.types", "neo4j"),
        ("mcp", "mcp_types", "mcp"),
    ],
)
def test_missing_library_is_answered_by_the_extra(
    module: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"relatum.integrations.{module}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"pip install 'relatum\[{extra}\]'"):
        import_module(f"relatum.integrations.{module}")
