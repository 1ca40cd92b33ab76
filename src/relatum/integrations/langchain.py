"""A `Runnable` and a graph transformer for LangChain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from relatum.errors import MissingExtraError, RelatumError
from relatum.extractor.finding import DEFAULT_MODEL
from relatum.extractor.result import Extraction, check_threshold
from relatum.graph import KnowledgeGraph
from relatum.integrations.shared import (
    ModelName,
    TextGraph,
    evidence_properties,
    load,
    mention_properties,
    merge_texts,
)

try:
    from langchain_core.documents import Document
    from langchain_core.runnables import Runnable, RunnableConfig, run_in_executor
except ImportError:
    raise MissingExtraError("relatum.integrations.langchain", "langchain") from None

GraphPackage = Literal["langchain_neo4j", "langchain_community"]
"""A package that has the class `GraphDocument`; the graph stores of each take their own."""


class RelatumExtractor(Runnable[str | Document, Any]):
    """Reads a text or a `Document`, and returns its `Extraction`, or the record of its `KnowledgeGraph`.

    `batch` reads all inputs together. The id of a `Document` is the id of its extraction.
    """

    def __init__(
        self,
        model: ModelName = DEFAULT_MODEL,
        device: str | None = None,
        threshold: float | None = None,
        returns: Literal["extraction", "graph"] = "extraction",
    ) -> None:
        """Load a model by its name or folder, or take an `Extractor`."""
        if returns not in ("extraction", "graph"):
            raise ValueError(f"returns is {returns!r}; expected 'extraction' or 'graph'")
        if threshold is not None:
            check_threshold(threshold)
        self.extractor, self.threshold, self.returns = load(model, device), threshold, returns

    def invoke(self, input: str | Document, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Read one text."""
        return self._call_with_config(self._read_one, input, config, **kwargs)

    def batch(
        self,
        inputs: list[str | Document],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Read many texts together."""
        return self._batch_with_config(self._read, inputs, config, return_exceptions=return_exceptions, **kwargs)

    async def abatch(
        self,
        inputs: list[str | Document],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Read many texts together, in a thread."""
        work = partial(self.batch, inputs, config, return_exceptions=return_exceptions, **kwargs)
        return await run_in_executor(None, work)

    def _read_one(self, input: str | Document) -> Any:
        (answer,) = self._read([input])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _read(self, inputs: list[str | Document]) -> list[Any]:
        """Return the answer to each input, or the error of an input that cannot be read."""
        errors: dict[str, Exception] = {}
        answers = self.extractor.pipe(
            [(_text(input), input) for input in inputs],
            threshold=self.threshold,
            as_tuples=True,
            on_error=lambda text, error: errors.update({str(text): error}),
        )
        return [
            errors[str(_text(input))] if found is None else self._answer(found.with_id(_name(input)))
            for found, input in answers
        ]

    def _answer(self, extraction: Extraction) -> Any:
        return extraction if self.returns == "extraction" else KnowledgeGraph.of([extraction]).to_dict()


class RelatumGraphTransformer:
    """Turns documents into graph documents, with the methods of LangChain's `LLMGraphTransformer`.

    The id of a node is its id in a `KnowledgeGraph`, such as `org/bergen-shipping-company`, which is the same in every
    document; `name` is a property. Other properties hold offsets in the text, scores, and the sentence that states a
    relation.
    """

    def __init__(
        self,
        model: ModelName = DEFAULT_MODEL,
        device: str | None = None,
        threshold: float | None = None,
        package: GraphPackage | None = None,
    ) -> None:
        """Load a model by its name or folder, or take an `Extractor`.

        `package` has the class of the graph documents; if it is not given, langchain_neo4j, else langchain_community.
        """
        self._classes = _find_classes(package)
        self._reader = RelatumExtractor(model, device, threshold)

    def process_response(self, document: Document, config: RunnableConfig | None = None) -> Any:
        """Return the graph document of one document."""
        (answer,) = self.convert_to_graph_documents([document], config)
        return answer

    async def aprocess_response(self, document: Document, config: RunnableConfig | None = None) -> Any:
        """Do the same in a thread."""
        (answer,) = await self.aconvert_to_graph_documents([document], config)
        return answer

    def convert_to_graph_documents(
        self, documents: Sequence[Document], config: RunnableConfig | None = None
    ) -> list[Any]:
        """Return a graph document for each document, in their order; documents are read together."""
        return self._convert(documents, self._reader.batch(_as_list(documents), config))

    async def aconvert_to_graph_documents(
        self, documents: Sequence[Document], config: RunnableConfig | None = None
    ) -> list[Any]:
        """Do the same in a thread."""
        return self._convert(documents, await self._reader.abatch(_as_list(documents), config))

    def _convert(self, documents: Sequence[Document], extractions: Sequence[Extraction]) -> list[Any]:
        numbered = [extraction.with_id(str(number)) for number, extraction in enumerate(extractions)]
        _, parts = merge_texts(numbered)
        return [self._graph_document(document, part) for document, part in zip(documents, parts, strict=True)]

    def _graph_document(self, document: Document, part: TextGraph) -> Any:
        nodes = {}
        for node, mentions in part.nodes:
            properties = {"name": node.name, **mention_properties(mentions)}
            nodes[node.id] = self._classes.Node(id=node.id, type=node.label, properties=properties)
        relationships = []
        for edge, evidence in part.edges:
            head, tail, properties = nodes[edge.head], nodes[edge.tail], evidence_properties(evidence)
            relationships.append(
                self._classes.Relationship(source=head, target=tail, type=edge.label, properties=properties)
            )
        return self._classes.GraphDocument(nodes=list(nodes.values()), relationships=relationships, source=document)


def _as_list(documents: Any) -> list[str | Document]:
    if isinstance(documents, Document):
        raise TypeError("expected a list of Documents, found a single one; put it in a list, or use process_response")
    for number, document in enumerate(documents, 1):
        if not isinstance(document, Document):
            raise TypeError(f"document {number}: expected a Document, found {type(document).__name__}")
    return list(documents)


def _text(input: object) -> object:
    """Return the text of an input; anything else is left for the extractor, which says what it expected."""
    return input.page_content if isinstance(input, Document) else input


def _name(input: object) -> str:
    return (input.id or "") if isinstance(input, Document) else ""


def _find_classes(package: str | None) -> ModuleType:
    """Import the module of a package that has graph documents."""
    for name in (package,) if package else ("langchain_neo4j", "langchain_community"):
        try:
            return import_module(f"{name}.graphs.graph_document")
        except ImportError:
            continue
    raise RelatumError(
        f"the class GraphDocument cannot be imported from {package or 'langchain_neo4j or langchain_community'}: pip "
        f"install {(package or 'langchain_neo4j').replace('_', '-')}, or use RelatumExtractor(returns='graph')"
    )
