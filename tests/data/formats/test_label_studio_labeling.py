"""Labelling configurations, and predictions that suit them, checked by Label Studio's own client library."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relatum.data.formats.label_studio.labeling import LabelingConfig, labeling_config
from relatum.data.formats.label_studio.writing import make_prediction
from relatum.errors import FormatError
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Document, Entity, Relation, Span

SCHEMA = Schema(("Loc", "Ort »ä«", 'a "b" <c> & d'), (RelationType("Live_In"), RelationType("is & has")))
OTHER_NAMES = """<?xml version="1.0" encoding="utf-16"?>
<View>
  <Header value="Read this"/>
  <Text name="title" value="$title"/>
  <Relations><Relation value="Live_In"/><Relation value="Kin" alias="kin of"/></Relations>
  <View style="display: flex">
    <Labels name="who" toName="body">
      <Label value="Peop" background="red"/><Label value="Organisation" alias="Org"/>
    </Labels>
    <Labels name="where" toName="title,body"><View><Label value="Loc"/></View></Labels>
  </View>
  <Choices name="kind" toName="body"><Choice value="news"/></Choices>
  <Text name="body" value="$content"/>
</View>"""
TEXT = "🙂 Ann of Sony lives in Rome."
ANN, SONY, ROME = (
    Entity(Span(2, 5), "Peop", score=0.9, id="e1"),
    Entity(Span(9, 13), "Org", score=0.8, id="e2"),
    Entity(Span(23, 27), "Loc", score=0.7, id="e3"),
)


@cache
def interface(config: str) -> Any:
    """Label Studio's own reader of a configuration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what its libraries have deprecated
        from label_studio_sdk.label_interface.interface import LabelInterface

    return LabelInterface(config)


def predict(config: str, entities: tuple[Entity, ...], relations: tuple[Relation, ...] = ()) -> tuple[Any, Any]:
    """A prediction for the text that Label Studio's own library finds valid, and what was left out."""
    document = Document("x", TEXT, Annotation(entities, relations))
    prediction, left_out = make_prediction(document, LabelingConfig.parse(config), "news-1")
    own = interface(config.partition("?>")[2] or config)
    assert own.validate_prediction(prediction, return_errors=True) == []
    return prediction, left_out


def test_config_that_is_written_is_read_again() -> None:
    config = LabelingConfig.parse(labeling_config(SCHEMA)[1])
    assert config == LabelingConfig.of_schema(SCHEMA)


def test_config_is_read_whatever_its_tags_are_called() -> None:
    config = LabelingConfig.parse(OTHER_NAMES)
    assert (config.to_name, config.key) == ("title", "title")
    assert config.labels == {"Loc": ("where", "Loc")}
    config = LabelingConfig.parse(OTHER_NAMES.replace("title,body", "body"))
    assert (config.to_name, config.key) == ("body", "content")
    assert config.labels == {
        "Peop": ("who", "Peop"),
        "Organisation": ("who", "Org"),
        "Org": ("who", "Org"),
        "Loc": ("where", "Loc"),
    }
    assert config.relations == {"Live_In": "Live_In", "Kin": "kin of", "kin of": "kin of"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("", "XML that has errors"),
        ("<View>", "XML that has errors"),
        ("<View>" * 100_000, "XML that has errors"),
        ('<!DOCTYPE x [<!ENTITY secret "a">]><View>&secret;</View>', "or declares entities"),
        ('<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd">]><View/>', "or declares entities"),
        ("<View>" * 101 + "</View>" * 101, "nests elements too deeply"),
        ("<View/>", "no text with labels"),
        ('<View><Text name="t" value="$t"/></View>', "no text with labels"),
        ('<View><Labels name="l" toName="t"/><HyperText name="t" value="$t"/></View>', "no text with labels"),
        ('<View><Labels name="l" toName="t"/><Text name="t" value="Rome"/></View>', "whose value is no $variable"),
        ('<View><Labels name="l" toName="t"/><Text name="t" value="$t" valueType="url"/></View>', "relatum fetches"),
        ('<View><Labels name="l" toName="t"/><Text name="t" value="$t" encoding="base64"/></View>', "or encoded"),
    ],
)
def test_config_that_has_no_text_to_read_is_refused(config: str, message: str) -> None:
    with pytest.raises(FormatError, match="labelling configuration: ") as refused:
        LabelingConfig.parse(config)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)


def test_prediction_has_the_names_of_the_project_and_counts_code_points() -> None:
    relations = (Relation(ANN, ROME, "Live_In", 0.6), Relation(ANN, SONY, "Kin", 0.5), Relation(ANN, SONY, "Kin 2"))
    config = OTHER_NAMES.replace("title,body", "body")
    prediction, left_out = predict(config, (ANN, SONY, ROME), relations)
    regions = [item for item in prediction["result"] if item["type"] == "labels"]
    assert [(one["from_name"], one["to_name"], one["value"]["labels"]) for one in regions] == [
        ("who", "body", ["Peop"]),
        ("who", "body", ["Org"]),
        ("where", "body", ["Loc"]),
    ]
    assert [TEXT[one["value"]["start"] : one["value"]["end"]] for one in regions] == ["Ann", "Sony", "Rome"]
    assert [item["labels"] for item in prediction["result"] if item["type"] == "relation"] == [["Live_In"], ["kin of"]]
    assert (prediction["score"], prediction["model_version"]) == (0.7, "news-1")
    assert left_out == {"Kin 2": 1}


def test_prediction_leaves_out_and_counts_what_the_project_does_not_offer() -> None:
    config = '<View><Labels name="l" toName="t"><Label value="Loc"/></Labels><Text name="t" value="$t"/></View>'
    prediction, left_out = predict(config, (ANN, SONY, ROME), (Relation(ANN, ROME, "Live_In", 0.6),))
    assert [item["value"]["text"] for item in prediction["result"]] == ["Rome"]
    assert (prediction["score"], left_out) == (0.7, {"Peop": 1, "Org": 1, "Live_In": 1})


def test_prediction_without_findings_has_no_score() -> None:
    prediction, left_out = predict(OTHER_NAMES, ())
    assert prediction == {"result": [], "score": None, "model_version": "news-1"}
    assert not left_out


@settings(max_examples=30)
@given(st.data())
def test_predictions_of_any_annotation_are_valid(data: st.DataObject) -> None:
    spans = data.draw(st.lists(st.tuples(st.integers(0, 10), st.integers(11, 26)), max_size=6))
    labels = st.sampled_from(SCHEMA.entity_types)
    entities = [Entity(Span(*span), data.draw(labels), score=data.draw(st.none() | st.floats(0, 1))) for span in spans]
    entities = list(dict.fromkeys(entities))
    ends = st.sampled_from(entities) if entities else st.nothing()
    names = st.sampled_from(SCHEMA.relation_names)
    relations = data.draw(st.lists(st.builds(Relation, ends, ends, names, st.floats(0, 1)), max_size=4))
    prediction, left_out = predict(labeling_config(SCHEMA)[1], tuple(entities), tuple(dict.fromkeys(relations)))
    regions = [item for item in prediction["result"] if item["type"] == "labels"]
    assert len({item["id"] for item in regions}) == len(regions) == len(entities)
    assert not left_out
