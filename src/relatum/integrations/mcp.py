"""A server of the Model Context Protocol, with tools by which an agent finds entities and relations in a text.

A client chooses among the models that the server was started with. No request can make it load another.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from relatum._version import __version__
from relatum.errors import MissingExtraError, RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction

try:
    import mcp_types as types
    import uvicorn
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError:
    raise MissingExtraError("relatum mcp", "mcp") from None

MAX_CHARACTERS = 100_000
"""The most characters of a text, unless a server is told otherwise."""

INSTRUCTIONS = """\
Finds named entities in a text and the relations between them, with small models that run on this machine.
Each model knows a fixed set of labels: ask `models` for them, and `schema` for the details of one.
Offsets count characters from 0, and ends are exclusive. Scores are from 0 to 1."""

_HINTS = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


ModelName = Annotated[str, Field(description="The name of a model that the tool models lists.")]


class ExtractArguments(_Message):
    text: Annotated[str, Field(description="Any text; it is split into sentences.")]
    model: ModelName | None = None
    threshold: Annotated[float | None, Field(ge=0, le=1, description="Leave out what has a lower score.")] = None


class ModelsArguments(_Message):
    pass


class SchemaArguments(_Message):
    model: ModelName


class FoundEntity(_Message):
    id: str
    text: str
    label: str
    start: int
    end: int
    score: float | None


class FoundRelation(_Message):
    head: Annotated[str, Field(description="The id of an entity.")]
    head_text: str
    label: str
    tail: Annotated[str, Field(description="The id of an entity.")]
    tail_text: str
    score: float | None
    evidence: Annotated[str | None, Field(description="The sentences that state the relation.")]


class Found(_Message):
    model: str
    entities: list[FoundEntity]
    relations: list[FoundRelation]


class ModelLabels(_Message):
    name: str
    default: bool
    entity_types: list[str]
    relation_types: list[str]


class Models(_Message):
    models: list[ModelLabels]


class RelationLabel(_Message):
    name: str
    symmetric: Annotated[bool, Field(description="True if the relation has no direction.")]
    heads: Annotated[list[str], Field(description="The entity types that a head may have; empty: any.")]
    tails: Annotated[list[str], Field(description="The entity types that a tail may have; empty: any.")]


class ModelSchema(_Message):
    name: str
    entity_types: list[str]
    relation_types: list[RelationLabel]
    card: Annotated[str, Field(description="The model card, in Markdown: training data, scores and limits.")]


@dataclass(frozen=True)
class _Tool:
    description: str
    arguments: type[_Message]
    answer: type[_Message]
    call: Callable[[Any], _Message]

    def listed(self, name: str) -> types.Tool:
        return types.Tool(
            name=name,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            output_schema=self.answer.model_json_schema(mode="serialization"),
            annotations=_HINTS,
        )


class _Tools:
    """The tools of a server, on the models that it was started with."""

    def __init__(self, models: Mapping[str, Extractor], max_characters: int) -> None:
        self._models, self._max_characters = dict(models), max_characters
        self._reading = Lock()
        self.by_name = {
            "extract": _Tool(
                f"Find the entities in a text of up to {max_characters} characters, and the relations between them.",
                ExtractArguments,
                Found,
                self.extract,
            ),
            "models": _Tool("List the models and their labels.", ModelsArguments, Models, self.models),
            "schema": _Tool(
                "Describe a model: its labels, which entities a relation connects, and its card.",
                SchemaArguments,
                ModelSchema,
                self.schema,
            ),
        }

    def extract(self, asked: ExtractArguments) -> Found:
        if len(asked.text) > self._max_characters:
            raise RelatumError(
                f"text: found {len(asked.text)} characters; at most {self._max_characters} are read at once: send the "
                "text in parts, cut between paragraphs"
            )
        name = next(iter(self._models)) if asked.model is None else asked.model
        extractor = self._find(name)
        with self._reading:  # a text is read with all cores: two at once would wait for each other
            found = extractor(asked.text, asked.threshold)
        return _answer(name, found)

    def models(self, asked: ModelsArguments) -> Models:
        del asked
        listed: list[ModelLabels] = []
        for name, extractor in self._models.items():
            schema = extractor.schema
            listed.append(
                ModelLabels(
                    name=name,
                    default=not listed,
                    entity_types=list(schema.entity_types),
                    relation_types=list(schema.relation_names),
                )
            )
        return Models(models=listed)

    def schema(self, asked: SchemaArguments) -> ModelSchema:
        extractor = self._find(asked.model)
        schema = extractor.schema
        relations = [
            RelationLabel(
                name=one.name,
                symmetric=one.symmetric,
                heads=list(one.head_labels),
                tails=list(one.tail_labels),
            )
            for one in schema.relation_types
        ]
        return ModelSchema(
            name=asked.model,
            entity_types=list(schema.entity_types),
            relation_types=relations,
            card=extractor.card,
        )

    def _find(self, name: str) -> Extractor:
        if name not in self._models:
            raise RelatumError(f"model: found {name!r}; this server has {', '.join(self._models)}")
        return self._models[name]


def make_server(models: Mapping[str, Extractor], max_characters: int = MAX_CHARACTERS) -> Server[Any]:
    """Make a server with these models, by the names that clients use; the first is the default model."""
    if not models:
        raise RelatumError("there are no models to serve; give at least one, such as {'news': extractor}")
    tools = _Tools(models, max_characters).by_name

    async def list_tools(_context: object, _asked: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.listed(name) for name, tool in tools.items()])

    async def call_tool(_context: object, asked: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(asked.name)
        if tool is None:
            return _refusal(f"there is no tool {asked.name!r}; there are {', '.join(tools)}")
        try:
            arguments = tool.arguments.model_validate(asked.arguments or {})
            answer = await anyio.to_thread.run_sync(tool.call, arguments)
        except ValidationError as error:
            return _refusal("; ".join(_explain(error, tool.arguments)))
        except RelatumError as error:
            return _refusal(str(error))
        text = types.TextContent(type="text", text=answer.model_dump_json())
        return types.CallToolResult(content=[text], structured_content=answer.model_dump(mode="json"))

    return Server(
        "relatum",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def run_stdio(server: Server[Any]) -> None:
    """Serve the client at standard input and output until it closes them."""

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)


def run_http(server: Server[Any], listener: socket.socket) -> None:
    """Serve clients over streamable HTTP, at the path /mcp, until the process is told to stop.

    The library refuses requests by other host names than those of this machine.
    """
    config = uvicorn.Config(server.streamable_http_app(), access_log=False, log_level="warning", ws="none")
    uvicorn.Server(config).run(sockets=[listener])


def _answer(name: str, found: Extraction) -> Found:
    record = found.to_dict()
    texts = {entity["id"]: entity["text"] for entity in record["entities"]}
    relations = []
    for relation, fields in zip(found.relations, record["relations"], strict=True):
        evidence = found.evidence(relation)
        relations.append(
            FoundRelation(
                head_text=texts[fields["head"]],
                tail_text=texts[fields["tail"]],
                evidence=None if evidence is None else evidence.of(found.text),
                **fields,
            )
        )
    return Found(model=name, entities=[FoundEntity(**fields) for fields in record["entities"]], relations=relations)


def _refusal(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)


def _explain(error: ValidationError, kind: type[BaseModel]) -> list[str]:
    """Describe each wrong argument, without the text that it holds."""
    messages = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False)[:5]:
        name = ".".join(map(str, problem["loc"]))
        if problem["type"] == "extra_forbidden":
            known = ", ".join(kind.model_fields) or "none"
            messages.append(f"{name}: there is no such argument; expected {known}")
        else:
            messages.append(f"{name}: {problem['msg'][:1].lower()}{problem['msg'][1:]}")
    return messages
