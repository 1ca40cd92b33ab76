from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bioc  # type: ignore[import-untyped]
import pytest
from bioc import biocjson, biocxml

from relatum.data.corpus import open_corpus
from relatum.data.formats import get_format
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]

TEXT = "Naloxone raises pressure.\nIt affects liver 🙂 and renal failure."
# As BC5CDR (XML) has it: relations connect concepts by infons.
XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>CTD</source><date>2014</date><key>c.key</key>
<document><id>227508</id>
<passage><infon key="type">title</infon><offset>0</offset><text>Naloxone raises pressure.</text>
<annotation id="0"><infon key="type">Chemical</infon><infon key="MESH">D009270</infon>
<location offset="0" length="8"/><text>Naloxone</text></annotation></passage>
<passage><infon key="type">abstract</infon><offset>26</offset>
<text>It affects liver 🙂 and renal failure.</text>
<annotation id="1"><infon key="type">Disease</infon><infon key="MESH">D051437</infon>
<location offset="49" length="13"/><text>renal failure</text></annotation>
<annotation id="2"><infon key="type">Disease</infon>
<location offset="37" length="5"/><location offset="55" length="7"/><text>liver failure</text></annotation></passage>
<relation id="R0"><infon key="relation">CID</infon><infon key="Chemical">D009270</infon>
<infon key="Disease">D051437</infon></relation>
</document></collection>
"""
NALOXONE, FAILURE = Entity(Span(0, 8), "Chemical"), Entity(Span(49, 62), "Disease")
LIVER = Entity(Span(37, 62), "Disease", (Span(37, 42), Span(55, 62)))
CID = Relation(NALOXONE, FAILURE, "CID")
ENTITIES = (NALOXONE, FAILURE, LIVER)
MESH = (Attribute(NALOXONE, "MESH", "D009270"), Attribute(FAILURE, "MESH", "D051437"))


def test_bioc_reads_relations_of_concepts_as_bc5cdr_has_them(read_as: ReadAs) -> None:
    (document,), problems = read_as("bioc", XML)
    assert document.text == TEXT
    assert document.annotation == Annotation(ENTITIES, (CID,))
    assert [entity.id for entity in document.annotation.entities] == ["0", "1", "2"]
    assert document.attributes[:2] == MESH
    assert [line.partition(" (first")[0] for line in problems.remark_lines()] == ["2 × infons of passages left out"]


def test_bioc_reads_relations_of_concepts_as_biored_has_them(read_as: ReadAs) -> None:
    infons = {"entity1": "D009270", "entity2": "D051437", "type": "Positive_Correlation", "novel": "Novel"}
    collection = json.loads(biocjson.dumps(biocxml.loads(XML)))
    collection["documents"][0]["relations"] = [{"id": "R0", "infons": infons, "nodes": []}]
    (document,), _ = read_as("bioc-json", json.dumps(collection))
    (relation,) = document.annotation.relations
    assert relation == Relation(NALOXONE, FAILURE, "Positive_Correlation")
    assert Attribute(relation, "novel", "Novel") in document.attributes


def test_bioc_reads_nodes_by_their_roles(read_as: ReadAs) -> None:
    nodes = [{"refid": "1", "role": "tail"}, {"refid": "0", "role": "head"}]
    collection = json.loads(biocjson.dumps(biocxml.loads(XML)))
    relation = {"id": "R0", "infons": {"type": "X"}, "nodes": nodes}
    relations = [relation, {**relation, "nodes": [*nodes, *nodes]}, {**relation, "nodes": nodes[:1]}]
    collection["documents"][0]["relations"] = relations
    (document,), problems = read_as("bioc-json", json.dumps(collection))
    assert document.annotation.relations == (Relation(NALOXONE, FAILURE, "X"),)
    assert problems.remarks["relation left out, as it has more than two nodes"] == 1
    unclear = "relation left out, as its nodes or infons name no two annotations or concepts"
    assert problems.remarks[unclear] == 1


DOCUMENT = Document(
    "a <b>",
    TEXT + "\r\n&",
    Annotation(ENTITIES, (CID, Relation(LIVER, LIVER, "Same & other"))),
    attributes=(*MESH, Attribute(LIVER, "n", None), Attribute(LIVER, "n", "2"), Attribute(CID, "novel", "No")),
    metadata={"journal": "<1>", "year": 2020},
)


@pytest.mark.parametrize(("name", "library"), [("bioc", biocxml), ("bioc-json", biocjson)])
def test_bioc_files_are_read_alike_by_the_library_bioc(tmp_path: Path, name: str, library: Any) -> None:
    format = get_format(name)
    path = tmp_path / f"a{format.suffix}"
    format.write(path, [DOCUMENT, Document("b", "")])
    with path.open(encoding="utf-8", newline="") as file:
        collection = library.load(file)
    document, empty = collection.documents
    assert (document.id, empty.id) == ("a <b>", "b")
    (passage,) = document.passages
    assert passage.text == DOCUMENT.text
    found = [(a.infons["type"], [(p.offset, p.offset + p.length) for p in a.locations]) for a in passage.annotations]
    assert found == [(entity.label, [tuple(piece) for piece in entity.pieces()]) for entity in ENTITIES]
    relations = [(r.infons["type"], [(n.refid, n.role) for n in r.nodes]) for r in passage.relations]
    assert relations == [
        ("CID", [("T1", "head"), ("T2", "tail")]),
        ("Same & other", [("T3", "head"), ("T3", "tail")]),
    ]
    problems = Problems()
    assert [*format.read(path, problems)] == [DOCUMENT, Document("b", "")]
    assert not problems.remarks
    assert open_corpus(path).format_names == name


@pytest.mark.parametrize(("name", "library"), [("bioc", biocxml), ("bioc-json", biocjson)])
def test_bioc_reads_what_the_library_writes(tmp_path: Path, name: str, library: Any) -> None:
    path = tmp_path / f"a{get_format(name).suffix}"
    with path.open("w", encoding="utf-8") as file:
        library.dump(biocxml.loads(XML), file)
    corpus = open_corpus(path)
    assert corpus.format_names == name
    (document,) = corpus.parts[0].read(Problems())
    assert document.annotation == Annotation(ENTITIES, (CID,))


def test_bioc_reads_a_document_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with biocjson.iterwriter(str(path)) as writer:
        writer.write(biocxml.loads(XML).documents[0])
    corpus = open_corpus(path)
    assert corpus.format_names == "bioc-json"
    (document,) = corpus.parts[0].read(Problems())
    assert document.annotation == Annotation(ENTITIES, (CID,))


def test_bioc_reads_sentences_of_passages(read_as: ReadAs) -> None:
    sentences = [bioc.BioCSentence(), bioc.BioCSentence()]
    for sentence, (offset, text) in zip(sentences, ((0, "One."), (6, "Two.")), strict=True):
        sentence.offset, sentence.text = offset, text
        annotation = bioc.BioCAnnotation()
        annotation.id, annotation.infons["type"], annotation.text = f"{offset}", "X", text
        annotation.add_location(bioc.BioCLocation(offset, 4))
        sentence.add_annotation(annotation)
    passage = bioc.BioCPassage()
    passage.offset, passage.sentences = 0, sentences
    document = bioc.BioCDocument()
    document.id, document.passages = "a", [passage]
    collection = bioc.BioCCollection()
    collection.add_document(document)
    for name, content in (("bioc", biocxml.dumps(collection)), ("bioc-json", biocjson.dumps(collection))):
        (found,), _ = read_as(name, content)
        assert found.text == "One.\n\nTwo."
        assert [entity.span for entity in found.annotation.entities] == [Span(0, 4), Span(6, 10)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('offset="49"', 'offset="48"', "as the location says"),
        ('offset="49"', 'offset="99"', "expected 0 <= start < end <= 63, in characters"),
        ('offset="49"', 'offset="x"', 'found "x"; expected a whole number'),
        ('offset="55" length="7"', 'offset="40" length="7"', "expected locations that do not overlap"),
        ("<offset>26", "<offset>20", "found 20; expected an offset of at least 25"),
        ("<offset>26", "<offset>99999999", "expected an offset of at least 25"),
        ('<infon key="type">Chemical</infon>', "", "expected the key 'type'"),
        ('<infon key="relation">CID</infon>', "", "expected the key 'type'"),
        ("</document>", "", "an error in the XML"),
        ('"BioC.dtd"', '"BioC.dtd" [<!ENTITY a "b">]', "a declaration of the entity"),
    ],
)
def test_bioc_reports_what_is_wrong(read_as: ReadAs, old: str, new: str, message: str) -> None:
    assert old in XML
    documents, problems = read_as("bioc", XML.replace(old, new))
    assert not documents
    assert message in str(problems.kept[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"documents": 3, "infons": {}}', "documents: found 3; expected a list"),
        ('{"documents": [{"id": "a"}]}', "expected the key 'passages'"),
        ('{"infons": {}}', "expected the key 'documents'"),
        ("{", "expected valid JSON"),
        ('{"documents": [{"id": "a", "passages": [], "infons": {"relatum": "["}}]}', "expected valid JSON"),
    ],
)
def test_bioc_json_reports_what_is_wrong(read_as: ReadAs, content: str, message: str) -> None:
    documents, problems = read_as("bioc-json", content)
    assert not documents
    assert message in str(problems.kept[0])


def test_bioc_loads_nothing_from_outside(tmp_path: Path, read_as: ReadAs) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    content = XML.replace('SYSTEM "BioC.dtd"', f'[<!ENTITY s SYSTEM "file://{tmp_path}/secret">]')
    documents, problems = read_as("bioc", content.replace("CTD", "&s;"))
    assert not documents
    assert problems.count == 1


def test_bioc_reports_elements_that_are_nested_too_deeply(read_as: ReadAs) -> None:
    content = XML.replace("<passage>", "<passage>" * 10_000).replace("</passage>", "</passage>" * 10_000)
    documents, problems = read_as("bioc", content)
    assert not documents
    assert "more than 100 elements inside one another" in str(problems.kept[0])


def test_bioc_refuses_characters_that_xml_cannot_hold() -> None:
    with pytest.raises(BadRecord, match="characters that XML can hold"):
        get_format("bioc").check(Document("a", "\x00"))  # type: ignore[misc]


@pytest.mark.slow
def test_bioc_holds_what_pubtator_holds(shared_data: Path, tmp_path: Path) -> None:
    """BC5CDR, from PubTator through both forms of BioC."""
    path = shared_data / "extra" / "cdr-test.pubtator.gz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    documents = list(get_format("pubtator").read(path, Problems()))[:50]
    for name in ("bioc", "bioc-json"):
        get_format(name).write(tmp_path / name, documents)
        problems = Problems()
        again = list(get_format(name).read(tmp_path / name, problems))
        assert [(d.text, d.annotation, set(d.attributes)) for d in again] == [
            (d.text, d.annotation, set(d.attributes)) for d in documents
        ]
