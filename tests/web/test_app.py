"""The HTTP application, without a network."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from relatum.config import load_config
from relatum.errors import ConfigError, RelatumError
from relatum.extractor.extractor import Extractor
from relatum.web.app import STATIC, make_app
from relatum.web.limits import Limits
from relatum.web.messages import ExtractResponse, HealthResponse, ModelsResponse, ProbeResponse
from relatum.web.served import ServedModel

from ..small_models import make_small_model
from .conftest import make_extractor

TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."
SMALL = Limits(max_bytes=2000, max_sentences=5, max_waiting=5, max_words=12)


@pytest.fixture(scope="module")
def other() -> Extractor:
    return make_extractor(7)


@pytest.fixture
def client(extractor: Extractor, other: Extractor) -> Iterator[TestClient]:
    models = [ServedModel("small", extractor, SMALL), ServedModel("other", other, SMALL)]
    with TestClient(make_app(models, SMALL)) as one:
        yield one


def expected(extractor: Extractor, text: str, threshold: float = 0.0) -> dict[str, Any]:
    ends = [(one.offsets[0].start, one.offsets[-1].end) for one in extractor.split(text) if one.offsets]
    return {
        **extractor(text).above(threshold).to_dict(),
        "sentences": [{"start": start, "end": end} for start, end in ends],
    }


def refusal(response: Any, status: int, code: str) -> str:
    """The message of a refusal of that kind."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    (error,) = response.json().values()
    assert error["code"] == code
    return str(error["message"])


def test_extract_answers_as_the_extractor_does(client: TestClient, extractor: Extractor) -> None:
    response = client.post("/extract", json={"text": TEXT})
    assert response.status_code == 200
    assert response.json() == {"model": "small", "results": [expected(extractor, TEXT)]}
    assert response.json()["results"][0]["sentences"] == [{"start": 0, "end": 47}, {"start": 48, "end": 95}]
    assert response.json()["results"][0]["relations"]
    ExtractResponse.model_validate(response.json())


def test_extract_answers_texts_in_their_order(client: TestClient, extractor: Extractor) -> None:
    texts = ["She left.", "", "Mara lives in Oldhaven."]
    found = client.post("/extract", json={"texts": texts}).json()["results"]
    assert found == [expected(extractor, text) for text in texts]
    assert client.post("/extract", json={"texts": []}).json() == {"model": "small", "results": []}


def test_extract_reads_with_the_model_that_is_named(client: TestClient, extractor: Extractor, other: Extractor) -> None:
    found = client.post("/extract", json={"text": TEXT, "model": "other"}).json()
    assert found == {"model": "other", "results": [expected(other, TEXT)]}
    assert expected(other, TEXT) != expected(extractor, TEXT)


def test_extract_leaves_out_what_is_below_the_threshold(client: TestClient, extractor: Extractor) -> None:
    scores = sorted(one.score or 0.0 for one in extractor(TEXT).entities)
    middle = scores[len(scores) // 2]
    found = client.post("/extract", json={"text": TEXT, "threshold": middle}).json()["results"][0]
    assert found == expected(extractor, TEXT, middle)
    assert 0 < len(found["entities"]) < len(scores)
    assert client.post("/extract", json={"text": TEXT, "threshold": 1}).status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        "😀 👩‍👩‍👧 Oslo 🇨🇭!",
        "Cafe\u0301 Zu\u0308rich",
        "日本語のテキスト。もう一つ。",
        "\x00\x01 \u200b\ufeff",
        "\u2028",
    ],
)
def test_extract_counts_characters_in_any_script(client: TestClient, extractor: Extractor, text: str) -> None:
    for body in (json.dumps({"text": text}), json.dumps({"text": text}, ensure_ascii=False)):
        response = client.post("/extract", content=body.encode(), headers={"content-type": "application/json"})
        assert response.json()["results"] == [expected(extractor, text)]
        for entity in response.json()["results"][0]["entities"]:
            assert text[entity["start"] : entity["end"]] == entity["text"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "body: "),
        (b"{", "body: "),
        (b"[]", "body: "),
        (b"null", "body: "),
        (b"\xff\xfe", "body: "),
        (b'{"text": "secret\xff"}', "body: "),
        (b'{"text": "secret \\ud800"}', "body: "),
        (b'{"text": 3}', "text: input should be a valid string"),
        (b'{"texts": ["a", 3]}', "texts[1]: input should be a valid string"),
        (b'{"texts": "secret"}', "texts: input should be a valid"),
        (b"{}", 'expected either "text", a string, or "texts", a list of strings'),
        (b'{"text": "secret", "texts": []}', 'expected either "text"'),
        (b'{"text": "a", "threshold": 2}', "threshold: input should be less than or equal to 1"),
        (b'{"text": "a", "threshold": NaN}', "threshold: "),
        (b'{"text": "a", "threshold": "0.5"}', "threshold: input should be a valid number"),
        (
            b'{"text": "a", "secret": 1, "more": 2}',
            "body: found a key that is not known; expected text, texts, model, threshold",
        ),
        (b'{"text": "secret", "text": "a"}', 'body: the key "text" stands twice in one object; remove one'),
        (b"[" * 1500, "body: "),
        (b'{"text": "a", "threshold": ' + b"9" * 1500 + b"}", "threshold: "),
    ],
)
def test_extract_says_what_is_wrong_with_a_request_and_quotes_none_of_it(
    client: TestClient, body: bytes, message: str
) -> None:
    response = client.post("/extract", content=body, headers={"content-type": "application/json; charset=utf-8"})
    assert message in refusal(response, 422, "invalid")
    assert "secret" not in response.text


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_extract_takes_json_only(client: TestClient, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    response = client.post("/extract", content=b'{"text": "a"}', headers=headers)
    assert "expected application/json" in refusal(response, 422, "invalid")


def test_extract_refuses_what_is_too_large(client: TestClient) -> None:
    assert "2000 bytes" in refusal(client.post("/extract", json={"text": "a" * 2000}), 413, "too_large")
    assert "more than 5 sentences" in refusal(client.post("/extract", json={"text": "Go. " * 6}), 413, "too_large")
    assert "more than 5 sentences" in refusal(client.post("/extract", json={"texts": [""] * 6}), 413, "too_large")
    assert "more than 5 sentences" in refusal(client.post("/extract", json={"text": "a " * 481}), 413, "too_large")
    assert client.post("/extract", json={"text": "Go. " * 5}).status_code == 200
    assert client.post("/extract", json={"text": "a " * 480}).status_code == 200


def test_extract_names_the_models_there_are(client: TestClient) -> None:
    message = refusal(client.post("/extract", json={"text": "a", "model": "secret"}), 404, "not_found")
    assert message == "model: there is none of that name; there are small, other"


def test_extract_refuses_more_than_fits_into_the_queue(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relatum.web.queue.BatchQueue.n_waiting", 5)
    monkeypatch.setattr("relatum.web.queue.BatchQueue._add", _full)
    response = client.post("/extract", json={"text": "a"})
    assert "5 sentences are waiting for the model 'small'" in refusal(response, 429, "busy")
    assert response.headers["retry-after"] == "1"


def _full(*_: object) -> None:
    from relatum.web.queue import QueueFull

    raise QueueFull


def test_extract_gives_up_after_the_most_seconds(extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(max_seconds=0.05)
    model = ServedModel("small", extractor, limits)
    monkeypatch.setattr(model.queue, "start", lambda: None)  # nobody reads
    with TestClient(make_app([model], limits)) as client:
        response = client.post("/extract", json={"text": "a"})
        assert "more than 0.05 s" in refusal(response, 503, "unavailable")
        assert client.get("/health").json()["queue"] == 0


def test_probe_says_what_the_extractor_says_of_one_sentence(client: TestClient, extractor: Extractor) -> None:
    for number in (0, 1):
        found = client.post("/probe", json={"text": TEXT, "sentence": number}).json()
        assert found["probe"] == json.loads(json.dumps(extractor.probe(TEXT, only=number)[0].to_dict()))
        assert (found["model"], found["sentence"], len(found["sentences"])) == ("small", number, 2)
        ProbeResponse.model_validate(found)


def test_probe_refuses_sentences_that_are_not_there_or_too_long(client: TestClient) -> None:
    message = refusal(client.post("/probe", json={"text": TEXT, "sentence": 2}), 404, "not_found")
    assert message == "sentence: found 2; the text has 2, counted from 0"
    assert "at most 12" in refusal(client.post("/probe", json={"text": "a " * 13}), 413, "too_large")
    refusal(client.post("/probe", json={"text": "a", "sentence": -1}), 422, "invalid")
    response = client.post("/probe", json={"text": " "})
    assert response.status_code in (404, 422)


def test_models_are_described(client: TestClient) -> None:
    answer = client.get("/models").json()
    ModelsResponse.model_validate(answer)
    first, second = answer["models"]
    assert (first["name"], first["default"], second["name"], second["default"]) == ("small", True, "other", False)
    assert first["entity_types"] == ["Loc", "Peop"]
    assert first["relation_types"] == ["Live_In", "Kin"]
    assert (first["n_layers"], first["n_attention_heads"], first["encoder"]) == (2, 2, "none")
    assert first["card"] == "# A card"


def test_models_are_described_with_all_their_encoders(extractor: Extractor) -> None:
    config = load_config(None, ["encoder.name=some-bert", 'encoder.beside=["other-bert"]'])
    served = ServedModel("small", Extractor(replace(extractor.model, config=config)), SMALL)
    assert served.info()["encoder"] == "some-bert and other-bert"


def test_health_says_whether_requests_are_accepted(client: TestClient) -> None:
    from relatum import __version__

    wanted = {"status": "ok", "version": __version__, "queue": 0, "accepting": True}
    assert client.get("/health").json() == wanted
    assert (client.head("/health").status_code, client.head("/health").content) == (200, b"")
    HealthResponse.model_validate(wanted)
    client.app.state.guard.accepting = False  # type: ignore[attr-defined]
    assert client.get("/health").json() == {**wanted, "accepting": False}
    response = client.post("/extract", json={"text": "a"})
    assert "the server is stopping" in refusal(response, 503, "unavailable")
    assert response.headers["retry-after"] == "1"


def test_unknown_addresses_and_methods_are_refused(client: TestClient) -> None:
    assert "GET /docs" in refusal(client.get("/secret"), 404, "not_found")
    wrong = client.get("/extract")
    refusal(wrong, 405, "not_allowed")
    assert wrong.headers["allow"] == "POST"


def test_openapi_describes_requests_and_answers_and_docs_show_it_offline(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    assert list(schema["paths"]) == ["/extract", "/probe", "/models", "/health"]
    operation = schema["paths"]["/extract"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {"text", "texts", "model", "threshold"}
    assert {"200", "401", "413", "422", "429", "503"} <= set(operation["responses"])
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "POST /extract" in page.text
    assert "threshold" in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text


def test_static_files_have_their_types_and_are_asked_for_again_only_when_they_change(
    extractor: Extractor, tmp_path: Path
) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    for name, content in {
        "index.html": "<p>",
        "a.js": "1",
        "b.css": "p{}",
        "c.py": "secret",
        "d.svg": "<svg/>",
    }.items():
        (tmp_path / "page" / name).write_text(content)
    (tmp_path / "page" / "link.txt").symlink_to(tmp_path)
    app = make_app([ServedModel("small", extractor, SMALL)], SMALL, static=tmp_path / "page")
    with TestClient(app) as client:
        page = client.get("/")
        assert (page.text, page.headers["content-type"]) == ("<p>", "text/html; charset=utf-8")
        for name, kind in {"a.js": "text/javascript", "b.css": "text/css", "d.svg": "image/svg+xml"}.items():
            response = client.get(f"/static/{name}")
            assert response.headers["content-type"].startswith(kind)
            assert response.headers["cache-control"] == "no-cache"
            again = client.get(f"/static/{name}", headers={"if-none-match": response.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        assert client.head("/static/a.js").headers["content-length"] == "1"
        etag = client.get("/static/a.js").headers["etag"]
        (tmp_path / "page" / "a.js").write_text("2")
        assert client.get("/static/a.js", headers={"if-none-match": etag}).text == "2"
        for name in (
            "c.py",
            "none.js",
            "..%2fsecret.txt",
            "%2e%2e/secret.txt",
            "link.txt",
            "",
            "/etc/passwd",
            "a%00.js",
        ):
            refusal(client.get(f"/static/{name}"), 404, "not_found")


def test_all_files_of_the_page_are_served(client: TestClient) -> None:
    for path in STATIC.rglob("*"):
        if path.is_file():
            assert client.get(f"/static/{path.relative_to(STATIC)}").content == path.read_bytes(), path


def test_answers_carry_headers_that_allow_only_own_files(client: TestClient) -> None:
    for response in (
        client.get("/health"),
        client.get("/secret"),
        client.post("/extract", content=b""),
        client.get("/"),
    ):
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in response.headers
        assert "server" not in response.headers


def test_token_is_asked_for_where_models_and_texts_are(extractor: Extractor) -> None:
    app = make_app([ServedModel("small", extractor, SMALL)], SMALL, token="word")
    with TestClient(app) as client:
        for path in ("/", "/health", "/docs", "/openapi.json"):
            assert client.get(path).status_code in (200, 404), path
        for header in ({}, {"authorization": "Bearer wor"}, {"authorization": "Basic word"}, {"authorization": "word"}):
            response = client.post("/extract", json={"text": "a"}, headers=header)
            assert "Authorization: Bearer TOKEN" in refusal(response, 401, "unauthorised")
            assert response.headers["www-authenticate"] == "Bearer"
            refusal(client.get("/models", headers=header), 401, "unauthorised")
            refusal(client.get("/other", headers=header), 401, "unauthorised")
        for word in ("Bearer word", "bearer word"):
            assert client.post("/extract", json={"text": "a"}, headers={"authorization": word}).status_code == 200


def test_token_is_compared_in_constant_time(extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((one, two))
        return one == two

    monkeypatch.setattr("relatum.web.guard.hmac.compare_digest", compare)
    with TestClient(make_app([ServedModel("small", extractor, SMALL)], SMALL, token="word")) as client:
        client.get("/models", headers={"authorization": "Bearer other"})
        client.get("/models")
    assert compared == [(b"other", b"word"), (b"", b"word")]


def test_pages_from_elsewhere_may_ask_only_where_that_is_allowed(extractor: Extractor) -> None:
    app = make_app([ServedModel("small", extractor, SMALL)], SMALL, "word", ["https://example.org"])
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    with TestClient(app) as client:
        first = client.options("/extract", headers={"origin": "https://example.org", **asked})
        assert first.headers["access-control-allow-origin"] == "https://example.org"
        assert client.options("/extract", headers={"origin": "https://evil.org", **asked}).status_code == 400
        answer = client.get("/models", headers={"origin": "https://example.org"})
        assert answer.headers["access-control-allow-origin"] == "https://example.org"  # so that it can read the refusal


def test_log_has_no_text_of_requests(
    client: TestClient, extractor: Extractor, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "relatum.web")
    client.post("/extract?secret=1", json={"text": "secret"})
    client.post("/extract", content=b'{"secret', headers={"content-type": "application/json"})
    client.post("/probe", json={"text": "secret", "model": "secret"})
    client.get("/static/secret")
    client.get("/secret")
    client.request("SECRET", "/health")

    def fail(*_: object, **__: object) -> None:
        raise ValueError("secret")

    monkeypatch.setattr(extractor, "predict", fail)
    response = client.post("/extract", json={"text": "secret"})
    assert refusal(response, 500, "internal") == "something went wrong in the server; its log says where"
    logged = [record.getMessage() for record in caplog.records if record.name == "relatum.web"]
    assert [line.rsplit(" ", 2)[0] for line in logged if "\n" not in line] == [
        "POST /extract 200",
        "POST /extract 422",
        "POST /probe 404",
        "GET /static/ 404",
        "GET (unknown) 404",
        "(unknown) /health 405",
        "POST /extract 500",
    ]
    (trace,) = (line for line in logged if "\n" in line)
    assert trace.startswith("ValueError in /extract\n")
    assert "test_app.py" in trace
    assert "secret" not in caplog.text.replace('raise ValueError("secret")', "").lower()


def test_nothing_is_told_to_tracers(extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace

    asked: list[str] = []

    class Provider(trace.TracerProvider):
        def get_tracer(self, instrumenting_module_name: str, *_: Any, **__: Any) -> trace.Tracer:
            asked.append(instrumenting_module_name)
            return trace.NoOpTracer()

    monkeypatch.setattr(trace, "get_tracer_provider", Provider)
    with TestClient(make_app([ServedModel("small", extractor, SMALL)], SMALL)) as client:
        assert client.post("/extract", json={"text": "a"}).status_code == 200
    assert asked == []


def test_errors_that_are_meant_for_users_are_told(
    client: TestClient, extractor: Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RelatumError("the device has not the memory for one sentence")

    monkeypatch.setattr(extractor, "predict", fail)
    message = refusal(client.post("/extract", json={"text": "a"}), 503, "unavailable")
    assert message == "the device has not the memory for one sentence"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_bytes": 0}, "max_bytes is 0; expected more than 0"),
        ({"max_seconds": float("nan")}, "max_seconds is nan"),
        ({"max_waiting": 10}, "max_waiting is 10, less than max_sentences"),
    ],
)
def test_limits_that_nothing_could_meet_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Limits(**limits)


def test_sentences_of_requests_that_are_read_together_keep_their_own_neighbours() -> None:
    extractor = Extractor(make_small_model("encoder.kind=huggingface", "encoder.context=6"), "# A card")
    texts = [TEXT.replace("Mara Ilves", "Ada"), "She said so. Mara left Oldhaven.", "Ada works for Tarn. She said so."]
    served = ServedModel("small", extractor, Limits())
    with TestClient(make_app([served], Limits())) as client, ThreadPoolExecutor(4) as pool:
        posted = pool.map(lambda text: client.post("/extract", json={"text": text}).json()["results"], texts * 3)
        for text, (found,) in zip(texts * 3, posted, strict=True):
            wanted = expected(extractor, text)
            assert wanted["entities"]
            for key in ("entities", "relations"):
                assert [one.pop("score") for one in found[key]] == pytest.approx(
                    [one.pop("score") for one in wanted[key]], abs=1e-5
                )
            assert found == wanted
