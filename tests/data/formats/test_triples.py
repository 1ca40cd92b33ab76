from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from relatum.data.corpus import open_corpus
from relatum.data.formats.triples import FORMAT
from relatum.data.problems import Problems
from relatum.types import Annotation, Document, Entity, Relation, Span

ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]

TEXT = 'Mara Ilves runs "Tarn", and Ivo\r\nruns Tarnow.'
MARA, TARN, IVO = Entity(Span(0, 10), "Peop"), Entity(Span(17, 21), "Org"), Entity(Span(28, 31), "Peop")
DOCUMENT = Document("a", TEXT, Annotation((IVO, MARA, TARN), (Relation(MARA, TARN, "Runs"),)))


def test_triples_are_written_with_offsets_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    documents = [DOCUMENT, Document("b", ""), Document("c", "Nothing.")]
    FORMAT.write(path, documents)
    assert path.read_bytes().decode().split("\r\n")[0] == (
        "document,text,head,head_type,head_start,head_end,relation,tail,tail_type,tail_start,tail_end"
    )
    problems = Problems()
    assert list(FORMAT.read(path, problems)) == documents
    assert not problems.remarks
    assert not problems.count
    assert open_corpus(path).format_names == "triples"


def test_triples_have_columns_of_other_names_and_separators(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    header = "Subject\tSubject Type\tPredicate\tObject\tobject-type\tSentence\tdoc_id\tnote"
    path.write_text(f"{header}\nMara\tPeop\tRuns\tTarn\tOrg\tMara runs Tarn.\t7\tx\n", encoding="utf-8")
    corpus = open_corpus(path)
    assert corpus.format_names == "triples"
    problems = Problems()
    (document,) = corpus.parts[0].read(problems)
    head, tail = Entity(Span(0, 4), "Peop"), Entity(Span(10, 14), "Org")
    assert document == Document("7", "Mara runs Tarn.", Annotation((head, tail), (Relation(head, tail, "Runs"),)))
    assert problems.remark_lines()[0].startswith("1 × columns that are not read, such as 'note'")


def test_triples_without_offsets_are_found_only_if_there_is_one_place(read_as: ReadAs) -> None:
    rows = "text,head,relation,tail\nTarn and Tarnow,Tarn,R,Tarnow\nTarn and Tarn,Tarn,R,and\nTarn,Tarn,R,Ivo\n"
    documents, problems = read_as("triples", rows)
    assert [document.id for document in documents] == ["data-1", "data-2", "data-3"]
    assert [len(document.annotation.relations) for document in documents] == [1, 0, 0]
    assert documents[0].annotation.entities == (Entity(Span(0, 4), "Entity"), Entity(Span(9, 15), "Entity"))
    assert {remark: times for remark, times in problems.remarks.items() if "read as Entity" not in remark} == {
        "name without offsets left out, as it has more places in the text than mentions": 1,
        "name without offsets left out, as it has too few places in the text": 1,
        "row left out, as the place of its head or tail is not clear": 2,
    }


def test_further_texts_of_a_document_are_documents_of_their_own(read_as: ReadAs) -> None:
    rows = "id,text,head,relation,tail\na,A B,A,R,B\na,A B,B,R,A\na,C D,C,R,D\n"
    documents, problems = read_as("triples", rows)
    assert [(document.id, len(document.annotation.relations)) for document in documents] == [("a", 2), ("a-2", 1)]
    assert problems.remarks["further text of a document, read as a document of its own"] == 1


HEADER = "text,head,head_type,head_start,head_end,relation,tail,tail_type,tail_start,tail_end"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,head,relation\nA,A,R\n", "data:1: found no column tail; expected a header with the columns"),
        (f"{HEADER}\nA B,A,X,0,1,R\n", "data:2: found 6 cells; expected 10, as in the header"),
        (f"{HEADER}\nA B,A,X,0,9,R,B,X,2,3\n", "expected 0 <= start < end <= 3, in characters"),
        (f"{HEADER}\nA B,A,X,0,x,R,B,X,2,3\n", "expected whole numbers in head_start and head_end"),
        (f"{HEADER}\nA B,C,X,0,1,R,B,X,2,3\n", "found \"C\"; expected 'A', as the offsets say"),
        (f"{HEADER}\nA B,A,X,0,1,R,,,,\n", "found a row that lacks one of them"),
        (f'{HEADER}\n"A B', "an error in the table"),
        (b"text,head,relation,tail\n\xff,,,\n", "found the byte 0xFF, which is not UTF-8"),
        (b"\xff\xfea\x00", "UTF-16"),
    ],
)
def test_triples_report_what_is_wrong(read_as: ReadAs, content: str | bytes, message: str) -> None:
    documents, problems = read_as("triples", content)
    assert not documents
    assert message in str(problems.kept[0])
