"""Everything a run needs to go on exactly as if it had never stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from relatum.errors import RelatumError
from relatum.training.checkpoints import Checkpoint, hash_tensors
from relatum.training.history import Progress
from relatum.training.optimisation import Optimiser
from relatum.training.sampler import Sampler

_WEIGHT, _ADAM, _RANDOM = "network/", "adam/", "random/"


def capture(network: nn.Module, optimiser: Optimiser, sampler: Sampler, progress: Progress, fixed: str) -> Checkpoint:
    """The state of a run between two updates; `fixed` is the network's `fixed_hash`."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in _learned(network).items():
        tensors[_WEIGHT + name] = parameter
        for key, tensor in optimiser.adam.state[parameter].items():
            tensors[f"{_ADAM}{name}/{key}"] = tensor
    tensors[f"{_RANDOM}cpu"] = torch.get_rng_state()
    device = optimiser.parameters[0].device
    if device.type == "cuda":
        tensors[f"{_RANDOM}cuda"] = torch.cuda.get_rng_state(device)
    record = {
        "progress": progress.to_dict(),
        "sampler": {"epoch": sampler.epoch, "position": sampler.position},
        "device": device.type,
        "fixed": fixed,
    }
    return Checkpoint(progress.step, record, tensors)


def restore(
    checkpoint: Checkpoint, network: nn.Module, optimiser: Optimiser, say: Callable[[str], None]
) -> tuple[Progress, dict[str, int]]:
    """Put a state back into a network and an optimiser made by the same settings; the rest is for the caller.

    The answer is the progress, and the epoch and position of the sampler.
    """
    given = checkpoint.tensors
    current = _learned(network)
    stored = {name.removeprefix(_WEIGHT) for name in given if name.startswith(_WEIGHT)}
    wrong = sorted(stored ^ current.keys()) or [n for n in current if given[_WEIGHT + n].shape != current[n].shape]
    if not wrong and checkpoint.record["fixed"] != fixed_hash(network):
        wrong = ["the word vectors or another part that is not learned"]
    if wrong:
        raise RelatumError(
            f"the checkpoint of step {checkpoint.step} is of another network ({wrong[0]} differs); the settings, the "
            "data or relatum itself have changed since: start the run anew in another folder"
        )
    with torch.no_grad():
        for name, tensor in current.items():
            tensor.copy_(given[_WEIGHT + name])
    _restore_adam(given, network, optimiser)
    torch.set_rng_state(given[f"{_RANDOM}cpu"])
    device = optimiser.parameters[0].device
    if device.type == "cuda" and f"{_RANDOM}cuda" in given:
        torch.cuda.set_rng_state(given[f"{_RANDOM}cuda"], device)
    if device.type != checkpoint.record["device"]:
        say(f"the run was on {checkpoint.record['device']} and goes on on {device.type}, with other random numbers")
    return Progress.from_dict(checkpoint.record["progress"]), checkpoint.record["sampler"]


def _restore_adam(given: Mapping[str, Tensor], network: nn.Module, optimiser: Optimiser) -> None:
    states: dict[int, dict[str, Tensor]] = {}
    for number, name in enumerate(_learned(network)):
        prefix = f"{_ADAM}{name}/"
        found = {key.removeprefix(prefix): tensor for key, tensor in given.items() if key.startswith(prefix)}
        if found:  # there is none before the first update
            states[number] = found
    groups = optimiser.adam.state_dict()["param_groups"]
    optimiser.adam.load_state_dict({"state": states, "param_groups": groups})


def _learned(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are learned, shared ones once, in the order in which the optimiser has them."""
    return {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}


def fixed_hash(network: nn.Module) -> str:
    """A hash of all that is not learned, such as word vectors: it is made anew for a run that goes on, and not stored.

    No buffer of the network changes while it is trained.
    """
    learned = _learned(network)
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return hash_tensors({name: tensor.detach().cpu() for name, tensor in tensors.items() if name not in learned})
