"""An encoder that is trained on a GPU, against the same on a CPU.

Run with `PYTHONPATH=src python -m pytest --noconftest -v tests/training/test_tuning_gpu.py`.
"""

from __future__ import annotations

import pytest
import torch

from relatum.config import Config, load_config
from relatum.encoders.tuned import TunedEncoder
from relatum.models.build import build_model
from relatum.runtime.cuda_graphs import Recorder, make_recorder
from relatum.schema import RelationType, Schema
from relatum.training.batches import Batches
from relatum.training.graphed_step import GraphedStep
from relatum.training.optimisation import Optimiser
from relatum.training.setup import learned_parts
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

SMALL = (
    "model.width=64",
    "model.n_layers=1",
    "model.dropout=0.0",
    "training.warmup_steps=0",
    "training.ema_decay=0.9",
    "training.encoder_layer_decay=0.9",
    "encoder.mixing=learned",
)


def make_examples() -> list[Example]:
    examples = []
    for number, text in enumerate(("Mara Ilves works for Tarn Shipping .", "Tom Reed of Oslo met Ana Lind in Rome .")):
        words = tuple(text.split())
        head, tail = Entity(Span(0, 2), "A"), Entity(Span(4, 6), "B")
        examples.append(Example(Sentence(words), Annotation((head, tail), (Relation(head, tail, "R"),)), str(number)))
    return examples


def losses(
    config: Config, device: str, n_steps: int = 4, recorder: Recorder | None = None, dropout: bool = False
) -> tuple[list[float], torch.Tensor]:
    """Return the loss of each update, and a weight of the encoder in the end, averaged."""
    torch.manual_seed(0)
    encoder = TunedEncoder.prepare(config, want_maps=True)
    for part in encoder.module.modules():
        if isinstance(part, torch.nn.Dropout) and not dropout:
            part.p = 0.0
    schema = Schema(("A", "B"), (RelationType("R"),))
    model = build_model(config, schema, encoder, None, "aeinorst").to(device)
    _, groups = learned_parts(model)
    optimiser = Optimiser(model.network.parameters(), config.training, groups)
    batches = Batches(model, make_examples(), fixed_sizes=True)
    model.network.train()
    said: list[str] = []
    updates = GraphedStep(model, optimiser, config.training, said.append, recorder)
    found = [updates.update(*batches.make([0, 1]), step)[0].item() for step in range(1, n_steps + 1)]
    assert not said
    assert updates.n_graphs == (recorder is not None)
    with optimiser.averaged():
        return found, groups[-1].parameters[-1].detach().cpu().clone()


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_encoder_learns_on_a_gpu_what_it_learns_on_a_cpu(tuning: str) -> None:
    config = load_config(None, (*SMALL, f"encoder.tuning={tuning}"))
    (wanted, weight), (found, other) = (losses(config, device) for device in ("cpu", "cuda"))
    assert wanted[-1] < wanted[0]
    assert found == pytest.approx(wanted, rel=2e-3)
    torch.testing.assert_close(other, weight, rtol=0, atol=2e-3)


@pytest.mark.parametrize("checkpointing", ["true", "false"])
def test_encoder_learns_in_half_precision(checkpointing: str) -> None:
    config = load_config(
        None,
        (*SMALL, "encoder.tuning=lora", "training.precision=bf16", f"encoder.gradient_checkpointing={checkpointing}"),
    )
    wide = load_config(None, (*SMALL, "encoder.tuning=lora"))
    found, wanted = losses(config, "cuda")[0], losses(wide, "cuda")[0]
    assert found != wanted
    assert found == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_recorded_updates_learn_what_others_learn(tuning: str, precision: str) -> None:
    """Dropout included: its random numbers are the same."""
    config = load_config(None, (*SMALL, f"encoder.tuning={tuning}", f"training.precision={precision}"))
    recorder = make_recorder(torch.device("cuda"))
    wanted, weight = losses(config, "cuda", 8, dropout=True)
    found, other = losses(config, "cuda", 8, recorder, dropout=True)
    assert wanted[-1] < wanted[0]
    assert found == pytest.approx(wanted, rel=1e-3)
    torch.testing.assert_close(other, weight, rtol=0, atol=1e-3)
