from types import SimpleNamespace
from typing import cast

import pytest
import torch

from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.stacked import StackedEncoder
from relatum.extractor import precision
from relatum.extractor.precision import Precision, set_precision
from relatum.models.model import Model


class Recorded(HuggingFaceEncoder):
    def __init__(self) -> None:
        self.is_split = False

    def split_products(self) -> None:
        self.is_split = True


@pytest.mark.parametrize(
    ("device", "unit", "name", "expected"),
    [
        ("cpu", True, "bf16", True),
        ("cpu", False, "bf16", False),
        ("cuda", True, "bf16", False),
        ("cpu", True, "fp32", False),
    ],
)
def test_encoder_has_split_products_where_that_is_faster(
    device: str, unit: bool, name: Precision, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "can_split", lambda: unit)
    encoder = Recorded()
    model = SimpleNamespace(network=SimpleNamespace(layers=[]), encoder=encoder, device=torch.device(device))
    set_precision(cast("Model", model), name)
    assert encoder.is_split == expected
    beside = [Recorded(), Recorded()]
    model.encoder = StackedEncoder(beside)
    set_precision(cast("Model", model), name)
    assert [one.is_split for one in beside] == [expected, expected]
