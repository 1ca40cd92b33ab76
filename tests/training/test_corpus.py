from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relatum.config import Config, load_config
from relatum.errors import DataError, RelatumError
from relatum.training.corpus import FoldChoice, load_part, load_training_data, make_fold_lists

WORDS = ["Anna", "works", "in", "Rome", "for", "Acme", "."]
PEOP, LOC, ORG = (0, 1, "Peop"), (3, 4, "Loc"), (5, 6, "Org")


def record(
    id: str, entities: Iterable[tuple[int, int, str]] = (PEOP, LOC), relations: Iterable[tuple[int, int, str]] = ()
) -> dict[str, Any]:
    return {
        "id": id,
        "words": [*WORDS, id],
        "entities": [{"start": start, "end": end, "label": label} for start, end, label in entities],
        "relations": [{"head": head, "tail": tail, "label": label} for head, tail, label in relations],
    }


def write(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in records), encoding="utf-8")
    return path


def corpus(folder: Path, **parts: list[dict[str, Any]]) -> Path:
    for name, records in parts.items():
        write(folder / f"{name}.jsonl", records)
    return folder


def ids(examples: Iterable[Any]) -> list[str]:
    return [example.id for example in examples]


TRAIN = [record(f"t{i}", relations=[(0, 1, "Live_In")]) for i in range(10)]


def test_examples_folder_has_its_three_parts(examples_folder: Path) -> None:
    data = load_training_data(examples_folder / "news", Config())
    assert [len({e.id.partition("#")[0] for e in part}) for part in data.parts.values()] == [61, 15, 15]
    assert data.schema.entity_types == ("Loc", "Org", "Other", "Peop")
    assert data.schema.relation_names == ("Kill", "Live_In", "Located_In", "OrgBased_In", "Work_For")
    first = data.train[0]
    assert first.sentence.words[:4] == ("Mara", "Ilves", "works", "for")
    assert {entity.label for entity in first.gold.entities} == {"Peop", "Org", "Loc"}
    assert not data.remarks


def test_valid_serves_as_dev(tmp_path: Path) -> None:
    data = load_training_data(corpus(tmp_path, train=TRAIN, valid=[record("v")]), Config())
    assert (len(data.train), ids(data.dev), data.test, data.remarks) == (10, ["v"], [], ())


def test_missing_dev_is_held_out_of_train_by_the_seed(tmp_path: Path) -> None:
    folder = corpus(tmp_path, train=TRAIN, test=[record("e")])
    data = load_training_data(folder, Config())
    assert (len(data.train), len(data.dev), ids(data.test)) == (8, 2, ["e"])
    assert sorted(ids([*data.train, *data.dev])) == sorted(f"t{i}" for i in range(10))
    assert "2 of 10 training documents are held out for it (seed 0)" in data.remarks[0]
    assert load_training_data(folder, Config()).dev == data.dev
    others = [load_training_data(folder, load_config(None, [f"training.seed={seed}"])).dev for seed in range(1, 6)]
    assert any(dev != data.dev for dev in others)


def test_single_file_is_divided_and_has_no_test(tmp_path: Path) -> None:
    for name in ("mine", "dev", "valid"):
        data = load_training_data(write(tmp_path / f"{name}.jsonl", TRAIN), Config())
        assert (len(data.train), len(data.dev), len(data.test)) == (8, 2, 0)


def test_too_few_documents_to_hold_some_out_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match=r"too few documents to hold some out \(3\); add a file named dev"):
        load_training_data(write(tmp_path / "mine.jsonl", TRAIN[:3]), Config())


def test_bad_records_are_named_before_there_is_talk_of_too_few(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "Ann works."}\nnot json\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"data.jsonl:2 .*expected valid JSON"):
        load_training_data(path, load_config())


def test_folder_without_train_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="found the parts dev, test; expected train"):
        load_training_data(corpus(tmp_path, dev=TRAIN, test=TRAIN), Config())


def test_other_parts_are_named(tmp_path: Path) -> None:
    data = load_training_data(corpus(tmp_path, train=TRAIN, dev=[record("d")], extra=[record("x")]), Config())
    assert data.remarks == ("parts that are not used: extra (expected train, dev or valid, test)",)


def test_types_that_train_lacks_are_taken_in_and_named(tmp_path: Path) -> None:
    dev = [record("d", [PEOP, ORG], [(0, 1, "Work_For")])]
    test = [record("e", [ORG, LOC], [(0, 1, "Live_In")])]
    data = load_training_data(corpus(tmp_path, train=TRAIN, dev=dev, test=test), Config())
    assert data.schema.entity_types == ("Loc", "Peop", "Org")
    assert data.schema.relation_names == ("Live_In", "Work_For")
    assert data.schema.relation_type("Live_In").head_labels == ("Peop", "Org")
    assert data.remarks == (
        "entity types that are not in train, taken in all the same: Org",
        "relation types that are not in train, taken in all the same: Work_For",
    )


def test_file_of_labels_is_the_schema(tmp_path: Path) -> None:
    folder = corpus(tmp_path, train=TRAIN, dev=[record("d", [ORG])])
    labels = {"entity_types": ["Peop", "Loc"], "relation_types": [{"name": "Live_In", "symmetric": True}]}
    (folder / "schema.json").write_text(json.dumps(labels))
    data = load_training_data(folder, Config())
    assert data.schema.entity_types == ("Peop", "Loc", "Org")
    assert data.schema.is_symmetric("Live_In")
    assert data.schema.relation_type("Live_In").head_labels == ()
    assert "entity types that are not in the file of labels, taken in all the same: Org" in data.remarks


def test_pairs_that_only_dev_or_test_have_are_not_learned(tmp_path: Path) -> None:
    train = [record(f"t{i}", [PEOP, LOC, ORG], [(0, 1, "In"), (2, 1, "In"), (0, 2, "In")]) for i in range(3)]
    dev = [record("d", [PEOP, (3, 4, "Date")], [(0, 1, "In")])]
    test = [record("e", [LOC, ORG], [(0, 1, "In")])]
    data = load_training_data(corpus(tmp_path / "whole", train=train, dev=dev, test=test), Config())
    kind = data.schema.relation_type("In")
    assert kind.head_labels == ("Org", "Peop", "Loc")
    assert kind.tail_labels == ("Loc", "Org", "Date")
    assert set(kind.pairs) == {("Peop", "Loc"), ("Org", "Loc"), ("Peop", "Org")}
    plain = load_training_data(corpus(tmp_path / "plain", train=TRAIN, dev=[record("d")]), Config())
    assert plain.schema.relation_type("Live_In").pairs == ()


def test_pairs_of_train_are_added_to_those_of_the_file_of_labels(tmp_path: Path) -> None:
    folder = corpus(tmp_path, train=TRAIN, dev=[record("d", [PEOP, ORG], [(0, 1, "Live_In")])])
    labels = {"name": "Live_In", "head_labels": ["Org"], "tail_labels": ["Loc"]}
    types = {"entity_types": ["Peop", "Loc", "Org"], "relation_types": [labels]}
    (folder / "schema.json").write_text(json.dumps(types))
    kind = load_training_data(folder, Config()).schema.relation_type("Live_In")
    assert (kind.head_labels, kind.tail_labels) == (("Org", "Peop"), ("Loc", "Org"))
    assert kind.pairs == (("Org", "Loc"), ("Peop", "Loc"))


def test_fingerprint_is_the_same_with_and_without_pairs(tmp_path: Path) -> None:
    dev = [record("d", [ORG, LOC], [(0, 1, "Live_In")])]
    data = load_training_data(corpus(tmp_path, train=TRAIN, dev=dev), Config())
    (kind,) = data.schema.relation_types
    assert kind.pairs
    bare = replace(data, schema=replace(data.schema, relation_types=(replace(kind, pairs=()),)))
    assert bare.fingerprint() == data.fingerprint()


def test_constraints_that_a_file_of_labels_leaves_open_are_named(tmp_path: Path) -> None:
    folder = corpus(tmp_path, train=TRAIN, dev=[record("d")])
    (folder / "types.json").write_text(json.dumps({"entities": {"Peop": {}, "Loc": {}}, "relations": {"Live_In": {}}}))
    constrained = load_config(None, ["decoding.constraints=schema"])
    (remark,) = load_training_data(folder, constrained).remarks[-1:]
    assert remark.startswith(
        "decoding.constraints: the file of labels lets these relation types connect anything: Live"
    )
    assert not any("constraints" in one for one in load_training_data(folder, Config()).remarks)
    (folder / "types.json").unlink()
    assert not any("constraints" in one for one in load_training_data(folder, constrained).remarks)


def test_train_without_entities_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="no entities in train"):
        load_training_data(corpus(tmp_path, train=[record("a", [])], dev=[record("d")]), Config())


def test_overlapping_entities_are_an_error_until_the_policy_says_otherwise(tmp_path: Path) -> None:
    nested = record("n", [(0, 3, "Peop"), (0, 1, "Peop")])
    folder = corpus(tmp_path, train=[*TRAIN, nested], dev=[record("d")])
    with pytest.raises(DataError, match=r"document 'n': found an overlapping entity.*--overlaps drop"):
        load_training_data(folder, Config())
    data = load_training_data(folder, load_config(None, ["data.overlaps=keep-longest"]))
    assert [entity.span for entity in data.train[-1].gold.entities] == [(0, 3)]
    assert any("1 × overlapping entities left out" in remark for remark in data.remarks)
    assert [entity.span for entity in data.train[-1].full_gold.entities] == [(0, 3), (0, 1)]
    assert not any("counts as missed" in remark for remark in data.remarks), "nothing is left out of dev"


def test_entities_left_out_inside_a_word_can_still_be_counted(tmp_path: Path) -> None:
    """Words are cut for all annotations, so that two entities in one word do not become one."""
    spans = [(0, 9, "Org"), (0, 5, "Org"), (5, 9, "Org")]
    entities = [{"start": start, "end": end, "label": label} for start, end, label in spans]
    nested = {"id": "n", "text": "Steelwork burns.", "entities": entities}
    config = load_config(None, ["data.overlaps=keep-longest"])
    folder = corpus(tmp_path, train=TRAIN, dev=[record("d")], test=[nested])
    data = load_training_data(folder, config)
    (example,) = data.test
    assert example.sentence.words == ("Steel", "work", "burns", ".")
    assert [entity.span for entity in example.gold.entities] == [(0, 2)]
    assert {entity.span for entity in example.full_gold.entities} == {(0, 2), (0, 1), (1, 2)}
    assert any(remark.startswith("test: gold that the model cannot find counts") for remark in data.remarks)
    without = load_training_data(
        corpus(tmp_path / "other", train=TRAIN, dev=[record("d")], test=[nested | {"entities": entities[:1]}]), config
    )
    assert without.fingerprint() != data.fingerprint(), "scores against less gold are not the same scores"


def test_relations_that_the_tags_cannot_say_are_counted(tmp_path: Path) -> None:
    both = [record("b", [PEOP, LOC], [(0, 1, "Live_In"), (1, 0, "Live_In")])]
    data = load_training_data(corpus(tmp_path, train=[*TRAIN, *both], dev=both), Config())
    for part in ("train", "dev"):
        wanted = f"1 × relations in {part} that the tags cannot say: a relation in the opposite direction"
        assert any(remark.startswith(wanted) for remark in data.remarks)


def test_bad_records_are_an_error_or_skipped_and_named(tmp_path: Path) -> None:
    bad = {"id": "bad", "words": ["a"], "entities": [{"start": 0, "end": 9, "label": "Loc"}]}
    folder = corpus(tmp_path, train=[*TRAIN, bad], dev=[record("d")])
    with pytest.raises(DataError, match=r"data\.on_error=skip"):
        load_training_data(folder, Config())
    data = load_training_data(folder, load_config(None, ["data.on_error=skip"]))
    assert len(data.train) == 10
    assert any("skipped" in remark and "train.jsonl:11" in remark for remark in data.remarks)


def test_relations_between_sentences_get_the_advice_that_keeps_their_documents(tmp_path: Path) -> None:
    crossing = [{**one, "sentences": [[0, 3], [3, 8]]} for one in TRAIN]
    folder = corpus(tmp_path, train=crossing, dev=[record("d")])
    with pytest.raises(DataError) as caught:
        load_training_data(folder, Config())
    assert str(caught.value).endswith(
        "Nothing was trained. Pass --set data.crossing=drop to keep 10 documents and leave out only the relations "
        "between sentences, or --set text.unit=passage to read their sentences together."
    )
    assert "; a model trained with --set text.unit=passage reads them together" in str(caught.value)
    with pytest.raises(DataError, match=r"no record of train is left. Pass --set data.crossing=drop to keep 10"):
        load_training_data(folder, load_config(None, ["data.on_error=skip"]))
    assert len(load_training_data(folder, load_config(None, ["data.crossing=drop"])).train) == 20


def test_skipping_bad_records_leaves_no_readable_gold_out_of_scores(tmp_path: Path) -> None:
    nested = [(0, 2, "Peop"), (0, 1, "Peop"), LOC]
    crossing = {**record("c", relations=[(0, 1, "Live_In")]), "sentences": [[0, 3], [3, 8]]}
    bad = {"id": "bad", "words": [""]}
    scored = [record("n", nested), crossing, bad]
    folder = corpus(tmp_path, train=[*TRAIN, record("x", nested)], dev=scored, test=scored)
    data = load_training_data(folder, load_config(None, ["data.on_error=skip"]))
    assert len(data.train) == 10
    for part in (data.dev, data.test):
        assert ids(part) == ["n", "c#1", "c#2"]
        assert [len(example.full_gold.entities) for example in part] == [3, 1, 1]
        assert [len(example.full_gold.relations) for example in part] == [0, 1, 0]
    for name in ("dev", "test"):
        assert f"{name}: bad records that are in no score, as they are skipped: 1" in data.remarks
    learned = load_training_data(folder, load_config(None, ["data.on_error=skip", "training.dev=train"]))
    assert len(learned.train) == 10


def test_bad_records_that_leave_nothing_to_train_on_are_named(tmp_path: Path) -> None:
    folder = corpus(tmp_path, train=[{"id": "bad", "words": [""]}])
    with pytest.raises(DataError, match=r"train\.jsonl:1 .*\nNothing was trained: no record of train is left. Fix"):
        load_training_data(folder, load_config(None, ["data.on_error=skip"]))


def test_fold_takes_the_records_of_its_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "data" / "all.jsonl", TRAIN)
    lists = tmp_path / "folds.json"
    folds = [{"train": [0, 1], "dev": [2], "test": [3]}, {"train": [5, 4, 5], "dev": [6], "test": [7, 8]}]
    lists.write_text(json.dumps(folds))
    data = load_training_data(path, Config(), fold=FoldChoice.parse(f"{lists}:2"))
    assert (ids(data.train), ids(data.dev), ids(data.test)) == (["t5", "t4", "t5~2"], ["t6"], ["t7", "t8"])
    assert any("documents in no part of a fold" in remark for remark in data.remarks)
    assert any("listed more than once in a part, renamed" in remark for remark in data.remarks)
    with pytest.raises(RelatumError, match=r"folds\.json has 2 folds"):
        load_training_data(path, Config(), fold=FoldChoice(lists, 3))


@pytest.mark.parametrize("text", ["folds.json", "folds.json:", ":3", "folds.json:0", "folds.json:x"])
def test_fold_that_names_none_is_an_error(text: str) -> None:
    with pytest.raises(RelatumError, match="expected FILE:K"):
        FoldChoice.parse(text)


def test_fold_with_bad_records_is_an_error_whatever_the_policy(tmp_path: Path) -> None:
    path = write(tmp_path / "all.jsonl", [{"id": "bad", "words": [""]}, *TRAIN])
    lists = tmp_path / "folds.json"
    lists.write_text(json.dumps({"train": [1], "dev": [2]}))
    with pytest.raises(DataError, match="lists of records count them all"):
        load_training_data(path, load_config(None, ["data.on_error=skip"]), fold=FoldChoice(lists, 1))


def test_fingerprint_tells_data_apart(tmp_path: Path) -> None:
    first = load_training_data(corpus(tmp_path / "a", train=TRAIN, dev=[record("d")]), Config())
    same = load_training_data(corpus(tmp_path / "b", train=TRAIN, dev=[record("d")]), Config())
    other = load_training_data(corpus(tmp_path / "c", train=TRAIN, dev=[record("d", [PEOP])]), Config())
    assert first.fingerprint() == same.fingerprint() != other.fingerprint()


def test_fingerprint_tells_gold_apart_that_is_left_out_of_training(tmp_path: Path) -> None:
    config = load_config(None, ["data.overlaps=keep-longest"])
    prints = set()
    for name, inner in (("a", (0, 1, "Peop")), ("b", (1, 2, "Peop")), ("c", None)):
        entities = [(0, 2, "Peop"), LOC] + ([inner] if inner else [])
        folder = corpus(tmp_path / name, train=TRAIN, dev=[record("d", entities)])
        prints.add(load_training_data(folder, config).fingerprint())
    assert len(prints) == 3


def test_part_is_read_by_name(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "a", train=TRAIN, valid=[record("v")], test=[record("e")])
    assert ids(load_part(folder, "test", Config())[0]) == ["e"]
    assert ids(load_part(folder, "dev", Config())[0]) == ["v"]
    assert len(load_part(folder / "train.jsonl", "test", Config())[0]) == 10
    with pytest.raises(RelatumError, match="found the parts train, valid, test; name one of them with --part"):
        load_part(folder, "tset", Config())


@pytest.mark.slow
def test_published_fold_of_ade_is_read(shared_data: Path) -> None:
    folder = shared_data / "ade"
    data = load_training_data(folder, Config(), fold=FoldChoice(folder / "folds.json", 1))
    sizes = [len(part) for part in json.loads((folder / "folds.json").read_text())[0].values()]
    assert [len(part) for part in data.parts.values()] == sizes
    assert data.schema.entity_types == ("Adverse-Effect", "Drug")


@pytest.mark.parametrize(("n", "sizes"), [(99, (84, 15, 0)), (100, (70, 15, 15))])
def test_large_single_file_has_some_held_out_for_test(tmp_path: Path, n: int, sizes: tuple[int, int, int]) -> None:
    path = write(tmp_path / "mine.jsonl", [record(f"t{i}", relations=[(0, 1, "Live_In")]) for i in range(n)])
    data = load_training_data(path, Config())
    assert (len(data.train), len(data.dev), len(data.test)) == sizes
    assert len({example.sentence.words for part in data.parts.values() for example in part}) == n
    assert ("for it, and 15 for test (seed 0)" in data.remarks[0]) == bool(sizes[2])
    without = load_training_data(path, Config(), with_test=False)
    assert (without.train, without.dev, without.test) == (data.train, data.dev, [])


def test_folder_without_test_has_none_held_out(tmp_path: Path) -> None:
    many = [record(f"t{i}", relations=[(0, 1, "Live_In")]) for i in range(120)]
    data = load_training_data(corpus(tmp_path, train=many, dev=[record("d")]), Config())
    assert (len(data.train), ids(data.dev), data.test) == (120, ["d"], [])


def test_test_part_is_not_read_where_nobody_wants_it(tmp_path: Path) -> None:
    test = [record("e", [ORG]), {"id": "bad"}]
    folder = corpus(tmp_path, train=TRAIN, dev=[record("d")], test=test)
    with pytest.raises(DataError):
        load_training_data(folder, Config())
    data = load_training_data(folder, Config(), with_test=False)
    assert data.test == []
    assert data.schema.entity_types == ("Loc", "Peop")


@pytest.mark.parametrize("name", ["dev", "valid", "test"])
def test_folder_without_a_train_part_is_not_trained_on_another(small_corpus: Path, tmp_path: Path, name: str) -> None:
    shutil.copy(small_corpus / "dev.jsonl", tmp_path / f"{name}.jsonl")
    (tmp_path / "train.jsonl").touch()
    wanted = rf"found the part {name} alone; expected train, .*; skipped train\.jsonl: .* name its file"
    with pytest.raises(RelatumError, match=wanted):
        load_training_data(tmp_path, Config())
    with pytest.raises(RelatumError, match=wanted):
        make_fold_lists(tmp_path, 2, 0)
    assert load_training_data(tmp_path / f"{name}.jsonl", Config()).train


NESTED = ((2, 4, "Loc"), PEOP, LOC)


@pytest.mark.parametrize("overlaps", ["keep", "unset"])
def test_span_model_holds_entities_that_share_words(tmp_path: Path, overlaps: str) -> None:
    folder = corpus(tmp_path, train=[*TRAIN, record("n", NESTED)], dev=[record("d", NESTED)])
    data = load_training_data(folder, load_config(None, ["tagging.kind=spans", f"data.overlaps={overlaps}"]))
    for example in (data.train[-1], *data.dev):
        assert [(*one.span, one.label) for one in example.gold.entities] == list(NESTED)
    assert not data.leaves_out
    with pytest.raises(DataError, match="an overlapping entity, Loc 'in Rome'"):
        load_training_data(folder, load_config(None, [f"data.overlaps={overlaps}"]))


@pytest.mark.parametrize(
    ("kind", "overlaps"),
    [
        ("words", "unset"),
        ("words", "fail"),
        ("spans", "fail"),
        ("words", "keep"),
    ],
)
def test_overlaps_that_a_model_cannot_hold_are_scored_as_missed_if_bad_records_are_skipped(
    tmp_path: Path, kind: str, overlaps: str
) -> None:
    folder = corpus(tmp_path, train=TRAIN, dev=[record("d", NESTED), record("e")])
    settings = [f"tagging.kind={kind}", f"data.overlaps={overlaps}", "data.on_error=skip"]
    data = load_training_data(folder, load_config(None, settings))
    assert ids(data.dev) == ["d", "e"]
    assert data.leaves_out == (kind == "words")
    gold = data.dev[0].gold.entities + data.dev[0].left_out.entities
    assert {(*one.span, one.label) for one in gold} == set(NESTED)
