"""The component of spaCy pipelines, with the model `news` and with small random models."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly  # type: ignore[import-untyped]
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.tokens import Span as DocSpan
from spacy.training import Example

from relatum import Extractor, convert, load_documents
from relatum.errors import ConfigError, RelatumError
from relatum.integrations.spacy import RelatumComponent, SpanRelation, register_attributes
from relatum.models.checkpoint import save_model

from ..small_models import make_small_span_model

TEXT = "Marta Figueira works for the Portuguese Railway Company in Lisbon. She lives in Porto, Portugal."


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor.from_pretrained("news", device="cpu")


@pytest.fixture(scope="module")
def nlp() -> Language:
    return pipeline()


@pytest.fixture(scope="module")
def texts(examples_folder: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((examples_folder / "graph").glob("*.txt"))]


def pipeline(**config: Any) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("relatum", config={"model": "news", "device": "cpu", **config})
    return nlp


def said(doc: Doc) -> list[tuple[str, str, str, float | None]]:
    return [(one.head.text, one.label, one.tail.text, one.score) for one in doc._.relations]


def ruled(*patterns: tuple[str, str], **config: Any) -> Language:
    """A pipeline that finds names by rule, and relations between them with relatum."""
    nlp = spacy.blank("en")
    rules: Any = nlp.add_pipe("entity_ruler")
    rules.add_patterns([{"label": label, "pattern": name} for name, label in patterns])
    nlp.add_pipe("relatum", config={"model": "news", "device": "cpu", "entities": "given", **config})
    return nlp


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Language:
    """A pipeline with a random model whose entities nest."""
    folder = tmp_path_factory.mktemp("spacy") / "nested"
    save_model(make_small_span_model(), folder)
    return pipeline(model=str(folder))


def test_pipeline_finds_what_the_extractor_finds(nlp: Language, extractor: Extractor, texts: list[str]) -> None:
    for doc, expected in zip(nlp.pipe(texts), extractor.pipe(texts), strict=True):
        assert doc._.extraction == expected
        assert doc._.extraction.sentences == expected.sentences
        assert [entity.score for entity in doc._.extraction.entities] == [entity.score for entity in expected.entities]
        assert [(span.text, span.label_) for span in doc.ents] == [(one.text, one.label) for one in expected.entities]
        assert len(doc._.relations) == len(expected.relations)


def test_relations_have_spans_labels_scores_and_evidence(nlp: Language) -> None:
    doc = nlp(f"{TEXT}\n")
    relation = doc._.relations[0]
    assert isinstance(relation, SpanRelation)
    assert (relation.head, relation.tail) == (DocSpan(doc, 0, 2, "Peop"), DocSpan(doc, 5, 8, "Org"))
    assert (relation.head.label_, relation.label, relation.tail.label_) == ("Peop", "Work_For", "Org")
    assert relation.score == pytest.approx(0.9, abs=0.1)
    assert relation.evidence == doc[0:11]
    assert doc._.relations[-1].evidence.text == "She lives in Porto, Portugal."


def test_entities_have_their_scores_in_the_span_group(nlp: Language, extractor: Extractor) -> None:
    doc = nlp(TEXT)
    assert list(doc.spans["relatum"]) == list(doc.ents)
    assert doc.spans["relatum"].attrs["scores"] == [entity.score for entity in extractor(TEXT).entities]


def test_tokens_of_the_pipeline_stay_and_sentences_are_added(nlp: Language) -> None:
    plain = spacy.blank("en")(TEXT)
    doc = nlp(TEXT)
    assert [token.text for token in doc] == [token.text for token in plain]
    assert [len(sentence) for sentence in doc.sents] == [11, 7]


def test_sentences_of_the_pipeline_are_kept() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer", config={"punct_chars": [";"]})
    nlp.add_pipe("relatum", config={"model": "news", "device": "cpu"})
    doc = nlp(TEXT)
    assert len(list(doc.sents)) == 1
    assert doc._.relations[0].evidence == doc[:]


def test_threshold_leaves_out_low_scores(extractor: Extractor) -> None:
    assert pipeline(threshold=0.85)(TEXT)._.extraction == extractor(TEXT, threshold=0.85)


@pytest.mark.parametrize("text", ["", "  \n", "x", "😀 🇨🇭!", "\u200b\ufeff", "日本語のテキスト。もう一つ。"])
def test_odd_texts_are_read(nlp: Language, text: str) -> None:
    doc = nlp(text)
    assert doc.text == text
    assert doc._.extraction.text == text


def test_words_without_a_text_are_read(nlp: Language) -> None:
    doc = nlp(Doc(nlp.vocab, words="Marta Figueira lives in Lisbon .".split()))
    assert said(doc)[0][:3] == ("Marta Figueira", "Live_In", "Lisbon")


def test_batches_and_processes_give_the_same(nlp: Language, texts: list[str]) -> None:
    expected = [nlp(text)._.extraction for text in texts]
    assert [doc._.extraction for doc in nlp.pipe(texts, batch_size=2)] == expected
    assert [doc._.extraction for doc in nlp.pipe(texts, n_process=2, batch_size=1)] == expected


def test_batch_that_fails_is_given_to_the_error_handler(texts: list[str]) -> None:
    nlp = pipeline(model="nowhere")
    with pytest.raises(RelatumError, match="nowhere: no such model"):
        list(nlp.pipe(texts))
    failed: list[int] = []
    handler: Any = lambda *about: failed.append(len(about[2]))  # noqa: E731
    nlp.set_error_handler(handler)
    assert list(nlp.pipe(texts, batch_size=2)) == []
    assert failed == [2, 1]


def test_overlapping_entities_are_in_the_span_group_and_the_longest_in_ents(nested: Language) -> None:
    doc = nested("Mara Ilves works for Tarn Shipping in Oldhaven on the island of Amsel.")
    group = list(doc.spans["relatum"])
    assert len(group) > len(doc.ents) > 0
    assert set(doc.ents) < set(group)
    assert list(doc.ents) == spacy.util.filter_spans(group)
    assert [(one.span.start, one.span.end) for one in doc._.extraction.entities] == [
        (span.start_char, span.end_char) for span in group
    ]
    assert all(one.head in group and one.tail in group for one in doc._.relations)


# Entities of another component.


def test_relations_between_given_entities_are_found() -> None:
    nlp = ruled(
        ("Marta Figueira", "PERSON"),
        ("Portuguese Railway Company", "Org"),
        ("Lisbon", "DATE"),
        labels={"PERSON": "Peop", "DATE": None},
    )
    doc = nlp(TEXT)
    assert [relation[:3] for relation in said(doc)] == [("Marta Figueira", "Work_For", "Portuguese Railway Company")]
    assert [span.label_ for span in doc.ents] == ["PERSON", "Org", "DATE"]
    assert [span.label_ for span in doc.spans["relatum"]] == ["PERSON", "Org"]
    assert doc._.relations[0].head.label_ == "PERSON"
    assert len(doc._.extraction.entities) == 2
    strict = ruled(("Marta Figueira", "Peop"), ("Portuguese Railway Company", "Org"), threshold=0.99)
    assert not strict(TEXT)._.relations


def test_given_entities_that_cannot_be_read_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    nlp = ruled(("Marta Figueira", "PERSON"), ("Lisbon. She", "Loc"))
    with caplog.at_level(logging.WARNING, "relatum.integrations.spacy"):
        assert said(nlp(TEXT)) == said(nlp(TEXT)) == []
    label, crossing = [record.message for record in caplog.records]
    assert "entities with the label 'PERSON' are not read: the model has no type 'PERSON'" in label
    assert "labels={'PERSON': …}" in label
    assert "cross the end of a sentence" in crossing


def test_settings_that_have_no_effect_or_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="set entities to 'given'"):
        pipeline(labels={"PERSON": "Peop"})
    with pytest.raises(ValueError, match="threshold is 7"):
        pipeline(threshold=7)
    with pytest.raises(ValueError, match="entities"):
        pipeline(entities="gold")


# What is stored.


def test_pipeline_is_saved_with_its_model(tmp_path: Path) -> None:
    save_model(make_small_span_model(), tmp_path / "model")
    own = pipeline(model=str(tmp_path / "model"))
    expected = said(own(TEXT))
    assert expected
    for _ in range(2):  # the second time over the first
        own.to_disk(tmp_path / "saved")
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    assert said(spacy.load(tmp_path / "saved")(TEXT)) == expected
    other = pipeline(model="nowhere")
    assert said(other.from_bytes(own.to_bytes())(TEXT)) == expected
    other.to_disk(tmp_path / "again")
    assert said(spacy.load(tmp_path / "again")(TEXT)) == expected
    component = pickle.loads(pickle.dumps(other.get_pipe("relatum")))
    assert said(component(spacy.blank("en")(TEXT))) == expected


def test_pipeline_with_a_damaged_model_is_refused(tmp_path: Path, nlp: Language) -> None:
    nlp.to_disk(tmp_path / "saved")
    schema = tmp_path / "saved" / "relatum" / "schema.json"
    schema.write_text(schema.read_text(encoding="utf-8").replace("Peop", "Evil"), encoding="utf-8")
    with pytest.raises(RelatumError, match="damaged or replaced"):
        spacy.load(tmp_path / "saved")


def test_bytes_that_name_files_elsewhere_are_refused() -> None:
    component: Any = pipeline().get_pipe("relatum")
    assert isinstance(component, RelatumComponent)
    files = srsly.msgpack_loads(component.to_bytes())
    outside = files["manifest.json"].replace(b"README.md", b"../README.md")
    with pytest.raises(RelatumError, match="no usable list of files"):
        component.from_bytes(srsly.msgpack_dumps(files | {"manifest.json": outside}))
    files.pop("schema.json")
    with pytest.raises(RelatumError, match="without the files of a model"):
        component.from_bytes(srsly.msgpack_dumps(files))


def test_documents_keep_relations_when_stored(nlp: Language, tmp_path: Path) -> None:
    doc = nlp(TEXT)
    expected = said(doc)
    assert said(pickle.loads(pickle.dumps(doc))) == expected
    assert said(Doc(nlp.vocab).from_bytes(doc.to_bytes())) == expected
    assert said(doc.copy()) == expected
    path = tmp_path / "found.spacy"
    DocBin(store_user_data=True, docs=[doc]).to_disk(path)
    (stored,) = DocBin().from_disk(path).get_docs(nlp.vocab)
    assert said(stored) == expected
    assert stored._.extraction == doc._.extraction


def test_docbin_of_a_pipeline_is_a_corpus_for_relatum(nlp: Language, nested: Language, tmp_path: Path) -> None:
    docs = [nlp(TEXT), nested(TEXT)]
    DocBin(store_user_data=True, docs=docs).to_disk(tmp_path / "found.spacy")
    documents = load_documents(tmp_path / "found.spacy")
    for doc, document in zip(docs, documents, strict=True):
        assert document.annotation == doc._.extraction.document.annotation
        assert [one.score for one in document.annotation.entities] == [one.score for one in doc._.extraction.entities]
        assert document.sentences is not None
        assert len(document.sentences) == len(list(doc.sents))


def test_docbin_of_relatum_has_relations_in_spacy(examples_folder: Path, nlp: Language, tmp_path: Path) -> None:
    source = examples_folder / "news" / "test.jsonl"
    convert(source, tmp_path / "gold.spacy", to_format="docbin")
    documents = load_documents(source)
    docs = DocBin().from_disk(tmp_path / "gold.spacy").get_docs(nlp.vocab)
    for doc, document in zip(docs, documents, strict=True):
        assert set(doc._.extraction.relations) == set(document.annotation.relations)


def test_relations_stay_right_when_tokens_are_merged(nlp: Language) -> None:
    doc = nlp(TEXT)
    before = said(doc)
    spacy.pipeline.functions.merge_entities(doc)
    assert len(doc) < len(nlp(TEXT))
    assert said(doc) == before
    assert doc._.extraction == nlp(TEXT)._.extraction


def test_values_of_another_form_are_refused(nlp: Language) -> None:
    doc = nlp.make_doc("Ada runs.")
    key: Any = ("._.", "relations", None, None)
    for value in ("x", [{"head": 1}], [{"label": "a", "head": {"characters": [5, 99], "label": "b"}, "tail": {}}]):
        doc.user_data[key] = value
        with pytest.raises(RelatumError, match="found values of another form"):
            _ = doc._.relations


def test_custom_attribute_of_another_program_is_not_overwritten() -> None:
    getter = Doc.get_extension("relations")
    try:
        Doc.set_extension("relations", default=None, force=True)
        register_attributes()
        assert Doc.get_extension("relations") == getter
        Doc.set_extension("relations", getter=len, force=True)
        with pytest.raises(RelatumError, match="another program"):
            register_attributes()
    finally:
        Doc.remove_extension("relations")
        register_attributes()


# Scores.


@pytest.fixture
def examples(nlp: Language) -> list[Example]:
    """Two texts; gold has one relation in the first, and none in the second."""
    gold = nlp.make_doc(TEXT)
    gold.ents = [DocSpan(gold, 0, 2, "Peop"), DocSpan(gold, 5, 8, "Org")]
    gold._.relations = [SpanRelation(gold.ents[0], gold.ents[1], "Work_For")]
    other = nlp.make_doc("Erik Dahl lives in Oslo.")
    other.ents = [DocSpan(other, 0, 2, "Peop")]
    return [Example(nlp.make_doc(doc.text), doc) for doc in (gold, other)]


def test_evaluate_scores_entities_and_relations(nlp: Language, extractor: Extractor, examples: list[Example]) -> None:
    scores = nlp.evaluate(examples)
    found = [one for example in examples for one in extractor(example.text).relations]
    assert len(found) > 1
    assert scores["rel_micro_r"] == 1
    assert scores["rel_micro_p"] == pytest.approx(1 / len(found))
    assert scores["rel_micro_f"] == pytest.approx(2 / (len(found) + 1))
    assert scores["rel_per_type"]["Work_For"]["f"] == 1
    assert scores["ents_r"] == 1
    assert scores["ents_per_type"]["Org"]["f"] == 1


def test_evaluate_says_that_relations_of_gold_are_not_known(nlp: Language, examples: list[Example]) -> None:
    for example in examples:
        example.reference._.relations = None
    scores = nlp.evaluate(examples)
    assert scores["rel_micro_f"] is None
    assert scores["ents_r"] == 1


def test_gold_of_another_document_is_refused(nlp: Language) -> None:
    one, other = nlp.make_doc("Ada runs."), nlp.make_doc("Ada runs.")
    with pytest.raises(ValueError, match="span of another document"):
        one._.relations = [SpanRelation(one[0:1], other[1:2], "x")]
    with pytest.raises(TypeError, match="SpanRelation, found tuple"):
        one._.relations = [(0, 1, "x")]


# The package.


def test_entry_point_names_the_factory() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["spacy_factories"]["relatum"].partition(":")
    assert callable(getattr(import_module(module), name))


def test_missing_spacy_names_the_extra() -> None:
    code = "import sys; sys.modules['spacy.language'] = None\nimport relatum.integrations.spacy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'relatum[spacy]'" in done.stderr
