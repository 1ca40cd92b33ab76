from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest
import torch

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput, TextEncoder
from relatum.encoders.elmo import ElmoEncoder
from relatum.encoders.resolve import load_encoder
from relatum.errors import MissingExtraError, RelatumError

Array = npt.NDArray[np.float64]
OPTIONS: dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 5,
        "cell_clip": 0.4,
        "proj_clip": 0.3,
        "dim": 7,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 3], [2, 4], [3, 6]],
        "n_highway": 2,
        "embedding": {"dim": 4},
        "n_characters": 262,
        "max_characters_per_token": 12,
    },
}
SENTENCES = [["The", "Zürich", "internationalisation", "."], ["a"], ["", "The", "The"]]


def _random_weights(options: dict[str, Any]) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    cnn, lstm = options["char_cnn"], options["lstm"]
    total, width, inner = sum(n for _, n in cnn["filters"]), lstm["projection_dim"], lstm["dim"]
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, cnn["embedding"]["dim"])}
    for i, (size, n) in enumerate(cnn["filters"]):
        shapes |= {f"CNN/W_cnn_{i}": (1, size, cnn["embedding"]["dim"], n), f"CNN/b_cnn_{i}": (n,)}
    for i in range(cnn["n_highway"]):
        for name in ("carry", "transform"):
            shapes |= {f"CNN_high_{i}/W_{name}": (total, total), f"CNN_high_{i}/b_{name}": (total,)}
    if total != width:
        shapes |= {"CNN_proj/W_proj": (total, width), "CNN_proj/b_proj": (width,)}
    for direction in range(2):
        for layer in range(lstm["n_layers"]):
            place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {
                f"{place}/W_0": (2 * width, 4 * inner),
                f"{place}/B": (4 * inner,),
                f"{place}/W_P_0": (inner, width),
            }
    return {name: rng.normal(scale=0.6, size=shape).astype(np.float32) for name, shape in shapes.items()}


def _write(folder: Path, options: dict[str, Any], weights: dict[str, Array]) -> Path:
    (folder / "small_options.json").write_text(json.dumps(options))
    with h5py.File(folder / "small_weights.hdf5", "w") as file:
        for name, value in weights.items():
            file[name] = value
    return folder


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _plain_word(codes: list[int], options: dict[str, Any], weights: dict[str, Array]) -> Array:
    cnn = options["char_cnn"]
    longest = cnn["max_characters_per_token"]
    codes = [258, *codes[: longest - 2], 259]
    codes += [260] * (longest - len(codes))
    embedded = weights["char_embed"][codes]
    parts: list[float] = []
    for i, (size, n) in enumerate(cnn["filters"]):
        kernel, bias = weights[f"CNN/W_cnn_{i}"][0], weights[f"CNN/b_cnn_{i}"]
        for channel in range(n):
            best = max(float((embedded[s : s + size] * kernel[..., channel]).sum()) for s in range(longest - size + 1))
            value = best + float(bias[channel])
            parts.append(max(value, 0) if cnn["activation"] == "relu" else float(np.tanh(value)))
    word: Array = np.array(parts)
    for i in range(cnn["n_highway"]):
        carry = _sigmoid(word @ weights[f"CNN_high_{i}/W_carry"] + weights[f"CNN_high_{i}/b_carry"])
        transform = np.maximum(word @ weights[f"CNN_high_{i}/W_transform"] + weights[f"CNN_high_{i}/b_transform"], 0)
        word = carry * transform + (1 - carry) * word
    if "CNN_proj/W_proj" in weights:
        word = word @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]
    return word


def _plain_lstm(words: list[Array], place: str, options: dict[str, Any], weights: dict[str, Array]) -> list[Array]:
    lstm = options["lstm"]
    cell, output, outputs = np.zeros(lstm["dim"]), np.zeros(lstm["projection_dim"]), []
    for word in words:
        gates = np.concatenate([word, output]) @ weights[f"{place}/W_0"] + weights[f"{place}/B"]
        i, j, f, o = np.split(gates, 4)
        cell = _sigmoid(f + 1) * cell + _sigmoid(i) * np.tanh(j)
        if lstm["cell_clip"] is not None:
            cell = np.clip(cell, -lstm["cell_clip"], lstm["cell_clip"])
        output = (_sigmoid(o) * np.tanh(cell)) @ weights[f"{place}/W_P_0"]
        if lstm["proj_clip"] is not None:
            output = np.clip(output, -lstm["proj_clip"], lstm["proj_clip"])
        outputs.append(output)
    return outputs


def _plain(words: list[str], options: dict[str, Any], weights: dict[str, Array]) -> Array:
    coded = [[256], *(list(word.encode()) for word in words), [257]]
    ahead = [_plain_word(codes, options, weights) for codes in coded]
    back = ahead[::-1]
    layers = [np.concatenate([np.stack(ahead), np.stack(ahead)], 1)]
    for layer in range(options["lstm"]["n_layers"]):
        new_ahead = _plain_lstm(ahead, f"RNN_0/RNN/MultiRNNCell/Cell{layer}/LSTMCell", options, weights)
        new_back = _plain_lstm(back, f"RNN_1/RNN/MultiRNNCell/Cell{layer}/LSTMCell", options, weights)
        if options["lstm"]["use_skip_connections"] and layer:
            new_ahead = [a + b for a, b in zip(new_ahead, ahead, strict=True)]
            new_back = [a + b for a, b in zip(new_back, back, strict=True)]
        ahead, back = new_ahead, new_back
        layers.append(np.concatenate([np.stack(ahead), np.stack(back[::-1])], 1))
    both: Array = np.concatenate(layers, 1)
    return both[1:-1]


def _changed(**changes: dict[str, Any]) -> dict[str, Any]:
    return {section: {**OPTIONS[section], **changes.get(section, {})} for section in OPTIONS}


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        _changed(lstm={"use_skip_connections": False, "cell_clip": None, "proj_clip": None}),
        _changed(lstm={"projection_dim": 13, "n_layers": 3}, char_cnn={"activation": "tanh", "n_highway": 1}),
    ],
)
def test_elmo_agrees_with_a_plain_loop(tmp_path: Path, options: dict[str, Any]) -> None:
    weights = _random_weights(options)
    encoder = ElmoEncoder.load(_write(tmp_path, options, weights))
    output = encoder.encode(EncoderInput(SENTENCES))
    assert output.attention_maps is None
    assert output.vectors.shape == (3, 4, encoder.width)
    assert encoder.width == 2 * options["lstm"]["projection_dim"] * (options["lstm"]["n_layers"] + 1)
    for words, vectors in zip(SENTENCES, output.vectors, strict=True):
        expected = torch.tensor(_plain(words, options, weights), dtype=torch.float32)
        torch.testing.assert_close(vectors[: len(words)], expected, rtol=1e-5, atol=2e-6)
        assert not vectors[len(words) :].any(), "padding is zero"


def test_elmo_clips_matter_in_the_test_above(tmp_path: Path) -> None:
    weights = _random_weights(OPTIONS)
    encoder = ElmoEncoder.load(_write(tmp_path, OPTIONS, weights))
    first_layer = encoder.encode(EncoderInput(SENTENCES)).vectors[0, :, 10:20]
    assert float(first_layer.abs().max()) == pytest.approx(0.3)
    free = _plain(SENTENCES[0], _changed(lstm={"cell_clip": None}), weights)
    assert np.abs(free - _plain(SENTENCES[0], OPTIONS, weights)).max() > 0.01


def test_elmo_is_an_encoder(tmp_path: Path) -> None:
    _write(tmp_path, OPTIONS, _random_weights(OPTIONS))
    encoder: TextEncoder | None = load_encoder(EncoderConfig(kind="elmo", name=str(tmp_path)), want_maps=True)
    assert isinstance(encoder, ElmoEncoder)
    assert (encoder.width, encoder.n_attention_maps, encoder.max_pieces, encoder.folder) == (30, 0, None, tmp_path)
    assert encoder.count_pieces(["a", "internationalisation"]) == [1, 1]
    assert encoder.to("cpu") is encoder
    assert encoder.encode(EncoderInput([])).vectors.shape == (0, 0, 30)
    assert encoder.encode(EncoderInput([[]])).vectors.shape == (1, 0, 30)
    before = encoder.fingerprint
    _write(tmp_path, _changed(lstm={"proj_clip": 0.2}), _random_weights(OPTIONS))
    assert ElmoEncoder.load(tmp_path).fingerprint != before


def test_elmo_features_do_not_depend_on_what_was_read_before(tmp_path: Path) -> None:
    encoder = ElmoEncoder.load(_write(tmp_path, OPTIONS, _random_weights(OPTIONS)))
    assert torch.equal(encoder.encode(EncoderInput(SENTENCES)).vectors, encoder.encode(EncoderInput(SENTENCES)).vectors)


@pytest.mark.parametrize("name", ["char_embed", "CNN/b_cnn_1", "CNN_high_1/W_carry", "CNN_proj/b_proj"])
def test_elmo_names_the_weights_that_are_missing_or_misshapen(tmp_path: Path, name: str) -> None:
    weights = _random_weights(OPTIONS)
    _write(tmp_path, OPTIONS, {**weights, name: np.zeros((2, 2))})
    with pytest.raises(RelatumError, match=rf"small_weights\.hdf5: {name} has the shape \(2, 2\); its options say"):
        ElmoEncoder.load(tmp_path)
    weights.pop(name)
    _write(tmp_path, OPTIONS, weights)
    with pytest.raises(RelatumError, match=rf"small_weights\.hdf5 lacks {name}"):
        ElmoEncoder.load(tmp_path)


def test_elmo_names_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match=r"holds 0 files \*options\.json"):
        ElmoEncoder.load(tmp_path)
    _write(tmp_path, {"lstm": OPTIONS["lstm"]}, _random_weights(OPTIONS))
    with pytest.raises(RelatumError, match=r"small_options\.json lacks 'char_cnn'"):
        ElmoEncoder.load(tmp_path)
    _write(tmp_path, _changed(char_cnn={"activation": "selu"}), _random_weights(OPTIONS))
    with pytest.raises(RelatumError, match=r"'selu' is none of relu, tanh"):
        ElmoEncoder.load(tmp_path)
    (tmp_path / "small_weights.hdf5").write_bytes(b"not HDF5")
    with pytest.raises(RelatumError, match="the ELMo cannot be read"):
        ElmoEncoder.load(tmp_path)


def test_elmo_without_h5py_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'relatum\[elmo\]'"):
        ElmoEncoder.load(tmp_path)


@pytest.mark.parametrize("link", [True, False], ids=["link", "storage"])
def test_elmo_reads_no_other_file_than_its_own(tmp_path: Path, link: bool) -> None:
    folder = _write(tmp_path, OPTIONS, _random_weights(OPTIONS))
    outside = tmp_path / "outside.h5"
    with h5py.File(outside, "w") as file:
        file["secret"] = np.ones((261, 4), dtype=np.float32)
    with h5py.File(folder / "small_weights.hdf5", "a") as file:
        del file["char_embed"]
        if link:
            file["char_embed"] = h5py.ExternalLink(str(outside), "secret")
        else:
            file.create_dataset("char_embed", (261, 4), np.float32, external=[(str(outside), 0, 261 * 4 * 4)])
    with pytest.raises(
        RelatumError, match=r"char_embed is (a link|in another file); expected the weights in this file"
    ):
        ElmoEncoder.load(folder)


def test_elmo_with_impossible_sizes_is_refused(tmp_path: Path) -> None:
    options = {**OPTIONS, "char_cnn": {**OPTIONS["char_cnn"], "embedding": {"dim": 10**14}}}
    folder = _write(tmp_path, options, _random_weights(OPTIONS))
    with pytest.raises(RelatumError, match="the ELMo cannot be read"):
        ElmoEncoder.load(folder)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("lstm", "n_layers", 10**6),
        ("lstm", "dim", 10**5),
        ("lstm", "projection_dim", True),
        ("lstm", "cell_clip", "x"),
        ("char_cnn", "n_highway", 10**6),
        ("char_cnn", "filters", [[1, 1]] * 101),
        ("char_cnn", "filters", [[0, 3]]),
        ("char_cnn", "max_characters_per_token", 10**8),
        ("char_cnn", "max_characters_per_token", 2),
    ],
)
def test_elmo_with_options_that_no_elmo_has_is_refused(tmp_path: Path, section: str, key: str, value: object) -> None:
    options = {**OPTIONS, section: {**OPTIONS[section], key: value}}
    folder = _write(tmp_path, options, _random_weights(OPTIONS))
    with pytest.raises(RelatumError, match=r"the ELMo cannot be read .found .* for .*, expected"):
        ElmoEncoder.load(folder)


def test_elmo_reads_no_more_bytes_than_its_file_has(tmp_path: Path) -> None:
    options = {**OPTIONS, "char_cnn": {**OPTIONS["char_cnn"], "embedding": {"dim": 60_000}}}
    folder = _write(tmp_path, options, _random_weights(OPTIONS))
    with h5py.File(folder / "small_weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_dataset("char_embed", (261, 60_000), np.float32, chunks=(261, 1000), compression="gzip")
    with pytest.raises(RelatumError, match="char_embed has fewer bytes than its shape needs"):
        ElmoEncoder.load(folder)


def test_elmo_with_a_group_in_place_of_an_array_is_refused(tmp_path: Path) -> None:
    folder = _write(tmp_path, OPTIONS, _random_weights(OPTIONS))
    with h5py.File(folder / "small_weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_group("char_embed")
    with pytest.raises(RelatumError, match="char_embed is a group, expected an array"):
        ElmoEncoder.load(folder)
