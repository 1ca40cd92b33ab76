from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import relatum
from relatum.data.partition import Fold, divide, load_lists, make_folds, pick, remark_on_lists
from relatum.data.problems import Problems
from relatum.errors import DataError, RelatumError
from relatum.types import Document

texts = st.lists(st.sampled_from("abcdefghijkl"), max_size=40)
shares = st.sampled_from([0.0, 0.1, 0.15, 0.2, 0.33])
DOCUMENTS = [Document(name, name.upper()) for name in ("a", "b", "c", "d")]


def _assert_a_division(fold: Fold, texts: list[str]) -> None:
    """Every record is in one part, and no text in two."""
    parts = (fold.train, fold.dev, fold.test)
    assert sorted(number for part in parts for number in part) == list(range(len(texts)))
    seen = [{texts[number] for number in part} for part in parts]
    assert sum(map(len, seen)) == len(set(texts))
    assert all(list(part) == sorted(part) for part in parts)


@given(texts, shares, shares, st.integers())
def test_divide_puts_every_record_in_one_part_and_equal_texts_together(
    texts: list[str], dev: float, test: float, seed: int
) -> None:
    try:
        fold = divide(texts, dev, test, seed)
    except RelatumError:
        assert len(set(texts)) < 4, "there is enough to train on"
        return
    _assert_a_division(fold, texts)
    assert fold == divide(texts, dev, test, seed)


@given(st.integers(3, 400), shares, shares, st.integers(0, 5))
def test_divide_gives_exact_shares_where_all_texts_differ(size: int, dev: float, test: float, seed: int) -> None:
    fold = divide([str(number) for number in range(size)], dev, test, seed)
    assert len(fold.test) == round(test * size)
    assert len(fold.dev) == round(dev * size)


def test_divide_is_the_same_on_every_machine() -> None:
    assert divide(list("abcdefghij"), 0.2, 0.3, 0) == Fold((0, 2, 4, 6, 9), (3, 5), (1, 7, 8))


def test_divide_depends_on_the_seed() -> None:
    texts = [str(number) for number in range(100)]
    assert len({divide(texts, 0.1, 0.2, seed).test for seed in range(10)}) == 10


def test_divide_comes_near_its_shares_where_one_text_stands_very_often() -> None:
    texts = ["again"] * 60 + [str(number) for number in range(40)]
    sizes = [(len(fold.dev), len(fold.test)) for fold in (divide(texts, 0.1, 0.2, seed) for seed in range(20))]
    assert sizes == [(10, 20)] * 20


@pytest.mark.parametrize(
    ("dev", "test"), [(-0.1, 0.2), (0.1, -0.2), (1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.7, 0.6), (float("nan"), 0.1)]
)
def test_divide_refuses_shares_that_leave_nothing_to_train_on(dev: float, test: float) -> None:
    with pytest.raises(RelatumError, match="leave something to train on"):
        divide(list("abcdef"), dev, test, 0)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_divide_and_make_folds_never_leave_nothing_to_train_on(size: int) -> None:
    texts = [str(number) for number in range(size)]
    folds: list[Fold] = []
    with suppress(RelatumError):
        folds.append(divide(texts, 0.45, 0.5, 0))
    with suppress(RelatumError):
        folds += make_folds(texts, 2, 0.9, 0)
    assert all(fold.train for fold in folds)


def test_divide_of_one_text_over_and_over_trains_on_it() -> None:
    assert divide(["x"] * 5, 0.1, 0.2, 0) == Fold((0, 1, 2, 3, 4), (), ())


@given(texts, st.integers(2, 5), shares, st.integers())
def test_make_folds_puts_every_record_in_the_test_part_of_one_fold(
    texts: list[str], n_folds: int, dev: float, seed: int
) -> None:
    if len(set(texts)) < n_folds:
        with pytest.raises(RelatumError, match=f"--folds {n_folds}: there are only {len(set(texts))} documents"):
            make_folds(texts, n_folds, dev, seed)
        return
    folds = make_folds(texts, n_folds, dev, seed)
    assert len(folds) == n_folds
    assert sorted(number for fold in folds for number in fold.test) == list(range(len(texts)))
    for fold in folds:
        _assert_a_division(fold, texts)
        assert fold.test
    assert folds == make_folds(texts, n_folds, dev, seed)


@given(st.integers(10, 200), st.integers(2, 10), shares, st.integers(0, 5))
def test_make_folds_gives_even_folds_where_all_texts_differ(size: int, n_folds: int, dev: float, seed: int) -> None:
    folds = make_folds([str(number) for number in range(size)], n_folds, dev, seed)
    assert {len(fold.test) for fold in folds} <= {size // n_folds, -(-size // n_folds)}
    for fold in folds:
        assert len(fold.dev) == round(dev * (size - len(fold.test)))


def test_make_folds_are_the_same_on_every_machine() -> None:
    assert make_folds(list("abcdef"), 3, 0.25, 1) == [
        Fold((1, 4, 5), (3,), (0, 2)),
        Fold((1, 2, 5), (0,), (3, 4)),
        Fold((0, 2, 4), (3,), (1, 5)),
    ]


def test_make_folds_depend_on_the_seed() -> None:
    texts = [str(number) for number in range(50)]
    assert make_folds(texts, 5, 0.1, 0) != make_folds(texts, 5, 0.1, 1)


@pytest.mark.parametrize(("n_folds", "dev"), [(1, 0.1), (0, 0.1), (-2, 0.1), (2, 1.0), (2, -0.1), (2, float("nan"))])
def test_make_folds_refuses_numbers_that_make_no_sense(n_folds: int, dev: float) -> None:
    with pytest.raises(RelatumError, match=r"--folds|--dev"):
        make_folds(list("abcdef"), n_folds, dev, 0)


def test_fold_parts_leave_out_the_empty_ones() -> None:
    assert Fold((0, 1), (), (2,)).parts() == {"train": (0, 1), "test": (2,)}


def _written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_load_lists_reads_numbers_from_0_and_ids_in_the_given_order(tmp_path: Path) -> None:
    path = _written(tmp_path / "lists.json", {"train": [3, "a"], "dev": ["c"], "test": [1]})
    assert load_lists(path, DOCUMENTS) == [Fold((3, 0), (2,), (1,))]


def test_load_lists_reads_several_folds_and_missing_parts(tmp_path: Path) -> None:
    path = _written(tmp_path / "lists.json", [{"train": [0, 1], "test": [2, 3]}, {"train": [2, 3], "test": [0, 1]}])
    assert load_lists(path, DOCUMENTS) == [Fold((0, 1), (), (2, 3)), Fold((2, 3), (), (0, 1))]


def test_load_lists_keeps_a_record_that_is_listed_twice(tmp_path: Path) -> None:
    path = _written(tmp_path / "lists.json", {"train": [0, 1, 0]})
    assert load_lists(path, DOCUMENTS)[0].train == (0, 1, 0)


def test_load_lists_reads_a_folder_of_ids_one_a_line(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes(b"\xef\xbb\xbfb\r\n\r\n  a  \r\n")
    (tmp_path / "test.txt").write_text("c\n", encoding="utf-8")
    assert load_lists(tmp_path, DOCUMENTS) == [Fold((1, 0), (), (2,))]


def test_load_lists_reads_lists_whose_names_have_no_suffix(tmp_path: Path) -> None:
    for name, ids in (("train", "a\nb\n"), ("dev", "c"), ("test", "d\n")):
        (tmp_path / name).write_text(ids, encoding="utf-8")
    assert load_lists(tmp_path, DOCUMENTS) == [Fold((0, 1), (2,), (3,))]
    (tmp_path / "dev.txt").write_text("c", encoding="utf-8")
    with pytest.raises(RelatumError, match=r"found both dev and dev.txt; expected one list of each part; remove one"):
        load_lists(tmp_path, DOCUMENTS)


def test_load_lists_reads_a_subfolder_for_each_fold(tmp_path: Path) -> None:
    for number, (train, test) in {10: ("b", "c"), 2: ("a", "d")}.items():
        (tmp_path / f"fold-{number}").mkdir()
        (tmp_path / f"fold-{number}" / "train.txt").write_text(train, encoding="utf-8")
        (tmp_path / f"fold-{number}" / "test").write_text(test, encoding="utf-8")
    (tmp_path / "other").mkdir()
    assert load_lists(tmp_path, DOCUMENTS) == [Fold((0,), (), (3,)), Fold((1,), (), (2,))]


def test_load_lists_reads_the_test_parts_of_folds(tmp_path: Path) -> None:
    for name, ids in (("cv0", "b\na\n"), ("cv1", "c\n"), ("cv10", "d"), ("README", "no list\n")):
        (tmp_path / name).write_text(ids, encoding="utf-8")
    assert load_lists(tmp_path, DOCUMENTS) == [
        Fold((2, 3), (), (1, 0)),
        Fold((1, 0, 3), (), (2,)),
        Fold((1, 0, 2), (), (3,)),
    ]


def test_load_lists_names_every_document_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "cv0").write_text("a\nnobody\n", encoding="utf-8")
    (tmp_path / "cv1").write_text("b\nnothing\n", encoding="utf-8")
    with pytest.raises(RelatumError) as caught:
        load_lists(tmp_path, DOCUMENTS)
    assert str(caught.value) == (
        f"{tmp_path}: 2 of the documents that it lists are not in the corpus, which has 4; expected the id of a "
        "document, or its number from 0 to 3. Name the folder that has them all, or take them off the lists:\n"
        f"  'nothing' ({tmp_path / 'cv0'}, train[1])\n  'nobody' ({tmp_path / 'cv0'}, test[1])"
    )


def test_documents_on_no_list_are_named() -> None:
    problems = Problems()
    remark_on_lists([Fold((0,), (), (2,))], DOCUMENTS, problems, "lists")
    assert problems.remark_lines() == ["2 × documents in no part of a fold (first: lists, b, d)"]
    many = [Document(f"d{number}", str(number)) for number in range(205)]
    problems = Problems()
    remark_on_lists([Fold((0,), (), ())], many, problems, "lists")
    (line,) = problems.remark_lines()
    assert line.startswith("204 × documents in no part of a fold (first: lists, d1, d2, ")
    assert line.endswith(", d200 and 4 more)")


def test_load_lists_takes_digits_in_a_folder_for_ids(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1\n", encoding="utf-8")
    assert load_lists(tmp_path, [Document("0", ""), Document("7", ""), Document("1", "")]) == [Fold((2,), (), ())]


@pytest.mark.parametrize("member", ["e", "", 4, -1, 1.0, True, None, ["a"], {"id": "a"}, "0", 10**30])
def test_load_lists_names_the_place_of_a_member_that_is_no_document(tmp_path: Path, member: object) -> None:
    path = _written(tmp_path / "lists.json", [{"train": [0]}, {"train": [0], "dev": [1, member]}])
    with pytest.raises(RelatumError) as caught:
        load_lists(path, DOCUMENTS)
    assert str(caught.value) == (
        f"{path}, fold 2, dev[1]: found {member!r}; expected the id of a document, or its number from 0 to 3"
    )


def test_load_lists_names_the_place_of_an_unknown_id_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a\n\nnobody\n", encoding="utf-8")
    with pytest.raises(RelatumError, match=r"train.*nobody"):
        load_lists(tmp_path, DOCUMENTS)


def test_load_lists_refuses_an_unknown_list(tmp_path: Path) -> None:
    path = _written(tmp_path / "lists.json", {"train": [0], "validation": [1]})
    with pytest.raises(RelatumError, match="found the list 'validation'; expected train, dev and test"):
        load_lists(path, DOCUMENTS)


@pytest.mark.parametrize(
    "value", [[], {}, [{}], 5, None, "train", [0, 1], {"train": 5}, {"train": {"a": 1}}, [{"train": [0]}, 1]]
)
def test_load_lists_refuses_a_file_of_another_shape(tmp_path: Path, value: object) -> None:
    path = _written(tmp_path / "lists.json", value)
    with pytest.raises(RelatumError) as caught:
        load_lists(path, DOCUMENTS)
    assert str(caught.value).startswith(f"{path}: expected ")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 100_000, b"9" * 5000, b'{"train": [0], "dev": [], "train": [1]}']
)
def test_load_lists_refuses_what_is_no_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lists.json"
    path.write_bytes(content)
    with pytest.raises(RelatumError) as caught:
        load_lists(path, DOCUMENTS)
    assert str(caught.value).startswith(f"{path}: not valid JSON: ")


def test_load_lists_refuses_a_folder_without_lists(tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(RelatumError, match=r"found no lists; expected train.txt, dev.txt and test.txt"):
        load_lists(tmp_path, DOCUMENTS)


def test_load_lists_refuses_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "lists.json"
    path.write_bytes('{"train": ["ä"]}'.encode("utf-16"))
    with pytest.raises(RelatumError) as caught:
        load_lists(path, DOCUMENTS)
    assert str(caught.value).startswith(f"{path}: not valid UTF-8")


def test_load_lists_refuses_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lists.json")
    with pytest.raises(RelatumError, match=r"lists\.json: found a pipe, a device or a socket, expected a file"):
        load_lists(tmp_path / "lists.json", DOCUMENTS)


def test_load_lists_refuses_a_list_in_a_folder_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes("ä\n".encode("latin-1"))
    with pytest.raises(RelatumError, match=r"train\.txt"):
        load_lists(tmp_path, DOCUMENTS)


def test_load_lists_refuses_an_id_that_several_documents_have(tmp_path: Path) -> None:
    path = _written(tmp_path / "lists.json", {"train": ["a"]})
    with pytest.raises(RelatumError, match="'a'"):
        load_lists(path, [Document("a", "x"), Document("a", "y")])


def test_pick_takes_the_documents_in_the_order_of_the_numbers() -> None:
    problems = Problems()
    assert pick(DOCUMENTS, [2, 0], problems, "train") == [DOCUMENTS[2], DOCUMENTS[0]]
    assert problems.remark_lines() == []


def test_pick_renames_a_document_that_is_listed_again_and_says_so() -> None:
    problems = Problems()
    picked = pick(DOCUMENTS, [1, 0, 1, 1], problems, "out/train")
    assert [(document.id, document.text) for document in picked] == [("b", "B"), ("a", "A"), ("b~2", "B"), ("b~3", "B")]
    assert problems.remark_lines() == [
        "2 × documents listed more than once in a part, renamed (first: out/train, b)",
    ]


@given(st.lists(st.integers(0, 3)))
def test_pick_never_gives_two_documents_one_id(numbers: list[int]) -> None:
    documents = [Document(name, name) for name in ("a", "a~2", "a~3", "b")]
    picked = pick(documents, numbers, Problems(), "train")
    assert Counter(document.text for document in picked) == Counter(documents[number].text for number in numbers)
    assert len({document.id for document in picked}) == len(numbers)


@pytest.fixture
def forty(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{i}", "words": ["number", str(i)]}) + "\n" for i in range(40)))
    return path


def test_one_call_writes_train_dev_and_test(forty: Path, tmp_path: Path) -> None:
    done = relatum.split(str(forty), str(tmp_path / "out"), dev=0.1, seed=3)
    assert done.folder == tmp_path / "out"
    (fold,) = done.folds
    for name, members in fold.parts().items():
        assert [d.id for d in relatum.load_documents(done.folder / f"{name}.jsonl")] == [f"d{i}" for i in members]
    assert [len(members) for members in fold.parts().values()] == [28, 4, 8]
    again, other = (relatum.split(forty, tmp_path / f"out{seed}", dev=0.1, seed=seed) for seed in (3, 4))
    assert again.folds == done.folds != other.folds


def test_one_call_writes_folds_or_their_lists_alone(forty: Path, tmp_path: Path) -> None:
    done = relatum.split(forty, tmp_path / "out", folds=4)
    assert sorted(path.name for path in done.folder.iterdir()) == [*(f"fold-{n}" for n in range(1, 5)), "folds.json"]
    assert sorted(number for fold in done.folds for number in fold.test) == list(range(40))
    lists = relatum.split(forty, tmp_path / "lists", folds=4, lists_only=True)
    assert [path.name for path in lists.folder.iterdir()] == ["folds.json"]
    assert lists.folds == done.folds
    assert relatum.split(forty, tmp_path / "again", lists=lists.folder / "folds.json").folds == done.folds


def test_folder_is_named_after_the_data_if_none_is_given(
    forty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert relatum.split(forty).folder == Path("mine-split")
    assert (tmp_path / "mine-split" / "folds.json").is_file()


def test_documents_that_lists_leave_out_or_repeat_are_said(forty: Path, tmp_path: Path) -> None:
    lists = tmp_path / "lists.json"
    lists.write_text(json.dumps({"train": [0, 1], "test": ["d1", "d1"]}))
    said: list[str] = []
    done = relatum.split(forty, tmp_path / "out", lists=lists, monitor=said.append)
    assert done.problems.remarks["documents in no part of a fold"] == 38
    assert said == [f"relatum: {line}" for line in done.problems.remark_lines()]
    renamed = f"documents listed more than once in a part, renamed (first: {tmp_path / 'out' / 'test'}, d1)"
    assert any(renamed in line for line in said)


def test_shares_and_parts_that_cannot_be_are_refused(forty: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(RelatumError, match=r"folds=3, test=0\.2: the test parts are the folds; leave test out"):
        relatum.split(forty, out, folds=3, test=0.2)
    for more in ({"folds": 3}, {"test": 0.2}):
        with pytest.raises(RelatumError, match=r"lists='a\.json': the parts are given; leave folds and test out"):
            relatum.split(forty, out, lists="a.json", **more)
    with pytest.raises(RelatumError, match=r"dev 0\.9 and --test 0\.5 must be at least 0 and leave something"):
        relatum.split(forty, out, dev=0.9, test=0.5)
    with pytest.raises(RelatumError, match="nowhere: no such file or folder"):
        relatum.split("nowhere", out)
    assert not out.exists()


def test_nothing_is_divided_while_records_are_bad(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"words": ["a"]}\n{"words": 3}\n')
    with pytest.raises(DataError, match="Nothing was written"):
        relatum.split(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
