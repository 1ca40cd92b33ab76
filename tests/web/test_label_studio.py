"""Label Studio's protocol, with requests as its server sends them."""

from __future__ import annotations

import base64
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from starlette.testclient import TestClient

from relatum.data.formats.label_studio.labeling import labeling_config
from relatum.extractor.extractor import Extractor
from relatum.web.app import make_app
from relatum.web.label_studio import LabelStudioBackend
from relatum.web.limits import Limits
from relatum.web.served import ServedModel

from ..small_models import SCHEMA

TEXT = "🙂 Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."
LIMITS = Limits(max_bytes=20_000, max_sentences=20, max_waiting=20)
CONFIG = labeling_config(SCHEMA)[1]
TOKEN_OF_LABEL_STUDIO = "0123456789abcdef"
SETUP = {
    "project": "7.1700000000",
    "schema": CONFIG,
    "hostname": "http://localhost:8080",
    "access_token": TOKEN_OF_LABEL_STUDIO,
    "extra_params": None,
}

Connect = Callable[..., TestClient]


@pytest.fixture
def connect(extractor: Extractor) -> Iterator[Connect]:
    opened: list[TestClient] = []

    def open(threshold: float | None = None, token: str | None = None) -> TestClient:
        model = ServedModel("small", extractor, LIMITS)
        app = make_app([model], LIMITS, token, label_studio=LabelStudioBackend(model, threshold))
        opened.append(TestClient(app))
        return opened[-1].__enter__()

    yield open
    for client in opened:
        client.__exit__()


def request(*data: dict[str, Any], config: str = CONFIG) -> dict[str, Any]:
    """A request for predictions, with everything that Label Studio 1.23 puts into it."""
    tasks = [
        {"id": number, "data": one, "meta": {}, "annotations": [], "predictions": [], "is_labeled": False, "project": 7}
        for number, one in enumerate(data, 1)
    ]
    params = {"login": None, "password": None, "context": None}
    return {"tasks": tasks, "project": "7.1700000000", "label_config": config, "params": params}


@cache
def interface() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what its libraries have deprecated
        from label_studio_sdk.label_interface.interface import LabelInterface

    return LabelInterface(CONFIG)


def test_label_studio_connects_and_gets_predictions_that_it_accepts(connect: Connect, extractor: Extractor) -> None:
    client = connect()
    assert client.get("/health").json()["status"] == "UP"
    assert client.post("/setup", json=SETUP).json() == {"model_version": "small", "left_out": []}
    assert client.get("/versions").json() == {"versions": ["small"]}
    answer = client.post("/predict", json=request({"text": TEXT}, {"text": ""}, {"text": "She left."})).json()
    assert (answer["model_version"], answer["left_out"]) == ("small", {})
    for text, prediction in zip((TEXT, "", "She left."), answer["results"], strict=True):
        assert interface().validate_prediction(prediction, return_errors=True) == []
        regions = [item for item in prediction["result"] if item["type"] == "labels"]
        expected = extractor(text)
        assert [(one["value"]["start"], one["value"]["text"], one["value"]["labels"]) for one in regions] == [
            (entity.span.start, entity.text, [entity.label]) for entity in expected.entities
        ]
        labels = [label for item in prediction["result"] if item["type"] == "relation" for label in item["labels"]]
        assert sorted(labels) == sorted(relation.label for relation in expected.relations)
    assert any(item["type"] == "relation" for item in answer["results"][0]["result"])
    assert 0 < answer["results"][0]["score"] < 1
    assert answer["results"][1]["score"] is None


def test_predictions_have_the_names_of_the_project(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    config = '<View><Labels name="l" toName="t"><Label value="Peop"/></Labels><Text name="t" value="$body"/></View>'
    client = connect()
    caplog.set_level(logging.INFO, "relatum.web")
    assert client.post("/setup", json={**SETUP, "schema": config}).json()["left_out"] == ["Loc", "Live_In", "Kin"]
    answer = client.post("/predict", json=request({"body": TEXT, "text": "no"}, config=config)).json()
    (prediction,) = answer["results"]
    assert prediction["result"]
    assert {(item["from_name"], item["to_name"]) for item in prediction["result"]} == {("l", "t")}
    assert set(answer["left_out"]) <= {"Loc", "Live_In", "Kin"}
    assert f"{answer['left_out']['Live_In']} Live_In" in caplog.text
    assert "Mara" not in caplog.text


def test_tasks_without_text_get_no_prediction(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    data = ({"text": None}, {"text": 3}, {"other": "x"}, {"text": "She left."}, {"text": ["a"]})
    answer = connect().post("/predict", json=request(*data)).json()
    assert ["result" in one for one in answer["results"]] == [False, False, False, True, False]
    assert "4 of 5 tasks have no text" in caplog.text


def test_urls_in_tasks_are_texts_and_nothing_is_fetched(connect: Connect) -> None:
    client = connect()
    url = "http://127.0.0.1:9/secret.txt"
    (prediction,) = client.post("/predict", json=request({"text": url})).json()["results"]
    assert all(item["value"]["text"] in url for item in prediction["result"] if item["type"] == "labels")
    response = client.post(
        "/predict", json=request({"text": url}, config=CONFIG.replace("$text", '$text" valueType="url'))
    )
    assert response.status_code == 422
    assert "relatum fetches nothing" in response.json()["error"]["message"]


def test_threshold_leaves_out_what_has_a_lower_score(connect: Connect, extractor: Extractor) -> None:
    scores = sorted(entity.score or 0 for entity in extractor(TEXT).entities)
    middle = scores[len(scores) // 2]
    client = connect(threshold=middle)
    (prediction,) = client.post("/predict", json=request({"text": TEXT})).json()["results"]
    found = [item["score"] for item in prediction["result"] if item["type"] == "labels"]
    assert 0 < len(found) < len(scores)
    assert min(found) >= round(middle, 4)
    assert prediction["model_version"].startswith("small-above-0.")


def test_token_of_label_studio_is_neither_answered_nor_logged(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = connect()
    answers = [
        client.post("/setup", json=SETUP),
        client.post("/setup", json={**SETUP, "schema": 3}),
        client.post("/setup", json={**SETUP, "schema": "<View/>"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 422, 422]
    assert all(TOKEN_OF_LABEL_STUDIO not in answer.text for answer in answers)
    assert TOKEN_OF_LABEL_STUDIO not in caplog.text


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("", "XML that has errors"),
        ('<!DOCTYPE x [<!ENTITY a "secret">]><View>&a;</View>', "declares entities"),
        ("<View/>", "found no text with labels"),
        (
            CONFIG.replace("Peop", "A").replace("Loc", "B").replace("Live_In", "C").replace("Kin", "D"),
            "Loc, Peop, Live_In",
        ),
    ],
)
def test_projects_that_the_model_cannot_serve_are_refused_and_the_log_says_why(
    connect: Connect, config: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = connect().post("/setup", json={**SETUP, "schema": config})
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]
    assert message in caplog.text
    assert "secret" not in caplog.text + response.text


def test_password_of_label_studio_is_the_token(connect: Connect) -> None:
    client = connect(token="sesame")

    def status(credentials: str, path: str = "/setup") -> int:
        header = {"authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}
        return client.post(path, json=SETUP, headers=header).status_code

    assert client.get("/health").status_code == 200
    assert status("anyone:sesame") == 200
    assert [status(one) for one in ("anyone:other", "sesame", "sesame:", ":", "")] == [401] * 5
    assert client.post("/setup", json=SETUP, headers={"authorization": "Basic ???"}).status_code == 401
    assert client.post("/setup", json=SETUP, headers={"authorization": "Bearer sesame"}).status_code == 200
    for path in ("/predict", "/webhook"):
        assert client.post(path, json={}).status_code == 401
    assert client.get("/versions").status_code == 401


def test_passwords_are_not_taken_without_label_studio(extractor: Extractor) -> None:
    header = {"authorization": f"Basic {base64.b64encode(b'anyone:sesame').decode()}"}
    with TestClient(make_app([ServedModel("small", extractor, LIMITS)], LIMITS, "sesame")) as client:
        assert client.post("/extract", json={"text": "a"}, headers=header).status_code == 401
        assert client.get("/health").json()["status"] == "ok"
        client.headers["authorization"] = "Bearer sesame"
        assert [client.post(path, json={}).status_code for path in ("/setup", "/predict", "/webhook")] == [404] * 3


def test_webhooks_are_acknowledged_and_training_is_refused(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    client = connect()
    event = {"action": "ANNOTATION_CREATED", "annotation": {"result": []}, "task": {"data": {"text": "secret"}}}
    assert client.post("/webhook", json=event).json() == {"status": "ignored"}
    response = client.post("/webhook", json={"action": "START_TRAINING", "project": {"id": 7}})
    assert (response.status_code, "relatum train" in response.json()["error"]["message"]) == (422, True)
    assert "relatum train" in caplog.text
    assert "secret" not in caplog.text


def test_requests_of_label_studio_have_the_limits_of_others(connect: Connect) -> None:
    client = connect()
    assert client.post("/predict", json=request(*[{"text": "She left."}] * 21)).json()["error"]["code"] == "too_large"
    assert client.post("/predict", json=request({"text": "a" * 20_000})).json()["error"]["code"] == "too_large"
    assert client.post("/predict", content=b"{}").json()["error"]["code"] == "invalid"
    bodies: list[dict[str, Any]] = [
        {},
        {"tasks": []},
        {"tasks": [{"id": 1}], "label_config": CONFIG},
        {"tasks": {}, "label_config": ""},
    ]
    for body in bodies:
        assert client.post("/predict", json=body).json()["error"]["code"] == "invalid"
    twice = json.dumps(request({"text": "a"})).replace('"data": {', '"data": {"secret": 1, "secret": 2, ')
    answer = client.post("/predict", content=twice, headers={"content-type": "application/json"})
    assert answer.json()["error"]["message"] == "body: found a key twice in an object"
    assert client.post("/predict", json=request()).json()["results"] == []


def test_other_requests_are_answered_as_ever(connect: Connect, extractor: Extractor) -> None:
    client = connect()
    (result,) = client.post("/extract", json={"text": TEXT}).json()["results"]
    assert result["entities"] == extractor(TEXT).to_dict()["entities"]
    assert list(client.get("/openapi.json").json()["paths"]) == ["/extract", "/probe", "/models", "/health"]
