import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.conversion import convert_corpus
from relatum.data.corpus import Corpus, open_corpus
from relatum.data.fitting import Policy
from relatum.data.formats import jsonl, scierc, table_sequence
from relatum.data.formats.ace import FORMAT
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import make_splitter, split_sentences
from relatum.errors import DataError, FormatError
from relatum.types import Annotation, Document, Entity, Relation, Span

FILES = Path(__file__).parent / "ace"
NEWS = FILES / "ace2005/data/English/nw/timex2norm/QNA_ENG_20030412.0117.apf.xml"
TALK = FILES / "ace2005/data/English/bc/fp1/QTV_HR_20030501.2000.03.apf.xml"


def read(path: Path) -> tuple[list[Document], Problems]:
    problems = Problems()
    return list(FORMAT.read(path, problems)), problems


def read_well(path: Path) -> list[Document]:
    documents, problems = read(path)
    problems.raise_if_any()
    return documents


def through(path: Path, *documents: Document) -> list[Document]:
    FORMAT.write(path, documents)
    return read_well(path)


def entity_texts(document: Document) -> list[tuple[str, str]]:
    return [(entity.label, entity.span.of(document.text)) for entity in document.annotation.entities]


def relation_texts(document: Document) -> list[tuple[str, str, str]]:
    text = document.text
    return [(r.label, r.head.span.of(text), r.tail.span.of(text)) for r in document.annotation.relations]


def mention(name: str, start: object, end: object, text: str) -> str:
    return (
        f'<entity_mention ID="{name}"><extent><charseq START="{start}" END="{end}">{text}</charseq></extent>'
        f'<head><charseq START="{start}" END="{end}">{text}</charseq></head></entity_mention>'
    )


def relation(*arguments: tuple[str, str], label: str = "PHYS") -> str:
    inner = "".join(f'<relation_mention_argument REFID="{name}" ROLE="{role}"/>' for name, role in arguments)
    return f'<relation ID="R1" TYPE="{label}"><relation_mention ID="R1-1">{inner}</relation_mention></relation>'


def entity(*mentions: str, label: str = "PER") -> str:
    return f'<entity ID="E" TYPE="{label}">{"".join(mentions)}</entity>'


def annotation(*elements: str) -> str:
    content = "\n".join(elements)
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE source_file SYSTEM "apf.v5.1.1.dtd">\n'
        f'<source_file URI="d.sgm"><document DOCID="d">{content}</document></source_file>'
    )


def write_pair(folder: Path, sgml: str | bytes, xml: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("d.sgm", sgml), ("d.apf.xml", xml)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_read_2005_gives_heads_types_relations_and_clusters() -> None:
    talk, news = read_well(FILES / "ace2005")
    assert (talk.id, news.id) == ("QTV_HR_20030501.2000.03", "QNA_ENG_20030412.0117")
    assert entity_texts(news) == [
        ("ORG", "Lind & Sons"),
        ("GPE", "OLDHAVEN"),
        ("PER", "Oda Lind"),
        ("PER", "captain"),
        ("VEH", "ferry"),
        ("VEH", "Tarn"),
        ("ORG", "Lind & Sons"),
        ("FAC", "shipyard"),
        ("LOC", "mouth"),
        ("LOC", "Ell"),
        ("PER", "Her"),
        ("PER", "brother"),
        ("PER", "Ivo"),
        ("GPE", "Port\nEllery"),
        ("PER", "he"),
        ("PER", "her"),
        ("PER", "his"),
        ("WEA", "rifle"),
    ]
    assert relation_texts(news) == [
        ("ORG-AFF", "Oda Lind", "Lind & Sons"),
        ("ART", "captain", "Tarn"),
        ("PHYS", "shipyard", "mouth"),
        ("PART-WHOLE", "mouth", "Ell"),
        ("PER-SOC", "Her", "brother"),
        ("GEN-AFF", "Ivo", "Port\nEllery"),
    ]
    assert [[span.of(news.text) for span in cluster] for cluster in news.clusters] == [
        ["Oda Lind", "captain", "Her", "her"],
        ["ferry", "Tarn"],
        ["Lind & Sons", "Lind & Sons"],
        ["brother", "Ivo", "he", "his"],
    ]
    assert news.annotation.entities[2].id == "QNA_ENG_20030412.0117-E2-2"
    assert news.annotation.relations[0].id == "QNA_ENG_20030412.0117-R1-1"


def test_read_2005_counts_what_is_left_out() -> None:
    remarks = read(FILES / "ace2005")[1].remarks
    assert remarks == {
        "annotations left out in favour of timex2norm": 1,
        "annotations left out in favour of fp1": 1,
        "mentions left out that have head and type of another": 1,
        "relations left out that equal another, as their mentions do": 1,
        "METONYMY relations left out, as is usual": 1,
        "arguments of relations left out that are neither Arg-1 nor Arg-2": 1,
        "ACE value mentions left out": 1,
        "ACE timex2 mentions left out": 2,
        "ACE event mentions left out": 1,
    }


def test_read_2004_gives_heads_types_relations_and_clusters() -> None:
    problems = Problems()
    (document,) = FORMAT.read(FILES / "ace2004", problems)
    assert problems.count == 0
    assert problems.remarks == {"DISC relations left out, as is usual": 1}
    assert document.id == "QPW20001103.0414.0021"
    assert ("FAC", "hall") in entity_texts(document)
    assert len(document.annotation.entities) == 10
    assert relation_texts(document) == [
        ("GPE-AFF", "council", "Oldhaven"),
        ("EMP-ORG", "engineer", "its"),
        ("PER-SOC", "his", "wife"),
        ("PHYS", "who", "hall"),
    ]
    assert [[span.of(document.text) for span in cluster] for cluster in document.clusters] == [
        ["council", "its"],
        ["engineer", "Bruno Tarn", "who", "his"],
    ]


def test_read_keeps_the_offsets_of_the_ldc() -> None:
    (talk,) = read_well(TALK)
    heads = ElementTree.parse(TALK).getroot().iterfind(".//head/charseq")
    spans = {Span(int(head.attrib["START"]), int(head.attrib["END"]) + 1) for head in heads}
    assert {entity.span for entity in talk.annotation.entities} == spans
    raw = re.sub(r"<[^>]+>", "", TALK.with_name("QTV_HR_20030501.2000.03.sgm").read_text())
    assert (len(talk.text), talk.text.split()) == (len(raw), raw.split())


def test_read_keeps_headers_and_speakers_apart_from_sentences() -> None:
    talk, news = read_well(FILES / "ace2005")
    sentences = [span.of(talk.text) for span in split_sentences(talk.text)]
    assert sentences == [
        "QTV_HR_20030501.2000.03",
        "STORY",
        "2003-05-01T20:00:00",
        "MARA ILVES",
        "Good evening.",
        "We are in Oldhaven",
        "ODA LIND",
        "It is my town, you know.",
    ]
    assert news.metadata == {"body": [58, 333]}
    assert news.text[:58].split() == ["QNA_ENG_20030412.0117", "NEWS", "STORY", "20030412-17:05:22"]
    assert news.text[333:].strip() == ""


def test_read_takes_a_single_annotation_file() -> None:
    assert [d.id for d in read_well(NEWS)] == ["QNA_ENG_20030412.0117"]


def test_read_prefers_passes_in_order(tmp_path: Path) -> None:
    labels = {}
    for stage in ("fp2", "fp1", "adj", "timex2norm"):
        xml = annotation(entity(mention("m", 0, 2, "Oda"), label=stage))
        write_pair(tmp_path / "nw" / stage, "<DOC>Oda</DOC>", xml)
        (document,) = read_well(tmp_path)
        labels[stage] = document.annotation.entities[0].label
    assert labels == {"fp2": "fp2", "fp1": "fp1", "adj": "adj", "timex2norm": "timex2norm"}


def test_read_finds_the_name_of_a_document_without_one(tmp_path: Path) -> None:
    write_pair(tmp_path, "<DOC>Oda</DOC>", annotation().replace(' DOCID="d"', ""))
    assert [d.id for d in read_well(tmp_path)] == ["d"]


def test_read_replaces_what_is_no_unicode_in_a_file_name(tmp_path: Path) -> None:
    for suffix in (".sgm", ".apf.xml"):
        name = os.fsdecode(b"d\xe9" + suffix.encode())
        (tmp_path / name).write_text("<DOC>Oda</DOC>" if suffix == ".sgm" else "<document/>")
    assert [d.id for d in read_well(tmp_path)] == ["d\ufffd"]


def test_read_takes_numbers_in_file_names_as_numbers(tmp_path: Path) -> None:
    FORMAT.write(tmp_path, [Document(f"d-{number}", "a") for number in (10, 9, 1)])
    (tmp_path / "x").mkdir()
    FORMAT.write(tmp_path / "x" / "2", [Document("second", "a")])
    FORMAT.write(tmp_path / "x" / "10", [Document("first", "a")])
    assert [d.id for d in read_well(tmp_path)] == ["d-1", "d-9", "d-10", "second", "first"]


SGML = "<DOC>\r\n<DOCID> d </DOCID>\r\n<TEXT>\r\nR&amp;D at AT&AMP;T\r\nwas led by <b>Oda</b> Lind</TEXT></DOC>"


@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("references", [False, True])
@pytest.mark.parametrize("returns", [False, True])
def test_read_finds_out_what_offsets_count(tmp_path: Path, tags: bool, references: bool, returns: bool) -> None:
    counted = SGML if tags else re.sub("<[^>]+>", "", SGML)
    counted = counted if returns else counted.replace("\r\n", "\n")
    counted = counted if references else re.sub("&amp;", "&", counted, flags=re.IGNORECASE)
    heads = ["R&amp;D", "AT&AMP;T", "Oda</b> Lind"]
    found = []
    for number, head in enumerate(heads):
        shown = re.sub("<[^>]+>", "", head)
        head = head if tags else shown
        head = head if references else re.sub("&amp;", "&", head, flags=re.IGNORECASE)
        at = counted.index(head)
        found.append(mention(f"m{number}", at, at + len(head) - 1, shown.replace("&AMP;", "&amp;")))
    write_pair(tmp_path, SGML, annotation(entity(*found)))
    (document,) = read_well(tmp_path)
    assert document.text == "\n\nd\n\n\nR&D at AT&T\nwas led by\nOda\nLind"
    assert [text for _, text in entity_texts(document)] == ["R&D", "AT&T", "Oda\nLind"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a &lt; b &gt; c", "a < b > c"),
        ("&amp;amp;", "&amp;"),
        ("caf&eacute; &#8217; &#x2019;", "café ’ ’"),
        ("&QL; &unknown; &notit; & &; AT&T;", "&QL; &unknown; &notit; & &; AT&T;"),
        ("&#0; &#xD800; &#1; &#9999999;", "&#0; &#xD800; &#1; &#9999999;"),
        ("<><a\nb='c'>d</a>", "<>d"),
        ("a\r\nb\rc", "a\nb\rc"),
    ],
)
def test_read_resolves_references_and_removes_tags(tmp_path: Path, raw: str, text: str) -> None:
    write_pair(tmp_path, f"<DOC><TEXT>{raw}</TEXT></DOC>", annotation())
    assert read_well(tmp_path)[0].text == text


def test_read_takes_heads_that_begin_or_end_at_a_reference(tmp_path: Path) -> None:
    xml = annotation(entity(mention("m", 1, 10, "&amp;b&lt;")), entity(mention("n", 0, 0, "a")))
    write_pair(tmp_path, "<DOC>a&amp;b&lt; c</DOC>", xml)
    (document,) = read_well(tmp_path)
    assert [text for _, text in entity_texts(document)] == ["a", "&b<"]


def test_read_passes_over_differences_in_white_space(tmp_path: Path) -> None:
    write_pair(tmp_path, "<DOC>Oda\n Lind</DOC>", annotation(entity(mention("m", 0, 8, "Oda Lind"))))
    assert entity_texts(read_well(tmp_path)[0]) == [("PER", "Oda\n Lind")]


def test_heads_that_differ_from_the_text_are_problems(tmp_path: Path) -> None:
    xml = annotation(entity(mention("E1-1", 0, 2, "Ida"), mention("E1-2", 4, 7, "Lind")))
    write_pair(tmp_path, "<DOC>Oda Lind</DOC>", xml)
    documents, problems = read(tmp_path)
    assert documents == []
    assert [str(problem) for problem in problems.kept] == [
        f'{tmp_path / "d.apf.xml"}, mention E1-1: found "Oda" at characters 0 to 2; expected the head "Ida"'
    ]


def test_unknown_references_in_annotations_are_text(tmp_path: Path) -> None:
    write_pair(tmp_path, "<DOC>A&QL;B</DOC>", annotation(entity(mention("m", 0, 5, "A&QL;B"))))
    assert entity_texts(read_well(tmp_path)[0]) == [("PER", "A&QL;B")]


ODA = mention("m", 0, 2, "Oda")
LIND = mention("n", 4, 7, "Lind")
BOMB = (
    '<!DOCTYPE source_file [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]><source_file><document>&i;</document></source_file>"
)


@pytest.mark.parametrize(
    ("xml", "found", "expected", "field"),
    [
        ("", "no element found", "well-formed XML", None),
        ("Oda Lind", "syntax error: line 1", "well-formed XML", None),
        (annotation(entity(ODA))[:-20], "unclosed token: line 3", "well-formed XML", None),
        (annotation("</entity>"), "mismatched tag", "well-formed XML", None),
        ('<?xml version="1.0" encoding="klingon"?><a/>', "unknown encoding", "well-formed XML", None),
        ('<?xml version="1.0" encoding="shift_jis"?><a/>', "multi-byte", "well-formed XML", None),
        (annotation().encode("utf-16"), "a UTF-16 file", "UTF-8", None),
        (BOMB, 'a declaration of the entity "a"', "no entities", None),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', 'entity "b"', "no entities", None),
        ("<a><b/></a>", "the element <a>", "<document>", None),
        (annotation(entity(ODA, label="")), "<entity> without TYPE", "TYPE", "entity E"),
        (annotation(entity(ODA.replace(' ID="m"', ""))), "<entity_mention> without ID", "ID", None),
        (annotation(entity(ODA.replace("head", "tail"))), "no head", "<head>", "mention m"),
        (annotation(entity(ODA.replace(' START="0"', ""))), "no START", "a number of characters", "mention m"),
        (annotation(entity(mention("m", -1, 2, "Oda"))), 'START="-1"', "a number", "mention m"),
        (annotation(entity(mention("m", 0, "2.5", "Oda"))), 'END="2.5"', "a number", "mention m"),
        (annotation(entity(mention("m", 0, "٢", "Oda"))), "END=", "a number", "mention m"),
        (annotation(entity(mention("m", 0, "9" * 5000, "Oda"))), "END=", "a number", "mention m"),
        (annotation(entity(mention("m", 0, 8, "Oda"))), "0 to 8 in a text of 8", '"Oda"', "mention m"),
        (annotation(entity(mention("m", 2, 0, "Oda"))), "2 to 0 in a text of 8", '"Oda"', "mention m"),
        (annotation(entity(ODA, ODA)), "an ID that another mention has", "differ", "mention m"),
        (annotation(entity(ODA), relation(label="")), "<relation> without TYPE", "TYPE", "relation R1"),
        (annotation(entity(ODA), relation()), "too few arguments", "one Arg-1", "relation mention R1-1"),
        (annotation(entity(ODA), relation(("m", "Arg-1"))), "too few", "one Arg-2", "relation mention R1-1"),
        (
            annotation(entity(ODA), relation(("m", "Arg-1"), ("x", "Arg-2"))),
            'the argument "x"',
            "the ID of an entity mention",
            "relation mention R1-1",
        ),
        (
            annotation(entity(ODA, LIND), relation(("m", "Arg-1"), ("n", "Arg-1"))),
            "two arguments Arg-1",
            "one Arg-2",
            "relation mention R1-1",
        ),
    ],
)
def test_bad_annotations_are_problems(
    tmp_path: Path, xml: str | bytes, found: str, expected: str, field: str | None
) -> None:
    write_pair(tmp_path, "<DOC>Oda Lind</DOC>", xml)
    documents, problems = read(tmp_path)
    assert documents == []
    assert problems.count == 1
    problem = problems.kept[0]
    assert problem.path == str(tmp_path / "d.apf.xml")
    assert found in problem.found
    assert expected in problem.expected
    assert problem.field == field


def test_no_dtd_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "apf.v5.1.1.dtd").write_text('<!ENTITY QL "loaded">')
    write_pair(tmp_path, "<DOC>&QL;</DOC>", annotation(entity(mention("m", 0, 3, "&QL;"))))
    assert entity_texts(read_well(tmp_path)[0]) == [("PER", "&QL;")]


def test_deeply_nested_annotations_are_read(tmp_path: Path) -> None:
    depth = 100_000
    write_pair(tmp_path, "<DOC>Oda</DOC>", annotation("<a>" * depth + "</a>" * depth, entity(ODA)))
    assert entity_texts(read_well(tmp_path)[0]) == [("PER", "Oda")]


def test_missing_and_broken_texts_are_problems(tmp_path: Path) -> None:
    for name in ("gone", "broken", "fine"):
        write_pair(tmp_path / name, "<DOC>Oda</DOC>", annotation(entity(ODA)))
    (tmp_path / "gone" / "d.sgm").unlink()
    (tmp_path / "broken" / "d.sgm").write_bytes(b"<DOC>\nOd\xe1</DOC>")
    documents, problems = read(tmp_path)
    assert len(documents) == 1
    broken, gone = problems.kept
    assert (broken.path, broken.line) == (str(tmp_path / "broken" / "d.sgm"), 2)
    assert "no d.sgm beside it" in gone.found


def test_repeated_ids_are_problems(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_pair(tmp_path / name, "<DOC>Oda</DOC>", annotation(entity(ODA)))
    documents, problems = read(tmp_path)
    assert [d.id for d in documents] == ["d"]
    assert f'the id "d" again (first in {tmp_path / "a" / "d.apf.xml"})' in problems.kept[0].found


def test_texts_without_annotations_are_counted(tmp_path: Path) -> None:
    write_pair(tmp_path, "<DOC>Oda</DOC>", annotation())
    (tmp_path / "other.sgm").write_text("<DOC>Lind</DOC>")
    problems = read(tmp_path)[1]
    assert problems.remarks == {"texts left out that have no .apf.xml file beside them": 1}


def test_a_folder_without_annotations_is_a_problem(tmp_path: Path) -> None:
    documents, problems = read(tmp_path)
    assert (documents, problems.count) == ([], 1)
    assert read(tmp_path / "absent")[1].count == 1


def test_a_folder_with_the_name_of_a_file_is_a_problem(tmp_path: Path) -> None:
    write_pair(tmp_path, "<DOC>Oda</DOC>", "")
    (tmp_path / "d.apf.xml").unlink()
    (tmp_path / "d.apf.xml").mkdir()
    assert read(tmp_path)[1].kept[0].path == str(tmp_path / "d.apf.xml")


def test_text_behind_an_open_bracket_stays(tmp_path: Path) -> None:
    write_pair(tmp_path, "<DOC>1 < 2 &amp; 3", annotation())
    assert read_well(tmp_path)[0].text == "1 < 2 & 3"


def test_an_sgm_file_of_nothing_but_brackets_is_read_at_once(tmp_path: Path) -> None:
    write_pair(tmp_path, "<DOC>" + "<" * 300_000, annotation())
    start = time.perf_counter()
    assert len(read_well(tmp_path)[0].text) == 300_000
    assert time.perf_counter() - start < 5


def test_importing_the_format_imports_no_xml() -> None:
    code = "import sys, relatum.data.formats.ace; sys.exit(any('xml.etree' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_recognise_knows_folders_with_annotation_files(tmp_path: Path) -> None:
    assert FORMAT.recognise(FILES / "ace2005")
    assert FORMAT.recognise(NEWS.parent)
    assert not FORMAT.recognise(NEWS)
    assert not FORMAT.recognise(tmp_path)
    assert not FORMAT.recognise(tmp_path / "absent")
    (tmp_path / "a.xml").write_text("<a/>")
    assert not FORMAT.recognise(tmp_path)


def test_what_was_read_comes_back_as_it_was(tmp_path: Path) -> None:
    for year in ("ace2004", "ace2005"):
        before = read_well(FILES / year)
        after = through(tmp_path / year, *before)
        assert sorted(after, key=lambda d: d.id) == sorted(before, key=lambda d: d.id)
        ids = {entity.id for document in before for entity in document.annotation.entities}
        assert {entity.id for document in after for entity in document.annotation.entities} == ids


def test_write_makes_files_in_the_form_of_2005(tmp_path: Path) -> None:
    head, tail = Entity(Span(2, 5), "PER"), Entity(Span(8, 11), "ORG", id="T2")
    text = "<\rR&D & AT&T"
    document = Document("a/b", text, Annotation((head, tail), (Relation(tail, head, "ORG-AFF"),)))
    assert through(tmp_path, document) == [document]
    assert (tmp_path / "a%2Fb.sgm").read_bytes() == b"<DOC><BODY>&lt;&#13;R&amp;D &amp; AT&amp;T</BODY></DOC>"
    root = ElementTree.parse(tmp_path / "a%2Fb.apf.xml").getroot()
    assert root.find("document").attrib == {"DOCID": "a/b"}  # type: ignore[union-attr]
    first = root.find("document/entity/entity_mention/head/charseq")
    assert first is not None
    assert (first.attrib, first.text) == ({"START": "9", "END": "15"}, "R&D")
    roles = {e.attrib["ROLE"]: e.attrib["REFID"] for e in root.iter("relation_mention_argument")}
    assert roles == {"Arg-1": "T2", "Arg-2": "a/b-M1"}


def test_write_puts_the_body_where_the_metadata_says(tmp_path: Path) -> None:
    document = Document("d", "head body tail", metadata={"body": [5, 9]})
    assert through(tmp_path / "a", document) == [document]
    assert (tmp_path / "a" / "d.sgm").read_text() == "<DOC>head <BODY>body</BODY> tail</DOC>"
    for number, body in enumerate(([5, 99], [-1, 4], [9, 5], "5-9", None, [5])):
        odd = Document("d", "head body tail", metadata={"body": body})
        assert through(tmp_path / str(number), odd) == [replace(odd, metadata={})]


def clustered(labels: Iterable[str], *clusters: tuple[int, ...]) -> Document:
    """One-letter entities with these labels, and clusters of them by number."""
    entities = tuple(Entity(Span(2 * i, 2 * i + 1), label) for i, label in enumerate(labels))
    groups = tuple(tuple(entities[i].span for i in cluster) for cluster in clusters)
    return Document("d", " ".join("abcdefgh"[: len(entities)]), Annotation(entities), clusters=groups)


@pytest.mark.parametrize(
    "document",
    [
        clustered("XXX"),
        clustered("XXXX", (0, 2), (1, 3)),
        clustered("XYX", (0, 1)),
        clustered("XYX", (0, 1, 2)),
        clustered("XX", (1,)),
        clustered("XXX", (0, 1), (1, 2)),
        clustered("XYX", (0, 1), (1, 2), (0, 1, 2)),
    ],
)
def test_clusters_come_back_as_they_were(tmp_path: Path, document: Document) -> None:
    assert through(tmp_path, document) == [document]


def test_entities_of_one_span_keep_their_clusters(tmp_path: Path) -> None:
    document = clustered("XXY", (0, 1))
    both = replace(
        document.annotation,
        entities=(*document.annotation.entities[:1], Entity(Span(0, 1), "Y"), *document.annotation.entities[1:]),
    )
    document = replace(document, annotation=both, clusters=((Span(0, 1), Span(4, 5)), (Span(0, 1), Span(2, 3))))
    assert through(tmp_path, document) == [document]
    assert "CLUSTER" not in (tmp_path / "d.apf.xml").read_text()


def test_entities_keep_ids_that_look_like_copies(tmp_path: Path) -> None:
    document = clustered("XXX", (0, 1), (0, 2))
    names = ("m", "m-again", "m-again-again")
    named = tuple(replace(e, id=name) for e, name in zip(document.annotation.entities, names, strict=True))
    document = replace(document, annotation=Annotation(named))
    (after,) = through(tmp_path, document)
    assert after == document
    assert [entity.id for entity in after.annotation.entities] == list(names)


def test_equal_entities_come_back_as_one(tmp_path: Path) -> None:
    twin = Entity(Span(0, 1), "X", id="p"), Entity(Span(0, 1), "X", id="q")
    document = Document("d", "a", Annotation(twin, (Relation(twin[0], twin[1], "R"),)))
    (after,) = through(tmp_path, document)
    assert after.annotation == Annotation((twin[0],), (Relation(twin[0], twin[0], "R"),))


def test_relations_said_twice_stay_twice(tmp_path: Path) -> None:
    document = clustered("XY")
    first, second = document.annotation.entities
    same = (Relation(first, second, "R"), Relation(first, second, "R"))
    document = replace(document, annotation=replace(document.annotation, relations=same))
    assert through(tmp_path, document) == [document]


ONE = Entity(Span(0, 1), "X")
BROKEN = Entity(Span(0, 5), "X", (Span(0, 1), Span(4, 5)))


@pytest.mark.parametrize(
    ("document", "field", "found", "expected"),
    [
        (Document("", "a"), "id", '""', "not empty"),
        (Document("é" * 40, "a"), "id", "of 240 characters as the name of a file", "at most 200"),
        (Document("d\x01", "a"), "id", "the character U+0001 in 'd\\x01'", "XML"),
        (Document("d\ud800", "a"), "id", "the lone surrogate U+D800", "valid Unicode"),
        (Document("d", "a\ud800"), "text", "the lone surrogate U+D800", "valid Unicode"),
        (Document("d", "\x01", Annotation((ONE,))), "entities[0]", "the character U+0001", "XML"),
        (Document("d", "\uffff", Annotation((ONE,))), "entities[0]", "the character U+FFFF", "XML"),
        (Document("d", "a b c", Annotation((ONE, BROKEN))), "entities[1]", "discontinuous entity 'a b c'", "one piece"),
        (Document("d", "a", Annotation((replace(ONE, label=""),))), "entities[0].label", '""', "not empty"),
        (Document("d", "a", Annotation((replace(ONE, label="\x1b"),))), "entities[0].label", "U+001B", "XML"),
        (Document("d", "a", Annotation((replace(ONE, id="\x00"),))), "entities[0].id", "U+0000", "XML"),
        (Document("d", "a", Annotation((ONE,), (Relation(ONE, ONE, ""),))), "relations[0].label", '""', "not empty"),
        (
            Document("d", "a", Annotation((ONE,), (Relation(ONE, ONE, "R", id="\x0b"),))),
            "relations[0].id",
            "U+000B",
            "XML",
        ),
        (
            Document("d", "a", Annotation((ONE,), (Relation(ONE, ONE, "DISC"),))),
            "relations[0].label",
            "the type DISC",
            "another name",
        ),
        (
            Document("d", "a b", Annotation((ONE,)), clusters=((ONE.span,), (ONE.span, Span(2, 3)))),
            "clusters[1]",
            "'b' at characters [2, 3), which is no entity",
            "clusters of entities",
        ),
    ],
)
def test_check_and_write_refuse_what_ace_cannot_hold(
    tmp_path: Path, document: Document, field: str, found: str, expected: str
) -> None:
    assert FORMAT.check
    with pytest.raises(BadRecord) as refused:
        FORMAT.check(document)
    assert refused.value.field == field
    assert found in refused.value.found
    assert expected in refused.value.expected
    with pytest.raises(FormatError, match=re.escape(f"{field}: found {refused.value.found}")):
        FORMAT.write(tmp_path, [document])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def corpus_with_bad_documents(tmp_path: Path) -> Corpus:
    """Two documents that ACE can hold, and two that it cannot."""
    two = (ONE, Entity(Span(2, 3), "Y"))
    documents = [
        Document("good", "a b", Annotation(two, (Relation(*two, "PHYS"),))),
        Document("left out", "a b", Annotation(two, (Relation(*two, "METONYMY"),))),
        Document("loose", "a b", Annotation(two[:1]), clusters=((Span(0, 1), Span(2, 3)),)),
        Document("good as well", "a \x01 b", Annotation(two[:1])),
    ]
    path = tmp_path / "data.jsonl"
    jsonl.FORMAT.write(path, documents)
    return open_corpus(path)


def test_convert_reports_every_document_that_ace_cannot_hold(tmp_path: Path, corpus_with_bad_documents: Corpus) -> None:
    with pytest.raises(DataError) as error:
        convert_corpus(corpus_with_bad_documents, tmp_path / "ace", FORMAT, make_splitter("rules", "rules"), Policy())
    first, second = error.value.problems
    assert first.field == "document 'left out', relations[0].label"
    assert (first.found, first.expected[:24]) == ("the type METONYMY", "another name for it, or ")
    assert second.field == "document 'loose', clusters[0]"
    assert second.found == "'b' at characters [2, 3), which is no entity"
    assert second.expected == "clusters of entities, as ACE has them; make it one, or take it out"
    assert not (tmp_path / "ace").exists()


def test_convert_can_leave_out_what_ace_cannot_hold(tmp_path: Path, corpus_with_bad_documents: Corpus) -> None:
    splitter = make_splitter("rules", "rules")
    done = convert_corpus(corpus_with_bad_documents, tmp_path / "ace", FORMAT, splitter, Policy(), on_error="skip")
    assert (done.documents, done.problems.count) == ({"data": 2}, 2)
    assert [document.id for document in read_well(tmp_path / "ace")] == ["good", "good as well"]


def test_write_refuses_ids_used_before(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="document 'd': the id was used before"):
        FORMAT.write(tmp_path, [Document("d", "a"), Document("d", "b")])


TEXTS = st.text(st.sampled_from("aB <>&;#13\r\n\té漢😀\u2028lt"), max_size=30)
IDS = st.text(st.sampled_from("aB./\\% é&<\"'\n"), min_size=1, max_size=8)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(TEXTS)
    labels = st.sampled_from(["PER", "ORG-AFF", 'a"b', "<&>"])
    places = st.lists(st.integers(0, len(text)), min_size=2, max_size=2, unique=True).map(sorted)
    spans = [Span(*draw(places)) for _ in range(draw(st.integers(0, 5)))] if text else []
    entities = sorted({Entity(span, draw(labels)) for span in spans}, key=lambda e: (e.span, e.label))
    relations: list[Relation] = []
    clusters: list[tuple[Span, ...]] = []
    if entities:
        some = st.sampled_from(entities)
        relations = draw(st.lists(st.builds(Relation, some, some, labels), max_size=3))
        found = st.sets(st.sampled_from([e.span for e in entities]), min_size=1, max_size=3)
        clusters = [tuple(sorted(cluster)) for cluster in draw(st.lists(found, max_size=3))]
    body = draw(st.none() | st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(sorted))
    metadata = {} if body in (None, [0, len(text)]) else {"body": body}
    return Document(
        draw(IDS), text, Annotation(tuple(entities), tuple(relations)), clusters=tuple(clusters), metadata=metadata
    )


def by_value(document: Document) -> Document:
    """The document with entities of one span and clusters in an order that does not depend on the file."""
    found = sorted(document.annotation.entities, key=lambda e: (e.span, e.label))
    return replace(
        document,
        annotation=replace(document.annotation, entities=tuple(found)),
        clusters=tuple(sorted(document.clusters)),
    )


@given(documents())
def test_documents_come_back_as_they_were(document: Document) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (after,) = through(Path(folder), document)
        assert by_value(after) == by_value(document)


TALK_SGML = TALK.with_name("QTV_HR_20030501.2000.03.sgm").read_bytes()
TALK_XML = TALK.read_bytes()


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_arbitrary_bytes_are_problems_or_documents(sgml: bytes, xml: bytes) -> None:
    check_readable(sgml, xml)
    check_readable(sgml, TALK_XML)
    check_readable(TALK_SGML, xml)


@given(st.integers(0, len(TALK_XML)), st.integers(0, 30), st.binary(max_size=8) | st.sampled_from([b"9", b'"', b"<"]))
def test_damaged_annotations_are_problems_or_documents(at: int, removed: int, added: bytes) -> None:
    check_readable(TALK_SGML, TALK_XML[:at] + added + TALK_XML[at + removed :])
    check_readable(TALK_SGML, TALK_XML[:at])


@given(st.integers(0, len(TALK_SGML)), st.integers(0, 30), st.text(st.sampled_from("<>&;a \r\n"), max_size=8))
def test_damaged_texts_are_problems_or_documents(at: int, removed: int, added: str) -> None:
    check_readable(TALK_SGML[:at] + added.encode() + TALK_SGML[at + removed :], TALK_XML)
    check_readable(TALK_SGML[:at], TALK_XML)


def check_readable(sgml: bytes, xml: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found, problems = read(write_pair(Path(folder), sgml, xml))
        assert len(found) + bool(problems.count) == 1
        for document in found:
            assert all(entity.span.end <= len(document.text) for entity in document.annotation.entities)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conll04/train.json", "ade/all.jsonl", "scierc/train.jsonl", "scierc/test.jsonl"])
def test_published_documents_come_back_as_they_were(shared_data: Path, tmp_path: Path, name: str) -> None:
    format = scierc.FORMAT if name.startswith("scierc") else table_sequence.FORMAT
    problems = Problems()
    before = {d.id: replace(d, words=None, sentences=None) for d in format.read(shared_data / name, problems)}
    problems.raise_if_any()
    after = {d.id: d for d in through(tmp_path, *before.values())}
    assert after.keys() == before.keys()
    for id, document in before.items():
        clusters = tuple(tuple(sorted(set(cluster))) for cluster in document.clusters)
        assert by_value(after[id]) == by_value(replace(document, clusters=clusters))
