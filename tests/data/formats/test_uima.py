from __future__ import annotations

from pathlib import Path

import cassis  # type: ignore[import-untyped]
import pytest

from relatum.data.conversion import convert_corpus
from relatum.data.corpus import open_corpus
from relatum.data.fitting import Policy
from relatum.data.formats import get_format
from relatum.data.formats.uima import FORMAT, type_system
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import make_splitter
from relatum.schema import Schema
from relatum.types import Annotation, Document, Entity, Relation, Span

TEXT = '🙂 Mara Ilves\r\nruns "Tarn" & Bank.'
MARA, BANK = Entity(Span(2, 12), "PER"), Entity(Span(20, 31), "ORG & <x>")
WORDS = tuple(Span(*ends) for ends in ((0, 1), (2, 6), (7, 12), (14, 18), (19, 32)))
DOCUMENT = Document(
    "one/a",
    TEXT,
    Annotation((MARA, BANK), (Relation(MARA, BANK, "Runs"), Relation(BANK, BANK, "Owns"))),
    WORDS,
    (Span(0, 3), Span(3, 5)),
)
NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"


def load(folder: Path) -> cassis.Cas:
    _, content = type_system(Schema((), ()))
    types = cassis.load_typesystem(content)
    with (folder / "one" / "a.xmi").open("rb") as file:
        return cassis.load_cas_from_xmi(file, typesystem=types)


def test_uima_files_are_read_alike_by_dkpro_cassis(tmp_path: Path) -> None:
    FORMAT.write(tmp_path, [DOCUMENT])
    cas = load(tmp_path)
    assert cas.sofa_string == TEXT
    entities = cas.select(NAMED_ENTITY)
    assert [(e.get_covered_text(), e.value) for e in entities] == [
        ("Mara Ilves", "PER"),
        (BANK.span.of(TEXT), "ORG & <x>"),
    ]
    relations = cas.select("webanno.custom.Relation")
    assert sorted((r.Governor.value, r.Dependent.value, r.label) for r in relations) == [
        ("ORG & <x>", "ORG & <x>", "Owns"),
        ("PER", "ORG & <x>", "Runs"),
    ]
    tokens = cas.select("de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token")
    assert [token.get_covered_text() for token in tokens] == [word.of(TEXT) for word in WORDS]
    problems = Problems()
    assert list(FORMAT.read(tmp_path, problems)) == [DOCUMENT]
    assert not problems.remarks


def test_uima_reads_what_dkpro_cassis_writes(tmp_path: Path) -> None:
    types = cassis.TypeSystem()
    person = types.create_type("my.Person", supertypeName="uima.tcas.Annotation")
    types.create_feature(person, "label", "uima.cas.String")
    types.create_feature(person, "age", "uima.cas.Integer")
    link = types.create_type("my.Knows", supertypeName="uima.tcas.Annotation")
    for name in ("source", "target"):
        types.create_feature(link, name, "uima.tcas.Annotation")
    place = types.create_type("Place", supertypeName="uima.tcas.Annotation")
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string = "🙂 Mara knows Ivo."
    cas.sofa_mime = "text/plain"
    mara, ivo = person(begin=2, end=6, label="Peop", age=5), person(begin=13, end=16)
    cas.add_all(
        [mara, ivo, place(begin=0, end=1), person(begin=3, end=3), link(begin=2, end=6, source=mara, target=ivo)]
    )
    (tmp_path / "a.xmi").write_text(cas.to_xmi(), encoding="utf-8")
    for path in (tmp_path, tmp_path / "a.xmi"):
        corpus = open_corpus(path)
        assert corpus.format_names == "uima"
        problems = Problems()
        (document,) = corpus.parts[0].read(problems)
        assert document.text == "🙂 Mara knows Ivo."
        first, second = Entity(Span(2, 6), "Peop"), Entity(Span(13, 16), "Person")
        assert document.annotation == Annotation((first, second), (Relation(first, second, "Knows"),))
        assert sorted(line.partition(" (first")[0] for line in problems.remark_lines()) == [
            "1 × annotations of the type Place, which is not read",
            "1 × annotations without characters left out",
            "1 × features of my.Person that are not read",
        ]


def test_uima_writes_the_type_system_beside_the_data(tmp_path: Path) -> None:
    get_format("jsonl").write(tmp_path / "a.jsonl", [DOCUMENT])
    corpus = open_corpus(tmp_path / "a.jsonl")
    convert_corpus(corpus, tmp_path / "new", FORMAT, make_splitter(), Policy())
    assert cassis.load_typesystem((tmp_path / "new" / "TypeSystem.xml").read_text(encoding="utf-8"))
    assert load(tmp_path / "new").sofa_string == TEXT
    assert list(open_corpus(tmp_path / "new").parts[0].read(Problems())) == [DOCUMENT]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('begin="3"', 'begin="1"', 'found the begin "1"; expected a UTF-16 offset of at most'),
        ('begin="3"', 'begin="-3"', 'found the begin "-3"'),
        ('begin="3"', 'begin="14"', "expected a begin before the end"),
        ('end="13"', 'end="9999"', 'found the end "9999"'),
        ("sofaString", "string", "found no text; expected an element <cas:Sofa> with a sofaString"),
        ("xmi:XMI", "html", "found the element <html>; expected <xmi:XMI>"),
        ("</xmi:XMI>", "", "an error in the XML"),
        ('<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE x [<!ENTITY a "b">]>', "a declaration of the entity"),
    ],
)
def test_uima_reports_what_is_wrong(tmp_path: Path, old: str, new: str, message: str) -> None:
    FORMAT.write(tmp_path, [DOCUMENT, Document("b", "Good.")])
    path = tmp_path / "one" / "a.xmi"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    problems = Problems()
    assert [document.id for document in FORMAT.read(tmp_path, problems)] == ["b"]
    (problem,) = problems.kept
    assert str(problem).startswith(str(path))
    assert message in str(problem)


def test_uima_leaves_out_relations_without_ends_and_words_outside_of_sentences(tmp_path: Path) -> None:
    FORMAT.write(tmp_path, [DOCUMENT])
    path = tmp_path / "one" / "a.xmi"
    content = path.read_text(encoding="utf-8").replace('Governor="2"', 'Governor="99"')
    path.write_text("\n".join(line for line in content.split("\n") if ":Sentence" not in line or 'end="13"' in line))
    problems = Problems()
    (document,) = FORMAT.read(tmp_path, problems)
    assert len(document.annotation.relations) == 1
    assert document.words is None
    assert sorted(line.partition(" (first")[0] for line in problems.remark_lines()) == [
        "1 × relations left out whose ends are no annotations that were read",
        "1 × tokens that overlap or lie in no sentence: words and sentences are not read",
    ]


def test_uima_refuses_characters_that_xml_cannot_hold() -> None:
    with pytest.raises(BadRecord, match="characters that XML can hold"):
        FORMAT.check(Document("a", "\x00"))  # type: ignore[misc]
