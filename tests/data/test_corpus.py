from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from relatum.data.corpus import open_corpus, read_documents
from relatum.data.formats import FORMATS, Format, Holds, get_format, guess_format
from relatum.data.problems import Problems
from relatum.errors import FormatError, RelatumError
from relatum.types import Document

JSONL = '{"id": "1", "text": "Rome"}\n'
SPERT = '[{"tokens": ["a"], "entities": [{"type": "X", "start": 0, "end": 1}], "relations": [], "orig_id": 1}]'
TABLE = '[{"tokens": ["a"], "entities": [[0, 1, "X"]], "relations": []}]'
SCIERC = '{"doc_key": "d", "sentences": [["a"]], "ner": [[]], "relations": [[]]}\n'
TYPES = json.dumps({"entities": {"X": {}}, "relations": {}}, indent=2)
FOLDS = json.dumps([{"train": [0], "dev": [], "test": [1]}] * 10)


def _fill(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("jsonl", JSONL),
        ("jsonl", '\ufeff{"words": ["a"], "sentences": [[0, 1]]}\r\n'),
        ("jsonl", '\n\n{"text": ""}\n'),
        ("jsonl", '{"id": 1, "text": "", "entites": []}\n'),
        ("jsonl", '{"text": "", "entities": [], "note": ""}\n'),
        ("spert", SPERT),
        ("spert", SPERT[1:-1] + "\n"),
        ("spert", '[{"tokens": [], "entities": [], "relations": [], "orig_id": 5}]'),
        ("table-sequence", TABLE),
        ("table-sequence", TABLE[1:-1] + "\n"),
        ("table-sequence", '[{"tokens": [], "entities": [], "relations": []}]'),
        ("scierc", SCIERC),
        ("scierc", '{"sentences": [["a"]]}'),
    ],
)
def test_guess_format_knows_a_format_by_its_content(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / "data"
    path.write_text(content, encoding="utf-8")
    found = guess_format(path)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"[]",
        b"plain text",
        b"\x00\xff\xfe",
        b"{",
        b"[" * 100_000,
        b"5",
        b"null",
        b'"text"',
        b'["text", "tokens"]',
        b"{}",
        b'{"tokens": 5}',
        b'{"id": 1, "text": "a", "spans": []}',
        b'{"text": "a", "label": ["positive"]}',
        b'{"tokens": [], "entities": null}',
        b'{"tokens": [], "entities": {}}',
        b'{"tokens": [], "entities": [1, 2]}',
        b'{"tokens": [], "entities": [[0, 1, "X"], {"type": "X"}]}',
        b"1" * 5000,
    ],
)
def test_guess_format_does_not_guess_wildly(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    assert guess_format(path) is None


@pytest.mark.parametrize("key", ["text", "words", "tokens", "sentences", "entities", "relations", "ner", "data", "id"])
@pytest.mark.parametrize("value", [None, True, 5, 0.5, "x", [], {}, [5], ["x"], [[]], [{}], {"a": 1}])
def test_guess_format_never_raises(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "data.json"
    words: dict[str, object] = {"tokens": [], "entities": [], "relations": [], "sentences": []}
    for record in (words, {"text": "", "entities": []}):
        for content in (record | {key: value}, [record | {key: value}]):
            path.write_text(json.dumps(content), encoding="utf-8")
            guess_format(path)


def test_get_format_lists_the_formats_and_the_nearest_name() -> None:
    assert get_format("jsonl").name == "jsonl"
    with pytest.raises(FormatError) as caught:
        get_format("spret")
    assert str(caught.value) == f"unknown format 'spret'; did you mean 'spert'? There are: {', '.join(FORMATS)}"
    with pytest.raises(FormatError, match=r"unknown format 'xyzzy'; there are: jsonl, "):
        get_format("xyzzy")


def test_formats_are_filed_under_their_names() -> None:
    assert all(format.name == name for name, format in FORMATS.items())
    assert {"jsonl", "spert", "table-sequence", "scierc"} <= FORMATS.keys()


def test_open_corpus_of_a_file_is_one_part_named_after_it(tmp_path: Path) -> None:
    path = _fill(tmp_path, all__jsonl=JSONL) / "all.jsonl"
    corpus = open_corpus(path)
    assert [(part.name, part.path, part.format.name) for part in corpus.parts] == [("all", path, "jsonl")]
    assert corpus.skipped == ()
    assert corpus.format_names == "jsonl"


def test_open_corpus_takes_the_named_format_whatever_the_content(tmp_path: Path) -> None:
    path = _fill(tmp_path, all__jsonl=JSONL) / "all.jsonl"
    assert open_corpus(path, "scierc").format_names == "scierc"


def test_open_corpus_of_a_folder_puts_train_dev_and_test_first(tmp_path: Path) -> None:
    _fill(tmp_path, test__json=TABLE, extra__json=TABLE, train__json=TABLE, dev__json=TABLE, about__json=TABLE)
    corpus = open_corpus(tmp_path)
    assert [part.name for part in corpus.parts] == ["train", "dev", "test", "about", "extra"]


def test_open_corpus_may_mix_formats(tmp_path: Path) -> None:
    corpus = open_corpus(_fill(tmp_path, train__json=SPERT, dev__jsonl=SCIERC, test__jsonl=JSONL))
    assert corpus.format_names == "spert, scierc, jsonl"


def test_open_corpus_says_which_files_it_left_aside_and_why(tmp_path: Path) -> None:
    _fill(tmp_path, train__json=TABLE, types__json=TYPES, folds__json=FOLDS, README__md="# About", empty__json="")
    schema = json.dumps({"entity_types": ["X"], "relation_types": []})
    _fill(tmp_path, schema__json=schema, split__json='{"train": [0], "dev": [1]}')
    _fill(tmp_path, labeling_config__xml="<View/>")
    corpus = open_corpus(tmp_path)
    assert [part.name for part in corpus.parts] == ["train"]
    assert dict(corpus.skipped) == {
        "README.md": "not annotated data in a known format",
        "empty.json": "in no format that can be guessed (none of its first records is a JSON object that can be read)",
        "folds.json": "lists of records for 10 folds, to be used with relatum split --lists",
        "labeling_config.xml": "a labelling interface of Label Studio",
        "schema.json": "a file of labels",
        "split.json": "lists of records",
        "types.json": "a file of labels",
    }


def test_open_corpus_of_a_named_format_takes_the_files_of_its_suffix(tmp_path: Path) -> None:
    _fill(tmp_path, train__json="broken", types__json=TYPES, folds__json=FOLDS, notes__jsonl=JSONL)
    corpus = open_corpus(tmp_path, "spert")
    assert [part.name for part in corpus.parts] == ["train"]
    assert {name for name, _ in corpus.skipped} == {"types.json", "folds.json", "notes.jsonl"}


def test_open_corpus_takes_a_file_of_one_record_for_data_and_not_for_labels(tmp_path: Path) -> None:
    _fill(tmp_path, train__json=TABLE, dev__json=TABLE[1:-1] + "\n")
    corpus = open_corpus(tmp_path, "table-sequence")
    assert [part.name for part in corpus.parts] == ["train", "dev"]


def test_open_corpus_does_not_take_drafts_for_parts(tmp_path: Path) -> None:
    _fill(tmp_path, train__jsonl=JSONL)
    (tmp_path / ".dev.jsonl.abc.partial").write_text(JSONL, encoding="utf-8")
    assert [part.name for part in open_corpus(tmp_path).parts] == ["train"]


def test_open_corpus_never_gives_two_parts_one_name(tmp_path: Path) -> None:
    _fill(tmp_path, train__json=TABLE, train__jsonl=JSONL)
    try:
        corpus = open_corpus(tmp_path)
    except RelatumError:
        return
    assert len({part.name for part in corpus.parts}) == 2


def test_open_corpus_says_what_is_wrong_with_a_file_it_cannot_guess(tmp_path: Path) -> None:
    _fill(tmp_path, empty__json="", text__txt="Rome", types__json=TYPES, folds__json=FOLDS)
    for name, what in {
        "empty.json": "the file is empty",
        "text.txt": "the file is in no format that can be guessed",
        "types.json": "the file is a file of labels",
        "folds.json": "the file is lists of records",
    }.items():
        with pytest.raises(FormatError) as caught:
            open_corpus(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}: {what}")
        assert "--from" in str(caught.value)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"text": "Rome", "spans": [], "source": "news"},
            'records have the keys "text", "spans", "source"; nearest are prodigy (id, text, tokens, spans, ',
        ),
        ({"token": ["Rome"], "entity": []}, '"token", "entity"; nearest are spert (tokens, entities, relations, orig'),
        ({"Satz": "Rom"}, 'records have the keys "Satz"); name its format'),
    ],
)
def test_open_corpus_says_which_keys_it_saw_and_which_formats_are_near(
    tmp_path: Path, record: dict[str, object], message: str
) -> None:
    _fill(tmp_path, data__jsonl=json.dumps(record) + "\n")
    for path in (tmp_path / "data.jsonl", tmp_path):
        with pytest.raises(FormatError) as caught:
            open_corpus(path)
        assert "in no format that can be guessed (its records have the keys " in str(caught.value)
        assert str(caught.value).endswith(f"name its format with --from: {', '.join(FORMATS)}")
        assert message.partition("; name")[0] in str(caught.value)
        assert "--from" in str(caught.value)
    with pytest.raises(FormatError, match="name its format with --from: jsonl, spert, "):
        open_corpus(tmp_path / "data.jsonl")


@pytest.mark.parametrize("content", ['{"text": "Rome"', "[]", "42", '["Rome"]', "text,label"])
def test_open_corpus_says_that_a_json_file_has_no_object(tmp_path: Path, content: str) -> None:
    _fill(tmp_path, data__json=content)
    for path in (tmp_path / "data.json", tmp_path):
        with pytest.raises(FormatError, match="none of its first records is a JSON object that can be read"):
            open_corpus(path)


def test_open_corpus_names_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match=f"{tmp_path / 'none'}: no such file or folder"):
        open_corpus(tmp_path / "none")


def test_open_corpus_refuses_a_folder_without_data(tmp_path: Path) -> None:
    _fill(tmp_path, README__md="# About")
    with pytest.raises(FormatError, match=f"{tmp_path}: no annotated data found in this folder"):
        open_corpus(tmp_path)


def test_open_corpus_refuses_an_unknown_format_before_it_looks(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="unknown format 'spacyy'"):
        open_corpus(tmp_path / "none", "spacyy")


def test_read_documents_goes_through_all_parts_and_gathers_all_problems(tmp_path: Path) -> None:
    _fill(tmp_path, test__jsonl=JSONL + "broken\n", train__jsonl='{"text": "a"}\n{"text": 5}\n{"text": "b"}\n')
    problems = Problems()
    documents = list(read_documents(tmp_path, None, problems))
    assert [document.id for document in documents] == ["train-1", "train-3", "1"]
    assert [(Path(problem.path).name, problem.line) for problem in problems.kept] == [
        ("train.jsonl", 2),
        ("test.jsonl", 2),
    ]


def _write_nothing(path: Path, documents: Iterable[Document]) -> None:
    del path, documents


def _read_folder(path: Path, problems: Problems) -> Iterator[Document]:
    del problems
    for file in sorted(path.rglob("*.note")):
        yield Document(file.stem, file.read_text(encoding="utf-8"))


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format that is a folder of files."""
    format = Format(
        name="notes",
        title="notes",
        suffix="",
        holds=Holds(words=False),
        recognise=lambda path: path.is_dir() and any(path.rglob("*.note")),
        read=_read_folder,
        write=_write_nothing,
    )
    monkeypatch.setitem(FORMATS, "notes", format)


@pytest.mark.usefixtures("notes")
def test_open_corpus_of_a_folder_format_is_one_part_named_after_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    _fill(folder, a__note="A", b__note="B")
    monkeypatch.chdir(folder)
    for path in (folder, folder / ".." / "corpus", Path()):
        corpus = open_corpus(path)
        assert [(part.name, part.format.name) for part in corpus.parts] == [("corpus", "notes")]
    assert [document.id for document in corpus.parts[0].read(Problems())] == ["a", "b"]


@pytest.mark.usefixtures("notes")
def test_open_corpus_of_a_folder_format_has_one_part_a_split(tmp_path: Path) -> None:
    for name in ("test", "train"):
        (tmp_path / name).mkdir()
        _fill(tmp_path / name, **{f"{name}__note": name})
    for format_name in (None, "notes"):
        corpus = open_corpus(tmp_path, format_name)
        assert [part.name for part in corpus.parts] == ["train", "test"]
        assert [d.text for part in corpus.parts for d in part.read(Problems())] == ["train", "test"]


@pytest.mark.usefixtures("notes")
def test_open_corpus_of_a_folder_format_leaves_no_other_folder_out(tmp_path: Path) -> None:
    for name in ("train", "test", "unlabelled"):
        (tmp_path / name).mkdir()
        _fill(tmp_path / name, **{f"{name}__note": name})
    texts = [document.text for document in read_documents(tmp_path, None, Problems())]
    assert sorted(texts) == ["test", "train", "unlabelled"]
