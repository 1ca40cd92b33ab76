from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from relatum.config import EncoderConfig
from relatum.encoders import pieces
from relatum.encoders.base import EncoderInput, EncoderOutput, Features
from relatum.encoders.hashing import files_hash
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.pieces import PieceTokenizer
from relatum.errors import RelatumError
from relatum.types import Context

from .conftest import VOCABULARY, wordpiece

MakeModel = Callable[[str], Path]
KINDS = ["bert", "roberta", "mpnet", "electra", "albert", "distilbert", "modernbert"]
SENTENCES = [["ab", "a", "abca", "q", "bc"], ["a"], ["cab", "\u00ad", "b"]]


def _plain(folder: Path, words: Sequence[str], config: EncoderConfig) -> tuple[Tensor, Tensor]:
    """Vectors and maps of one sentence, by loops over pieces."""
    model: Any = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = PieceTokenizer.load(folder)
    ids, places = list(tokenizer.prefix), []
    for word in words:
        pieces = tokenizer.cut(word)
        places.append(range(len(ids), len(ids) + len(pieces)))
        ids += pieces
    ids += tokenizer.suffix
    with torch.no_grad():
        output = model(torch.tensor([ids]), output_hidden_states=True, output_attentions=True)
    hidden = sum(output.hidden_states[-config.n_layers :])[0] / config.n_layers
    vectors = torch.stack(
        [
            sum(hidden[p] for p in place) / len(place) if config.pooling == "mean" else hidden[place[0]]
            for place in places
        ]
    )
    maps = torch.zeros(len(words), len(words), sum(a.shape[1] for a in output.attentions))
    for i, rows in enumerate(places):
        for j, columns in enumerate(places):
            values = [
                sum(float(layer[0, head, row, column]) for row in rows for column in columns)
                for layer in output.attentions
                for head in range(layer.shape[1])
            ]
            maps[i, j] = torch.tensor(values) / (len(rows) if config.attention_pooling == "mean" else 1)
    return vectors, maps


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_a_plain_loop_over_pieces(make_model: MakeModel, kind: str) -> None:
    folder = make_model(kind)
    config = EncoderConfig(n_layers=2)
    encoder = HuggingFaceEncoder.load(folder, config)
    assert (encoder.width, encoder.n_attention_maps) == (16, 6)
    output = encoder.encode(EncoderInput(SENTENCES))
    assert output.vectors.shape == (3, 5, 16)
    assert output.attention_maps is not None
    assert output.attention_maps.shape == (3, 5, 5, 6)
    for words, one in zip(SENTENCES, output.split([len(words) for words in SENTENCES]), strict=True):
        vectors, maps = _plain(folder, words, config)
        torch.testing.assert_close(one.vectors, vectors, rtol=1e-5, atol=2e-6)
        torch.testing.assert_close(one.attention_maps, maps, rtol=1e-5, atol=1e-6)
    assert not output.vectors[1, 1:].any(), "padding is zero"
    assert not output.attention_maps[1, 1:].any()
    assert not output.attention_maps[1, :, 1:].any()


def test_features_follow_the_settings_of_pooling(make_model: MakeModel) -> None:
    config = EncoderConfig(n_layers=3, pooling="first", attention_pooling="mean")
    output = HuggingFaceEncoder.load(make_model("bert"), config).encode(EncoderInput(SENTENCES[:1]))
    vectors, maps = _plain(make_model("bert"), SENTENCES[0], config)
    torch.testing.assert_close(output.vectors[0], vectors, rtol=1e-5, atol=2e-6)
    assert output.attention_maps is not None
    torch.testing.assert_close(output.attention_maps[0], maps, rtol=1e-5, atol=1e-6)
    assert float(output.attention_maps[0].sum(1).max()) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_a_sentence_do_not_depend_on_its_batch(make_model: MakeModel, kind: str) -> None:
    encoder = HuggingFaceEncoder.load(make_model(kind), EncoderConfig(n_layers=1))
    together = encoder.encode(EncoderInput(SENTENCES)).split([len(words) for words in SENTENCES])
    for words, one in zip(SENTENCES, together, strict=True):
        alone = encoder.encode(EncoderInput([words]))
        torch.testing.assert_close(one.vectors, alone.vectors[0], rtol=1e-5, atol=2e-6)
        assert alone.attention_maps is not None
        torch.testing.assert_close(one.attention_maps, alone.attention_maps[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_maps_are_left_out_when_not_wanted(make_model: MakeModel, kind: str) -> None:
    config = EncoderConfig(n_layers=1)
    without = HuggingFaceEncoder.load(make_model(kind), config, want_maps=False)
    output = without.encode(EncoderInput(SENTENCES))
    assert output.attention_maps is None
    assert without.n_attention_maps == 0
    full = HuggingFaceEncoder.load(make_model(kind), config)
    torch.testing.assert_close(output.vectors, full.encode(EncoderInput(SENTENCES)).vectors, rtol=1e-5, atol=2e-6)
    assert without.fingerprint != full.fingerprint


def test_words_are_cut_one_by_one_and_at_least_into_one_piece(make_model: MakeModel) -> None:
    encoder = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=1))
    #                           ab     abca         unknown  nothing left  not the special piece: [ s ##e ##p ]
    assert encoder.count_pieces(["ab", "AbcA", "a", "q", "\u00ad", "[SEP]", "abc" * 9]) == [2, 3, 1, 1, 1, 5, 18]


def test_mask_of_a_vocabulary_that_has_two_is_that_of_its_own_kind() -> None:
    tokenizer = wordpiece()
    tokenizer.add_special_tokens(["<mask>"])  # as MPNet, whose vocabulary was made from BERT's
    assert PieceTokenizer(tokenizer, Path("here")).mask == len(VOCABULARY)


def test_mask_is_a_piece_that_some_tokenizers_lack(make_model: MakeModel) -> None:
    assert PieceTokenizer.load(make_model("bert")).mask == VOCABULARY.index("[MASK]")
    with pytest.raises(RelatumError, match="the tokenizer has no mask piece; take an encoder"):
        _ = PieceTokenizer.load(make_model("roberta")).mask


def test_words_that_are_not_unicode_are_cut_too(make_model: MakeModel) -> None:
    encoder = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=1))
    assert encoder.count_pieces(["\ud800", "a\x00b", ""]) == [1, 2, 1]


def test_a_model_without_attention_between_all_pieces_is_read_without_maps(make_model: MakeModel) -> None:
    folder = make_model("longformer")
    with pytest.raises(RelatumError, match=r"set table\.attention_maps = false"):
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1))
    encoder = HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1), want_maps=False)
    assert encoder.encode(EncoderInput(SENTENCES)).vectors.shape == (3, 5, 16)


def test_pieces_of_long_words_are_forgotten_before_they_fill_the_memory(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "CACHE_BYTES", 200_000)
    tokenizer = PieceTokenizer.load(make_model("roberta"))
    words = ["ab" * (500 + number) for number in range(40)]
    cut = [tokenizer.cut(word) for word in words]
    assert 0 < tokenizer.n_cached_bytes <= 200_000
    assert 0 < len(tokenizer._cuts) < len(words), "not all of them have room"
    assert [tokenizer.cut(word) for word in words] == cut
    assert [PieceTokenizer.load(make_model("roberta")).cut(word) for word in words] == cut
    huge = "ab" * 10_000
    assert len(tokenizer.cut(huge)) > 5_000
    assert huge not in tokenizer._cuts, "one that has no room at all is cut all the same"
    assert pickle.loads(pickle.dumps(tokenizer)).cut(words[0]) == cut[0]


def test_words_of_a_byte_level_tokenizer_are_read_as_after_a_space(make_model: MakeModel) -> None:
    tokenizer = PieceTokenizer.load(make_model("roberta"))
    assert len(tokenizer.cut("a")) == 1, "Ġa is one piece"
    assert tokenizer.prefix == (0,)
    assert tokenizer.suffix == (2,)


@pytest.mark.parametrize("kind", KINDS)
def test_max_pieces_is_the_most_that_can_be_read(make_model: MakeModel, kind: str) -> None:
    encoder = HuggingFaceEncoder.load(make_model(kind), EncoderConfig(n_layers=1))
    # 24 positions, less [CLS] and [SEP], less the two that RoBERTa and MPNet never use.
    assert encoder.max_pieces == (20 if kind in ("roberta", "mpnet") else 22)
    assert encoder.encode(EncoderInput([["a"] * encoder.max_pieces])).vectors.isfinite().all()
    with pytest.raises(RelatumError, match=f"{encoder.max_pieces + 1} pieces is longer .* \\({encoder.max_pieces}\\)"):
        encoder.encode(EncoderInput([["a"] * (encoder.max_pieces + 1)]))


def test_too_many_layers_are_an_error_that_says_how_many_there_are(make_model: MakeModel) -> None:
    with pytest.raises(RelatumError, match=r"set encoder\.n_layers to 3 or less"):
        HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=4))


def test_no_sentences_and_sentences_without_words_have_no_features(make_model: MakeModel) -> None:
    encoder = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=1))
    assert encoder.encode(EncoderInput([])).vectors.shape == (0, 0, 16)
    empty = encoder.encode(EncoderInput([[], []]))
    assert empty.vectors.shape == (2, 0, 16)
    assert empty.attention_maps is not None
    assert empty.attention_maps.shape == (2, 0, 0, 6)
    mixed = encoder.encode(EncoderInput([[], ["a"]]))
    assert not mixed.vectors[0].any()


def test_fingerprint_changes_with_weights_and_settings_only(make_model: MakeModel, tmp_path: Path) -> None:
    folder = make_model("bert")
    shutil.copytree(folder, tmp_path / "copy")
    prints = [
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1)).fingerprint,
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=2)).fingerprint,
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1, pooling="first")).fingerprint,
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1, attention_pooling="mean")).fingerprint,
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1, context=3)).fingerprint,
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1, context=4)).fingerprint,
    ]
    assert len(set(prints)) == 6
    settings = [1, "mean", "sum", True]  # caches on disk and stored models have it so
    assert prints[0] == hashlib.sha256(f"{files_hash(folder)} {settings}".encode()).hexdigest()
    same = HuggingFaceEncoder.load(tmp_path / "copy", EncoderConfig(n_layers=1, name="other", cache="none"))
    assert same.fingerprint == prints[0]
    weights = load_file(tmp_path / "copy" / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][7, 7] += 1
    save_file(weights, tmp_path / "copy" / "model.safetensors")
    assert HuggingFaceEncoder.load(tmp_path / "copy", EncoderConfig(n_layers=1)).fingerprint != prints[0]


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_half_precision_on_disk_is_computed_in_single(make_model: MakeModel, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "half"
    shutil.copytree(make_model(kind), folder)
    weights = load_file(folder / "model.safetensors")
    halves = {name: value.half() if value.is_floating_point() else value for name, value in weights.items()}
    save_file(halves, folder / "model.safetensors", {"format": "pt"})
    output = HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1)).encode(EncoderInput(SENTENCES))
    assert output.vectors.dtype == torch.float32
    full = HuggingFaceEncoder.load(make_model(kind), EncoderConfig(n_layers=1)).encode(EncoderInput(SENTENCES))
    torch.testing.assert_close(output.vectors, full.vectors, rtol=0, atol=0.008)  # 0.0031 was seen
    assert not torch.equal(output.vectors, full.vectors)


def test_a_model_of_another_kind_with_weights_missing_is_refused(make_model: MakeModel, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(make_model("mpnet"), folder)
    weights = load_file(folder / "model.safetensors")
    weights.pop("encoder.layer.1.output.dense.weight")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(RelatumError, match=r"lack 1 tensors .* encoder\.layer\.1\.output\.dense\.weight"):
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1))
    (folder / "model.safetensors").unlink()
    with pytest.raises(RelatumError, match="the encoder cannot be loaded"):
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_broken_files_are_named(make_model: MakeModel, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(make_model("bert"), folder)
    (folder / name).write_text("{")
    with pytest.raises(RelatumError, match=r"broken.* cannot be read"):
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1))


def test_a_tokenizer_without_tokenizer_json_is_made_by_transformers(make_model: MakeModel, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    shutil.copytree(make_model("bert"), folder)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    old = HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1))
    new = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=1))
    assert torch.equal(old.encode(EncoderInput(SENTENCES)).vectors, new.encode(EncoderInput(SENTENCES)).vectors)


def test_bert_is_loaded_without_importing_transformers(make_model: MakeModel) -> None:
    code = (
        "import sys; from pathlib import Path; from relatum.config import EncoderConfig\n"
        "from relatum.encoders.base import EncoderInput\n"
        "from relatum.encoders.huggingface import HuggingFaceEncoder\n"
        "HuggingFaceEncoder.load(Path(sys.argv[1]), EncoderConfig(n_layers=1)).encode(EncoderInput([['a']]))\n"
        "assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(make_model("bert"))], check=True)


_WITH_CODE = """
import sys
from pathlib import Path
from relatum.config import EncoderConfig
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.pieces import PieceTokenizer
from relatum.errors import RelatumError
for load in (lambda folder: HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1)), PieceTokenizer.load):
    try:
        load(Path(sys.argv[1]))
    except RelatumError as error:
        print(error)
"""


@pytest.mark.parametrize("answer", ["", "y\ny\ny\n"], ids=["closed", "yes"])
def test_code_that_comes_with_an_encoder_is_never_run(make_model: MakeModel, tmp_path: Path, answer: str) -> None:
    folder, marker = tmp_path / "evil", tmp_path / "marker"
    shutil.copytree(make_model("mpnet"), folder)
    (folder / "tokenizer.json").unlink()
    described = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": ["evil.Cutter", None]}
    described.update(model_type="evil", auto_map=code)
    (folder / "config.json").write_text(json.dumps(described))
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": code}))
    (folder / "evil.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n"
        "from transformers import PretrainedConfig\nclass Config(PretrainedConfig):\n    model_type = 'evil'\n"
        "Model = Cutter = Config\n"
    )
    command = [sys.executable, "-c", _WITH_CODE, str(folder)]
    done = subprocess.run(command, input=answer, capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"{folder}: this encoder brings Python code of its own")
        assert line.endswith("such as all-minilm-l6-v2")
    assert not marker.exists()


AROUND = [Context(("b", "a"), ("ca", "a")), Context(("c",), ()), Context((), ("ab", "b"))]


def _split(output: EncoderOutput) -> list[Features]:
    return output.split([len(words) for words in SENTENCES])


def _assert_close(found: Features, wanted: Features) -> None:
    torch.testing.assert_close(found.vectors, wanted.vectors, rtol=1e-5, atol=2e-6)
    assert found.attention_maps is not None
    torch.testing.assert_close(found.attention_maps, wanted.attention_maps, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_features_with_context_are_those_of_the_passage(make_model: MakeModel, kind: str) -> None:
    settings: dict[str, Any] = {"n_layers": 2, "attention_pooling": "mean"}
    plain = HuggingFaceEncoder.load(make_model(kind), EncoderConfig(**settings))
    encoder = HuggingFaceEncoder.load(make_model(kind), EncoderConfig(context=3, **settings))
    output = encoder.encode(EncoderInput(SENTENCES, AROUND))
    for words, (before, after), one in zip(SENTENCES, AROUND, _split(output), strict=True):
        passage = plain.encode(EncoderInput([[*before, *words, *after]]))
        inside = slice(len(before), len(before) + len(words))
        assert passage.attention_maps is not None
        _assert_close(one, Features(passage.vectors[0, inside], passage.attention_maps[0, inside, inside]))
    assert not output.vectors[1, 1:].any(), "padding is zero"


def test_context_changes_features_and_an_empty_one_does_not(make_model: MakeModel) -> None:
    encoder = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=2, context=3))
    alone = encoder.encode(EncoderInput(SENTENCES))
    empty = encoder.encode(EncoderInput(SENTENCES, [Context()] * 3))
    assert torch.equal(alone.vectors, empty.vectors)
    assert alone.attention_maps is not None
    assert empty.attention_maps is not None
    assert torch.equal(alone.attention_maps, empty.attention_maps)
    for one, other in zip(_split(alone), _split(encoder.encode(EncoderInput(SENTENCES, AROUND))), strict=True):
        assert not torch.allclose(one.vectors, other.vectors, atol=1e-2)
    without = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=2))
    assert torch.equal(without.encode(EncoderInput(SENTENCES, AROUND)).vectors, alone.vectors), (
        "not asked for by its settings"
    )


def test_context_is_read_as_far_as_the_settings_say(make_model: MakeModel) -> None:
    encoder = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=2, context=1))
    nearest = [one.nearest(1) for one in AROUND]
    assert nearest != AROUND
    found, wanted = encoder.encode(EncoderInput(SENTENCES, AROUND)), encoder.encode(EncoderInput(SENTENCES, nearest))
    assert torch.equal(found.vectors, wanted.vectors)


@pytest.mark.parametrize(
    ("n_words", "before", "after", "read"),
    [
        (2, "a b c", "a b c", (3, 3)),
        (12, "a b c d e f g h", "a b c d e f g h", (5, 5)),
        (13, "a b c d e f g h", "a b c d e f g h", (5, 4)),
        (12, "a b", "a b c d e f g h", (2, 8)),
        (12, "a b c d e f g h", "a b", (8, 2)),
        (12, "", "a b c d e f g h a b c d", (0, 10)),
        (12, "a a a a a a a abca", "a a", (6, 2)),  # pieces: 1 … 1 3, of which the last is the nearest
        (12, "abca abca abca", "abca abca abca", (2, 1)),  # 6 + 3, and the tenth piece has no word
        (12, "abca abca abca", "a a a a a a a a", (2, 4)),
        (22, "a b", "a b", (0, 0)),
    ],
)
def test_context_that_has_no_room_is_shortened_evenly_from_the_far_ends(
    make_model: MakeModel, n_words: int, before: str, after: str, read: tuple[int, int]
) -> None:
    encoder = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=2, context=20))
    assert encoder.max_pieces == 22
    words, context = ["b"] * n_words, Context(tuple(before.split()), tuple(after.split()))
    near = Context(context.before[len(context.before) - read[0] :], context.after[: read[1]])
    assert n_words + sum(map(sum, map(encoder.count_pieces, near))) <= 22
    plain = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=2))
    (found,) = encoder.encode(EncoderInput([words], [context])).vectors
    (passage,) = plain.encode(EncoderInput([[*near.before, *words, *near.after]])).vectors
    torch.testing.assert_close(found, passage[read[0] : read[0] + n_words], rtol=1e-5, atol=2e-6)


def test_sentence_that_is_too_long_is_refused_with_context_too(make_model: MakeModel) -> None:
    encoder = HuggingFaceEncoder.load(make_model("bert"), EncoderConfig(n_layers=2, context=20))
    with pytest.raises(RelatumError, match=r"a sentence of 23 pieces is longer than the encoder can read \(22\)"):
        encoder.encode(EncoderInput([["a"] * 23], [Context(("a",), ("b",))]))


def test_words_are_cut_by_a_child_that_was_forked_while_one_was_remembered(make_model: Callable[..., Path]) -> None:
    tokenizer = PieceTokenizer.load(make_model("bert"))
    expected = PieceTokenizer.load(make_model("bert")).cut("abc")
    tokenizer._lock.acquire()  # as by a thread that the child does not have
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(tokenizer.cut, "abc")
        try:
            assert waiting.result(timeout=10) == expected
        finally:
            tokenizer._lock.release()
