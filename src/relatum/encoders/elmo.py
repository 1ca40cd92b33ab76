"""ELMo from its published files: a JSON of options and an HDF5 of weights, in the layout of its TensorFlow original."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from relatum.encoders.base import EncoderInput, EncoderOutput, FrozenEncoder
from relatum.encoders.elmo_network import ACTIVATIONS, CharacterCnn, Elmo, ProjectedLstm
from relatum.encoders.hashing import files_hash
from relatum.errors import MissingExtraError, RelatumError
from relatum.files import open_file, read_json

_SENTENCE_BEGIN, _SENTENCE_END, _WORD_BEGIN, _WORD_END, _FILLER = range(256, 261)
"""The numbers of the special characters, which follow the 256 bytes."""
_WIDEST = 2**16
"""The largest width that is believed; the published ELMo has 4096."""
_MOST = 100
"""The most layers, highways and filters that are believed; the published ELMo has 7 filters."""


class ElmoEncoder(FrozenEncoder):
    """A frozen ELMo; a word's vector is all its layers side by side (3072 numbers for the large one).

    Each sentence is read from a state of zeros, so that its features do not depend on the sentences before it.
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
        """Load the ELMo of a folder with one `*options.json` and one `*weights.hdf5`."""
        try:
            import h5py
        except ImportError as error:
            raise MissingExtraError("reading the weights of an ELMo", "elmo") from error
        options_path, weights_path = _only(folder, "*options.json"), _only(folder, "*weights.hdf5")
        try:
            options: Any = read_json(options_path)
            _check_options(options)
            open_file(weights_path).close()
            with h5py.File(weights_path, "r") as file:
                network = _build(options, _Weights(file, weights_path))
            n_characters = int(options["char_cnn"]["max_characters_per_token"])
            width = 2 * int(options["lstm"]["projection_dim"]) * (1 + len(network.forwards))
        except (
            OSError,
            ValueError,
            TypeError,
            AttributeError,
            RuntimeError,
        ) as error:  # torch's word for sizes that nothing has
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
    def encode(self, batch: EncoderInput) -> EncoderOutput:
        sentences = batch.words  # no setting lets it read more than a sentence
        longest = max(map(len, sentences), default=0)
        if not longest:
            return EncoderOutput(torch.zeros(len(sentences), 0, self.width, device=self.device), None)
        distinct = list(dict.fromkeys(chain.from_iterable(sentences)))
        rows: dict[str, int] = {word: i for i, word in enumerate(distinct, start=2)}
        characters = [self._fill([_SENTENCE_BEGIN]), self._fill([_SENTENCE_END])]
        # Of a word that is too long, the beginning is read: the network knows no more than so many characters.
        most = self._n_characters - 2
        characters += [self._fill(list(word.encode(errors="ignore")[:most])) for word in distinct]
        vectors = self._network.cnn(torch.tensor(characters, device=self.device))
        index = torch.zeros(len(sentences), longest + 2, dtype=torch.long)
        for i, words in enumerate(sentences):
            index[i, 1 : len(words) + 2] = torch.tensor([*(rows[word] for word in words), 1])
        lengths = torch.tensor([len(words) for words in sentences], device=self.device)
        output = self._network(vectors[index.to(self.device)], lengths + 2)[:, 1:-1]
        mask = torch.arange(longest, device=self.device) < lengths[:, None]
        return EncoderOutput(output * mask[..., None], None)

    def _fill(self, characters: list[int]) -> list[int]:
        """Return a word's characters with its ends marked, padded to full length; 0 is reserved for "no word"."""
        filler = [_FILLER] * (self._n_characters - 2 - len(characters))
        return [1 + c for c in (_WORD_BEGIN, *characters, _WORD_END, *filler)]


class _Weights:
    """Named arrays of an HDF5 file, as tensors of the shapes we want."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file = file
        self._path = path

    def get(self, name: str, *shape: int) -> Tensor:
        for path in accumulate(name.split("/"), "{}/{}".format):
            link = self._file.get(path, getlink=True)
            if link is None:
                raise RelatumError(f"{self._path} lacks {name}; expected the weights of an ELMo as they were published")
            if type(link).__name__ != "HardLink":  # a link to a pipe must not even be opened
                raise RelatumError(f"{self._path}: {path} is a link; {_IN_THIS_FILE}")
        array = self._file[name]
        if not hasattr(array, "is_virtual"):
            raise RelatumError(f"{self._path}: {name} is a group, expected an array")
        if array.external or array.is_virtual:
            raise RelatumError(f"{self._path}: {name} is in another file; {_IN_THIS_FILE}")
        if array.shape != shape:
            raise RelatumError(f"{self._path}: {name} has the shape {array.shape}; its options say {shape}")
        if array.nbytes > 4 * array.id.get_storage_size():  # numbers of a network hardly shrink when they are packed
            raise RelatumError(f"{self._path}: {name} has fewer bytes than its shape needs; expected plain weights")
        return torch.tensor(array[...], dtype=torch.float32)


_IN_THIS_FILE = "expected the weights in this file"


def _check_options(options: Any) -> None:
    """Refuse numbers that no ELMo has, before anything of these sizes is made."""
    lstm = options["lstm"]
    cnn = options["char_cnn"]
    limits = {
        "n_layers": (lstm["n_layers"], 0, _MOST),
        "n_highway": (cnn.get("n_highway") or 0, 0, _MOST),
        "dim": (lstm["dim"], 1, _WIDEST),
        "projection_dim": (lstm["projection_dim"], 1, _WIDEST),
        "embedding.dim": (cnn["embedding"]["dim"], 1, _WIDEST),
        "filters": (len(cnn["filters"]), 1, _MOST),
    }
    for size, n in cnn["filters"]:
        limits[f"filters, {size!r:.20}"] = (size, 1, 1000)
        limits[f"filters, {n!r:.20}"] = (n, 1, _WIDEST)
    longest = max(size for size, _ in cnn["filters"]) if cnn["filters"] else 0
    limits["max_characters_per_token"] = (cnn["max_characters_per_token"], max(3, longest), 1000)
    for name, (number, least, most) in limits.items():
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise ValueError(f"found {number!r:.50} for {name}, expected a number from {least} to {most:,}")
    for name in ("cell_clip", "proj_clip"):
        if not isinstance(lstm.get(name), int | float | None):
            raise ValueError(f"found {lstm[name]!r:.50} for {name}, expected a number or null")


def _build(options: Any, weights: _Weights) -> Elmo:
    lstm = options["lstm"]
    layers = range(lstm["n_layers"])
    ahead = [_lstm(lstm, weights, 0, layer) for layer in layers]
    back = [_lstm(lstm, weights, 1, layer) for layer in layers]
    return Elmo(_cnn(options, weights), ahead, back, skip_connections=bool(lstm.get("use_skip_connections", False)))


def _cnn(options: Any, weights: _Weights) -> CharacterCnn:
    cnn = options["char_cnn"]
    width = options["lstm"]["projection_dim"]
    character_width = cnn["embedding"]["dim"]
    filters = [(size, n) for size, n in cnn["filters"]]
    n_highways = cnn.get("n_highway") or 0
    activation = cnn["activation"]
    if activation not in ACTIVATIONS:
        raise ValueError(f"the activation {activation!r} is none of {', '.join(ACTIVATIONS)}")
    with torch.device("meta"):  # nothing is made of the sizes that the file does not have
        network = CharacterCnn(_FILLER + 2, character_width, filters, n_highways, width, activation)
    total = sum(n for _, n in filters)
    # Index 0, for what is no word, is not in the file.
    known = weights.get("char_embed", _FILLER + 1, character_width)
    network.characters = Parameter(torch.cat([torch.zeros(1, character_width), known]))
    for i, (size, n) in enumerate(filters):
        kernels = weights.get(f"CNN/W_cnn_{i}", 1, size, character_width, n)[0]
        network.convolutions[i].weight = Parameter(kernels.permute(2, 1, 0))
        network.convolutions[i].bias = Parameter(weights.get(f"CNN/b_cnn_{i}", n))
    for i in range(n_highways):
        for part, name in ((network.carries[i], "carry"), (network.transforms[i], "transform")):
            part.weight = Parameter(weights.get(f"CNN_high_{i}/W_{name}", total, total).T)
            part.bias = Parameter(weights.get(f"CNN_high_{i}/b_{name}", total))
    if network.projection is not None:
        network.projection.weight = Parameter(weights.get("CNN_proj/W_proj", total, width).T)
        network.projection.bias = Parameter(weights.get("CNN_proj/b_proj", width))
    return network


def _lstm(lstm: Any, weights: _Weights, direction: int, layer: int) -> ProjectedLstm:
    width, inner = lstm["projection_dim"], lstm["dim"]
    with torch.device("meta"):
        network = ProjectedLstm(width, inner, lstm.get("cell_clip"), lstm.get("proj_clip"))
    place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    kernel = weights.get(f"{place}/W_0", 2 * width, 4 * inner)
    network.read.weight = Parameter(kernel[:width].T)
    network.recur.weight = Parameter(kernel[width:].T)
    network.read.bias = Parameter(weights.get(f"{place}/B", 4 * inner))
    network.project.weight = Parameter(weights.get(f"{place}/W_P_0", inner, width).T)
    return network


def _only(folder: Path, pattern: str) -> Path:
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise RelatumError(f"{folder} holds {len(paths)} files {pattern}; an ELMo has one of them")
    return paths[0]
