"""A model written to a directory and read back, and directories that are not what they should be."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import relatum
from relatum.config import load_config
from relatum.encoders.hashing import files_hash
from relatum.encoders.resolve import load_encoder
from relatum.errors import ConfigError, RelatumError
from relatum.models.build import build_model
from relatum.models.checkpoint import load_model, save_model
from relatum.models.model import Model
from relatum.schema import Schema

from ..small_models import make_inputs, seal

BERT = {
    "vocab_size": 8,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 10,
    "max_position_embeddings": 16,
    "type_vocab_size": 1,
}
SMALL = ("model.width=8", "sequence.n_attention_heads=2", "sequence.feedforward_width=12", "characters.width=4")


def bert_shapes() -> dict[str, tuple[int, ...]]:
    """The weights of that BERT, under the names of published files."""
    width, inner = BERT["hidden_size"], BERT["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {}
    for kind, key in (
        ("word", "vocab_size"),
        ("position", "max_position_embeddings"),
        ("token_type", "type_vocab_size"),
    ):
        shapes[f"embeddings.{kind}_embeddings.weight"] = (BERT[key], width)
    products = {f"attention.self.{name}": (width, width) for name in ("query", "key", "value")}
    products |= {"attention.output.dense": (width, width)}
    products |= {"intermediate.dense": (inner, width), "output.dense": (width, inner)}
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(BERT["num_hidden_layers"])):
        for name, shape in products.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    return shapes | {f"{norm}.{kind}": (width,) for norm in norms for kind in ("weight", "bias")}


def make_encoder_folder(folder: Path, seed: int = 0) -> Path:
    """A small random BERT in the layout of Hugging Face."""
    folder.mkdir()
    generator = torch.Generator().manual_seed(seed)
    weights = {name: torch.randn(*shape, generator=generator) for name, shape in bert_shapes().items()}
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **BERT}))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "mara", "works", "tarn", "##s"]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def make_encoder_model(schema: Schema, folder: Path, store: str, *beside: Path) -> Model:
    names = f"encoder.beside={json.dumps([str(one) for one in beside])}"
    config = load_config(
        None, (*SMALL, f"encoder.name={folder}", f"encoder.store={store}", "encoder.n_layers=2", names)
    )
    torch.manual_seed(1)
    return build_model(config, schema, load_encoder(config.encoder, True), None, "amrstw")


def assert_same_outputs(one: Model, other: Model, sentences: list[list[str]]) -> None:
    one.network.eval()
    first, second = (model.network(make_inputs(model, sentences)) for model in (one, other))
    assert torch.equal(first.entity_logits, second.entity_logits)
    if first.relation_logits is None:
        assert second.relation_logits is None
    else:
        assert torch.equal(first.relation_logits, second.relation_logits)


@pytest.fixture
def saved(make_model: Any, tmp_path: Path) -> Path:
    """A model without an encoder, in its directory."""
    save_model(make_model("encoder.kind=none", encoder=False), tmp_path / "model", "A card.\n")
    return tmp_path / "model"


def edit(path: Path, change: Callable[[Any], None]) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    seal(path.parent)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("table.kind=cnn",),
        ("table.kind=none",),
        ("model.share_layers=true",),
        ("words.unknown=zero",),
        ("characters.kind=none",),
        ("tagging.scheme=bioes", "tagging.directed=false"),
        ('table.directions=["sw"]', 'table.predecessors=["up"]', "table.removed=dropped"),
    ],
    ids=" ".join,
)
def test_round_trip_gives_the_same_outputs(
    make_model: Any, tmp_path: Path, sentences: list[list[str]], overrides: tuple[str, ...]
) -> None:
    model: Model = make_model("encoder.kind=none", *overrides, encoder=False)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.config == model.config
    assert loaded.schema == model.schema
    assert loaded.words == model.words
    assert loaded.characters == model.characters
    assert_same_outputs(model, loaded, sentences)


def test_loaded_model_is_in_evaluation_mode_and_can_learn_on(saved: Path, sentences: list[list[str]]) -> None:
    model = load_model(saved)
    assert not model.network.training
    assert all(parameter.requires_grad for parameter in model.network.parameters())
    assert not any(parameter.is_meta for parameter in model.network.parameters())
    model.network.train()
    outputs = model.network(make_inputs(model, sentences))
    (outputs.entity_logits.sum() + outputs.relation_logits.sum()).backward()
    assert all(parameter.grad is not None for parameter in model.network.parameters())


def test_directory_holds_the_published_files_and_no_pickles(saved: Path) -> None:
    names = {path.name for path in saved.iterdir()}
    assert names == {"README.md", "config.json", "schema.json", "words.json", "model.safetensors", "manifest.json"}
    assert (saved / "README.md").read_text() == "A card.\n"
    for path in saved.iterdir():
        start = path.read_bytes()[:4]
        assert not start.startswith((b"\x80", b"PK"))
    assert json.loads((saved / "config.json").read_text())["config"]["model"]["width"] == 8


def test_saving_twice_gives_the_same_bytes(make_model: Any, tmp_path: Path) -> None:
    model: Model = make_model("encoder.kind=none", encoder=False)
    for name in ("one", "two"):
        save_model(model, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_half_precision_is_stored_and_read_as_single(
    make_model: Any, tmp_path: Path, sentences: list[list[str]]
) -> None:
    model: Model = make_model("encoder.kind=none", "training.save_dtype=float16", encoder=False)
    save_model(model, tmp_path / "model")
    stored = load_file(tmp_path / "model" / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    loaded = load_model(tmp_path / "model")
    assert {value.dtype for value in loaded.network.state_dict().values()} == {torch.float32}
    for parameter in model.network.parameters():
        parameter.data = parameter.data.half().float()
    assert model.network.embedder.words is not None
    vectors = model.network.embedder.words.get_buffer("vectors")
    vectors.copy_(vectors.half().float())
    assert_same_outputs(model, loaded, sentences)


def test_unicode_of_every_kind_survives(schema: Schema, tmp_path: Path) -> None:
    config = load_config(None, (*SMALL, "encoder.kind=none"))
    model = build_model(config, schema, None, None, ("é", "\u0301", "😀", '"', "\n", "\u2028"))
    save_model(model, tmp_path / "model")
    assert load_model(tmp_path / "model").characters == model.characters


@pytest.mark.parametrize("store", ["inside", "name"])
def test_encoder_travels_inside_or_is_found_by_name(
    schema: Schema, tmp_path: Path, sentences: list[list[str]], store: str
) -> None:
    folder = make_encoder_folder(tmp_path / "bert")
    model = make_encoder_model(schema, folder, store)
    save_model(model, tmp_path / "model")
    if store == "inside":
        shutil.rmtree(folder)
        assert (tmp_path / "model" / "encoder" / "tokenizer.json").exists()
    else:
        assert not (tmp_path / "model" / "encoder").exists()
    loaded = load_model(tmp_path / "model")
    assert loaded.encoder is not None
    # A new encoder of the same files: the first has lost its own.
    assert_same_outputs(model, loaded, sentences)


@pytest.mark.parametrize("store", ["inside", "name"])
def test_encoders_side_by_side_travel_like_one(
    schema: Schema, tmp_path: Path, sentences: list[list[str]], store: str
) -> None:
    folders = [make_encoder_folder(tmp_path / f"bert-{seed}", seed) for seed in range(3)]
    model = make_encoder_model(schema, folders[0], store, *folders[1:])
    save_model(model, tmp_path / "one")
    save_model(load_model(tmp_path / "one"), tmp_path / "two", before=tmp_path / "one")
    inside = [tmp_path / "two" / name for name in ("encoder", "encoder-2", "encoder-3")]
    assert [place.exists() for place in inside] == [store == "inside"] * 3
    assert_same_outputs(model, load_model(tmp_path / "two"), sentences)
    if store == "inside":
        weights = [
            folder / name / "model.safetensors"
            for folder in (tmp_path / "one", tmp_path / "two")
            for name in ("encoder", "encoder-3")
        ]
        assert weights[1].samefile(weights[3]), "it is not copied again and again"
        assert not weights[0].samefile(weights[1])
    # One that is another by now is named, whichever it is.
    other = (inside if store == "inside" else folders)[2]
    shutil.copyfile(folders[0] / "model.safetensors", other / "new")
    (other / "new").replace(other / "model.safetensors")  # not into the file: it may be that of another model, too
    with pytest.raises(RelatumError, match="sha256") as caught:
        load_model(tmp_path / "two")
    assert str(caught.value).startswith(str(other))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.pop("beside"), "found 0 encoders in 'beside', expected 1; copy the whole model"),
        (lambda record: record["beside"].clear(), "found 0 encoders in 'beside', expected 1; copy the whole model"),
        (lambda record: record.update(beside=["x"]), "found str as entry 1 of 'beside', expected dict; copy the whole"),
        (lambda record: record["beside"][0].pop("name"), "found no 'name', expected str; copy the whole model"),
    ],
)
def test_records_of_encoders_side_by_side_must_be_complete(
    schema: Schema, tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    folders = [make_encoder_folder(tmp_path / f"bert-{seed}", seed) for seed in range(2)]
    save_model(make_encoder_model(schema, folders[0], "inside", folders[1]), tmp_path / "model")
    edit(tmp_path / "model" / "config.json", change)
    with pytest.raises(RelatumError, match=message):
        load_model(tmp_path / "model")


def test_encoder_inside_that_is_gone_is_named(schema: Schema, tmp_path: Path) -> None:
    folders = [make_encoder_folder(tmp_path / f"bert-{seed}", seed) for seed in range(2)]
    save_model(make_encoder_model(schema, folders[0], "inside", folders[1]), tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / "encoder-2")
    with pytest.raises(RelatumError, match=r"encoder-2/config\.json: No such file .*; copy the whole model again"):
        load_model(tmp_path / "model")
    seal(tmp_path / "model")
    with pytest.raises(
        RelatumError, match="encoder-2: the files of the model's encoder-2 are not there; copy the whole model again"
    ):
        load_model(tmp_path / "model")


def test_encoder_stored_inside_can_be_saved_again(schema: Schema, tmp_path: Path, sentences: list[list[str]]) -> None:
    model = make_encoder_model(schema, make_encoder_folder(tmp_path / "bert"), "inside")
    save_model(model, tmp_path / "one")
    save_model(load_model(tmp_path / "one"), tmp_path / "two")
    shutil.rmtree(tmp_path / "one")
    assert_same_outputs(model, load_model(tmp_path / "two"), sentences)


CURES = {"inside": "copy the whole model again from where it was made", "name": "get the encoder"}


@pytest.mark.parametrize("store", ["inside", "name"])
def test_encoder_with_other_weights_is_refused(schema: Schema, tmp_path: Path, store: str) -> None:
    folder = make_encoder_folder(tmp_path / "bert")
    save_model(make_encoder_model(schema, folder, store), tmp_path / "model")
    other = make_encoder_folder(tmp_path / "other", seed=1)
    target = folder if store == "name" else tmp_path / "model" / "encoder"
    shutil.copyfile(other / "model.safetensors", target / "model.safetensors")
    with pytest.raises(RelatumError, match="sha256") as caught:
        load_model(tmp_path / "model")
    assert str(target) in str(caught.value)
    assert CURES[store] in str(caught.value)


@pytest.mark.parametrize("store", ["inside", "name"])
@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_encoder_with_other_files_is_refused(schema: Schema, tmp_path: Path, store: str, name: str) -> None:
    folder = make_encoder_folder(tmp_path / "bert")
    save_model(make_encoder_model(schema, folder, store), tmp_path / "model")
    target = (folder if store == "name" else tmp_path / "model" / "encoder") / name
    target.write_text(target.read_text() + " ")
    message = "its settings or its tokenizer are others" if store == "name" else "manifest.json says"
    with pytest.raises(RelatumError, match=message) as caught:
        load_model(tmp_path / "model")
    assert str(caught.value).startswith(f"{target.parent if store == 'name' else target}: ")
    assert CURES[store] in str(caught.value)


@pytest.mark.parametrize("name", ["news", "drugs"])
def test_models_that_come_with_relatum_say_which_files_their_encoder_has(name: str) -> None:
    pretrained = Path(relatum.__file__).parent / "pretrained"
    record = json.loads((pretrained / "models" / name / "config.json").read_text(encoding="utf-8"))["encoder"]
    assert record["files_sha256"] == files_hash(pretrained / "encoders" / record["name"])


def test_encoder_folder_that_is_gone_is_named_and_the_hub_not_asked(
    schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_encoder_folder(tmp_path / "bert")
    monkeypatch.chdir(tmp_path)
    save_model(make_encoder_model(schema, Path("bert"), "name"), tmp_path / "model")
    monkeypatch.chdir("/")
    load_model(tmp_path / "model")
    shutil.rmtree(folder)
    monkeypatch.setattr(
        "relatum.encoders.resolve.download_from_hub", lambda name: pytest.fail(f"asked the hub for {name}")
    )
    with pytest.raises(RelatumError, match="which is not there; put it back, or make a link there") as caught:
        load_model(tmp_path / "model")
    assert str(folder) in str(caught.value)


def test_encoder_is_linked_to_that_of_the_model_before(
    schema: Schema, tmp_path: Path, sentences: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_encoder_folder(tmp_path / "bert")
    model = make_encoder_model(schema, folder, "inside")
    save_model(model, tmp_path / "one")
    save_model(model, tmp_path / "two", before=tmp_path / "one")

    def fail(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", fail)
    save_model(model, tmp_path / "three", before=tmp_path / "two")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        places = (folder, *(tmp_path / one / "encoder" for one in ("one", "two", "three")))
        source, one, two, three = ((place / name).stat().st_ino for place in places)
        assert one == two
        assert len({source, one, three}) == 3, "the user's own files are never shared"
    for name in ("two", "three"):
        assert_same_outputs(model, load_model(tmp_path / name), sentences)


def test_target_that_is_not_empty_is_refused_and_left_alone(make_model: Any, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "mine.txt").write_text("keep")
    with pytest.raises(RelatumError, match="not empty"):
        save_model(make_model("encoder.kind=none", encoder=False), target)
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert list(tmp_path.iterdir()) == [target]


def test_empty_target_is_used(make_model: Any, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    save_model(make_model("encoder.kind=none", encoder=False), tmp_path / "model")
    load_model(tmp_path / "model")


def test_failure_while_writing_leaves_nothing(make_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("relatum.models.checkpoint.save_file", fail)
    with pytest.raises(OSError, match="full"):
        save_model(make_model("encoder.kind=none", encoder=False), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["config.json", "schema.json", "model.safetensors"])
def test_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(RelatumError) as caught:
        load_model(saved)
    assert str(saved / name) in str(caught.value)


def test_directory_that_does_not_exist_says_what_a_model_is(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="a model is a directory made by relatum train"):
        load_model(tmp_path / "nowhere")


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("keep", [0, 5, 100, -10])
def test_truncated_weights_are_refused(saved: Path, keep: int, sealed: bool) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    if sealed:
        seal(saved)
    with pytest.raises(RelatumError) as caught:
        load_model(saved)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "schema.json", "words.json"])
@pytest.mark.parametrize("content", ["", "{", "[1", "3", '"a"', "\ud83d"])
def test_broken_json_is_refused(saved: Path, name: str, content: str) -> None:
    (saved / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    seal(saved)
    with pytest.raises(RelatumError) as caught:
        load_model(saved)
    assert str(saved / name) in str(caught.value)


@pytest.mark.parametrize("format", [0, 1, 3, "2", None])
def test_other_format_is_refused_with_the_version_that_made_it(saved: Path, format: object) -> None:
    edit(saved / "config.json", lambda record: record.update(format=format, relatum_version="99.1"))
    with pytest.raises(RelatumError, match=r"expected 2; .* 99\.1.*install") as caught:
        load_model(saved)
    assert str(saved / "config.json") in str(caught.value)


def test_unknown_config_key_is_refused(saved: Path) -> None:
    edit(saved / "config.json", lambda record: record["config"]["model"].update(depth=3))
    with pytest.raises(ConfigError, match=r"model\.depth") as caught:
        load_model(saved)
    assert str(saved / "config.json") in str(caught.value)


def assert_refused(model: Path, name: str, message: str) -> None:
    """The error names the file, what is wrong with it and the cure."""
    with pytest.raises(RelatumError) as caught:
        load_model(model)
    assert str(caught.value).startswith(f"{model / name}: ")
    assert message in str(caught.value)
    assert "copy the whole model again" in str(caught.value)


@pytest.mark.parametrize("key", ["config", "encoder", "characters"])
def test_missing_key_of_the_record_is_refused(saved: Path, key: str) -> None:
    edit(saved / "config.json", lambda record: record.pop(key))
    assert_refused(saved, "config.json", f"found no {key!r}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("config", None, "found NoneType for 'config', expected dict"),
        ("config", [], "found list for 'config', expected dict"),
        ("config", {"model": 3}, "model: "),
        ("config", {"model": {"width": "wide"}}, "model.width: "),
        ("encoder", "bert", "found str for 'encoder', expected dict or null"),
        ("encoder", {}, "found no 'name', expected str"),
        ("encoder", {"name": "a", "sha256": 3, "inside": True}, "found int for 'sha256', expected str"),
        ("encoder", {"name": "a", "sha256": "b", "inside": None}, "found NoneType for 'inside', expected bool"),
        (
            "encoder",
            {"name": "a", "sha256": "b", "inside": True, "files_sha256": 3},
            "found int for 'files_sha256', expected str",
        ),
        ("characters", "abc", "found str for 'characters', expected list or null"),
        ("characters", ["a", 3], "found 3 as entry 2, expected strings that differ"),
        ("characters", ["a", "b", "a"], "found 'a' as entry 3, expected strings that differ"),
        ("characters", [["a"]], "found ['a'] as entry 1, expected strings that differ"),
        ("encoder", {"name": "a", "sha256": "b", "inside": True}, "found no 'files_sha256', expected str"),
        ("characters", None, "do not fit config.json"),
    ],
)
def test_wrong_value_of_the_record_is_refused(saved: Path, key: str, value: object, message: str) -> None:
    edit(saved / "config.json", lambda record: record.update({key: value}))
    assert_refused(saved, "model.safetensors" if "config.json" in message else "config.json", message)


def test_json_that_is_too_deep_is_refused(saved: Path) -> None:
    (saved / "config.json").write_text("[" * 100_000)
    seal(saved)
    assert_refused(saved, "config.json", "not valid JSON")


@pytest.mark.parametrize("place", [-1, -1000, 2000])
def test_flipped_bit_of_the_weights_is_refused(saved: Path, place: int) -> None:
    path = saved / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert_refused(saved, "model.safetensors", "the file has the sha256")


def test_weights_of_another_shape_are_refused(saved: Path) -> None:
    edit(saved / "config.json", lambda record: record["config"]["model"].update(width=16))
    with pytest.raises(RelatumError, match="do not fit") as caught:
        load_model(saved)
    assert str(saved / "model.safetensors") in str(caught.value)


def test_schema_of_another_task_is_refused(saved: Path) -> None:
    edit(saved / "schema.json", lambda record: record["entity_types"].append("Loc"))
    with pytest.raises(RelatumError, match="do not fit"):
        load_model(saved)


def test_weights_without_the_word_vectors_are_refused(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    vectors = weights.pop("embedder.words.vectors")
    for one in (weights, {**weights, "embedder.words.vectors": vectors[:, 0].clone()}):
        save_file(one, saved / "model.safetensors")
        seal(saved)
        assert_refused(saved, "model.safetensors", "found no vectors for the words of words.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mara"], "found 1 words, but model.safetensors has vectors for 3"),
        (["mara", "works", "tarn", "more"], "found 4 words, but model.safetensors has vectors for 3"),
        (["mara", "mara", "tarn"], "found 'mara' as entry 2, expected strings that differ"),
        ([1, 2, 3], "found 1 as entry 1, expected strings that differ"),
    ],
)
def test_words_that_do_not_fit_their_vectors_are_refused(saved: Path, words: list[object], message: str) -> None:
    """Fewer or more words than vectors would give words the vectors of others, or none at all."""
    (saved / "words.json").write_text(json.dumps(words))
    seal(saved)
    assert_refused(saved, "words.json", message)


def test_missing_words_are_refused(saved: Path) -> None:
    (saved / "words.json").unlink()
    assert_refused(saved, "words.json", "No such file")
    seal(saved)
    with pytest.raises(RelatumError, match="do not fit"):
        load_model(saved)
