"""Everything a run needs to go on exactly as if it had never stopped."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from relatum.encoders.base import TextEncoder
from relatum.encoders.hashing import hash_tensors
from relatum.errors import RelatumError
from relatum.training.checkpoints import Checkpoint
from relatum.training.history import Progress
from relatum.training.optimisation import Optimiser
from relatum.training.processes import Processes
from relatum.training.sampler import Sampler

_WEIGHT, _ADAM, _RANDOM, _AVERAGE = "network/", "adam/", "random/", "average/"


def capture(
    network: nn.Module,
    optimiser: Optimiser,
    sampler: Sampler,
    progress: Progress,
    fixed: str,
    processes: Processes | None = None,
) -> Checkpoint:
    """Return the state of a run between two updates; `fixed` is its `fixed_hash`.

    All processes must call this together: the state holds the random numbers of each process.
    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in _learned(network).items():
        tensors[_WEIGHT + name] = parameter
        for key, tensor in optimiser.adam.state[parameter].items():
            tensors[f"{_ADAM}{name}/{key}"] = tensor
    tensors |= {_AVERAGE + name: tensor for name, tensor in _averages(network, optimiser).items()}
    device = optimiser.parameters[0].device
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    for kind, state in states.items():
        for number, found in enumerate([state] if processes is None else processes.gather(state)):
            tensors[_random_key(kind, number)] = found
    record = {
        "progress": progress.to_dict(),
        "sampler": {"epoch": sampler.epoch, "position": sampler.position},
        "device": device.type,
        "threads": torch.get_num_threads(),
        "fixed": fixed,
        "python_random": random.getstate(),
    }
    return Checkpoint(progress.step, record, tensors)


def restore(
    checkpoint: Checkpoint,
    network: nn.Module,
    optimiser: Optimiser,
    say: Callable[[str], None],
    processes: Processes | None = None,
    encoder: TextEncoder | None = None,
) -> tuple[Progress, dict[str, int]]:
    """Put a state back into a network and an optimiser made by the same settings; the rest is for the caller.

    Return the rest: the progress, and the epoch and position of the sampler. A state with another encoder is refused.
    """
    try:
        progress = Progress.from_dict(checkpoint.record["progress"])
        place = {key: int(checkpoint.record["sampler"][key]) for key in ("epoch", "position")}
        _restore(checkpoint, network, optimiser, say, processes, encoder)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise RelatumError(
            f"the checkpoint of step {checkpoint.step} cannot be used ({error!r:.200}); start the run anew in another "
            "folder"
        ) from None
    return progress, place


def _restore(
    checkpoint: Checkpoint,
    network: nn.Module,
    optimiser: Optimiser,
    say: Callable[[str], None],
    processes: Processes | None,
    encoder: TextEncoder | None,
) -> None:
    given = checkpoint.tensors
    current = _learned(network)
    stored = {name.removeprefix(_WEIGHT) for name in given if name.startswith(_WEIGHT)}
    wrong = sorted(stored ^ current.keys()) or [n for n in current if given[_WEIGHT + n].shape != current[n].shape]
    if not wrong and checkpoint.record["fixed"] != fixed_hash(network, encoder):
        wrong = ["the encoder, the word vectors or another part that is not learned"]
    if wrong:
        raise RelatumError(
            f"the checkpoint of step {checkpoint.step} is of another network ({wrong[0]} differs); the settings, the "
            "data or relatum itself have changed since: start the run anew in another folder"
        )
    with torch.no_grad():
        for name, parameter in current.items():
            parameter.copy_(given[_WEIGHT + name])
        for name, average in _averages(network, optimiser).items():
            average.copy_(given[_AVERAGE + name])
    _restore_adam(given, network, optimiser)
    _restore_random(checkpoint, optimiser.parameters[0].device, processes, say)


def _restore_random(
    checkpoint: Checkpoint, device: torch.device, processes: Processes | None, say: Callable[[str], None]
) -> None:
    given, number = checkpoint.tensors, 0 if processes is None else processes.number
    if "python_random" in checkpoint.record:
        version, numbers, gauss = checkpoint.record["python_random"]
        random.setstate((version, tuple(numbers), gauss))
    n_before = sum(name.startswith(f"{_RANDOM}cpu") for name in given)
    n_now = 1 if processes is None else processes.n
    if n_before != n_now:
        say(f"the run had {n_before} processes and goes on with {n_now}, with other random numbers")
    if processes is not None:
        processes.seed(checkpoint.step)  # where there was no such process before
    if _random_key("cpu", number) in given:
        torch.set_rng_state(given[_random_key("cpu", number)])
    if device.type == "cuda" and _random_key("cuda", number) in given:
        torch.cuda.set_rng_state(given[_random_key("cuda", number)], device)
    if device.type != checkpoint.record["device"]:
        say(f"the run was on {checkpoint.record['device']} and goes on on {device.type}, with other random numbers")
    threads, now = checkpoint.record.get("threads"), torch.get_num_threads()
    if device.type == "cpu" == checkpoint.record["device"] and threads not in (None, now):
        say(
            f"the number of threads was {threads} and is now {now}, so that the run's last digits may become others "
            f"(OMP_NUM_THREADS={threads} keeps them)"
        )


def _random_key(kind: str, number: int) -> str:
    """Return the name under which the random numbers of a process are kept."""
    return f"{_RANDOM}{kind}" + (f"/{number}" if number else "")


def _restore_adam(given: Mapping[str, Tensor], network: nn.Module, optimiser: Optimiser) -> None:
    states: dict[int, dict[str, Tensor]] = {}
    names = {parameter: name for name, parameter in _learned(network).items()}
    for number, parameter in enumerate(optimiser.parameters):
        prefix = f"{_ADAM}{names[parameter]}/"
        found = {key.removeprefix(prefix): tensor for key, tensor in given.items() if key.startswith(prefix)}
        if found:  # there is none before the first update
            states[number] = found
    groups = optimiser.adam.state_dict()["param_groups"]
    optimiser.adam.load_state_dict({"state": states, "param_groups": groups})


def _learned(network: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are learned, by name; shared parameters occur once."""
    return {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}


def _averages(network: nn.Module, optimiser: Optimiser) -> dict[str, Tensor]:
    """Return the moving averages of the parameters, by name; empty if none are kept."""
    if optimiser.average is None:
        return {}
    averages = dict(zip(optimiser.parameters, optimiser.average.tensors, strict=True))
    return {name: averages[parameter] for name, parameter in _learned(network).items()}


def fixed_hash(network: nn.Module, encoder: TextEncoder | None = None) -> str:
    """Hash all that is not learned, such as word vectors, which a resumed run makes anew and no checkpoint stores.

    No buffer of the network changes during training.
    """
    fingerprint = "" if encoder is None else encoder.fingerprint
    learned = _learned(network)
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return hash_tensors(
        {name: tensor.detach().cpu() for name, tensor in tensors.items() if name not in learned}, fingerprint
    )
