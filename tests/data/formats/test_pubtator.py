from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import bioc.pubtator  # type: ignore[import-untyped]
import pytest

from relatum.data.corpus import open_corpus
from relatum.data.fitting import Policy, fit
from relatum.data.formats.pubtator import FORMAT
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import make_splitter
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]

# As BC5CDR has it: the second mention of naloxone has no concept, the third line of mentions has several.
CDR = """\
227508|t|Naloxone raises pressure.
227508|a|Nalozone helped. Naloxone and clonidine act on liver and renal failure.

""".replace(
    "\n\n",
    """
227508	0	8	Naloxone	Chemical	D009270
227508	26	34	Nalozone	Chemical	-1
227508	43	51	Naloxone	Chemical	D009270
227508	56	65	clonidine	Chemical	D003000
227508	73	96	liver and renal failure	Disease	D017093|D051437	liver failure|renal failure
227508	CID	D009270	D051437
227508	Association	D009270	D003000	Novel

""",
)
TEXT = "Naloxone raises pressure.\nNalozone helped. Naloxone and clonidine act on liver and renal failure."
FIRST, MISSPELT, SECOND = (Entity(Span(start, start + 8), "Chemical") for start in (0, 26, 43))
CLONIDINE, FAILURE = Entity(Span(56, 65), "Chemical"), Entity(Span(73, 96), "Disease")
CID, ASSOCIATED = Relation(SECOND, FAILURE, "CID"), Relation(SECOND, CLONIDINE, "Association")
CONCEPTS = {FIRST: "D009270", SECOND: "D009270", CLONIDINE: "D003000", FAILURE: "D017093|D051437"}
ATTRIBUTES = (
    *(Attribute(mention, "concept", concept) for mention, concept in CONCEPTS.items()),
    Attribute(CID, "tail_concept", "D051437"),
    Attribute(ASSOCIATED, "novelty", "Novel"),
)
DOCUMENT = Document(
    "227508",
    TEXT,
    Annotation((FIRST, MISSPELT, SECOND, CLONIDINE, FAILURE), (CID, ASSOCIATED)),
    attributes=ATTRIBUTES,
)


def test_pubtator_reads_mentions_with_their_concepts_and_relations_of_the_nearest_mentions(read_as: ReadAs) -> None:
    (document,), problems = read_as("pubtator", CDR)
    assert document == DOCUMENT
    assert problems.remark_lines()[0].startswith("1 × further columns of mentions left out (first: ")


def test_pubtator_reads_a_relation_once_in_each_sentence_with_both_concepts(read_as: ReadAs) -> None:
    lines = "1|t|AB eats CD. AB sees CD.", "1|a|", *(f"1\t{at}\t{at + 2}\tAB\tX\ta" for at in (0, 12))
    others = "1\t8\t10\tCD\tX\tb", "1\t20\t22\tCD\tX\tb", "1\tLinks\ta\tb"
    (document,), problems = read_as("pubtator", "\n".join((*lines, *others)))
    ends = [(relation.head.span.start, relation.tail.span.start) for relation in document.annotation.relations]
    assert ends == [(0, 8), (12, 20)]
    assert "read as one in each sentence that mentions both" in problems.remark_lines()[0]


def test_pubtator_reads_a_relation_across_sentences_if_none_has_both_concepts(read_as: ReadAs) -> None:
    text = "1|t|AB is here.\n1|a|AB eats. CD sees.\n"
    mentions = "1\t0\t2\tAB\tX\ta\n1\t12\t14\tAB\tX\ta\n1\t21\t23\tCD\tX\tb\n1\tLinks\ta\tb\n"
    (document,), problems = read_as("pubtator", text + mentions)
    ((head, tail),) = [
        (relation.head.span.start, relation.tail.span.start) for relation in document.annotation.relations
    ]
    assert (head, tail) == (12, 21)
    assert not problems.remarks


def test_pubtator_counts_relations_of_concepts_without_a_mention(read_as: ReadAs) -> None:
    (document,), problems = read_as("pubtator", "1|t|AB\n1|a|\n1\t0\t2\tAB\tX\ta|b\n1\tR\ta\tc\n1\tR\ta\tb\n")
    assert document == Document(
        "1", "AB", Annotation((mention := Entity(Span(0, 2), "X"),)), attributes=(Attribute(mention, "concept", "a|b"),)
    )
    assert sorted(problems.remarks) == [
        "relation between concepts left out, since a concept has no mention",
        "relation between concepts left out, since both concepts have only the same mention",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\t0\t2\tAC\tX\ta", "line 4: found the text 'AC'; expected 'AB', as the offsets say"),
        ("1\t0\t200\tAB\tX\ta", "found the characters [0, 200); expected start < end <= 2"),
        ("1\t2\t2\tAB\tX\ta", "found the characters [2, 2); expected start < end <= 2"),
        (f"1\t0\t{'9' * 5000}\tAB\tX\ta", "expected start < end <= 2"),
        ("1\t0\t2\tAB\t\ta", "found a mention without a type"),
        ("1\t0\t2\tAB", "found an article"),
        ("1\tCID\ta", "found 3 columns in '1 CID a'; expected PMID, start, end, text, type and concept"),
        ("1\tCID\ta\t", "found an empty column"),
        ("2\tCID\ta\tb", 'expected a line that begins with "1", and an empty line between articles'),
        ("1|a|again", "found |a| again; expected one title and one abstract in an article"),
        ("nothing", "found 'nothing'; expected a line that begins with \"1\""),
    ],
)
def test_pubtator_reports_the_line_that_is_wrong(read_as: ReadAs, line: str, message: str) -> None:
    good = "0|t|A\n\n"
    documents, problems = read_as("pubtator", f"{good}1|t|AB\n1|a|\n{line}\n\n2|t|B\n")
    if message == "found an article":  # four columns are a relation, whose concepts are none of the article's
        assert len(documents) == 3
        return
    assert [document.id for document in documents] == ["0", "2"]
    (problem,) = problems.kept
    assert (problem.line, problem.record) == (3, 2)
    assert message.removeprefix("line 4: ") in str(problem)


def test_pubtator_reports_an_article_without_a_title_and_one_that_stands_twice(read_as: ReadAs) -> None:
    documents, problems = read_as("pubtator", "1\t0\t2\tAB\tX\n\n1|t|A\n\n1|t|B\n")
    assert [document.text for document in documents] == ["A"]
    assert "expected PMID|t|TITLE, the first line of an article" in str(problems.kept[0])
    assert 'found the id "1" again (first on line 3)' in str(problems.kept[1])


def test_pubtator_is_read_compressed_and_a_damaged_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "cdr.pubtator.gz"
    path.write_bytes(gzip.compress(CDR.encode()))
    (part,) = open_corpus(path).parts
    assert part.format is FORMAT
    problems = Problems()
    assert list(part.read(problems)) == [DOCUMENT]
    path.write_bytes(path.read_bytes()[:-20])
    list(part.read(problems))
    assert "found a damaged gzip file" in str(problems.kept[-1])


def test_pubtator_reports_a_gzip_file_with_other_bytes_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "cdr.pubtator.gz"
    packed = bytearray(gzip.compress(CDR.encode()))
    packed[12:40] = b"\xff" * 28
    path.write_bytes(packed)
    assert not FORMAT.recognise(path)
    problems = Problems()
    assert not list(FORMAT.read(path, problems))
    assert "found a damaged gzip file" in str(problems.kept[-1])


def test_pubtator_reports_a_line_that_is_too_long(read_as: ReadAs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relatum.data.formats.pubtator.reading.MAX_RECORD", 30)
    documents, problems = read_as("pubtator", "1|t|A\n\n2|t|" + "x" * 50)
    assert [document.id for document in documents] == ["1"]
    assert "found a line of more than 30 bytes" in str(problems.kept[0])


@pytest.mark.parametrize("content", [b"\xff\xfe1\x00", b"1|t|\xff\n"])
def test_pubtator_reports_other_encodings(read_as: ReadAs, content: bytes) -> None:
    documents, problems = read_as("pubtator", content)
    assert not documents
    assert "UTF-" in str(problems.kept[0])


def test_pubtator_writes_what_it_read(tmp_path: Path, read_as: ReadAs) -> None:
    FORMAT.write(tmp_path / "a.pubtator", [DOCUMENT])
    written = (tmp_path / "a.pubtator").read_text(encoding="utf-8")
    assert written == CDR.replace("\tliver failure|renal failure", "").replace("-1", "-")
    assert read_as("pubtator", written)[0] == [DOCUMENT]


def test_pubtator_files_are_read_alike_by_the_library_bioc(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "a.pubtator", [DOCUMENT])
    with (tmp_path / "a.pubtator").open(encoding="utf-8") as file:
        (article,) = bioc.pubtator.load(file)
    assert article.text == TEXT
    assert [(a.start, a.end, a.text, a.type) for a in article.annotations] == [
        (*entity.span, entity.span.of(TEXT), entity.label) for entity in DOCUMENT.annotation.entities
    ]
    assert [(r.type, r.id1, r.id2) for r in article.relations] == [
        ("CID", "D009270", "D051437"),
        ("Association", "D009270", "D003000"),
    ]


def test_pubtator_gives_mentions_without_concept_one_of_their_own(tmp_path: Path, read_as: ReadAs) -> None:
    document = replace(DOCUMENT, attributes=(), annotation=Annotation(DOCUMENT.annotation.entities, (CID,)))
    FORMAT.write(tmp_path / "a.pubtator", [document])
    written = (tmp_path / "a.pubtator").read_text(encoding="utf-8")
    assert written.count("mention:") == 4
    assert read_as("pubtator", written)[0] == [document]


def test_pubtator_refuses_relations_that_its_concepts_would_change() -> None:
    other = Relation(FIRST, FAILURE, "CID")
    with pytest.raises(BadRecord, match="which is not the one that PubTator would have between their concepts"):
        FORMAT.check(
            replace(DOCUMENT, annotation=replace(DOCUMENT.annotation, relations=(other,)), attributes=ATTRIBUTES[:4])
        )  # type: ignore[misc]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (Document("a|b", "x"), "an id without |"),
        (Document("a", "x", Annotation((Entity(Span(0, 1), "X\tY"),))), "labels and concepts that are not empty"),
        (Document("a", "x", Annotation((m := Entity(Span(0, 1), "X"),)), attributes=(Attribute(m, "concept"),)), "id"),
    ],
)
def test_pubtator_refuses_what_its_lines_cannot_hold(document: Document, message: str) -> None:
    with pytest.raises(BadRecord) as error:
        FORMAT.check(document)  # type: ignore[misc]
    assert message in error.value.expected


def test_texts_of_several_lines_get_spaces_for_the_lines_that_pubtator_cannot_hold() -> None:
    said: list[tuple[str, int]] = []
    fitted = fit(Document("a", "x\ny\r\nz\n"), FORMAT, make_splitter(), Policy(), lambda *what: said.append(what))
    assert fitted.text == "x\ny  z "
    assert ("texts with line breaks written as spaces, which PubTator cannot hold", 1) in said


# Counts in the table of docs/data.md.
@pytest.mark.parametrize(
    ("name", "n_documents", "n_mentions", "n_relations"),
    [
        ("cdr-training", 1000, 18976, 3453),
        ("cdr-test", 500, 9809, 1779),
        ("biored-train", 400, 13351, 6539),
        ("biored-dev", 100, 3533, 1791),
        ("biored-test", 100, 3535, 1690),
    ],
)
@pytest.mark.slow
def test_published_corpora_are_read_whole_and_written_again(
    shared_data: Path, tmp_path: Path, name: str, n_documents: int, n_mentions: int, n_relations: int
) -> None:
    path = shared_data / "extra" / f"{name}.pubtator.gz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    problems = Problems()
    documents = list(FORMAT.read(path, problems))
    problems.raise_if_any()
    assert not any("left out, since" in remark for remark in problems.remarks)
    assert len(documents) == n_documents
    assert sum(len(document.annotation.entities) for document in documents) == n_mentions
    assert sum(len(document.annotation.relations) for document in documents) == n_relations
    FORMAT.write(tmp_path / "again.pubtator", documents)
    again = list(FORMAT.read(tmp_path / "again.pubtator", problems))
    assert list(map(parts, again)) == list(map(parts, documents))


def parts(document: Document) -> tuple[str, tuple[Entity, ...], set[Relation], set[Attribute]]:
    return document.text, document.annotation.entities, set(document.annotation.relations), set(document.attributes)
