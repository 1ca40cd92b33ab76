"""Models that learn from the probabilities of trained models."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from relatum.config import load_config
from relatum.encoders.base import EncoderInput
from relatum.errors import ConfigError, RelatumError
from relatum.extractor.ensemble import Ensemble, load_ensemble
from relatum.models.checkpoint import load_model, save_model
from relatum.models.labels import Targets, label_example, make_tag_sets
from relatum.models.losses import joint_loss
from relatum.models.model import Model
from relatum.runtime.torch import TorchRuntime
from relatum.schema import RelationType, Schema
from relatum.training import distillation, unlabelled
from relatum.training.arguments import TrainArguments, list_overrides
from relatum.training.batches import Batches
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.distillation import read_targets
from relatum.training.loop import TrainingStopped
from relatum.training.micro_batches import part_loss
from relatum.training.runs.plan import RunsRequest, start_runs, with_seed
from relatum.training.train import resume, train
from relatum.training.unlabelled import draw_unlabelled
from relatum.types import Annotation, Example, Sentence

from ..small_models import SCHEMA, make_small_model, make_small_span_model
from .conftest import TINY, Silent
from .test_loop import assert_same_run

Make = Callable[..., Model]
TEXT = [f"Mara Ilves of Tarn Shipping met {name} in Oslo ." for name in ("Tom", "Ann", "Ida", "Per", "Eva", "Jon")]


@pytest.fixture(scope="module")
def teachers(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models that have learned a little."""
    folder = tmp_path_factory.mktemp("teachers")
    given = [
        *TINY,
        "tagging.kind=words",
        "training.steps=40",
        "training.evaluate_every=40",
        "training.learning_rate=0.01",
    ]
    first, second = (
        train(small_corpus, out=folder / str(seed), overrides=given, seed=seed, device="cpu").model for seed in (1, 2)
    )
    return first, second


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    return path


def name_teachers(*teachers: Path) -> str:
    return f"training.teachers={json.dumps(list(map(str, teachers)))}"


def save(model: Model, folder: Path) -> Path:
    save_model(model, folder)
    return folder


def make_examples(*texts: str) -> list[Example]:
    return [Example(Sentence(tuple(text.split())), Annotation()) for text in texts]


def teacher_limit(folder: Path) -> int | None:
    encoder = load_model(folder).encoder
    return None if encoder is None else encoder.max_pieces


def never() -> bool:
    return False


def read_all(student: Model, examples: Sequence[Example], n_labelled: int = 0) -> list[Targets]:
    targets = read_targets(student, examples, n_labelled, never, lambda _: None)
    assert targets is not None
    return targets


def probabilities(model: Model, example: Example) -> tuple[Tensor, Tensor]:
    """The probabilities of words and of cells."""
    outputs = TorchRuntime(model).read(EncoderInput([example.sentence.words]))
    assert outputs.relation_logits is not None
    of_cells = outputs.relation_logits[0]
    cells = of_cells.sigmoid() if model.tagging.has_tag_sets else of_cells.softmax(-1)
    return outputs.entity_logits[0].softmax(-1), cells


@pytest.mark.parametrize("make", [make_small_model, make_small_span_model])
def test_targets_are_the_mean_probabilities_of_the_teachers(make: Make, tmp_path: Path) -> None:
    teachers = [make(seed=seed) for seed in (5, 6)]
    folders = [save(model, tmp_path / str(number)) for number, model in enumerate(teachers)]
    student = make(name_teachers(*folders), seed=7)
    examples = make_examples("anna lives in oslo", "he saw her")
    for example, targets in zip(examples, read_all(student, examples), strict=True):
        found = [probabilities(model, example) for model in teachers]
        words, cells = (sum(parts) / 2 for parts in zip(*found, strict=True))
        torch.testing.assert_close(targets.entity.float(), words, rtol=0, atol=1e-3)
        assert targets.relation is not None
        mixed = targets.relation.float()
        mixed = (mixed / 2).sigmoid() if student.tagging.has_tag_sets else mixed  # log-odds are doubled
        torch.testing.assert_close(mixed, cells, rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", ["words", "spans"])
def test_types_of_teacher_and_student_may_be_in_another_order(kind: str, tmp_path: Path) -> None:
    turned = Schema(SCHEMA.entity_types[::-1], (RelationType("Kin", symmetric=True), RelationType("Live_In")))
    teacher = make_small_model(f"tagging.kind={kind}", schema=turned, spread=0.8)
    student = make_small_model(f"tagging.kind={kind}", name_teachers(save(teacher, tmp_path / "teacher")))
    (example,) = examples = make_examples("anna lives in oslo")
    (targets,) = read_all(student, examples)
    words, cells = probabilities(teacher, example)
    assert student.tagging.words.names != teacher.tagging.words.names
    for place, name in enumerate(student.tagging.words.names):
        there = teacher.tagging.words.names.index(name)
        torch.testing.assert_close(targets.entity[:, place].float(), words[:, there], rtol=0, atol=1e-3)
    assert targets.relation is not None
    found = (targets.relation.float() / 2).sigmoid() if kind == "spans" else targets.relation.float()
    for place, name in enumerate(student.tagging.cells.names):
        there = teacher.tagging.cells.names.index(name)
        torch.testing.assert_close(found[..., place], cells[..., there], rtol=0, atol=1e-3)


def test_weight_is_for_annotated_sentences_alone(tmp_path: Path) -> None:
    teacher = save(make_small_model(seed=5), tmp_path / "teacher")
    examples = make_examples("anna lives in oslo", "anna lives in oslo")
    half, gold = (
        read_all(make_small_model(name_teachers(teacher), f"training.teacher_weight={weight}"), examples, n_labelled=1)
        for weight in (0.5, 0.0)
    )
    assert torch.equal(gold[0].entity.sum(0)[1:], torch.zeros_like(gold[0].entity[0, 1:]))
    assert torch.equal(half[1].entity, gold[1].entity)
    assert gold[1].entity[:, 1:].max() > 0.1
    mean = (gold[0].entity.float() + gold[1].entity.float()) / 2
    torch.testing.assert_close(half[0].entity.float(), mean, rtol=0, atol=1e-3)


def test_reading_changes_no_random_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_and_draw(*arguments: Any, **named: Any) -> Ensemble:
        torch.rand(1), random.random()
        return load_ensemble(*arguments, **named)

    monkeypatch.setattr(distillation, "load_ensemble", load_and_draw)
    student = make_small_model(name_teachers(save(make_small_model(seed=5), tmp_path / "teacher")))
    before, python = torch.random.get_rng_state(), random.getstate()
    read_all(student, make_examples("anna lives in oslo"))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert random.getstate() == python


def test_reading_ends_where_it_is_asked_to(tmp_path: Path) -> None:
    student = make_small_model(name_teachers(save(make_small_model(seed=5), tmp_path / "teacher")))
    assert read_targets(student, make_examples("anna lives"), 0, lambda: True, lambda _: None) is None


def test_sentence_that_is_too_long_for_a_teacher_is_learned_from_gold(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = ("encoder.kind=huggingface", f"encoder.name={tiny_bert}", "encoder.n_layers=2")
    teacher = save(make_small_model(*encoder, spread=0.2), tmp_path / "teacher")
    student, said = make_small_model(name_teachers(teacher)), list[str]()
    most = "abcdefgh " * 7 + "abcdef"  # 62 pieces
    assert teacher_limit(teacher) == 62
    examples = make_examples("anna lives in oslo", most + " a", most)
    targets = read_targets(student, examples, 3, never, said.append)
    assert targets is not None
    labels = label_example(examples[1], student, make_tag_sets(student))
    assert torch.equal(targets[1].entity.argmax(-1), labels.entity_tags)
    assert targets[1].entity.max(-1).values.eq(1).all()
    assert not targets[0].entity.max(-1).values.eq(1).all()
    assert not targets[2].entity.max(-1).values.eq(1).all()
    assert "1 sentences are too long for the encoder of a teacher and are learned from gold alone" in said
    with pytest.raises(RelatumError, match=r"too long for the encoder of a teacher: 'abcdefgh abcdefgh .*remove it"):
        read_targets(student, examples, 1, never, said.append)


@pytest.mark.parametrize(("of_teacher", "of_student", "hears"), [(9, 0, True), (9, 9, False), (0, 9, False)])
def test_teacher_that_gets_less_context_than_it_is_used_to_is_a_remark(
    tiny_bert: Path, tmp_path: Path, of_teacher: int, of_student: int, hears: bool
) -> None:
    encoder = ("encoder.kind=huggingface", f"encoder.name={tiny_bert}", "encoder.n_layers=2")
    teacher = save(make_small_model(*encoder, f"encoder.context={of_teacher}", spread=0.2), tmp_path / "teacher")
    student = make_small_model(*encoder, f"encoder.context={of_student}", name_teachers(teacher), spread=0.2)
    said: list[str] = []
    read_targets(student, make_examples("anna lives in oslo"), 1, never, said.append)
    remark = "was trained to read up to 9 words around a sentence, and gets 0 here; with encoder.context=9 it teaches"
    assert any(remark in line for line in said) == hears


def test_targets_that_do_not_fit_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = make_small_model(name_teachers(save(make_small_model(), tmp_path / "teacher")))
    examples = make_examples("anna lives in oslo")
    (targets,) = read_all(student, examples)
    assert targets.relation is not None
    size = targets.entity.nbytes + targets.relation.nbytes
    monkeypatch.setattr(distillation, "free_memory", lambda: 2 * size)
    read_all(student, examples)
    monkeypatch.setattr(distillation, "free_memory", lambda: 2 * size - 1)
    with pytest.raises(RelatumError, match=r"4 tags for each pair.*lower training\.unlabelled_sentences"):
        read_all(student, examples)


@pytest.mark.parametrize("make", [make_small_model, make_small_span_model])
def test_parts_of_a_batch_learn_what_the_batch_learns(make: Make, tmp_path: Path) -> None:
    student = make(name_teachers(save(make(seed=5), tmp_path / "teacher")), "training.loss=mean")
    examples = make_examples("anna lives in oslo", "he saw her", "tom is here")
    config, batches = student.config.training, Batches(student, examples)
    batches.follow(read_all(student, examples))

    def score(indices: list[int], n_tags: tuple[int, int] | None) -> Tensor:
        inputs, labels = batches.make(indices)
        outputs = student.score(inputs)
        return (
            joint_loss(outputs, labels, config).total if n_tags is None else part_loss(outputs, labels, n_tags, config)
        )

    counts = batches.count_tags([0, 1, 2])
    parts = score([0], counts) + score([1, 2], counts)
    torch.testing.assert_close(parts, score([0, 1, 2], None))


def distance(student: Model, teachers: Sequence[Model], examples: Sequence[Example]) -> float:
    """The mean divergence of a student's probabilities from the mean of the teachers', over words and cells."""
    total = count = 0.0
    for example in examples:
        found = [probabilities(model, example) for model in teachers]
        for ours, *theirs in zip(probabilities(student, example), *found, strict=True):
            wanted = torch.stack(theirs).mean(0)
            total += float((wanted * (wanted / ours).log()).sum())
            count += ours[..., 0].numel()
    return total / count


def test_student_gets_nearer_to_its_teachers(
    small_corpus: Path, teachers: tuple[Path, Path], text: Path, tmp_path: Path
) -> None:
    given = [
        *TINY,
        "tagging.kind=words",
        "training.steps=60",
        "training.evaluate_every=60",
        "training.learning_rate=0.01",
        "model.dropout=0.1",
    ]
    taught = [*given, name_teachers(*teachers), "training.teacher_weight=1.0", f"training.unlabelled={text}"]
    heard = Silent()
    models = [
        load_model(train(small_corpus, out=tmp_path / name, overrides=overrides, device="cpu", monitor=heard).model)
        for name, overrides in (("gold", given), ("taught", taught))
    ]
    data = load_training_data(small_corpus, load_config(None, given))
    of_gold, of_taught = (distance(model, [load_model(one) for one in teachers], data.dev) for model in models)
    assert of_taught < 0.7 * of_gold
    assert "6 sentences of unlabelled text are learned from, too" in heard.said
    (said,) = [line for line in heard.said if "with the teachers" in line]
    assert "6 of them without annotations" in said
    assert all(str(teacher) in said for teacher in teachers)


def test_resumed_run_goes_on_to_the_same_weights(
    small_corpus: Path, teachers: tuple[Path, Path], text: Path, tmp_path: Path
) -> None:
    given = [*TINY, name_teachers(*teachers), f"training.unlabelled={text}"]
    train(small_corpus, out=tmp_path / "whole", overrides=given, device="cpu")
    stop_after_4(small_corpus, tmp_path / "stopped", given)
    resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_run_is_not_resumed_with_other_unlabelled_text(
    small_corpus: Path, teachers: tuple[Path, Path], text: Path, tmp_path: Path
) -> None:
    given = [*TINY, name_teachers(*teachers), f"training.unlabelled={text}"]
    stop_after_4(small_corpus, tmp_path / "run", given)
    text.write_text("\n".join(TEXT[1:]) + "\n", encoding="utf-8")
    with pytest.raises(RelatumError, match="the data has changed"):
        resume(tmp_path / "run")


def stop_after_4(corpus: Path, out: Path, given: Sequence[str]) -> None:
    heard = Silent()
    heard.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 4 else None
    with pytest.raises(TrainingStopped):
        train(corpus, out=out, overrides=given, device="cpu", monitor=heard)


def test_run_is_not_resumed_with_another_teacher(
    small_corpus: Path, teachers: tuple[Path, Path], tmp_path: Path
) -> None:
    teacher = tmp_path / "teacher"
    shutil.copytree(teachers[0], teacher)
    stop_after_4(small_corpus, tmp_path / "run", [*TINY, name_teachers(teacher)])
    shutil.rmtree(teacher)
    shutil.copytree(teachers[1], teacher)
    with pytest.raises(RelatumError, match=r"teacher has changed since .*run was stopped: found teacher-\w+, expected"):
        resume(tmp_path / "run")
    shutil.rmtree(teacher)
    save(make_small_model(), teacher)
    with pytest.raises(RelatumError, match="teacher has changed since"):
        resume(tmp_path / "run")


def test_teacher_with_other_tags_is_refused_when_a_run_goes_on(tmp_path: Path) -> None:
    student = make_small_model(name_teachers(save(make_small_span_model(), tmp_path / "teacher")))
    with pytest.raises(ConfigError, match=r"tagging\.kind of .*: spans; tagging\.kind of this run: words"):
        read_all(student, make_examples("anna lives in oslo"))


TAUGHT = ('training.teachers=["news"]', "training.unlabelled=text.txt")


def load(corpus: Path, text: Path, *overrides: str) -> TrainingData:
    given = [*TINY, 'training.teachers=["news"]', f"training.unlabelled={text}", *overrides]
    return load_training_data(corpus, load_config(None, given))


def test_unlabelled_text_is_new_and_neither_too_short_nor_too_long(small_corpus: Path, text: Path) -> None:
    plain = load_training_data(small_corpus, load_config(None, TINY))
    copies = [" ".join(part[0].sentence.words) for part in (plain.train, plain.dev, plain.test)]
    assert all(len(copy.split()) >= 4 for copy in copies)
    long = " ".join(["many"] * 61)
    extreme = f"A word of {'x' * 65} is none ."
    most = f"A word of {'x' * 64} is one ."
    lines = [
        *copies,
        copies[2].upper(),
        "Too short .",
        long,
        extreme,
        most,
        TEXT[0],
        TEXT[0],
        "Oslo is a city. " + TEXT[1],
    ]
    text.write_text("\n".join(lines), encoding="utf-8")
    data = load(small_corpus, text)
    found = {" ".join(example.sentence.words) for example in data.unlabelled}
    assert found == {TEXT[0], TEXT[1], "Oslo is a city .", most}
    assert len(data.unlabelled) == 4
    assert all(example.gold == Annotation() for example in data.unlabelled)
    assert data.schema == plain.schema
    assert data.parts == plain.parts
    assert data.fingerprint() != plain.fingerprint()


def test_unlabelled_sentences_are_drawn_from_the_whole_file_by_the_seed(small_corpus: Path, text: Path) -> None:
    text.write_text("".join(f"This is the sentence number {n} .\n" for n in range(1000)), encoding="utf-8")

    def draw(seed: int) -> list[int]:
        data = load(small_corpus, text, "training.unlabelled_sentences=20", f"training.seed={seed}")
        return [int(example.sentence.words[5]) for example in data.unlabelled]

    first = draw(0)
    assert len(set(first)) == 20
    assert min(first) < 300
    assert max(first) > 700
    assert draw(0) == first
    assert draw(1) != first


def test_unlabelled_sentences_are_of_many_documents(text: Path) -> None:
    lines = (" ".join(f"Line {n} has a part {part}." for part in range(10)) for n in range(30))
    text.write_text("\n".join(lines), encoding="utf-8")
    drawn = draw_unlabelled(str(text), [], load_config(None, [*TAUGHT, "training.unlabelled_sentences=20"]))
    documents = {int(example.sentence.words[1]) for example in drawn}
    assert len(drawn) == 20
    assert len(documents) > 4
    assert max(documents) > 15


def test_all_items_are_drawn_as_often() -> None:
    counts = Counter(item for seed in range(1000) for item in unlabelled._draw(range(5), 2, random.Random(seed)))
    assert all(350 < counts[item] < 450 for item in range(5))


def test_passages_without_labels_are_as_long_as_the_model_reads(text: Path) -> None:
    short, long = (" ".join(f"Part {part} is here." for part in range(n)) for n in (16, 17))
    text.write_text(f"{short}\n{long}\n", encoding="utf-8")
    given = [*TAUGHT, "text.unit=passage", "extraction.max_words=80"]
    (drawn,) = draw_unlabelled(str(text), [], load_config(None, given))
    assert len(drawn.sentence.words) == 80


def test_unlabelled_text_without_a_usable_sentence_is_an_error(small_corpus: Path, text: Path) -> None:
    text.write_text("Nothing .\n", encoding="utf-8")
    with pytest.raises(RelatumError, match=r"training\.unlabelled: .*text\.txt has no new sentence of 4 to 60 words"):
        load(small_corpus, text)
    text.write_bytes((small_corpus / "train.jsonl").read_bytes())
    with pytest.raises(RelatumError, match=r"training\.unlabelled: .*text\.txt: found JSON; expected plain text"):
        load(small_corpus, text)
    with pytest.raises(RelatumError, match=r"training\.unlabelled: no such file .*missing\.txt; name a text file"):
        load(small_corpus, text.with_name("missing.txt"))
    with pytest.raises(RelatumError, match=r"training\.unlabelled: no such file"):
        draw_unlabelled("", [], load_config(None, TINY))


def test_run_that_leaves_the_tagging_open_takes_that_of_its_teachers(
    small_corpus: Path, teachers: tuple[Path, Path], tmp_path: Path
) -> None:
    own = ["tagging.kind=spans", "tagging.scheme=bioes"]
    teacher = train(small_corpus, out=tmp_path / "teacher", overrides=[*TINY, *own], device="cpu").model
    taught = train(small_corpus, out=tmp_path / "taught", overrides=[*TINY, name_teachers(teacher)], device="cpu")
    tagging = load_model(taught.model).config.tagging
    assert (tagging.kind, tagging.scheme) == ("spans", "bioes")
    with pytest.raises(ConfigError, match=r"tagging\.kind of .*: words; tagging\.kind of this run: spans"):
        train(small_corpus, out=tmp_path / "mixed", overrides=[*TINY, name_teachers(teacher, *teachers)], device="cpu")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["tagging.kind=spans"],
            r"tagging\.kind of .*: words; tagging\.kind of this run: spans.* --set tagging\.kind=words",
        ),
        (["tagging.directed=false"], r"tagging\.directed of .*: true; .* --set tagging\.directed=true"),
        (
            ["text.unit=passage"],
            r"text\.unit of .*: sentence; text\.unit of this run: passage.* --set text\.unit=sentence",
        ),
        (["table.kind=none"], r"table of relations of .*: there is one; table of relations of this run: none"),
    ],
)
def test_teacher_with_other_tags_is_refused(
    small_corpus: Path, teachers: tuple[Path, Path], tmp_path: Path, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(small_corpus, out=tmp_path / "run", overrides=[*TINY, name_teachers(*teachers), *overrides], device="cpu")
    assert not (tmp_path / "run").exists()


def test_teacher_may_have_chosen_between_annotations_in_another_way(tmp_path: Path) -> None:
    teacher = save(make_small_model("tagging.conflicts=first"), tmp_path / "teacher")
    student = make_small_model(name_teachers(teacher), "tagging.conflicts=last")
    assert read_all(student, make_examples("anna lives in oslo"))


def test_teacher_with_other_labels_is_refused(small_corpus: Path, teachers: tuple[Path, Path], tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(small_corpus, data)
    for path in data.glob("*.jsonl"):
        path.write_text(path.read_text(encoding="utf-8").replace('"Peop"', '"Person"'), encoding="utf-8")
    message = (
        r"entity types of .*: .*Peop; entity types of this run: .*Person.*train a teacher on the labels of this run"
    )
    with pytest.raises(ConfigError, match=message):
        train(data, out=tmp_path / "run", overrides=[*TINY, name_teachers(teachers[0])], device="cpu")


def test_teachers_that_make_no_ensemble_are_refused_before_there_is_a_run(
    small_corpus: Path, teachers: tuple[Path, Path], tmp_path: Path
) -> None:
    other = load_model(teachers[1])
    decoding = other.config.decoding.model_copy(update={"constraints": "schema"})
    other = replace(other, config=other.config.model_copy(update={"decoding": decoding}))
    link = tmp_path / "link"
    link.symlink_to(teachers[0])
    for second, message in (
        (save(other, tmp_path / "other"), r"other cannot join .*: decoding\.constraints is 'schema' there"),
        (link, "link: the model is named twice"),
    ):
        given = [*TINY, name_teachers(teachers[0], second)]
        with pytest.raises(RelatumError, match=message):
            train(small_corpus, out=tmp_path / "run", overrides=given, device="cpu")
        assert not (tmp_path / "run").exists()


def test_teachers_and_text_are_paths_in_python(
    small_corpus: Path, teachers: tuple[Path, Path], text: Path, tmp_path: Path
) -> None:
    given = list_overrides({"training.teachers": list(teachers), "training.unlabelled": text})
    config = TrainArguments(small_corpus, tmp_path / "run", None, (*TINY, *given)).load_config()
    assert config.training.teachers == tuple(map(str, teachers))
    assert config.training.unlabelled == str(text)


def test_teacher_without_the_symmetric_relations_of_a_run_is_refused(tmp_path: Path) -> None:
    one_way = Schema(SCHEMA.entity_types, (RelationType("Live_In"), RelationType("Kin")))
    student = make_small_model(name_teachers(save(make_small_model(schema=one_way), tmp_path / "teacher")))
    with pytest.raises(ConfigError, match=r"symmetric relation types of .*: none; .* of this run: Kin"):
        read_all(student, make_examples("anna lives in oslo"))


def test_teacher_that_does_not_exist_is_an_error(small_corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="no-model: no such model"):
        train(small_corpus, out=tmp_path / "run", overrides=[*TINY, 'training.teachers=["no-model"]'], device="cpu")
    assert not (tmp_path / "run").exists()


def test_runs_of_several_seeds_draw_their_own_sentences(
    small_corpus: Path, teachers: tuple[Path, Path], text: Path, tmp_path: Path
) -> None:
    config = load_config(None, [*TINY, name_teachers(*teachers), f"training.unlabelled={text}"])
    plan = start_runs(tmp_path / "runs", small_corpus, config, RunsRequest(n_runs=2, device="cpu"))
    for run in plan.runs:
        data = load_training_data(small_corpus, with_seed(config, run.seed))
        assert run.fingerprint == data.fingerprint()


def test_runs_with_a_teacher_of_other_tags_are_refused(
    small_corpus: Path, teachers: tuple[Path, Path], tmp_path: Path
) -> None:
    config = load_config(None, [*TINY, name_teachers(*teachers), "tagging.directed=false"])
    with pytest.raises(ConfigError, match=r"tagging\.directed of .*: true"):
        start_runs(tmp_path / "runs", small_corpus, config, RunsRequest(n_runs=2, device="cpu"))
    assert not (tmp_path / "runs").exists()
