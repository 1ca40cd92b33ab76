import gc
import os
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pytest
import srsly  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from spacy.tokens import Span as SpacySpan
from spacy.vocab import Vocab

from relatum.data.formats.docbin import FORMAT, unpacking
from relatum.data.problems import Problems
from relatum.errors import FormatError, MissingExtraError
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

RELATIONS: Any = ("._.", "relations", None, None)
DETAILS: Any = ("._.", "entity_details", None, None)
REL: Any = ("._.", "rel", None, None)
CHANGED = "documents whose doc._.entity_details was passed over, as the entities have changed since"


@pytest.fixture
def relations_extension() -> Iterator[None]:
    known = (
        Doc.get_extension("relations") if Doc.has_extension("relations") else None
    )  # the component of pipelines has it
    Doc.set_extension("relations", default=None, force=True)
    yield
    Doc.remove_extension("relations")
    if known:
        _, _, getter, setter = known
        Doc.set_extension("relations", getter=getter, setter=setter)


def through(path: Path, *documents: Document) -> list[Document]:
    FORMAT.write(path, documents)
    return read(path)


def read(path: Path) -> list[Document]:
    problems = Problems()
    documents = list(FORMAT.read(path, problems))
    problems.raise_if_any()
    return documents


def read_with_problems(path: Path) -> tuple[list[Document], Problems]:
    problems = Problems()
    return list(FORMAT.read(path, problems)), problems


def docs_in(path: Path) -> list[Doc]:
    return list(DocBin().from_disk(path).get_docs(Vocab()))


def save(path: Path, *docs: Doc) -> Path:
    DocBin(store_user_data=True, docs=docs).to_disk(path)
    return path


def example() -> Document:
    text = "Mara Ilves left  Tarn.\nShe was 41."
    borders = [(0, 4), (5, 10), (11, 15), (17, 21), (21, 22), (23, 26), (27, 30), (31, 33), (33, 34)]
    words = tuple(Span(start, end) for start, end in borders)
    mara, tarn = Entity(Span(0, 10), "Peop", id="T1"), Entity(Span(17, 21), "Org", id="T2")
    left = Relation(mara, tarn, "Left", score=0.75, id="R1")
    return Document("a", text, Annotation((mara, tarn), (left,)), words, (Span(0, 5), Span(5, 9)))


def simple_doc(**user_data: object) -> Doc:
    """Two entities that start at tokens 0 and 2."""
    doc = Doc(
        Vocab(), words=["Ada", "runs", "Tarn", "."], spaces=[True, True, False, False], sent_starts=[1, -1, -1, -1]
    )
    doc.ents = [SpacySpan(doc, 0, 1, label="Peop"), SpacySpan(doc, 2, 3, label="Org")]
    doc.user_data.update(user_data)
    return doc


ODD = st.text(st.sampled_from("ab.é漢😀 \t\n\r\u00a0\u2003\u200b\x00\x85"), max_size=30)
LABELS = st.sampled_from(["Peop", "Org", "ORTH", "NORP", "ä b", "-"])


@st.composite
def split_documents(draw: st.DrawFn) -> Document:
    text = draw(ODD | st.text(max_size=20))
    borders = sorted(draw(st.sets(st.integers(0, len(text)))))
    pairs = [Span(a, b) for a, b in pairwise(borders)]
    words = tuple(pair for pair in pairs if draw(st.booleans()))
    cuts = sorted({0, len(words), *draw(st.sets(st.integers(0, len(words)), max_size=3))})
    sentences = tuple(Span(a, b) for a, b in pairwise(cuts))
    return Document(draw(st.text(min_size=1, max_size=5)), text, words=words, sentences=sentences)


@st.composite
def annotated_documents(draw: st.DrawFn) -> Document:
    document = draw(split_documents())
    words = document.words or ()
    if not words:
        return document

    def spans() -> Span:
        first = draw(st.integers(0, len(words) - 1))
        return Span(words[first].start, words[draw(st.integers(first, len(words) - 1))].end)

    ids = draw(
        st.lists(st.none() | st.text(min_size=1, max_size=3), max_size=5, unique_by=lambda name: name or object())
    )
    scores = st.none() | st.floats(0, 1)
    entities = [Entity(spans(), draw(LABELS), score=draw(scores), id=id) for id in ids]
    if len(words) > 2:
        entities.append(Entity(Span(words[0].start, words[2].end), draw(LABELS), (words[0], words[2])))
    pick = st.sampled_from(entities) if entities else st.nothing()
    relations = draw(st.lists(st.builds(Relation, pick, pick, LABELS, scores, st.none() | LABELS), max_size=4))
    targets: list[Entity | Relation] = [*entities, *relations]
    attributes = (
        st.lists(st.builds(Attribute, st.sampled_from(targets), LABELS, st.none() | st.text(max_size=3)), max_size=3)
        if targets
        else st.just([])
    )
    return replace(
        document,
        annotation=Annotation(tuple(entities), tuple(relations)),
        clusters=tuple((spans(), spans()) for _ in range(draw(st.integers(0, 2)))),
        attributes=tuple(
            sorted(draw(attributes), key=lambda a: [target is a.target for target in targets].index(True))
        ),
        metadata=draw(st.dictionaries(st.text(max_size=3), st.integers() | st.text() | st.lists(st.booleans()))),
    )


def exactly(document: Document) -> tuple[Document, list[object]]:
    """The document with what takes no part in equality."""
    both: list[Entity | Relation] = [*document.annotation.entities, *document.annotation.relations]
    return document, [(item.score, item.id) for item in both]


@given(split_documents())
def test_docbin_keeps_text_words_and_sentences(tmp_path_factory: pytest.TempPathFactory, document: Document) -> None:
    path = tmp_path_factory.mktemp("docbin") / "x.spacy"
    assert through(path, document) == [document]
    (doc,) = docs_in(path)
    assert doc.text == document.text


@given(annotated_documents())
def test_docbin_keeps_every_annotation(tmp_path_factory: pytest.TempPathFactory, document: Document) -> None:
    (back,) = through(tmp_path_factory.mktemp("docbin") / "x.spacy", document)
    assert exactly(back) == exactly(document)


def test_docbin_keeps_several_documents_in_order(tmp_path: Path) -> None:
    documents = [replace(example(), id=name) for name in ("c", "a", "b")]
    documents.append(Document("none", "", words=(), sentences=()))
    documents.append(Document("blank", " \n", words=(), sentences=()))
    assert through(tmp_path / "x.spacy", *documents) == documents


def test_docbin_holds_no_documents_at_all(tmp_path: Path) -> None:
    assert through(tmp_path / "x.spacy") == []


def test_docbin_writes_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("x", "y"):
        FORMAT.write(tmp_path / name, [example()])
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_docbin_shows_spacy_tokens_sentences_and_entities(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "x.spacy", [example()])
    (doc,) = docs_in(tmp_path / "x.spacy")
    assert [token.text for token in doc][:5] == ["Mara", "Ilves", "left", " ", "Tarn"]
    assert [sentence.text for sentence in doc.sents] == ["Mara Ilves left  Tarn.\n", "She was 41."]
    assert [(e.text, e.label_, e.id_) for e in doc.ents] == [("Mara Ilves", "Peop", "T1"), ("Tarn", "Org", "T2")]
    assert not doc.spans


@pytest.mark.usefixtures("relations_extension")
def test_docbin_shows_relations_as_a_custom_attribute(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "x.spacy", [example()])
    (doc,) = docs_in(tmp_path / "x.spacy")
    head = {"start": 0, "end": 2, "label": "Peop", "id": "T1"}
    tail = {"start": 4, "end": 5, "label": "Org", "id": "T2"}
    assert list(doc._.relations) == [{"label": "Left", "head": head, "tail": tail, "id": "R1", "score": 0.75}]


def test_docbin_gives_white_space_before_a_sentence_to_the_one_before(tmp_path: Path) -> None:
    words, sentences = (Span(2, 3), Span(5, 6)), (Span(0, 1), Span(1, 2))
    FORMAT.write(tmp_path / "x.spacy", [Document("a", " \nA\n B", words=words, sentences=sentences)])
    (doc,) = docs_in(tmp_path / "x.spacy")
    assert [sentence.text for sentence in doc.sents] == [" \nA\n ", "B"]


def test_docbin_puts_overlapping_entities_in_a_span_group(tmp_path: Path) -> None:
    document = example()
    inner = Entity(Span(5, 10), "Name", id="T3")
    entities = (*document.annotation.entities, inner)
    FORMAT.write(tmp_path / "x.spacy", [replace(document, annotation=Annotation(entities))])
    (doc,) = docs_in(tmp_path / "x.spacy")
    assert not doc.ents
    assert [(span.text, span.label_, span.id_) for span in doc.spans["relatum"]] == [
        ("Mara Ilves", "Peop", "T1"),
        ("Tarn", "Org", "T2"),
        ("Ilves", "Name", "T3"),
    ]


def test_docbin_tells_entities_on_one_span_apart_in_relations(tmp_path: Path) -> None:
    document = example()
    one, two = Entity(Span(0, 10), "A"), Entity(Span(0, 10), "B")
    annotation = Annotation((one, two), (Relation(two, one, "Same"),))
    (back,) = through(tmp_path / "x.spacy", replace(document, annotation=annotation))
    assert back.annotation == annotation


def test_docbin_keeps_the_order_of_entities(tmp_path: Path) -> None:
    document = example()
    entities = tuple(reversed(document.annotation.entities))
    (back,) = through(tmp_path / "x.spacy", replace(document, annotation=Annotation(entities)))
    assert back.annotation.entities == entities


def test_docbin_keeps_numbers_in_metadata_that_msgpack_cannot(tmp_path: Path) -> None:
    document = replace(example(), metadata={"n": 10**30, "deep": {"a": [None, 1.5, True]}})
    assert through(tmp_path / "x.spacy", document) == [document]


def test_docbin_reads_what_spacy_changed(tmp_path: Path) -> None:
    document = example()
    scored = tuple(replace(entity, score=0.5) for entity in document.annotation.entities)
    FORMAT.write(tmp_path / "x.spacy", [replace(document, annotation=Annotation(scored))])
    (doc,) = docs_in(tmp_path / "x.spacy")
    doc.ents = doc.ents[:1]
    (back,), problems = read_with_problems(save(tmp_path / "y.spacy", doc))
    assert back.annotation.entities == scored[:1]
    assert list(problems.remarks) == [CHANGED]


def test_docbin_passes_over_details_of_labels_that_changed_at_their_end(tmp_path: Path) -> None:
    document = example()
    long = "A label with more characters than an error message would ever show of it, "
    scored = tuple(replace(entity, label=long, score=0.5) for entity in document.annotation.entities)
    FORMAT.write(tmp_path / "x.spacy", [replace(document, annotation=Annotation(scored))])
    (doc,) = docs_in(tmp_path / "x.spacy")
    doc.ents = [SpacySpan(doc, entity.start, entity.end, label=entity.label_ + "new") for entity in doc.ents]
    (back,), problems = read_with_problems(save(tmp_path / "y.spacy", doc))
    assert {entity.label for entity in back.annotation.entities} == {long + "new"}
    assert list(problems.remarks) == [CHANGED]


def test_docbin_reads_the_relations_of_the_tutorial(tmp_path: Path) -> None:
    doc = simple_doc()
    scores = {"Runs": numpy.float32(0.75), "Owns": 0.25, "Kill": 0.0}
    doc.user_data[REL] = {(0, 2): scores, (2, 0): {"Runs": 0.0}}
    (document,), problems = read_with_problems(save(tmp_path / "x.spacy", doc))
    head, tail = document.annotation.entities
    assert document.annotation.relations == (Relation(head, tail, "Runs"),)
    assert document.annotation.relations[0].score == 0.75
    assert dict(problems.remarks) == {"labels in doc._.rel scored above 0 but below 0.5, passed over": 1}
    assert not problems.count


def test_docbin_says_where_the_tutorial_is_ambiguous(tmp_path: Path) -> None:
    doc = simple_doc()
    doc.spans["relatum"] = [*doc.ents, SpacySpan(doc, 0, 2, label="Act")]
    doc.ents = []
    doc.user_data[REL] = {(0, 2): {"Runs": 1.0}}
    (document,), problems = read_with_problems(save(tmp_path / "x.spacy", doc))
    head, tail, _ = document.annotation.entities
    assert document.annotation.relations == (Relation(head, tail, "Runs"),)
    assert dict(problems.remarks) == {"relations in doc._.rel given to the first of several entities at one token": 1}


def test_docbin_names_the_default_id_after_the_file(tmp_path: Path) -> None:
    documents = read(save(tmp_path / "x.spacy", simple_doc(), simple_doc()))
    assert [document.id for document in documents] == ["x-1", "x-2"]


def test_docbin_replaces_what_is_no_unicode_in_a_file_name(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"x\xe9.spacy")
    assert [document.id for document in read(save(path, simple_doc()))] == ["x\ufffd-1"]


def test_docbin_reads_a_doc_without_sentence_starts_as_one_sentence(tmp_path: Path) -> None:
    doc = Doc(Vocab(), words=["A", "b", "."], spaces=[True, False, False])
    (document,), problems = read_with_problems(save(tmp_path / "x.spacy", doc))
    assert document.sentences == (Span(0, 3),)
    assert dict(problems.remarks) == {"documents without sentence starts, read as one sentence": 1}


def test_docbin_reads_a_doc_of_words_as_words_joined(tmp_path: Path) -> None:
    doc = Doc(Vocab(), words=["A", "b", "C"], sent_starts=[1, -1, 1])
    (document,) = read(save(tmp_path / "x.spacy", doc))
    assert document.text == "A b\nC"
    assert document.words == (Span(0, 1), Span(2, 3), Span(4, 5))
    assert document.sentences == (Span(0, 2), Span(2, 3))


def test_docbin_takes_sentences_from_a_parse(tmp_path: Path) -> None:
    words, heads = ["A", "b", "C", "d"], [1, 1, 3, 3]
    doc = Doc(Vocab(), words=words, spaces=[True] * 3 + [False], heads=heads, deps=["x", "ROOT", "x", "ROOT"])
    (document,), problems = read_with_problems(save(tmp_path / "x.spacy", doc))
    assert document.sentences == (Span(0, 2), Span(2, 4))
    assert dict(problems.remarks) == {"documents whose DEP was passed over, as it has no place here": 1}


def test_docbin_says_what_it_passes_over(tmp_path: Path) -> None:
    doc = simple_doc(mine=1)
    doc.user_data[REL] = {}
    doc.user_data[RELATIONS] = []
    doc.cats = {"good": 1.0}
    doc.spans["other"] = [doc[0:1]]
    doc.spans["relatum"] = [SpacySpan(doc, 0, 3, label="Peop", kb_id="Q1")]
    doc[0].tag_ = "NN"
    _, problems = read_with_problems(save(tmp_path / "x.spacy", doc))
    said = " ".join(problems.remarks)
    for what in ("TAG", "doc.cats", "doc.ents beside", "doc.spans['other']", "user data 'mine'", "user data '_.rel'"):
        assert f"documents whose {what}" in said
    assert not problems.count


def test_docbin_leaves_out_white_space_around_an_entity(tmp_path: Path) -> None:
    doc = Doc(Vocab(), words=["\n", "Ada", " ", "."], spaces=[False] * 4, sent_starts=[1, -1, -1, -1])
    doc.ents = [SpacySpan(doc, 0, 3, label="Peop")]
    (document,), problems = read_with_problems(save(tmp_path / "x.spacy", doc))
    assert document.annotation.entities == (Entity(Span(1, 4), "Peop"),)
    assert dict(problems.remarks) == {"entities with white space at their ends, which was left out": 1}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (RELATIONS, 3, "doc._.relations: found 3; expected a list"),
        (RELATIONS, [{"head": {}}], "doc._.relations[0]"),
        (RELATIONS, [{"label": "L", "head": {"start": 0, "end": 9, "label": "Peop"}}], "0 <= start < end <= 4"),
        (RELATIONS, [{"label": "L", "head": {"start": 1, "end": 2, "label": "Peop"}}], "the span and label of an ent"),
        (
            RELATIONS,
            [{"label": "L", "head": {"start": 0, "end": 3, "label": "P", "fragments": [[0, 1]]}}],
            "two or more",
        ),
        (
            RELATIONS,
            [{"label": "L", "head": {"start": 2, "end": 4, "label": "P", "fragments": [[2, 3], [3, 4]]}}],
            "with a gap between each two",
        ),
        (RELATIONS, [{"lable": "L"}], "did you mean 'label'?"),
        (RELATIONS, [{1: 2}], "doc._.relations: found the keys [1]; expected keys that are strings"),
        (DETAILS, [{"start": 0}], "doc._.entity_details[0]"),
        (("._.", "clusters", None, None), [[[0, 1, 2]]], "a list of 2"),
        (("._.", "metadata_json", None, None), "[1]", "doc._.metadata_json: found [1]; expected an object"),
        (("._.", "metadata_json", None, None), "{", "valid JSON"),
        (("._.", "metadata_json", None, None), '{"a": "\\ud800"}', "doc._.metadata_json.a: found the lone surrogate"),
        (("._.", "metadata_json", None, None), '{"a": [NaN]}', "doc._.metadata_json.a[0]: found NaN"),
        (("._.", "word_tokens", None, None), [2, 1], "the numbers of tokens, in order"),
        (("._.", "word_tokens", None, None), [99], "a number of at most 3"),
        (("._.", "word_tokens", None, None), [1], "no word in the tokens [0, 1)"),
        (("._.", "id", None, None), [], "doc._.id"),
        (REL, {(1, 2): {"L": 1.0}}, "the first token of an entity"),
        (REL, {(0, 2): {"L": "high"}}, "a finite number"),
        (REL, {0: {"L": 1.0}}, "doc._.rel[0][0]: found 0; expected a list"),
        (REL, 5, "doc._.rel: found 5; expected a dictionary"),
    ],
)
def test_docbin_reports_bad_custom_attributes_and_goes_on(tmp_path: Path, key: Any, value: Any, expected: str) -> None:
    bad = simple_doc()
    bad.user_data[key] = value
    documents, problems = read_with_problems(save(tmp_path / "x.spacy", simple_doc(), bad, simple_doc()))
    assert [document.id for document in documents] == ["x-1", "x-3"]
    (problem,) = problems.kept
    assert expected in str(problem)
    assert f"{tmp_path / 'x.spacy'} (record 2)" in str(problem)


def test_docbin_reports_an_entity_of_white_space(tmp_path: Path) -> None:
    doc = Doc(Vocab(), words=["\n", "Ada"], spaces=[False] * 2)
    doc.ents = [SpacySpan(doc, 0, 1, label="Peop")]
    documents, problems = read_with_problems(save(tmp_path / "x.spacy", doc))
    assert not documents
    assert "no word in the tokens [0, 1)" in str(problems.kept[0])


def test_docbin_reports_an_entity_without_a_label(tmp_path: Path) -> None:
    doc = simple_doc()
    doc.spans["relatum"] = [doc[0:1]]
    _, problems = read_with_problems(save(tmp_path / "x.spacy", doc))
    assert 'entities[0].label: found ""; expected a string that is not empty' in str(problems.kept[0])


def test_docbin_reports_an_id_used_twice(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "x.spacy", [example(), example()])
    documents, problems = read_with_problems(tmp_path / "x.spacy")
    assert len(documents) == 1
    assert 'the id "a" again (first in record 1)' in str(problems.kept[0])


def packed(**changes: object) -> bytes:
    """A DocBin of three documents whose message is changed before it is compressed."""
    message = srsly.msgpack_loads(zlib.decompress(DocBin(docs=[simple_doc()] * 3, store_user_data=True).to_bytes()))
    assert isinstance(message, dict)
    message.update(changes)
    return zlib.compress(srsly.msgpack_dumps(message))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}\n",
        b"\x78\x9c",
        zlib.compress(b""),
        zlib.compress(b"\xc1"),
        zlib.compress(srsly.msgpack_dumps([1, 2])),
        zlib.compress(srsly.msgpack_dumps({"attrs": [65], "version": "0.1"})),
        packed(attrs=[]),
        packed(attrs=7),
        packed(attrs=[65] * 13),
        packed(lengths="x"),
        packed(strings=[1, None]),
        packed(tokens=b"123"),
    ],
)
def test_docbin_reports_what_is_no_docbin(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.spacy"
    path.write_bytes(data)
    documents, problems = read_with_problems(path)
    assert not documents
    (problem,) = problems.kept
    assert problem.path == str(path)
    assert "expected a DocBin file" in str(problem)
    assert gc.isenabled()


@pytest.mark.parametrize(
    "changes",
    [
        {"cats": []},
        {"flags": [None] * 3},
        {"strings": []},
        {"span_groups": [b"\xc1"] * 3},
        {"span_groups": [srsly.msgpack_dumps({srsly.msgpack_dumps({"name": "relatum"}): ["relatum"]})] * 3},
        {"user_data": [b"\xc1"] * 3},
        {"user_data": [srsly.msgpack_dumps(4)] * 3},
        {"spaces": b""},
    ],
)
def test_docbin_reports_every_document_that_cannot_be_unpacked(tmp_path: Path, changes: dict[str, object]) -> None:
    path = tmp_path / "x.spacy"
    path.write_bytes(packed(**changes))
    documents, problems = read_with_problems(path)
    assert not documents
    assert [problem.record for problem in problems.kept] == [1, 2, 3]
    assert gc.isenabled()


def test_docbin_reads_the_documents_around_a_bad_one(tmp_path: Path) -> None:
    path = tmp_path / "x.spacy"
    path.write_bytes(packed(user_data=[None, b"\xc1", None]))
    documents, problems = read_with_problems(path)
    assert [document.id for document in documents] == ["x-1", "x-3"]
    assert [problem.record for problem in problems.kept] == [2]


@given(st.data())
@settings(max_examples=200)
def test_docbin_never_raises_for_damaged_files(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("docbin") / "x.spacy"
    FORMAT.write(path, [example()])
    inside = data.draw(st.booleans(), label="inside the compression")
    content = zlib.decompress(path.read_bytes()) if inside else path.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    content = content[:at] + data.draw(st.binary(max_size=9)) + content[at + data.draw(st.integers(0, 9)) :]
    content = content[: data.draw(st.sampled_from([None, at]))]
    path.write_bytes(zlib.compress(content) if inside else content)
    FORMAT.recognise(path)
    read_with_problems(path)
    assert gc.isenabled()


@given(st.binary(max_size=100))
def test_docbin_reports_random_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("docbin") / "x.spacy"
    path.write_bytes(data)
    documents, problems = read_with_problems(path)
    assert not documents
    assert problems.count == 1
    assert not FORMAT.recognise(path)


def test_docbin_reports_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "x.spacy"
    FORMAT.write(path, [example()])
    path.write_bytes(path.read_bytes()[:-3])
    assert "expected a DocBin file" in str(read_with_problems(path)[1].kept[0])


def test_docbin_too_large_for_spacy_names_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: DocBin) -> bytes:
        raise ValueError("4294967296 exceeds max_bin_len")

    monkeypatch.setattr(DocBin, "to_bytes", refuse)
    with pytest.raises(FormatError, match=r"1 documents are too many for one DocBin \(.*\); write several"):
        FORMAT.write(tmp_path / "x.spacy", [example()])
    assert not (tmp_path / "x.spacy").exists()


def test_docbin_is_recognised_by_suffix_and_header(tmp_path: Path) -> None:
    path = tmp_path / "x.spacy"
    assert not FORMAT.recognise(path)
    FORMAT.write(path, [example()])
    assert FORMAT.recognise(path)
    assert FORMAT.recognise(save(tmp_path / "y.spacy", simple_doc()))
    FORMAT.write(tmp_path / "x.json", [example()])
    assert not FORMAT.recognise(tmp_path / "x.json")
    path.write_bytes(zlib.compress(b"{}"))
    assert not FORMAT.recognise(path)
    (tmp_path / "folder.spacy").mkdir()
    assert not FORMAT.recognise(tmp_path / "folder.spacy")


def test_docbin_without_spacy_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.spacy"
    FORMAT.write(path, [example()])
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert FORMAT.recognise(path)
    with pytest.raises(MissingExtraError, match=r"the DocBin format needs the extra 'spacy': pip install"):
        FORMAT.read(path, Problems())
    with pytest.raises(MissingExtraError):
        FORMAT.write(path, [example()])


def test_docbin_module_does_not_import_spacy() -> None:
    code = "import sys, relatum.data.formats.docbin; sys.exit('spacy' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_docbin_that_unpacks_to_far_more_than_its_size_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.spacy"
    packer = zlib.compressobj()
    zeros = bytes(2**24)
    path.write_bytes(
        b"".join([packer.compress(b"\x85\xa5attrs"), *(packer.compress(zeros) for _ in range(17)), packer.flush()])
    )
    assert FORMAT.recognise(path)
    tracemalloc.start()
    try:
        documents, problems = read_with_problems(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert documents == []
    (problem,) = problems.kept
    assert "bytes that unpack to more than 268,435,456; expected a DocBin that" in str(problem)
    assert "several files" in str(problem)
    assert peak < 2**24


def test_docbin_may_unpack_to_a_hundred_times_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.spacy", simple_doc())
    monkeypatch.setattr(unpacking, "MOST_UNPACKED", 0)
    assert len(read(path)) == 1
    monkeypatch.setattr(unpacking, "LARGEST_RATIO", 1)
    assert read_with_problems(path)[1].count == 1
