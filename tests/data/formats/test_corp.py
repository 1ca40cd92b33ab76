import codecs
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.conversion import convert_corpus
from relatum.data.corpus import open_corpus
from relatum.data.documents import from_words
from relatum.data.fitting import Policy, overlapping
from relatum.data.formats import jsonl, scierc, table_sequence
from relatum.data.formats.corp import FORMAT
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import make_splitter
from relatum.errors import DataError, FormatError
from relatum.types import Annotation, Document, Entity, Relation, Span

TEXT = """\
7\tLoc\t0\tO\tNNP/NNP\tPort/Ellery\tO\tO\tO
7\tO\t1\tO\t,\tCOMMA\tO\tO\tO
7\tOther\t2\tO\tNNP/CD/,/CD\tMay/3/COMMA/1987\tO\tO\tO
7\tO\t3\tO\t-LRB-\t-LRB-\tO\tO\tO
7\tOrg\t4\tO\tNNP\tQNA\tO\tO\tO
7\tO\t5\tO\t-RRB-\t-RRB-\tO\tO\tO

4\t0\tOrgBased_In

8\tO\t0\tO\tPRP\tShe\tO\tO\tO
8\tO\t1\tO\tVBD\trowed\tO\tO\tO


9\tPeop\t0\tO\tNNP\tOda\tO\tO\tO
9\tO\t1\tO\tCC\tand/or\tO\tO\tO
9\tPeop\t2\tO\tNNP\tIvo\tO\tO\tO
9\tO\t3\tO\t,\t,\tO\tO\tO

0\t2\tKill
2\t0\tKill

"""


LOC = Entity(Span(0, 1), "Loc")


def read(path: Path) -> tuple[list[Document], Problems]:
    problems = Problems()
    return list(FORMAT.read(path, problems)), problems


def read_text(tmp_path: Path, text: str | bytes) -> tuple[list[Document], Problems]:
    path = tmp_path / "data.corp"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path)


def through(path: Path, *documents: Document) -> list[Document]:
    assert FORMAT.check is not None
    for one in documents:
        FORMAT.check(one)
    FORMAT.write(path, documents)
    found, problems = read(path)
    problems.raise_if_any()
    assert not problems.remarks
    return found


def words_of(document: Document) -> list[str]:
    return [word.of(document.text) for word in document.words or ()]


def document(words: str, *entities: tuple[int, int, str], id: str = "1", pos: str | None = None) -> Document:
    found = tuple(Entity(Span(start, end), label) for start, end, label in entities)
    return from_words(id, [words.split()], Annotation(found), metadata={"pos": pos.split()} if pos else None)


def test_read_gives_words_entities_and_relations(tmp_path: Path) -> None:
    documents, problems = read_text(tmp_path, TEXT)
    assert (problems.count, problems.remarks) == (0, {})
    assert [d.id for d in documents] == ["7", "8", "9"]
    first = documents[0]
    assert first.text == "Port Ellery , May 3 , 1987 ( QNA )"
    port, day, agency = first.annotation.entities
    assert [e.span.of(first.text) for e in (port, day, agency)] == ["Port Ellery", "May 3 , 1987", "QNA"]
    assert [e.label for e in (port, day, agency)] == ["Loc", "Other", "Org"]
    assert first.annotation.relations == (Relation(agency, port, "OrgBased_In"),)
    assert first.metadata == {"pos": ["NNP", "NNP", ",", "NNP", "CD", ",", "CD", "-LRB-", "NNP", "-RRB-"]}
    assert documents[1].annotation == Annotation()


def test_read_keeps_order_and_direction_of_relations(tmp_path: Path) -> None:
    last = read_text(tmp_path, TEXT)[0][2]
    oda, ivo = last.annotation.entities
    assert last.annotation.relations == (Relation(oda, ivo, "Kill"), Relation(ivo, oda, "Kill"))
    assert words_of(last) == ["Oda", "and/or", "Ivo", ","]


def test_read_needs_no_empty_line_at_the_end(tmp_path: Path) -> None:
    assert read_text(tmp_path, TEXT.rstrip("\n"))[0] == read_text(tmp_path, TEXT)[0]


def test_read_takes_bom_crlf_and_single_empty_lines(tmp_path: Path) -> None:
    expected = read_text(tmp_path, TEXT)[0]
    assert read_text(tmp_path, b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())[0] == expected
    assert read_text(tmp_path, TEXT.replace("\n\n\n", "\n\n"))[0] == expected
    assert read_text(tmp_path, "\n\n" + TEXT)[0] == expected


@pytest.mark.parametrize(
    ("tags", "joined", "words"),
    [
        ("NNP/NNP", "New/York", ["New", "York"]),
        ("NNP", "AP/UPI", ["AP/UPI"]),
        ("_", "New/York", ["New", "York"]),
        ("_/_", r"AP\/UPI/wire", ["AP/UPI", "wire"]),
        ("NN", r"\COMMA", ["COMMA"]),
        ("NN/NN", r"\-LRB-/\\", ["-LRB-", "\\"]),
        ("NN", r"C:\dir", [r"C:\dir"]),
        ("NN", "-LCB-", ["-LCB-"]),
    ],
)
def test_read_splits_an_entity_row(tmp_path: Path, tags: str, joined: str, words: list[str]) -> None:
    documents, problems = read_text(tmp_path, f"1\tOrg\t0\tO\t{tags}\t{joined}\tO\tO\tO\n")
    assert words_of(documents[0]) == words
    assert documents[0].annotation.entities == (Entity(Span(0, len(documents[0].text)), "Org"),)
    assert (problems.count, problems.remarks) == (0, {})


def test_read_leaves_out_tags_that_do_not_match_the_words_and_says_so(tmp_path: Path) -> None:
    documents, problems = read_text(tmp_path, "1\tOrg\t0\tO\tNN/NN\ta/b/c\tO\tO\tO\n1\tO\t1\tO\tIN\tof\tO\tO\tO\n")
    assert words_of(documents[0]) == ["a", "b", "c", "of"]
    assert documents[0].metadata == {"pos": ["_", "_", "_", "IN"]}
    assert sum(problems.remarks.values()) == 1


def test_read_remarks_on_columns_that_it_does_not_read(tmp_path: Path) -> None:
    documents, problems = read_text(tmp_path, "1\tO\t0\tO\tNN\tsea\tO\tX\tO\n")
    assert len(documents) == 1
    assert list(problems.remarks.values()) == [1]
    assert next(iter(problems.places.values())).endswith("data.corp:1")


GOOD = "1\tPeop\t0\tO\tNNP\tOda\tO\tO\tO\n1\tO\t1\tO\tVBD\trowed\tO\tO\tO\n"


@pytest.mark.parametrize(
    ("text", "line", "found", "expected"),
    [
        (GOOD.replace("Oda\tO", "Oda"), 1, "8 columns", "9 columns"),
        ("Oda rowed\n", 1, "one column", "9 columns"),
        (GOOD.replace("1\tO\t1", "2\tO\t1"), 2, 'sentence number "2"', '"1"'),
        (GOOD.replace("1\tPeop", "\tPeop"), 1, 'sentence number ""', "a number"),
        (GOOD.replace("Peop", ""), 1, "no entity type", "an entity type"),
        (GOOD.replace("O\t1\tO", "O\t-1\tO"), 2, '"-1"', "a row number"),
        (GOOD.replace("O\t1\tO", "O\t٣\tO"), 2, "u0663", "a row number"),
        (GOOD.replace("O\t1\tO", "O\t" + "9" * 5000 + "\tO"), 2, "999", "a row number"),
        (GOOD.replace("O\t1\tO", "O\t0\tO"), 2, "row 0 again", "differ"),
        (GOOD.replace("rowed", ""), 2, "an empty word", "words"),
        (GOOD.replace("VBD", ""), 2, "an empty part-of-speech tag", "tags"),
        (GOOD.replace("NNP\tOda", "NNP/NNP\tOda/"), 1, "an empty word", "words"),
        (GOOD + "\n0\t1\tKill\n", 4, "row 1, which is no entity", "the row of an entity"),
        (GOOD + "\n0\t5\tKill\n", 4, "row 5, which is no entity", "the row of an entity"),
        (GOOD + "\n0\tx\tKill\n", 4, '"x"', "a row number"),
        (GOOD + "\n0\t0\t\n", 4, "no relation type", "type"),
        (GOOD + "\n0\t0\n", 4, "2 columns", "3 columns"),
        (GOOD + "0\t0\tKill\n", 3, "3 columns", "9 columns"),
        (GOOD + "\n\n" + GOOD, 5, 'sentence number "1" again (first on line 1)', "differ"),
        (GOOD.encode().replace(b"Oda", b"Od\xe9"), 1, "byte 0xE9", "UTF-8"),
        (GOOD.encode("utf-16"), None, "UTF-16", "UTF-8"),
    ],
)
def test_bad_lines_are_problems_with_their_place(
    tmp_path: Path, text: str | bytes, line: int | None, found: str, expected: str
) -> None:
    problems = read_text(tmp_path, text)[1]
    assert problems.count == 1
    problem = problems.kept[0]
    assert problem.line == line
    assert found in problem.found
    assert expected in problem.expected


def test_a_bad_sentence_does_not_take_others_with_it(tmp_path: Path) -> None:
    documents, problems = read_text(tmp_path, TEXT.replace("8\tO\t1", "8\tO"))
    assert [d.id for d in documents] == ["7", "9"]
    assert [problem.record for problem in problems.kept] == [2]
    documents, problems = read_text(tmp_path, TEXT.replace("4\t0\tOrgBased_In", "4\t1\tOrgBased_In"))
    assert [d.id for d in documents] == ["8", "9"]


def test_write_gives_back_the_published_form(tmp_path: Path) -> None:
    documents = read_text(tmp_path, TEXT)[0]
    FORMAT.write(tmp_path / "again.corp", documents)
    # The published file has COMMA in most places, and in some the comma itself.
    assert (tmp_path / "again.corp").read_text(encoding="utf-8") == TEXT.replace("\t,\t,\t", "\t,\tCOMMA\t")


def test_write_marks_missing_tags(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "a.corp", [document("Oda Lind rowed", (0, 2, "Peop"))])
    assert (tmp_path / "a.corp").read_text().splitlines()[:2] == [
        "1\tPeop\t0\tO\t_/_\tOda/Lind\tO\tO\tO",
        "1\tO\t1\tO\t_\trowed\tO\tO\tO",
    ]
    assert read(tmp_path / "a.corp")[0][0].metadata == {}


@pytest.mark.parametrize("pos", [["NN"], "NN NN", ["NN", 3], None])
def test_write_passes_over_metadata_that_is_not_tags(tmp_path: Path, pos: object) -> None:
    assert through(tmp_path / "a.corp", replace(document("a b"), metadata={"pos": pos})) == [document("a b")]


def test_write_makes_each_sentence_a_block_with_its_tags(tmp_path: Path) -> None:
    whole = from_words(
        "d", [["a", "b"], ["c"]], Annotation((Entity(Span(2, 3), "X"),)), metadata={"pos": ["1", "2", "3"]}
    )
    first, second = through(tmp_path / "a.corp", whole)
    assert (first.id, first.text, first.metadata) == ("d#1", "a b", {"pos": ["1", "2"]})
    assert (second.id, second.annotation.entities, second.metadata) == (
        "d#2",
        (Entity(Span(0, 1), "X"),),
        {"pos": ["3"]},
    )


def test_write_protects_words_that_would_be_misread(tmp_path: Path) -> None:
    odd = r"COMMA -LRB- -RRB- , ( ) / and/or \ \/ \\ a\/b \COMMA \\COMMA // O _"
    size = len(odd.split())
    for entities in ((), ((0, size, "X"),), tuple((i, i + 1, "X") for i in range(size))):
        before = document(odd, *entities)
        assert through(tmp_path / "a.corp", before) == [before]
        tagged = replace(before, metadata={"pos": ["T"] * size})
        assert through(tmp_path / "a.corp", tagged) == [tagged]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (from_words("1", [["New York"]], Annotation()), "word 1: .* 'New York'"),
        (from_words("1", [["a", "b\tc"]], Annotation()), "document '1', word 2"),
        (from_words("1", [["a"], ["b", "c d"]], Annotation()), "document '1', word 3"),
        (document("a", (0, 1, "O")), "entity 'a': .* entity type 'O'"),
        (document("a", (0, 1, "")), "entity type ''"),
        (document("a", (0, 1, "X\tY")), "entity type"),
        (document("a b", (0, 2, "X"), (1, 2, "Y")), "entity 'b': found an entity that overlaps another"),
        (document("a", (0, 1, "X"), (0, 1, "X")), "entity 'a': .* stands twice"),
        (document("a", id="1\t2"), "id '1\\\\t2'"),
        (document("a", id=""), "id ''"),
        (document("a", id="\ufeff1"), "id '.ufeff1'"),
        (document("a b", (0, 2, "X"), pos="N/N V"), "part-of-speech tag of an entity 'N/N'"),
        (replace(document("a"), metadata={"pos": ["N V"]}), "part-of-speech tag 'N V'"),
        (replace(document("a"), metadata={"pos": [""]}), "part-of-speech tag ''"),
        (document("a\ud800"), "not valid Unicode"),
        (
            from_words("1", [["a"]], Annotation((LOC,), (Relation(LOC, LOC, "R\tS"),))),
            r"document '1', relations: found the relation type 'R\\tS'",
        ),
    ],
)
def test_what_the_columns_cannot_hold_is_refused(tmp_path: Path, bad: Document, message: str) -> None:
    assert FORMAT.check is not None
    with pytest.raises(BadRecord) as caught:
        FORMAT.check(bad)
    with pytest.raises(FormatError, match=message) as error:
        FORMAT.write(tmp_path / "a.corp", [bad])
    assert str(error.value) == f"document {bad.id!r}, {caught.value}"


def test_convert_reports_every_document_that_the_columns_cannot_hold_or_skips_them(tmp_path: Path) -> None:
    source, target = tmp_path / "source.jsonl", tmp_path / "target.corp"
    jsonl.FORMAT.write(
        source,
        [
            document("New York", (0, 2, "O"), id="a"),
            document("New York", (0, 2, "Loc"), id="b"),
            from_words("c", [["In", "New York"]], Annotation()),
        ],
    )
    corpus, splitter = open_corpus(source), make_splitter("rules", "rules")
    with pytest.raises(DataError) as caught:
        convert_corpus(corpus, target, FORMAT, splitter, Policy())
    assert [(p.path, p.field, p.found, p.expected) for p in caught.value.problems] == [
        (
            str(source),
            "document 'a', entity 'New York'",
            "the entity type 'O'",
            "one that is not empty and has no tab or line break, and is not O",
        ),
        (
            str(source),
            "document 'c', word 2",
            "the word 'New York'",
            "one that is not empty and has no white space",
        ),
    ]
    assert not target.exists()
    done = convert_corpus(corpus, target, FORMAT, splitter, Policy(), on_error="skip")
    assert (done.documents, done.problems.count) == ({"source": 1}, 2)
    assert [found.id for found in read(target)[0]] == ["b"]


def test_recognise_knows_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text, expected in (
        (TEXT, True),
        ("\ufeff\r\n" + TEXT, True),
        ("a\tb\tc\td\te\tf\tg\th\ti\n", False),
        ('{"words": ["a"]}\n', False),
        ("", False),
        ("\t" * 8 + "\n", False),
    ):
        path.write_text(text, encoding="utf-8")
        assert FORMAT.recognise(path) is expected, text
    path.write_bytes(random.Random(1).randbytes(100_000))
    assert not FORMAT.recognise(path)
    assert not FORMAT.recognise(tmp_path)
    assert not FORMAT.recognise(tmp_path / "absent")


WORDS = st.text(st.sampled_from("aB,/\\()'-_é漢\u00a0\u2028\x85"), min_size=1, max_size=4)
ODD_WORDS = st.sampled_from(["COMMA", "-LRB-", "-RRB-", ",", "(", ")", "/", "\\", "\\COMMA", "O"])
LABELS = st.sampled_from(["Peop", "Org", "Live_In", "a/b", "x y", "\\"])
TAGS = st.sampled_from(["NN", ",", "-LRB-", "_", "``", "O"])


@st.composite
def sentences(draw: st.DrawFn) -> Document:
    words = draw(st.lists(WORDS | ODD_WORDS, min_size=1, max_size=12))
    borders = sorted(draw(st.sets(st.integers(0, len(words)), max_size=8)))
    entities = [Entity(Span(start, end), draw(LABELS)) for start, end in zip(borders[::2], borders[1::2], strict=False)]
    pairs = (
        draw(st.lists(st.tuples(st.sampled_from(entities), st.sampled_from(entities), LABELS), max_size=5))
        if entities
        else []
    )
    relations = tuple(Relation(head, tail, label) for head, tail, label in pairs)
    tags = draw(st.lists(TAGS, min_size=len(words), max_size=len(words)))
    metadata = {} if set(tags) == {"_"} else {"pos": tags}
    return from_words(
        draw(st.sampled_from(["0", "17", "a b", "d#1"])),
        [words],
        Annotation(tuple(entities), relations),
        metadata=metadata,
    )


@given(sentences())
def test_sentences_come_back_as_they_were(sentence: Document) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert through(Path(folder) / "a.corp", sentence) == [sentence]


@given(st.binary(max_size=300) | st.text(st.sampled_from("01O/\\\t\n\r X"), max_size=200).map(str.encode))
def test_arbitrary_bytes_give_documents_or_problems(data: bytes) -> None:
    check_readable(data)


@given(st.integers(0, len(TEXT)), st.integers(0, 12), st.binary(max_size=6))
def test_damaged_files_give_documents_or_problems(at: int, removed: int, added: bytes) -> None:
    data = TEXT.encode()
    check_readable(data[:at] + added + data[at + removed :])
    check_readable(data[:at])


def check_readable(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.corp"
        path.write_bytes(data)
        FORMAT.recognise(path)
        documents, problems = read(path)
        assert documents or problems.count or not data.removeprefix(codecs.BOM_UTF8).strip()
        for found in documents:
            assert all(span.of(found.text) for span in found.words or ())


def test_a_long_line_is_a_problem(tmp_path: Path) -> None:
    assert read_text(tmp_path, "x" * 1_000_000)[1].count == 1


def in_order(found: Document) -> Document:
    """The document as rows can tell it: entities in the order of the text, no metadata, and no clusters."""
    entities = tuple(sorted(found.annotation.entities, key=lambda entity: entity.span))
    return replace(found, annotation=replace(found.annotation, entities=entities), metadata={}, clusters=())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conll04/train.json", "conll04/dev.json", "conll04/test.json", "ade/all.jsonl"])
def test_published_sentences_come_back_as_they_were(shared_data: Path, tmp_path: Path, name: str) -> None:
    problems = Problems()
    before = list(table_sequence.FORMAT.read(shared_data / name, problems))
    problems.raise_if_any()
    assert through(tmp_path / "a.corp", *before) == list(map(in_order, before))


@pytest.mark.slow
def test_scierc_sentences_come_back_as_they_were(shared_data: Path, tmp_path: Path) -> None:
    problems = Problems()
    table = tmp_path / "sentences.json"
    for part in ("train", "dev", "test"):
        documents = list(scierc.FORMAT.read(shared_data / "scierc" / f"{part}.jsonl", problems))
        flat = [d for d in documents if not overlapping(d.annotation.entities)]
        assert len(flat) > len(documents) / 2
        table_sequence.FORMAT.write(table, flat)
        before = list(table_sequence.FORMAT.read(table, problems))
        assert through(tmp_path / "a.corp", *flat) == list(map(in_order, before))
    problems.raise_if_any()
