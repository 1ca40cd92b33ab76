"""Reading in compiled code and in plain torch: the same outputs, and never of weights that are no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from relatum.encoders.base import EncoderInput
from relatum.errors import RelatumError
from relatum.kernels.backend import use_backend
from relatum.kernels.network.cpu import is_available
from relatum.models.model import Model
from relatum.models.outputs import Outputs
from relatum.runtime.base import Runtime, explain, select
from relatum.runtime.ensemble import EnsembleRuntime
from relatum.runtime.native.runtime import NativeRuntime
from relatum.runtime.precision import set_precision
from relatum.runtime.torch import TorchRuntime
from relatum.types import Context

from ...small_models import make_small_model

BATCH = EncoderInput([["Mara", "Ilves", "left", "Port", "Amsel"], ["Tom"], ["Mara", "", "left"]])
READER = ("encoder.kind=huggingface",)

needs_compiled_code = pytest.mark.skipif(not is_available(), reason="there is no compiled code here")


def make_model(*overrides: str) -> Model:
    return make_small_model(*READER, *overrides, spread=0.3)


def assert_same(found: Outputs, wanted: Outputs, tolerance: float = 2e-5) -> None:
    for row, words in enumerate(BATCH.words):
        n = len(words)
        torch.testing.assert_close(found.entity_logits[row, :n], wanted.entity_logits[row, :n], rtol=0, atol=tolerance)
        assert found.relation_logits is not None
        assert wanted.relation_logits is not None
        torch.testing.assert_close(
            found.relation_logits[row, :n, :n], wanted.relation_logits[row, :n, :n], rtol=0, atol=tolerance
        )


@needs_compiled_code
@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("model.share_layers=true",),
        ("model.interaction=table-to-sequence",),
        ("encoder.mixing=learned",),
        ("characters.kind=none",),
        ("model.entity_source=diagonal",),
    ],
    ids=str,
)
def test_compiled_code_reads_what_torch_reads(overrides: tuple[str, ...]) -> None:
    model = make_model(*overrides)
    runtime = select(model)
    assert isinstance(runtime, NativeRuntime)
    plain = TorchRuntime(model)
    for _ in range(2):  # the second time the vectors of words come from the cache
        assert_same(runtime.read(BATCH), plain.read(BATCH))


@needs_compiled_code
def test_layers_are_kept_where_asked() -> None:
    model = make_model()
    found, wanted = select(model).read(BATCH, keep_layers=True), TorchRuntime(model).read(BATCH, keep_layers=True)
    assert_same(found, wanted)
    assert not select(model).read(BATCH).layers
    assert len(found.layers) == len(wanted.layers) == 2
    torch.testing.assert_close(found.layers[0].sequence[0], wanted.layers[0].sequence[0], rtol=0, atol=2e-5)
    torch.testing.assert_close(found.attention_maps, wanted.attention_maps, rtol=1e-5, atol=1e-6)


@needs_compiled_code
def test_given_features_are_read_instead_of_computed() -> None:
    model = make_model()
    assert model.encoder is not None
    features = model.encoder.encode(BATCH)
    other = replace(features, vectors=-features.vectors)
    runtime = select(model)
    assert_same(runtime.read(BATCH, features=features), runtime.read(BATCH))
    assert_same(runtime.read(BATCH, features=other), TorchRuntime(model).read(BATCH, features=other))
    assert not torch.allclose(runtime.read(BATCH, features=other).entity_logits, runtime.read(BATCH).entity_logits)


def test_encoder_reads_the_context_that_a_batch_has() -> None:
    model = make_model("encoder.context=2")
    beside = EncoderInput(BATCH.words, [Context(("Tom",), ("left",))] * 3)
    runtime, plain = select(model), TorchRuntime(model)
    assert_same(runtime.read(beside), plain.read(beside))
    assert not torch.allclose(runtime.read(beside).entity_logits, runtime.read(BATCH).entity_logits, atol=1e-3)


@needs_compiled_code
@pytest.mark.parametrize("runtime", [NativeRuntime, TorchRuntime])
def test_weights_that_change_are_read_as_they_are_now(runtime: type[Runtime]) -> None:
    model = make_model()
    reading = runtime(model)  # type: ignore[call-arg]
    before = reading.read(BATCH)
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.mul_(1.5)
    assert_same(reading.read(BATCH), TorchRuntime(model).read(BATCH))
    assert not torch.allclose(reading.read(BATCH).entity_logits, before.entity_logits, atol=1e-3)


def test_model_that_was_cast_or_given_another_backend_is_still_read() -> None:
    model = make_model()
    runtime = select(model)
    wanted = TorchRuntime(model).read(BATCH)
    with use_backend("wavefront"):
        assert_same(runtime.read(BATCH), wanted)
    model.network.double()
    assert runtime.read(BATCH).entity_logits.dtype == torch.float64


def test_training_goes_on_after_a_reading() -> None:
    model = make_model("model.dropout=0.5")
    wanted = select(model).read(BATCH)
    model.network.train()
    assert_same(select(model).read(BATCH), wanted)
    assert model.network.training


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (("encoder.kind=none",), "the table reads no attention maps"),
        (("table.attention_maps=false",), "the table reads no attention maps"),
        (("table.pairing=one-step",), "words are paired in one step"),
        (("table.kind=cnn",), "a layer has no MD-RNN, or no sequence encoder"),
    ],
)
def test_other_models_are_read_by_torch_and_the_reason_is_told(overrides: tuple[str, ...], reason: str) -> None:
    model = make_small_model(*(() if "encoder.kind=none" in overrides else READER), *overrides, spread=0.3)
    runtime = select(model)
    assert isinstance(runtime, TorchRuntime)
    assert_same(runtime.read(BATCH), TorchRuntime(model).read(BATCH))
    if is_available():
        native, plain = explain(model)
        assert (native.is_used, native.reason) == (False, reason)
        assert plain.is_used


def test_network_under_autocast_is_read_by_torch() -> None:
    model = make_model()
    model.network.table_dtype = torch.bfloat16
    assert isinstance(select(model), TorchRuntime)


@needs_compiled_code
def test_half_precision_is_read_by_compiled_code() -> None:
    model = make_model()
    wanted = TorchRuntime(model).read(BATCH)
    set_precision(model, "bf16")
    runtime = select(model)
    assert isinstance(runtime, NativeRuntime)
    found = runtime.read(BATCH)
    assert_same(found, wanted, 0.3)
    assert not torch.equal(found.entity_logits, wanted.entity_logits)


def test_ensemble_gives_the_mean_of_probabilities_and_has_no_layers() -> None:
    models = [make_model(), make_small_model(*READER, seed=7, spread=0.3)]
    found = EnsembleRuntime(models).read(BATCH)
    first, second = (TorchRuntime(model).read(BATCH).entity_logits[0].softmax(-1) for model in models)
    torch.testing.assert_close(found.entity_logits[0].softmax(-1), (first + second) / 2, rtol=0, atol=1e-5)
    with pytest.raises(RelatumError, match="an ensemble has no layers"):
        EnsembleRuntime(models).read(BATCH, keep_layers=True)


def test_explanation_names_the_runtimes_the_fastest_first() -> None:
    native, plain = explain()
    assert (native.name, plain.name) == ("native", "torch")
    assert native.is_used != plain.is_used
