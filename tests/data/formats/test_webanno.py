from __future__ import annotations

from pathlib import Path

import pytest

from relatum.data.corpus import open_corpus
from relatum.data.formats.webanno import FORMAT
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.types import Annotation, Document, Entity, Relation, Span

# As INCEpTION exports it: parts of speech, a stacked annotation, a relation over several words, a part of a word.
TSV = r"""#FORMAT=WebAnno TSV 3.3
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|PosValue|coarseValue
#T_SP=webanno.custom.Part|kind
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value
#T_RL=webanno.custom.Role|label|BT_de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity


#Text=🙂 Mara Ilves runs Tarn_Bank.
1-1	0-2	🙂	_	_	_	_	_	_	_
1-2	3-7	Mara	NNP	*	_	Q1[1]	PER[1]	_	_
1-3	8-13	Ilves	NNP	*	_	Q1[1]	PER[1]	_	_
1-4	14-18	runs	VBZ	*	_	_	_	_	_
1-5	19-28	Tarn\_Bank	NNP	*	_	*[2]|*[3]	ORG[2]|a\|b[3]	Runs|Owns\_all	1-2[1_2]|1-2[1_3]
1-5.1	19-23	Tarn	_	_	name	*	LOC	*	1-5[2_0]
1-6	28-29	.	.	*	_	_	_	_	_

#Text=It is in Oldhaven
2-1	30-32	It	_	_	_	_	_	_	_
2-2	33-35	is	_	_	_	_	_	_	_
2-3	36-38	in	_	_	_	_	_	_	_
2-4	39-47	Oldhaven	_	_	_	*	*	In	1-5.1
"""
TSV = "\n".join(line + "\t" if line[:1].isdigit() else line for line in TSV.split("\n"))
TEXT = "🙂 Mara Ilves runs Tarn_Bank.\nIt is in Oldhaven"
MARA, BANK, NAME, TARN, OLDHAVEN = (
    Entity(Span(start, end), label)
    for start, end, label in (
        (2, 12, "PER"),
        (18, 27, "ORG"),
        (18, 27, "a|b"),
        (18, 22, "LOC"),
        (38, 46, "NamedEntity"),
    )
)
RELATIONS = (
    Relation(MARA, BANK, "Runs"),
    Relation(MARA, NAME, "Owns_all"),
    Relation(BANK, TARN, "Role"),
    Relation(TARN, OLDHAVEN, "In"),
)


def read(folder: Path, content: str, name: str = "a.tsv") -> tuple[list[Document], Problems]:
    (folder / name).write_bytes(content.encode())
    problems = Problems()
    return list(FORMAT.read(folder, problems)), problems


def test_webanno_reads_stacked_long_and_partial_annotations_and_their_relations(tmp_path: Path) -> None:
    (document,), problems = read(tmp_path, TSV)
    assert document.id == "a"
    assert document.text == TEXT
    assert set(document.annotation.entities) == {MARA, BANK, NAME, TARN, OLDHAVEN}
    assert document.annotation.relations == RELATIONS
    assert document.words is not None
    assert [word.of(TEXT) for word in document.words] == [
        *("🙂", "Mara", "Ilves", "runs", "Tarn_Bank", "."),
        *("It", "is", "in", "Oldhaven"),
    ]
    assert document.sentences == (Span(0, 6), Span(6, 10))
    assert not problems.count
    assert [line.partition(" (first")[0] for line in problems.remark_lines()] == [
        "5 × rows with annotations of the layer de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS, which is not "
        "read",
        "1 × rows with annotations of the layer webanno.custom.Part, which is not read",
        "2 × values of features of de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity that are not read",
    ]


def test_webanno_takes_the_layer_that_relations_refer_to(tmp_path: Path) -> None:
    content = TSV.replace("BT_de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity", "BT_webanno.custom.Part")
    content = "\n".join(line for line in content.split("\n") if not line.startswith(("1-5\t", "2-4")))
    (document,), problems = read(tmp_path, content.replace("*\t1-5[2_0]", "_\t_"))
    assert document.annotation.entities == (Entity(Span(18, 22), "name"),)
    assert any("NamedEntity, which is not read" in remark for remark in problems.remarks)


@pytest.mark.parametrize("name", ["annotation/one.txt/admin.tsv", "b.tsv"])
def test_webanno_is_recognised_in_folders_and_single_files(tmp_path: Path, name: str) -> None:
    file = tmp_path / "corpus" / name
    file.parent.mkdir(parents=True)
    file.write_text(TSV, encoding="utf-8")
    for path in (tmp_path / "corpus", file):
        corpus = open_corpus(path)
        assert corpus.format_names == "webanno"
        (document,) = corpus.parts[0].read(Problems())
        assert name.endswith(document.id + ".tsv")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("TSV 3.3", "TSV 2", 'a.tsv:1: found "#FORMAT=WebAnno TSV 2"'),
        ("#T_SP=webanno", "#T_XX=webanno", "expected #T_SP=, #T_RL= or #T_CH="),
        ("BT_de", "de", "expected a relation layer that ends in BT_"),
        ("1-4\t14-18", "1-4\t15-18", "found the word 'runs'; expected 'uns', as the offsets say"),
        ("1-4\t14-18", "1-4\t18-14", "expected a start before the end"),
        ("1-3\t8-13\tIlves", "1-3\t3-13\tMara Ilves", "expected words that do not overlap"),
        ("1-4\t14-18", "1-4\t14-99", "found the offsets 14-99; expected at most 29"),
        ("1-1\t0-2", "1-1\t0-1", "expected UTF-16 offsets that do not cut a character in two"),
        ("1-1\t0-2", "1-1\t99999999-100000001", "expected the first word of the text of its sentence"),
        ("Ilves\tNNP", "Ilves", "expected 10 columns"),
        ("PER[1]\t_\t_\t\n1-4", "ORG[1]\t_\t_\t\n1-4", 'a.tsv:11: found "ORG" with the number 1; expected "PER"'),
        ("1-2[1_2]", "1-9[1_2]", "found a relation with 1-9[1]; expected a row with an annotation of that number"),
        ("1-2[1_2]|", "", "expected 2 relations, as there are labels"),
        ("1-2[1_2]", "?", 'found "?"; expected the row of a relation\'s head'),
        ("#Text=🙂 Mara", "#Comment=🙂 Mara", "expected #Text= and the text of its sentence before it"),
    ],
)
def test_webanno_reports_the_line_that_is_wrong(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TSV
    read(tmp_path, TSV, "b.tsv")
    documents, problems = read(tmp_path, TSV.replace(old, new))
    assert [document.id for document in documents] == ["b"]
    (problem,) = problems.kept
    assert message in str(problem)


def test_webanno_reports_a_folder_without_files(tmp_path: Path) -> None:
    problems = Problems()
    assert list(FORMAT.read(tmp_path, problems)) == []
    assert "found no .tsv file" in str(problems.kept[0])


WORDS = tuple(Span(start, end) for start, end in ((0, 1), (2, 6), (7, 12), (13, 17), (18, 27), (27, 28), (29, 31)))
DOCUMENT = Document(
    "one/a:b",
    TEXT[:31],
    Annotation((MARA, BANK, NAME), RELATIONS[:2]),
    WORDS,
    (Span(0, 6), Span(6, 7)),
)


def test_webanno_writes_numbers_only_where_they_are_needed(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "new", [DOCUMENT])
    written = (tmp_path / "new" / "one" / "a%3Ab.tsv").read_text(encoding="utf-8")
    assert written.split("\n")[4:] == [
        "",
        "#Text=🙂 Mara Ilves runs Tarn_Bank.",
        "1-1\t0-2\t🙂\t_\t_\t_\t_\t",
        "1-2\t3-7\tMara\t*[1]\tPER[1]\t_\t_\t",
        "1-3\t8-13\tIlves\t*[1]\tPER[1]\t_\t_\t",
        "1-4\t14-18\truns\t_\t_\t_\t_\t",
        "1-5\t19-28\tTarn\\_Bank\t*[2]|*[3]\tORG[2]|a\\|b[3]\tRuns|Owns\\_all\t1-2[1_2]|1-2[1_3]\t",
        "1-6\t28-29\t.\t_\t_\t_\t_\t",
        "",
        "#Text=It",
        "2-1\t30-32\tIt\t_\t_\t_\t_\t",
        "",
    ]
    problems = Problems()
    assert list(FORMAT.read(tmp_path / "new", problems)) == [DOCUMENT]
    assert not problems.remarks


def test_webanno_refuses_texts_that_it_would_change() -> None:
    with pytest.raises(BadRecord, match="outside of words"):
        FORMAT.check(Document("a", "  ", words=(), sentences=()))  # type: ignore[misc]
