"""ELMo from its published files: a JSON of options and an HDF5 of weights, in the layout of its TensorFlow original."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relatum.encoders.base import EncoderOutput
from relatum.encoders.elmo_network import ACTIVATIONS, CharacterCnn, Elmo, ProjectedLstm
from relatum.encoders.hashing import files_hash
from relatum.errors import MissingExtraError, RelatumError
from relatum.files import open_file, read_json
from relatum.types import Context

_SENTENCE_BEGIN, _SENTENCE_END, _WORD_BEGIN, _WORD_END, _FILLER = range(256, 261)
"""What follows the 256 bytes among the characters."""


class ElmoEncoder:
    """A frozen ELMo; a word's vector is all its layers side by side (3072 numbers for the large one).

    Sentences are read one by one from a state of zeros, so that the features of one do not depend on those before it.
    """

    n_attention_maps = 0
    max_pieces = None

    def __init__(self, network: Elmo, width: int, n_characters: int, folder: Path, n_mixed: int = 1) -> None:
        self.folder = folder
        self._network = network
        self._n_characters = n_characters
        self.device = torch.device("cpu")
        self._width = width
        self.n_mixed = n_mixed

    @classmethod
    def load(cls, folder: Path, mixing: str = "mean") -> ElmoEncoder:
        """The ELMo of a folder with one `*options.json` and one `*weights.hdf5`."""
        try:
            import h5py
        except ImportError as error:
            raise MissingExtraError("reading the weights of an ELMo", "elmo") from error
        options_path, weights_path = _only(folder, "*options.json"), _only(folder, "*weights.hdf5")
        try:
            options: Any = read_json(options_path)
            open_file(weights_path).close()
            with h5py.File(weights_path, "r") as file:
                network = _build(options, _Weights(file, weights_path))
            n_characters = int(options["char_cnn"]["max_characters_per_token"])
            width = 2 * int(options["lstm"]["projection_dim"]) * (1 + len(network.forwards))
        except (OSError, ValueError, TypeError, RuntimeError) as error:  # torch's word for sizes that nothing has
            raise RelatumError(f"{folder}: the ELMo cannot be read ({error})") from error
        except KeyError as error:
            raise RelatumError(f"{options_path} lacks {error}; expected the options of an ELMo") from error
        n_mixed = 1 + len(network.forwards) if mixing == "learned" else 1
        return cls(network.requires_grad_(False).eval(), width, n_characters, folder, n_mixed)

    @property
    def width(self) -> int:
        return self._width

    @cached_property
    def fingerprint(self) -> str:
        return files_hash(self.folder)

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return [1] * len(words)

    def to(self, device: torch.device | str) -> ElmoEncoder:
        self.device = torch.device(device)
        self._network.to(self.device)
        return self

    @torch.no_grad()
    def encode(self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None = None) -> EncoderOutput:
        del around  # no setting lets it read more than a sentence
        longest = max(map(len, sentences), default=0)
        if not longest:
            return EncoderOutput(torch.zeros(len(sentences), 0, self.width, device=self.device), None)
        different = list(dict.fromkeys(chain.from_iterable(sentences)))
        rows: dict[str, int] = {word: i for i, word in enumerate(different, start=2)}
        characters = [self._fill([_SENTENCE_BEGIN]), self._fill([_SENTENCE_END])]
        # Of a word that is too long, the beginning is read: the network knows no more than so many characters.
        characters += [self._fill(list(word.encode(errors="ignore")[: self._n_characters - 2])) for word in different]
        vectors = self._network.cnn(torch.tensor(characters, device=self.device))
        index = torch.zeros(len(sentences), longest + 2, dtype=torch.long)
        for i, words in enumerate(sentences):
            index[i, 1 : len(words) + 2] = torch.tensor([*(rows[word] for word in words), 1])
        lengths = torch.tensor([len(words) for words in sentences], device=self.device)
        output = self._network(vectors[index.to(self.device)], lengths + 2)[:, 1:-1]
        mask = torch.arange(longest, device=self.device) < lengths[:, None]
        return EncoderOutput(output * mask[..., None], None)

    def _fill(self, characters: list[int]) -> list[int]:
        """A word's characters with its ends marked, filled up; 0 is left to what is no word at all."""
        filler = [_FILLER] * (self._n_characters - 2 - len(characters))
        return [1 + c for c in (_WORD_BEGIN, *characters, _WORD_END, *filler)]


class _Weights:
    """Named arrays of an HDF5 file, as tensors of the shapes we want."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file = file
        self._path = path

    def get(self, name: str, *shape: int) -> Tensor:
        if name not in self._file:
            raise RelatumError(f"{self._path} lacks {name}; expected the weights of an ELMo as they were published")
        found = self._file[name]
        if found.file.filename != self._file.filename or getattr(found, "external", None) or found.is_virtual:
            raise RelatumError(f"{self._path}: {name} is in another file; expected the weights in this one")
        value = torch.tensor(found[...], dtype=torch.float32)
        if tuple(value.shape) != shape:
            raise RelatumError(f"{self._path}: {name} has the shape {tuple(value.shape)}; its options say {shape}")
        return value


def _build(options: Any, weights: _Weights) -> Elmo:
    lstm, n_layers = options["lstm"], options["lstm"]["n_layers"]
    ahead, back = ([_lstm(lstm, weights, direction, layer) for layer in range(n_layers)] for direction in (0, 1))
    return Elmo(_cnn(options, weights), ahead, back, skip_connections=bool(lstm.get("use_skip_connections", False)))


def _cnn(options: Any, weights: _Weights) -> CharacterCnn:
    cnn, width = options["char_cnn"], options["lstm"]["projection_dim"]
    character_width = cnn["embedding"]["dim"]
    filters = [(size, n) for size, n in cnn["filters"]]
    n_highways, activation = cnn.get("n_highway") or 0, cnn["activation"]
    if activation not in ACTIVATIONS:
        raise ValueError(f"the activation {activation!r} is none of {', '.join(ACTIVATIONS)}")
    network = CharacterCnn(_FILLER + 2, character_width, filters, n_highways, width, activation)
    total = sum(n for _, n in filters)
    # Index 0, for what is no word, is not in the file.
    known = weights.get("char_embed", _FILLER + 1, character_width)
    network.characters.data = torch.cat([torch.zeros(1, character_width), known])
    for i, (size, n) in enumerate(filters):
        network.convolutions[i].weight.data = weights.get(f"CNN/W_cnn_{i}", 1, size, character_width, n)[0].permute(
            2, 1, 0
        )
        network.convolutions[i].bias.data = weights.get(f"CNN/b_cnn_{i}", n)
    for i in range(n_highways):
        for part, name in ((network.carries[i], "carry"), (network.transforms[i], "transform")):
            part.weight.data = weights.get(f"CNN_high_{i}/W_{name}", total, total).T
            part.bias.data = weights.get(f"CNN_high_{i}/b_{name}", total)
    if network.projection is not None:
        network.projection.weight.data = weights.get("CNN_proj/W_proj", total, width).T
        network.projection.bias.data = weights.get("CNN_proj/b_proj", width)
    return network


def _lstm(lstm: Any, weights: _Weights, direction: int, layer: int) -> ProjectedLstm:
    width, inner = lstm["projection_dim"], lstm["dim"]
    network = ProjectedLstm(width, inner, lstm.get("cell_clip"), lstm.get("proj_clip"))
    place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    kernel = weights.get(f"{place}/W_0", 2 * width, 4 * inner)
    network.read.weight.data, network.recur.weight.data = kernel[:width].T, kernel[width:].T
    network.read.bias.data = weights.get(f"{place}/B", 4 * inner)
    network.project.weight.data = weights.get(f"{place}/W_P_0", inner, width).T
    return network


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise RelatumError(f"{folder} holds {len(found)} files {pattern}; an ELMo has one of them")
    return found[0]
