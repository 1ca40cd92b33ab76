"""Default sizes and lengths of training, chosen by the amount of data and the machine.

They are rules of thumb, measured on a few corpora, and simple enough to be stated. Values in a file or in `--set` take
precedence; with a file of settings nothing is chosen unless it has `training.sizes = "auto"`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from relatum.config import Config, EncoderConfig, Setting, load_config, trace_config, without_idle
from relatum.config.conditions import CONDITIONS
from relatum.kernels.compile import cpu_flags
from relatum.tagging.shape import Shape

if TYPE_CHECKING:
    import torch

FEW = 500
"""The number of training sentences below which batches are halved, and a start from a trained model is suggested."""
MANY_CORES = 8


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that training runs on."""

    device: str
    """`cpu` or `cuda`."""
    cores: int
    bf16: bool = False
    """True if the device has instructions for bfloat16."""


@dataclass(frozen=True, slots=True)
class DefaultedSetting:
    """A setting that was left open: its key, the default value for this data and machine, and the reason."""

    key: str
    value: int | float | str
    why: str

    @property
    def override(self) -> str:
        """The key and its value as `--set` takes them."""
        return f"{self.key}={self.value}"

    def __str__(self) -> str:
        return f"{self.key} = {self.value}: {self.why}"


def pick_defaults(
    lengths: Sequence[int], machine: Machine, given: Collection[str] = (), n_steps: int | None = None
) -> list[DefaultedSetting]:
    """Pick values for training sentences of these lengths in words, except for the keys that are given.

    `n_steps` is the number of updates, if the user has set it; warm-up and evaluations are then in proportion to it.
    """
    n = len(lengths)
    on_cpu = machine.device == "cpu"
    factor, least, most = (200, 500, 10_000) if on_cpu else (600, 2_000, 20_000)
    steps = n_steps or min(max(int(factor * sqrt(n)) // 100 * 100, least), most)
    every = min(max(steps // 200 * 10, 50), 500)
    settings = [
        DefaultedSetting(
            "training.steps",
            steps,
            f"about {factor} times the square root of {n:,} training sentences, {least:,} to {most:,} on a "
            f"{'CPU' if on_cpu else 'GPU'}",
        ),
        DefaultedSetting(
            "training.warmup_steps", min(max(steps // 10, 1), 1_000), "a tenth of the updates, at most 1,000"
        ),
        DefaultedSetting("training.evaluate_every", every, "twenty evaluations, 50 to 500 updates apart"),
        DefaultedSetting("training.patience", 8, "a run ends when 8 evaluations brought nothing better"),
    ]
    if n < FEW:
        settings.append(
            DefaultedSetting("training.batch_size", 12, f"under {FEW} sentences, so that there are more batches")
        )
    if on_cpu:
        settings += _for_cpu(lengths, machine)
    if machine.bf16:
        device = "CPU" if on_cpu else "GPU"
        settings.append(DefaultedSetting("training.precision", "bf16", f"this {device} computes faster in it"))
    return [setting for setting in settings if setting.key not in given]


def _for_cpu(lengths: Sequence[int], machine: Machine) -> list[DefaultedSetting]:
    cores = f"{machine.cores} {'core' if machine.cores == 1 else 'cores'}"
    cells = min(max(32_768, max(lengths, default=1) ** 2), 100_000)
    return [
        DefaultedSetting(
            "table.width", 128 if machine.cores >= MANY_CORES else 64, f"a narrow table, for a CPU with {cores}"
        ),
        DefaultedSetting("model.n_layers", 2, "one layer less than the paper has, for a CPU"),
        DefaultedSetting("model.initialisation", "torch", "the authors' learns more slowly at first"),
        DefaultedSetting("training.learning_rate", 0.002, "twice the paper's, for fewer updates"),
        DefaultedSetting(
            "training.schedule", "linear", "the rate falls to nothing at the end: the best of few updates"
        ),
        DefaultedSetting(
            "training.max_cells", cells, "larger batches bring a CPU nothing; the longest sentence is kept whole"
        ),
    ]


def fill_defaults(
    path: Path | None, overrides: Sequence[str], lengths: Sequence[int], machine: Machine, shape: Shape | None = None
) -> tuple[Config, list[DefaultedSetting]]:
    """Load a file and overrides, and fill in what they leave open; return all settings and those filled in.

    `shape` is the shape of the annotations in train and dev; without it the tagging is the paper's.
    """
    config, given = trace_config(path, overrides)
    shape = shape or Shape()
    defaults: list[DefaultedSetting] = []
    kind = config.tagging.kind
    if leaves_open(path, given):
        fixed = {*given, "training.patience"} if config.training.dev == "train" else given
        picked = pick_defaults(lengths, machine, fixed, config.training.steps if "training.steps" in given else None)
        used = without_idle(path, overrides, [setting.override for setting in picked])
        defaults = [setting for setting in picked if setting.override in used]
        if leaves_tagging_open(config, path, given):
            kind = "spans"
            why = shape.describe() or "it finds more than the paper's tagging in flat data, too"
            defaults.append(DefaultedSetting("tagging.kind", kind, why))
    if kind == "spans":
        defaults += [setting for setting in _for_spans(shape) if setting.key not in given]
    return load_config(path, [*(default.override for default in defaults), *overrides]), defaults


def leaves_open(path: Path | None, given: Mapping[str, Setting]) -> bool:
    """True if settings that are not given are chosen for the data and machine."""
    sizes = given["training.sizes"].value if "training.sizes" in given else None
    return sizes == "auto" or (sizes is None and path is None)


def freezes(path: Path | None, given: Mapping[str, Setting], device: Callable[[], str]) -> bool:
    """True if the encoder of the model that a run starts from is frozen for want of other settings, as on a CPU."""
    of_tuning = {
        name for one in CONDITIONS if one.key == "encoder.tuning" and "frozen" not in one.values for name in one.names
    }
    is_open = leaves_open(path, given) and of_tuning.isdisjoint(given) and "encoder.tuning" not in given
    return is_open and "training.start" in given and device() == "cpu"


def leaves_tagging_open(config: Config, path: Path | None, given: Mapping[str, Setting]) -> bool:
    """True if nothing asks for the paper's tagging: neither a setting of the tagging nor one that needs the paper's."""
    of_words = {
        name for one in CONDITIONS if (one.key, one.values) == ("tagging.kind", ("words",)) for name in one.names
    }
    can_have_spans = config.table.kind != "none" and config.training.diagonal_loss and of_words.isdisjoint(given)
    return leaves_open(path, given) and "tagging.kind" not in given and can_have_spans


def may_start(config: Config) -> bool:
    """True if a run could start from a trained model: it does not yet, and has the encoder that comes with relatum."""
    is_ours = config.encoder.names == EncoderConfig().names and config.encoder.tuning != "full"
    return is_ours and config.training.start is None


def _for_spans(shape: Shape) -> list[DefaultedSetting]:
    """Return what may be found together, as in train and dev."""
    overlaps = {"none": "no entities", "nested": "only entities inside one another", "any": "entities"}[shape.overlap]
    several = shape.has_several_relations
    pairs = "some pairs" if several else "hardly any pairs"
    return [
        DefaultedSetting("decoding.overlap", shape.overlap, f"in train and dev, {overlaps} share words"),
        DefaultedSetting(
            "decoding.relations_of_pair",
            "several" if several else "one",
            f"in train and dev, {pairs} of entities have several relations in one direction",
        ),
    ]


def find_machine(device: torch.device) -> Machine:
    """Describe this machine, for training on a device."""
    import torch

    if device.type == "cuda":
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        bf16 = device.type == "cpu" and "avx512_bf16" in cpu_flags()
    return Machine(device.type, torch.get_num_threads(), bf16)
