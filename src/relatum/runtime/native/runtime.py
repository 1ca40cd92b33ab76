"""The runtime for a CPU: the encoder and the network in two calls of compiled code, back to back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.kernels.backend import allows_compiled
from relatum.kernels.compile import can_load
from relatum.kernels.network.characters import PackedCharacters
from relatum.kernels.network.cpu import SOURCE, is_available
from relatum.kernels.network.whole import PackedNetwork
from relatum.kernels.tensors import as_array, as_array_or_none, as_tensor
from relatum.models.model import Model
from relatum.models.outputs import LayerState, Outputs
from relatum.models.padding import pad_rows
from relatum.runtime.base import evaluating
from relatum.runtime.character_cache import CharacterVectorCache
from relatum.runtime.native.encoder import prepare_features
from relatum.runtime.native.weights import pack_characters, pack_network
from relatum.runtime.packing import Packing
from relatum.runtime.torch import TorchRuntime


class NativeRuntime:
    """Reads batches with packed weights; weights that change are packed again.

    Vectors of words from their characters are cached. The encoder runs last before the network, when all else is ready:
    so its results are still in the CPU's cache when the network reads them.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._cache = CharacterVectorCache()
        self._packed_network: Packing[tuple[PackedNetwork | None, str | None]] = Packing()
        self._packed_characters: Packing[PackedCharacters] = Packing()
        self._plain = TorchRuntime(model, self._cache)

    @torch.inference_mode()
    def read(self, batch: EncoderInput, keep_layers: bool = False, features: EncoderOutput | None = None) -> Outputs:
        model, network = self._model, self._model.network
        with evaluating(network) as is_training:
            if is_training:
                self._cache.clear()  # not every change of weights is seen
            packed, _ = self._pack()
            if packed is None:  # the model was moved or cast, or another backend named, since this was selected
                return self._plain.read(batch, keep_layers, features)
            vectors = self._cache.vectors(batch.words, model, self._read_words)
            features, compute_features = prepare_features(model, batch, features)
            assert features.attention_maps is not None
            parts = network.embedder.join(vectors, self._index_words(batch), features.vectors)
            arrays = [(as_array(values), as_array_or_none(rows)) for values, rows in parts]
            prepared = packed.prepare(arrays, as_array(features.attention_maps), batch.lengths, keep_layers)
        compute_features()
        prepared.run()
        scores = prepared.scores
        layers = tuple(LayerState(*map(as_tensor, state)) for state in scores.states)
        of_cells = None if scores.of_cells is None else as_tensor(scores.of_cells)
        return Outputs(as_tensor(scores.of_words), of_cells, layers, features.attention_maps)

    def find_refusal(self) -> str | None:
        """Return why compiled code cannot read with the model; None if it can. Compiles the code on first call."""
        model = self._model
        if model.device.type != "cpu":
            return f"the model is on the device {str(model.device)!r}"
        if model.encoder is None or not model.encoder.n_attention_maps or not model.reads_attention_maps:
            return "the table reads no attention maps"
        can, reason = can_load(SOURCE)
        if not is_available():
            return "the code could not be compiled, as a warning says" if can else reason
        return self._pack()[1]

    def _pack(self) -> tuple[PackedNetwork | None, str | None]:
        """Return the packed network; or None, and why there is none."""
        network = self._model.network
        if network.table_dtype is not None:
            return None, "products over tables are computed under autocast"
        if not allows_compiled():
            return None, "another backend of the MD-GRU has been named"
        return self._packed_network.find(network, lambda: pack_network(network))

    def _index_words(self, batch: EncoderInput) -> Tensor | None:
        """Return the index of each word in the word vectors; None if the model has none."""
        vocabulary = self._model.words
        if vocabulary is None:
            return None
        rows = [np.array(vocabulary.indices(words), np.int64) for words in batch.words]
        return torch.from_numpy(pad_rows(rows, max(batch.lengths)))

    def _read_words(self, words: Sequence[str], table: Tensor, first: int) -> None:
        """Write the vectors of words into the rows of a table, from row `first` on."""
        vocabulary, reader = self._model.characters, self._model.network.embedder.characters
        assert vocabulary is not None
        assert reader is not None
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        packed = self._packed_characters.find(reader, lambda: pack_characters(reader))
        packed.read(vocabulary.spell("".join(words)), lengths, as_array(table), first)


def explain_native(model: Model) -> tuple[bool, str]:
    """Return whether compiled code reads with a model, and why or why not."""
    can, reason = can_load(SOURCE)
    refusal = NativeRuntime(model).find_refusal() if can else None
    return can and refusal is None, refusal or reason
