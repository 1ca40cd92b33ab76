"""An encoder that is trained with the network: adapters beside its linear layers (LoRA), or all its weights.

While training it is a model of the `transformers` library, whatever its kind. Once saved, it is loaded as a frozen
encoder (`huggingface.py`), with adapters as part of its weights.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from relatum.config import Config
from relatum.encoders.adapters import add_adapters, save_adapters
from relatum.encoders.backbone import LayerOutput
from relatum.encoders.base import EncoderInput, EncoderOutput, Pieces, TextEncoder
from relatum.encoders.hashing import encoder_files, encoder_weights
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.pieces import PieceTokenizer
from relatum.encoders.resolve import find_encoder
from relatum.encoders.weights import INDEX, WEIGHTS
from relatum.layers.dropout import dropout

if TYPE_CHECKING:  # transformers takes seconds to import
    from relatum.encoders.automodel import AutoBackbone


class TunedEncoder(HuggingFaceEncoder):
    """A Hugging Face encoder whose weights, or adapters, are learned; its dropout is on when gradients are computed.

    Dropout also applies to the attention maps: they are the maps that the layers have used.
    """

    def __init__(self, backbone: AutoBackbone, model: nn.Module, config: Config, want_maps: bool, folder: Path) -> None:
        super().__init__(backbone, PieceTokenizer.load(folder), config.encoder, want_maps, folder)
        self._model = model
        self._dtype = torch.bfloat16 if config.training.precision == "bf16" else None
        # Layers that are computed twice save and restore the state of random numbers, which no recording can do.
        self.can_be_recorded = backbone.adds_masks and not config.encoder.gradient_checkpointing

    @classmethod
    def prepare(cls, config: Config, want_maps: bool) -> TunedEncoder:
        """Load the encoder that the settings name, on the CPU; new adapters are drawn by the seed alone."""
        from relatum.encoders.automodel import load_automodel

        folder = find_encoder(config.encoder.name)
        backbone = load_automodel(folder, want_maps)
        model = backbone.model
        if isinstance(getattr(model, "pooler", None), nn.Module):
            model.pooler = nn.Identity()  # nothing reads what it makes, and published weights often lack it
        if config.encoder.tuning == "lora":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(config.training.seed)
                add_adapters(model, config.encoder)
        else:
            model.requires_grad_(True)
        if config.encoder.gradient_checkpointing:
            for layer in _find_layers(model, backbone.n_layers):
                layer.forward = _computed_twice(layer.forward)
        return cls(backbone, model, config, want_maps, folder)

    @property
    def trained(self) -> TunedEncoder:
        return self

    @property
    def module(self) -> nn.Module:
        return self._model

    @property
    def fingerprint(self) -> str:
        """A fingerprint that no frozen encoder has; it does not identify features, which change with every update."""
        return f"tuned {super().fingerprint}"

    def encode(self, batch: EncoderInput) -> EncoderOutput:
        self._model.eval()
        return super().encode(batch)

    def read(self, pieces: Pieces, n_words: int) -> EncoderOutput:
        self._model.train()
        return self._read_words(pieces, n_words)

    def replace_transformers(self, replace: Callable[[HuggingFaceEncoder], TextEncoder]) -> TextEncoder:
        del replace  # it is not frozen
        return self

    def learned_weights(self) -> list[list[Parameter]]:
        """Return the learned weights: of the embeddings, of each layer, and last of all parts above the layers.

        Layers that share their weights all count as above.
        """
        layers = _find_layers(self._model, self.backbone.n_layers)
        if len(layers) != self.backbone.n_layers:
            layers = [nn.Identity()] * self.backbone.n_layers
        depths = {id(parameter): depth for depth, layer in enumerate(layers, 1) for parameter in layer.parameters()}
        weights: list[list[Parameter]] = [[] for _ in range(len(layers) + 2)]
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad:
                otherwise = 0 if "embedding" in name else len(layers) + 1
                weights[depths.get(id(parameter), otherwise)].append(parameter)
        return weights

    def save_learned(self, folder: Path, dtype: torch.dtype) -> None:
        """Write the learned weights: the files of adapters, or the files of the whole encoder."""
        folder.mkdir(exist_ok=True)
        if self.config.tuning == "lora":
            save_adapters(self._model, folder, dtype)
            return
        weights = self._model.state_dict()
        stored = {
            name: value.detach().to("cpu", dtype if value.is_floating_point() else value.dtype).clone()
            for name, value in weights.items()
        }
        save_file(stored, folder / WEIGHTS, metadata={"format": "pt"})
        left = {*encoder_weights(self.folder), self.folder / INDEX}
        for file in encoder_files(self.folder):
            if file not in left:
                shutil.copyfile(file, folder / file.name)

    def _layers(self, pieces: Tensor, mask: Tensor) -> Iterable[LayerOutput]:
        if not torch.is_grad_enabled():
            return super()._layers(pieces, mask)
        with _precision(self.device, self._dtype), self.device:
            layers = list(super()._layers(pieces, mask))
        if self.config.attention_gradients:
            return layers
        return [LayerOutput(hidden, None if maps is None else maps.detach()) for hidden, maps in layers]


def _find_layers(model: nn.Module, n_layers: int) -> list[nn.Module]:
    """Return the layers of a transformer; fewer if layers share their weights."""
    lists = [list(part) for part in model.modules() if isinstance(part, nn.ModuleList)]
    for layers in lists:
        if len(layers) == n_layers:
            return layers
    return lists[0] if lists else []


def _computed_twice(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Checkpoint a layer: it keeps its inputs instead of all results, and computes these again for its gradients.

    The library offers this for some models and not for others, such as MPNet.
    """

    from torch.utils.checkpoint import checkpoint, noop_context_fn  # nobody else waits for it

    def again(*arguments: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*arguments, **named)
        on_cpu = isinstance(arguments[0], Tensor) and arguments[0].is_cpu  # then it is computed again as in _precision
        contexts = (lambda: (nullcontext(), _CpuFunctions())) if on_cpu else noop_context_fn
        return checkpoint(forward, *arguments, use_reentrant=False, context_fn=contexts, **named)

    return again


@contextmanager
def _precision(device: torch.device, dtype: torch.dtype | None) -> Iterator[None]:
    """Within the block, compute products in half precision; norms, softmax and sums between layers are in float32."""
    with (
        nullcontext() if dtype is None else torch.autocast(device.type, dtype),
        nullcontext() if device.type == "cuda" else _CpuFunctions(),
    ):
        yield


class _CpuFunctions(TorchFunctionMode):
    """Our own dropout, which is faster on a CPU; and softmax in float32, which autocast has on a GPU only."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function in (torch.softmax, torch.nn.functional.softmax, Tensor.softmax):
            scores, *rest = arguments
            return function(scores.float(), *rest, **named)
        if function is torch.nn.functional.dropout:
            return _dropout(*arguments, **named)
        return function(*arguments, **named)


def _dropout(values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    del inplace  # for memory alone
    return dropout(values, p, training)
