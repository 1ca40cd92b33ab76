"""The tools for agents, asked by the library's own client."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

pytest.importorskip("mcp", reason="needs mcp: pip install 'relatum[mcp]'")

import uvicorn
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent

from relatum.cli.app import main
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.integrations import mcp
from relatum.integrations.mcp import make_server
from relatum.web.listening import bind

TEXT = "Ingrid Solheim lives in Oslo, Norway. The Bergen Shipping Company, based in Bergen, was founded in 1921."
T = TypeVar("T")


@pytest.fixture
def ask(news: Extractor) -> Callable[[Callable[[Client], Awaitable[T]]], T]:
    """Runs a conversation with a server in this process that has `news` under two names."""

    def run(talk: Callable[[Client], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with Client(make_server({"first": news, "second": news}, max_characters=200)) as client:
                return await talk(client)

        return anyio.run(connected)

    return run


@pytest.fixture
def call(ask: Callable[..., Any]) -> Callable[..., CallToolResult]:
    """Calls one tool."""

    def run(name: str, **arguments: object) -> CallToolResult:
        return ask(lambda client: client.call_tool(name, arguments))  # type: ignore[no-any-return]

    return run


def refusal(result: CallToolResult) -> str:
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_tools_have_schemas_for_what_they_take_and_return(ask: Callable[..., Any]) -> None:
    listed = ask(lambda client: client.list_tools()).tools
    assert [tool.name for tool in listed] == ["extract", "models", "schema"]
    for tool in listed:
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"
        assert tool.annotations.read_only_hint
    assert list(listed[0].input_schema["properties"]) == ["text", "model", "threshold"]


def test_extract_returns_offsets_scores_and_evidence(call: Callable[..., CallToolResult], news: Extractor) -> None:
    answer = call("extract", text=TEXT).structured_content
    assert answer["model"] == "first"
    assert answer["entities"] == news(TEXT).to_dict()["entities"]
    lives, _ = [relation for relation in answer["relations"] if relation["label"] == "Live_In"]
    assert (lives["head_text"], lives["tail_text"]) == ("Ingrid Solheim", "Oslo")
    assert lives["evidence"] == "Ingrid Solheim lives in Oslo, Norway."
    assert 0 < lives["score"] <= 1


def test_extract_takes_a_model_and_a_threshold(call: Callable[..., CallToolResult]) -> None:
    assert call("extract", text=TEXT, model="second").structured_content["model"] == "second"
    assert call("extract", text=TEXT, threshold=1).structured_content["entities"] == []


def test_models_lists_labels_and_the_default(call: Callable[..., CallToolResult]) -> None:
    first, second = call("models").structured_content["models"]
    assert (first["name"], first["default"]) == ("first", True)
    assert (second["name"], second["default"]) == ("second", False)
    assert "Live_In" in first["relation_types"]


def test_schema_says_what_a_relation_connects(call: Callable[..., CallToolResult]) -> None:
    answer = call("schema", model="first").structured_content
    (lives,) = [one for one in answer["relation_types"] if one["name"] == "Live_In"]
    assert (lives["heads"], lives["tails"], lives["symmetric"]) == (["Peop"], ["Loc"], False)
    assert "news" in answer["card"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("extract", {}, "text: field required"),
        ("extract", {"text": 5}, "text: input should be a valid string"),
        (
            "extract",
            {"text": "", "treshold": 1},
            "treshold: there is no such argument; expected text, model, threshold",
        ),
        ("extract", {"text": "", "threshold": 2}, "threshold: input should be less than or equal to 1"),
        ("extract", {"text": "", "model": "/etc"}, "model: found '/etc'; this server has first, second"),
        ("extract", {"text": "x" * 201}, "text: found 201 characters; at most 200 are read at once"),
        ("models", {"all": True}, "all: there is no such argument; expected none"),
        ("schema", {"model": "news"}, "model: found 'news'; this server has first, second"),
        ("read", {}, "there is no tool 'read'; there are extract, models, schema"),
    ],
)
def test_wrong_arguments_are_named_with_the_cure(
    call: Callable[..., CallToolResult], tool: str, arguments: dict[str, object], message: str
) -> None:
    assert message in refusal(call(tool, **arguments))


def test_command_serves_over_standard_input_and_output(tmp_path: Path) -> None:
    command = ["-m", "relatum", "mcp", "--model", "mine=news"]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    log = tmp_path / "log"

    async def talk() -> tuple[Any, Any]:
        with log.open("w", encoding="utf-8") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as client:
                return await client.call_tool("models", {}), await client.call_tool("extract", {"text": TEXT})

    models, found = anyio.run(talk)
    assert [one["name"] for one in models.structured_content["models"]] == ["mine"]
    assert "Ingrid Solheim" in [entity["text"] for entity in found.structured_content["entities"]]
    assert log.read_text(encoding="utf-8") == ""


def test_server_answers_over_http_to_this_machine_only(news: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[uvicorn.Server] = []

    class Noted(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            started.append(self)

    monkeypatch.setattr(uvicorn, "Server", Noted)
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        thread = threading.Thread(target=mcp.run_http, args=(make_server({"news": news}), listener))
        thread.start()

        async def talk() -> CallToolResult:
            async with Client(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp") as client:
                return await client.call_tool("extract", {"text": TEXT})

        try:
            found = anyio.run(talk)
        finally:
            while not started:
                time.sleep(0.01)
            started[0].should_exit = True
            thread.join()
    assert found.structured_content["relations"]


def test_port_without_http_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--port", "1"]) == 1
    assert "--port: there is no port without --http" in capsys.readouterr().err


def test_model_that_is_not_there_is_named_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--model", "nwes"]) == 1
    assert "nwes: no such model (did you mean 'news'?)" in capsys.readouterr().err


def test_ctrl_c_stops_the_http_server_in_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("relatum.integrations.mcp.run_http", interrupt)
    assert main(["mcp", "--model", "news", "--http", "--port", "0"]) == 0
    assert capsys.readouterr().err.endswith("relatum: stopped\n")


def test_a_server_needs_a_model() -> None:
    with pytest.raises(RelatumError, match="there are no models to serve"):
        make_server({})
