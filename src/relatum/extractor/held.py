"""The model of an extractor, and what reads with it: compiled code alone, or torch."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relatum.config import Config
from relatum.data.splitting import Splitter
from relatum.errors import MissingExtraError, RelatumError
from relatum.extractor.device import choose_device, has_torch, is_cpu
from relatum.kernels.backend import allows_compiled
from relatum.kernels.threads import ForkLock
from relatum.models.model import Model
from relatum.models.stored import StoredModel
from relatum.runtime.base import Runtime, select
from relatum.runtime.native.model import NativeModel
from relatum.runtime.native.network import RefusedError
from relatum.runtime.native.reader import NativeReader
from relatum.runtime.precision import Precision, set_precision
from relatum.schema import Schema
from relatum.tagging.tagging import Tagging

if TYPE_CHECKING:
    import torch


class ModelHolder:
    """A model, the runtime that reads with it, and how both go to another process or to disk."""

    card: str
    splitter: Splitter

    def __init__(self, model: Model | NativeModel, runtime: str = "auto") -> None:
        self._held = model
        self._runtime_name = runtime
        self._selected: tuple[object, object, Runtime | NativeReader] | None = None
        self._lock = ForkLock()  # several threads may ask for the model, or for the runtime, at once

    @property
    def model(self) -> Model:
        """The model as modules of torch, which reads from now on: the weights may be changed.

        A model that compiled code has read so far is made of torch's modules at first use, which needs torch.
        """
        with self._lock:
            if isinstance(self._held, NativeModel):
                try:
                    self._held = self._held.to_torch()
                except ImportError as error:
                    raise MissingExtraError("looking into a model, or saving or changing it,", "torch") from error
            return self._held

    @model.setter
    def model(self, model: Model) -> None:
        self._held = model

    @property
    def config(self) -> Config:
        """The settings of the model."""
        return self._held.config

    @property
    def schema(self) -> Schema:
        """The labels of the model."""
        return self._held.schema

    @property
    def tagging(self) -> Tagging:
        """The tags of the model."""
        return self._held.tagging

    @property
    def device(self) -> str:
        """The device of the model, such as "cpu" or "cuda:0"."""
        return str(self._held.device)

    @property
    def runtime(self) -> Runtime | NativeReader:
        """The runtime that reads with the model; selected at first use, and again for another model or device."""
        if not allows_compiled() and isinstance(self._held, NativeModel):
            self.model  # noqa: B018  # another backend was named, and only torch has others
        with self._lock:
            held, device = self._held, self._held.device
            if self._selected is None or self._selected[0] is not held or self._selected[1] != device:
                self._selected = held, device, self._select()
            return self._selected[2]

    def _select(self) -> Runtime | NativeReader:
        if isinstance(self._held, NativeModel):
            return NativeReader(self._held)
        if self._runtime_name == "torch":
            from relatum.runtime.torch import TorchRuntime

            return TorchRuntime(self._held)
        return select(self._held)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy or another process, with the weights; weights on a GPU are copied to the CPU.

        The state is pickled here: torch's pickler for processes would move the weights of this extractor to shared
        memory, while compiled code may be reading them. The splitter is left unpickled: a user's function may need that
        pickler.
        """
        state = {name: value for name, value in self.__dict__.items() if name not in ("splitter", "_selected")}
        if self.device != "cpu":
            state = deepcopy(state)
            for model in _models_of(state):
                model.to("cpu")
        return {"state": pickle.dumps(state), "splitter": self.splitter, "device": self.device}

    def __setstate__(self, stored: dict[str, Any]) -> None:
        """Take up the state of another extractor, on the same device; on the CPU where there is no such device."""
        state = pickle.loads(stored["state"])
        self.__dict__.update(state, splitter=stored["splitter"], _selected=None)
        if stored["device"].startswith("cuda"):
            import torch

            device = torch.device(stored["device"])
            if (device.index or 0) < torch.cuda.device_count():
                for model in _models_of(state):
                    model.to(device)

    def save(self, path: str | Path) -> None:
        """Write the model to a new or empty directory."""
        model = self.model
        from relatum.models.checkpoint import save_model

        save_model(model, Path(path), self.card)


def load_held(
    path: Path, device: torch.device | str, text: Mapping[str, str], precision: Precision, runtime: str
) -> Model | NativeModel:
    """Load the model in a directory, for compiled code without torch if that can read it."""
    reason = f"it reads on the CPU, and the device is {str(device)!r}"
    if runtime == "torch" and not has_torch():
        raise MissingExtraError("runtime='torch'", "torch")
    wants_native = runtime != "torch" and is_cpu(device) and allows_compiled()
    stored = StoredModel.read(path, text)
    if wants_native:
        try:
            return NativeModel.of(stored, precision)
        except RefusedError as refusal:
            reason = str(refusal)
    if runtime == "native":
        raise RelatumError(f"{path}: the runtime 'native' cannot read this model here: {reason}; use runtime='auto'")
    try:
        from relatum.models.checkpoint import load_stored
    except ImportError as error:
        raise MissingExtraError(
            f"{path}: compiled code cannot read this model here ({reason}), and PyTorch", "torch"
        ) from error
    model = load_stored(stored, choose_device(device))
    set_precision(model, precision)
    return model


def _models_of(state: Mapping[str, Any]) -> list[Model]:
    """The models in the state of an extractor; an ensemble has several."""
    return [state["_held"], *state.get("members", ())]
